"""Experiments behind a chapter's claims: small measurements that are recorded under a name.

An experiment belongs to a kernel and is stale when that kernel changes. It runs on a Hopper GPU,
inside ``make record``, and gives a Sweep (curves over an axis) or a Probe (arrays); a chapter reads
it back with ``experiment(kernel, name)``. One module a chapter; this one lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hopper.compile import Program
from hopper.errors import HopperError
from hopper.records import GPU, NoRecording, find, freshness
from hopper.schema import Entry, Probe, Sweep


@dataclass(frozen=True)
class Experiment:
    """``run(gpu, program)`` does it, on the kernel as written, and returns what is recorded.

    ``name`` is what chapters ask for; the returned Sweep or Probe carries the same.
    """

    kernel: str
    name: str
    run: Callable[[Any, Program], Sweep | Probe]


def registered() -> tuple[Experiment, ...]:
    """Every experiment of the book."""
    return ()


def experiments_of(kernel: str) -> list[Experiment]:
    """The experiments of one kernel, in the order they are recorded."""
    return [one for one in registered() if one.kernel == kernel]


def experiment(kernel: str, name: str, *, gpu: str = GPU) -> Entry:
    """The recorded entry of an experiment; ``.data`` is its Sweep or Probe.

    Raises HopperError for a name that is no experiment, and NoRecording where it was not recorded
    or its kernel changed since.
    """
    known = [one.name for one in experiments_of(kernel)]
    if name not in known:
        listed = ", ".join(known) or "(none)"
        raise HopperError(f"{name!r}: {kernel} has no such experiment; there are {listed}")
    for kind in ("sweep", "probe"):
        for entry in find(kind, kernel, gpu=gpu):
            if entry.data.name == name and freshness(entry) != "stale":
                return entry
    raise NoRecording(f"{kernel}, {name}: no recording of this variant on {gpu}")
