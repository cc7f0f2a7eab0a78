"""The chapters on v8 and v9: how many reads of their SMs one look-up in L2 answers.

``requests``: what ncu counts at the unit between L2 and the SMs of a GPC, for kernels whose
clusters are numbered by their places on the chip, as dealt, or otherwise. In a process of its own,
which this module is as a command: ``python -m hopper.experiments.requests KERNEL``.
"""

import sys
from functools import cache, partial
from typing import Any

from hopper.attempts import EVERY, Attempt, compile_attempt
from hopper.attempts.shapes import V7, V8, V9
from hopper.backends import find_hopper
from hopper.bench import checked_pair, inputs_on
from hopper.compile import Program
from hopper.counters import profile
from hopper.errors import HopperError
from hopper.experiments import Experiment
from hopper.processes import environment
from hopper.records import HEADLINE
from hopper.schema import Profile, Sweep

REQUESTS = "requests"
NCU_SECONDS = 90
_SECTOR = 32  # bytes
_ALONE = Attempt("v7", "v7", V7, {})
#: Kernel -> what is counted for its page. A variant's place here is its number on the axis.
VARIANTS: dict[str, tuple[Attempt, ...]] = {
    V8: (_ALONE, EVERY["v8-as-dealt"], EVERY["v8"]),
    V9: tuple(
        EVERY[name]
        for name in ("wide-as-dealt", "wide", "tall-as-dealt", "tall", "tall-down-columns")
    ),
}
#: Series of the sweep -> ncu's counter, in sectors of reads. The LRC lies between L2 and the
#: crossbar that leads to the GPCs; a load for both blocks of a pair has the type "programmatic".
COUNTERS = {
    "asked": "lrc__request_sectors_op_read_coalescable.sum",
    "joined": "lrc__request_sectors_op_read_coalescing_achieved_type_hardware.sum",
    "from L2": "lrc__lts2lrc_sectors_op_read.sum",
    "into the crossbar": "lrc__lrc2xbar_sectors_op_read.sum",
    "into the crossbar, multicast": (
        "lrc__lrc2xbar_sectors_op_read_coalescing_achieved_type_programmatic.sum"
    ),
    "to the GPCs": "lrc__xbar2gpc_sectors_op_read.sum",
}


def place(kernel: str, name: str) -> float:
    """Where a variant stands on the axis of the sweep."""
    return float([one.name for one in VARIANTS[kernel]].index(name))


def launch_variants(kernel: str) -> None:
    """Launch each variant between cudaProfilerStart and Stop, for ncu; each is checked first."""
    import cupy

    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    pairs = [
        checked_pair(compile_attempt(one), *arrays, places=one.places) for one in VARIANTS[kernel]
    ]
    gpu.synchronize()
    cupy.cuda.runtime.profilerStart()
    for pair in pairs:
        pair.run()
    gpu.synchronize()
    cupy.cuda.runtime.profilerStop()


@cache
def profiled_variants(kernel: str) -> tuple[Profile, ...]:
    """What ncu counted, in the order of VARIANTS.

    Raises HopperError where ncu saw anything else than one launch of each, or lacks a counter.
    """
    command = [sys.executable, "-m", "hopper.experiments.requests", kernel]
    asked = profile(
        command, timeout=NCU_SECONDS, environment=environment(), metrics=COUNTERS.values()
    )
    seen = [one.kernel.partition("(")[0] for one in asked.profiles]
    wanted = [one.kernel for one in VARIANTS[kernel]]
    if seen != wanted:
        raise HopperError(f"ncu saw {seen}, and not {wanted}")
    if asked.unavailable:
        raise HopperError(f"this ncu does not know {', '.join(asked.unavailable)}")
    return asked.profiles


def requests(kernel: str, gpu: Any, program: Program) -> Sweep:
    """Gigabytes of reads, of each variant: handed out by L2, crossing the chip, and arriving."""
    found = profiled_variants(kernel)
    series = {
        name: tuple(round(one.metrics[metric].value * _SECTOR / 1e9, 3) for one in found)
        for name, metric in COUNTERS.items()
    }
    axis = tuple(place(kernel, one.name) for one in VARIANTS[kernel])
    return Sweep(REQUESTS, "variant", "in the order of VARIANTS", axis, "GB", series)


EXPERIMENTS = tuple(Experiment(kernel, REQUESTS, partial(requests, kernel)) for kernel in VARIANTS)

if __name__ == "__main__":
    launch_variants(sys.argv[1])
