"""What the chapter on v8 tells of the chip: where SMs lie, and how clusters are dealt to them.

``near``: what ``hopper.chip`` found out about this GPU, with the cycles by which it told the sides
of L2 apart. Clusters are numbered by the chip at hand, not by this recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from hopper.chip import KERNEL, Chip, survey
from hopper.compile import Program
from hopper.experiments import Arrays, Experiment, arrays
from hopper.schema import Array, Probe

NEAR = "near"


def near(gpu: Any, program: Program) -> Probe:
    """The survey of a GPU. Raises HopperError where the chip is not understood."""
    found = survey(gpu)
    group_of = found.chip.group_of
    kept = {
        "group": numpy.array([group_of[sm] for sm in range(len(group_of))], "int16"),
        "side": numpy.array(found.chip.sides, "int8"),
        "dealt": numpy.array(found.chip.dealt, "int16"),
        # Where an atomic was delayed in every launch, what matters is that it took long.
        "cycles": numpy.minimum(found.cycles, numpy.iinfo("uint16").max).astype("uint16"),
    }
    return Probe(
        NEAR,
        "Which SMs can be in one cluster, which side of L2 is each SM near, and on which SM does "
        "each cluster of a full launch begin?",
        {name: Array.of(array) for name, array in kept.items()},
    )


@dataclass(frozen=True, eq=False)
class Recorded:
    """The recorded chip, for a page. Where nothing was recorded, ``chip`` and ``cycles`` are None.

    ``cycles`` (sms, lines): of an atomic. ``label``: the recording, or why there is none.
    """

    label: str
    chip: Chip | None
    cycles: numpy.ndarray | None


def recorded(found: Arrays | None = None) -> Recorded:
    """The chip that was recorded, or that of a Probe that was read already.

    Raises RecordError for a damaged record.
    """
    found = found or arrays(KERNEL, NEAR)
    if found.probe is None:
        return Recorded(found.label, None, None)
    group = found["group"]
    groups = tuple(
        tuple(numpy.flatnonzero(group == number).tolist()) for number in range(group.max() + 1)
    )
    dealt, sides = (tuple(found[name].tolist()) for name in ("dealt", "side"))
    return Recorded(found.label, Chip(groups, dealt, sides), found["cycles"])


EXPERIMENTS = (Experiment(KERNEL, NEAR, near),)
