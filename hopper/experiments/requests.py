"""The chapters on v8 and v9: how many reads of their SMs one look-up in L2 answers.

``requests``: what ncu counts at the unit between L2 and the SMs of a GPC, for kernels whose
clusters are numbered by their places on the chip, as dealt, or otherwise. In a process of its own,
which this module is as a command: ``python -m hopper.experiments.requests KERNEL``.
"""

import sys
from functools import partial
from typing import Any

from hopper.attempts import EVERY, Attempt, compile_attempt
from hopper.attempts.shapes import V7, V8, V9
from hopper.backends import find_hopper
from hopper.bench import checked_pair, inputs_on
from hopper.compile import Program
from hopper.experiments import Experiment
from hopper.experiments.under_ncu import SECTOR_BYTES, launched, profiled
from hopper.records import HEADLINE
from hopper.schema import Sweep

REQUESTS = "requests"
NCU_SECONDS = 90
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
    """Launch each variant for ncu; each is checked first."""
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    pairs = [
        checked_pair(compile_attempt(one), *arrays, places=one.places) for one in VARIANTS[kernel]
    ]
    launched(gpu, [pair.run for pair in pairs])


def requests(kernel: str, gpu: Any, program: Program) -> Sweep:
    """Gigabytes of reads, of each variant: handed out by L2, crossing the chip, and arriving."""
    found = profiled(
        "hopper.experiments.requests",
        kernel,
        kernels=[one.kernel for one in VARIANTS[kernel]],
        seconds=NCU_SECONDS,
        metrics=COUNTERS.values(),
    )
    series = {
        name: tuple(round(one.metrics[metric].value * SECTOR_BYTES / 1e9, 3) for one in found)
        for name, metric in COUNTERS.items()
    }
    axis = tuple(place(kernel, one.name) for one in VARIANTS[kernel])
    return Sweep(REQUESTS, "variant", "in the order of VARIANTS", axis, "GB", series)


EXPERIMENTS = tuple(Experiment(kernel, REQUESTS, partial(requests, kernel)) for kernel in VARIANTS)

if __name__ == "__main__":
    launch_variants(sys.argv[1])
