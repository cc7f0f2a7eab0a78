"""The chapter on v7: what a tile costs besides its products, and which of it others hide.

``K``: cycles of a launch over K, under v4's names of curves. ``parts of a tile``: cycles of each
part of a tile as its consumers pass through them, counted inside the kernel; of v5, and of v7 by
``TURN``. The result is checked in each variant.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy

from hopper import samples
from hopper.bench import checked_pair, inputs_on, interleaved
from hopper.compile import Program, compile_cuda
from hopper.experiments import Experiment
from hopper.experiments.ladder_steps import CLOCK, Changes, changed, counted
from hopper.experiments.two_consumers import TURNS, K, clock_of, curve, whole_waves
from hopper.schema import Sweep

V5, V7 = "v5_in_flight", "v7_persistent"

# ---- time against K -----------------------------------------------------------------------------

DEPTHS = (512, 1024, 2048, 4096, 8192)


def over_k(gpu: Any, program: Program) -> Sweep:
    """Cycles of a launch over K, with one tile an SM and with four."""
    series: dict[str, list[float]] = {}
    for k in DEPTHS:
        problems = [whole_waves(program.facts, gpu.sm_count, turns, k) for turns in TURNS]
        runs = [checked_pair(program, *inputs_on(gpu, one)).run for one in problems]
        timed = interleaved(gpu, *runs)
        both = (timed.samples_ms, timed.peer_samples_ms)
        for turns, times in zip(TURNS, both, strict=True):
            cycles = samples.median(times) * 1e3 * clock_of(timed)
            series.setdefault(curve(2, turns), []).append(round(cycles, 1))
    return Sweep(
        K, "K", "elements", tuple(map(float, DEPTHS)), "cycles",
        {name: tuple(values) for name, values in series.items()},
    )  # fmt: skip


# ---- the parts of a tile ------------------------------------------------------------------------

PARTS = "parts of a tile"
#: Values of TURN.
TURN = (0, 1, 2, 3)
#: What a warp that multiplies passes through, in the order in which it notes them. ``setup``: from
#: its first instruction to the first tiles, once a block; ``waits``: for the tiles of each further
#: tile of C.
PASSED = ("setup", "waits", "products", "leaving")
WARPS = 8  # that multiply
_ALL = f"all[((blockIdx.x + gridDim.x * blockIdx.y) * {WARPS} + warp) * {len(PASSED)}"
_KEEP = "\n".join(
    f"  if (lane == 0) {_ALL} + {place}] = {name};" for place, name in enumerate(PASSED)
)
_COMMON: Changes = (
    ('\nextern "C" __global__', CLOCK + '\nextern "C" __global__'),
    (
        "int n, int k) {\n",
        "int n, int k, unsigned* all) {\n  const unsigned began = clock_now();\n",
    ),
)
_CLOCKED: dict[str, Changes] = {
    V5: (
        *_COMMON,
        (
            "  Place<STAGES> at{0};\n",
            "  Place<STAGES> at{0};\n  mbarrier_wait_parity(&full[0], 0);\n"
            "  const unsigned start = clock_now(), setup = start - began, waits = 0;\n",
        ),
        (
            "  wgmma_wait_group<0>();  // now this one, too\n",
            "  wgmma_wait_group<0>();\n"
            "  const unsigned done = clock_now(), products = done - start;\n",
        ),
        ("  // [/epilogue]\n", f"  const unsigned leaving = clock_now() - done;\n{_KEEP}\n"),
    ),
    V7: (
        *_COMMON,
        (
            "  int tiles = 0;\n",
            "  int tiles = 0;\n  unsigned setup = 0, waits = 0, products = 0, leaving = 0;\n",
        ),
        ("    // [take]\n", "    const unsigned arrived = clock_now();\n"),
        (
            "    // [/take]\n",
            "    const unsigned start = clock_now();\n"
            "    if (tiles == 0) setup = start - began; else waits += start - arrived;\n",
        ),
        (
            "    wgmma_wait_group<0>();\n",
            "    wgmma_wait_group<0>();\n    const unsigned done = clock_now();\n"
            "    products += done - start;\n",
        ),
        ("    // [/finish]\n", "    leaving += clock_now() - done;\n"),
        ("  if (warpgroup == 0) outbox", f"{_KEEP}\n  if (warpgroup == 0) outbox"),
    ),
}


@cache
def clocked(kernel: str, **defines: int) -> Program:
    """v5 or v7 with clocks around the parts of a tile; it takes one argument more."""
    return compile_cuda(changed(kernel, _CLOCKED[kernel]), kernel, defines=defines)


def parts(gpu: Any, program: Program) -> dict[str, float]:
    """Cycles of the parts, a tile each but for the setup, by part and consumer.

    ``program``: one of ``clocked``. Four tiles for each SM, 8192 deep. The median over blocks of
    the mean over a consumer's warps. Raises CheckError for a wrong result.
    """
    turns = TURNS[-1]
    facts = program.facts
    cycles = counted(
        gpu, program, whole_waves(facts, gpu.sm_count, turns, 8192), (WARPS, len(PASSED))
    )
    tiles = turns if facts.persistent else 1
    found = {}
    for consumer in range(2):
        mine = cycles[:, 4 * consumer : 4 * consumer + 4].mean(axis=1)
        each = numpy.median(mine, axis=0) / [1, max(tiles - 1, 1), tiles, tiles]
        for name, value in zip(PASSED, each.tolist(), strict=True):
            found[part(name, consumer)] = round(value, 1)
    return found


def part(name: str, consumer: int) -> str:
    """'products, consumer 0'."""
    return f"{name}, consumer {consumer}"


def parts_of_v5(gpu: Any, program: Program) -> Sweep:
    """v5's; the axis has one value, the number of its stages."""
    found = parts(gpu, clocked(V5))
    series = {name: (value,) for name, value in found.items()}
    return Sweep(PARTS, "stages", "stages", (float(program.facts.stages),), "cycles", series)


def parts_by_turn(gpu: Any, program: Program) -> Sweep:
    """v7's over TURN."""
    found = [parts(gpu, clocked(V7, TURN=turn)) for turn in TURN]
    series = {name: tuple(one[name] for one in found) for name in found[0]}
    return Sweep(PARTS, "TURN", "steps", tuple(map(float, TURN)), "cycles", series)


EXPERIMENTS = (
    Experiment(V5, PARTS, parts_of_v5),
    Experiment(V7, PARTS, parts_by_turn),
    Experiment(V7, K, over_k),
)
