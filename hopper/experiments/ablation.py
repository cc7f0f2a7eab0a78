"""The ablation of v9: what ncu counts for each part alone, for each part taken away, and for all.

How fast the same variants are is in ``attempts, burst``. ``ablation``: one launch of each under
ncu, in a process of its own, which this module is as a command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy

from hopper.attempts import ABLATION, EVERY, compile_attempt
from hopper.attempts.shapes import V9
from hopper.backends import find_hopper
from hopper.bench import checked_pair, inputs_on
from hopper.compile import Program
from hopper.counters import WANTED
from hopper.experiments import Experiment
from hopper.experiments.attempts import compiled
from hopper.experiments.under_ncu import launched, profiled
from hopper.records import HEADLINE
from hopper.schema import Array, Probe, Profile

NAME = "ablation"
NCU_SECONDS = 210
#: What is kept of each launch, under the names of ``hopper.counters.WANTED``.
COUNTERS = (
    "tensor_pipe",
    "sm_clock",
    "duration",
    "l2_sectors",
    "l2_hit_rate",
    "dram_read",
    "dram_write",
    "wgmma_wavefronts",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "bank_conflicts",
    "cycles",
)
IDENTITIES = "identities"


def variants() -> list[str]:
    """Names of all attempts of the ablation, by shape: the base, parts alone, parts away, all."""
    found = []
    for base, parts, whole in ABLATION.values():
        alone, away = zip(*(names for _, *names in parts), strict=True)
        found += [base, *alone, *away, whole]
    return found


def launch_variants(names: Sequence[str]) -> None:
    """Launch each for ncu; each is checked first."""
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    for name in names:
        pair = checked_pair(compile_attempt(EVERY[name]), *arrays)
        launched(gpu, [pair.run])


def ablation(gpu: Any, program: Program) -> Probe:
    """Counters of every variant. ``identities``: (variants, 32); each counter: (variants,).

    NaN, and an identity of zeros, where a variant was refused. Raises HopperError as
    ``under_ncu.profiled`` does.
    """
    names = variants()
    found = compiled(list(dict.fromkeys(names)))
    sound = [name for name in names if not found[name][1]]
    profiles = profiled(
        "hopper.experiments.ablation",
        *sound,
        kernels=[EVERY[name].kernel for name in sound],
        seconds=NCU_SECONDS,
    )
    counted = dict(zip(sound, profiles, strict=True))
    identities = numpy.zeros((len(names), 32), numpy.uint8)
    for number, name in enumerate(names):
        if name in counted:
            identities[number] = numpy.frombuffer(bytes.fromhex(found[name][0]), numpy.uint8)
    arrays = {IDENTITIES: Array.of(identities)}
    for alias in COUNTERS:
        values = [value(counted[name], alias) if name in counted else numpy.nan for name in names]
        arrays[alias] = Array.of(numpy.array(values))
    return Probe(NAME, "What does ncu count for v9 with more and with less of its parts?", arrays)


def value(profile: Profile, alias: str) -> float:
    """One counter in ncu's base unit, NaN where it was not counted."""
    name = next((name for name in WANTED[alias] if name in profile.metrics), None)
    return profile.metrics[name].value if name else numpy.nan


EXPERIMENTS = (Experiment(V9, NAME, ablation),)

if __name__ == "__main__":
    launch_variants(sys.argv[1:])
