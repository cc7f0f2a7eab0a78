"""The chapters on v7 and v9: what the last wave of tiles costs.

``waves``: TFLOPS over the number of tiles, of a kernel and of cuBLAS. Only M varies, in whole
tiles, so that the number of tiles is all that changes. Each size is checked before it is timed.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

from hopper.architecture import constant
from hopper.bench import checked_pair, inputs_on, interleaved
from hopper.compile import Program
from hopper.experiments import Experiment
from hopper.experiments.two_consumers import clock_of
from hopper.facts import LaunchFacts
from hopper.gemm import Problem
from hopper.samples import median, tflops
from hopper.schema import Sweep

V5, V7, V8, V9 = KERNELS = ("v5_in_flight", "v7_persistent", "v8_multicast", "v9_stream_k")

# ---- the number of tiles ------------------------------------------------------------------------

WAVES = "waves"
#: Columns of C and depth, the same for every size: whole tiles of 256 columns, and of 192.
N, DEPTH = 1536, 8192
#: C in pairs of tiles of 128 rows: 11 of these are 132 tiles of 128 × 256, one for each SM.
PAIRS = (6, 8, 10, 11, 12, 15, 18, 21, 22, 23, 26, 30, 33, 34, 38, 44, 45, 49)
#: M of each size.
ROWS = tuple(256 * pairs for pairs in PAIRS)
#: Curves: of the kernel, of cuBLAS in turns with it, and what the tensor cores do at their clock.
OWN, PEER, PEAK = "kernel", "cuBLAS", "peak at its clock"


def problem(m: int) -> Problem:
    """The product with so many rows of C."""
    return Problem(m, N, DEPTH)


def tiles_of(facts: LaunchFacts, m: int, n: int = N) -> int:
    """Tiles of C, those at an edge included."""
    return -(-m // facts.tile_m) * -(-n // facts.tile_n)


def used(tiles: int, sms: int) -> float:
    """Of the SMs' time, the share that whole tiles fill if each takes equally long everywhere.

    The last wave takes as long as a full one, however few tiles it has.
    """
    return tiles / (math.ceil(tiles / sms) * sms)


@cache
def _largest(gpu: Any) -> tuple[Any, Any]:
    return inputs_on(gpu, problem(max(ROWS)))


def over_tiles(kernel: str, gpu: Any, program: Program) -> Sweep:
    """TFLOPS of a kernel as written, and of cuBLAS, over M."""
    a, b = _largest(gpu)
    peak = gpu.sm_count * constant("flop_per_sm_cycle").value
    series: dict[str, list[float]] = {OWN: [], PEER: [], PEAK: []}
    for m in ROWS:
        pair = checked_pair(program, a[:m], b)
        timed = interleaved(gpu, pair.run, pair.peer)
        flop = problem(m).flop
        series[OWN].append(tflops(flop, median(timed.samples_ms)))
        series[PEER].append(tflops(flop, median(timed.peer_samples_ms)))
        series[PEAK].append(peak * clock_of(timed) * 1e6 / 1e12)
    return Sweep(
        WAVES,
        "M",
        "rows of C",
        tuple(map(float, ROWS)),
        "TFLOPS",
        {name: tuple(round(value, 2) for value in values) for name, values in series.items()},
    )


EXPERIMENTS = tuple(Experiment(kernel, WAVES, partial(over_tiles, kernel)) for kernel in KERNELS)
