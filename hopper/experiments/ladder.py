"""The chapters on v2 and v3: what stages and blocks on an SM buy, and where a K step goes.

``N blocks an SM``: the tensor cores' share and the speed over stages, with exactly so many blocks.
``parts of a step``: cycles of each part of the loop. ``asking``: v2 that asks for tiles at another
place. ``a whole step``: cycles of a step, counted by the SM around the unchanged loop, also of v2
that elects the lane which asks; ``parts of a step, elected``: its parts. Each variant is checked
before it is timed. Kernels with clocks, and changed loops, are in ``ladder_steps``.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

from hopper.architecture import constant
from hopper.bench import Timed, inputs_on, interleaved
from hopper.check import check
from hopper.compile import Program, compile_kernel
from hopper.errors import HopperError
from hopper.experiments import Experiment
from hopper.experiments.ladder_steps import (
    DURING_PRODUCTS,
    ELECTED,
    ELECTED_DURING_PRODUCTS,
    PARTS,
    Changes,
    asked_during_products,
    parts_of_a_step,
    whole_step,
)
from hopper.gemm import Problem, plan
from hopper.occupancy import shared_bytes_for
from hopper.samples import median, ratio
from hopper.schema import Sweep

#: 22 × 36 tiles of 128 × 128: whole waves on 132 SMs with one, two or three blocks on each.
WAVES = Problem(2816, 4608, 8192)
#: 11 × 12 tiles: one on each SM.
ONE_EACH = Problem(1408, 1536, 8192)


@cache
def inputs(gpu: Any, problem: Problem) -> tuple[Any, Any]:
    """A problem's A and B on the GPU, kept for the next variant."""
    return inputs_on(gpu, problem)


def timed(gpu: Any, program: Program, problem: Problem, shared_bytes: int | None = None) -> Timed:
    """Check a launch, then time it in turns with cuBLAS.

    ``shared_bytes``: dynamic shared memory in place of what the kernel states. Raises CheckError
    for a wrong result, CompileError for a program that is not clean.
    """
    import cupy

    a, b = inputs(gpu, problem)
    c, peer_c = (cupy.full((problem.m, problem.n), cupy.nan, "float16") for _ in range(2))
    launch = plan(program, a, b, c)
    dynamic = program.facts.shared_bytes if shared_bytes is None else shared_bytes

    def run() -> None:
        gpu.launch(program, launch.grid, launch.block, launch.args, dynamic)

    def peer() -> None:  # the call that hopper.bench.PEER names
        cupy.matmul(a, b.T, out=peer_c)

    run()
    peer()
    check(c, a, b, peer=peer_c)
    return interleaved(gpu, run, peer)


def busy(problem: Problem, found: Timed) -> float:
    """Percent of the tensor cores' time that the operations of a launch need at their peak rate.

    Raises HopperError where the clock could not be read.
    """
    clock = found.conditions.clock_mhz
    if clock is None:
        raise HopperError(
            "the SM clock could not be read on this machine, so no share of its cycles is known"
        )
    cycles = median(found.samples_ms) * clock * 1e3
    peak = constant("sm_count").value * constant("flop_per_sm_cycle").value
    return 100 * problem.flop / (cycles * peak)


def shares(problem: Problem, found: Timed) -> dict[str, float]:
    """What a timing says, in percent: the tensor cores' time in use, and the speed of cuBLAS."""
    of_peer = 100 * ratio(found.samples_ms, found.peer_samples_ms)
    return {"busy": busy(problem, found), "of cuBLAS": of_peer}


def over_stages(
    name: str, unit: str, found: Mapping[int, Mapping[str, float]], digits: int = 2
) -> Sweep:
    """A Sweep over the number of stages, from stages -> curve -> value.

    Raises HopperError for a value that is not a number.
    """
    curves = {
        curve: tuple(round(values[curve], digits) for values in found.values())
        for curve in next(iter(found.values()))
    }
    if not all(math.isfinite(value) for values in curves.values() for value in values):
        raise HopperError(f"{name}: a value could not be read on this machine: {curves}")
    return Sweep(name, "stages", "stages", tuple(map(float, found)), unit, curves)


# ---- blocks on an SM ----------------------------------------------------------------------------

#: Blocks on an SM -> the numbers of stages with which so many fit.
V2_STAGES = {3: (1, 2), 2: (1, 2, 3), 1: (1, 2, 3, 4, 5, 6)}
V3_STAGES = {2: (1, 2, 3), 1: (1, 2, 3, 4, 5, 6)}


def crowd(kernel: str, blocks: int, stages: Sequence[int], gpu: Any, program: Program) -> Sweep:
    """The tensor cores' share over stages, with exactly ``blocks`` on an SM.

    More than that are kept away by shared memory that the launch asks for and nobody uses.
    """
    found = {}
    for count in stages:
        ring = compile_kernel(kernel, STAGES=count)
        shared = shared_bytes_for(ring, blocks)
        found[count] = shares(WAVES, timed(gpu, ring, WAVES, shared))
    return over_stages(crowd_name(blocks), "%", found)


def crowd_name(blocks: int) -> str:
    """'1 block an SM', '2 blocks an SM'."""
    return f"{blocks} block{'s' * (blocks > 1)} an SM"


# ---- one block on an SM -------------------------------------------------------------------------

STEP_STAGES = (1, 2, 3, 4, 6)


def steps(kernel: str, gpu: Any, program: Program) -> Sweep:
    """Cycles of each part of a K step over stages, by who takes them; one block on an SM."""
    found = {count: parts_of_a_step(gpu, kernel, count, ONE_EACH) for count in STEP_STAGES}
    return over_stages(PARTS, "cycles", found, digits=1)


ELECTED_PARTS = f"{PARTS}, elected"


def steps_elected(gpu: Any, program: Program) -> Sweep:
    """The same of v2 whose asking lane is elected."""
    found = {
        count: parts_of_a_step(gpu, "v2_ring", count, ONE_EACH, ELECTED) for count in STEP_STAGES
    }
    return over_stages(ELECTED_PARTS, "cycles", found, digits=1)


WHOLE_STEP = "a whole step"
WHOLE_STAGES = (2, 3, 4, 6)
#: Curve -> changes of v2.
ASKS: dict[str, Changes] = {
    "as written": (),
    "elected": ELECTED,
    "during products": DURING_PRODUCTS,
    "elected, during products": ELECTED_DURING_PRODUCTS,
}


def whole_steps(kernel: str, ways: Sequence[str], gpu: Any, program: Program) -> Sweep:
    """Cycles of a K step over stages, counted outside the loop; one block on an SM."""
    found = {
        count: {way: whole_step(gpu, kernel, count, ONE_EACH, ASKS[way]) for way in ways}
        for count in WHOLE_STAGES
    }
    return over_stages(WHOLE_STEP, "cycles", found, digits=1)


ASKING = "asking"
ASKING_STAGES = (2, 3, 4, 5, 6)


def asking(gpu: Any, program: Program) -> Sweep:
    """v2 as written, and v2 asking for tiles while products run: the tensor cores' share."""
    found = {}
    for count in ASKING_STAGES:
        both = {
            "as written": compile_kernel("v2_ring", STAGES=count),
            "during products": asked_during_products(count),
        }
        found[count] = {
            name: busy(WAVES, timed(gpu, ring, WAVES, shared_bytes_for(ring, 1)))
            for name, ring in both.items()
        }
    return over_stages(ASKING, "%", found)


# ---- registered ---------------------------------------------------------------------------------

V2 = (
    # Most blocks first: the driver keeps the largest shared memory that a kernel was allowed.
    *(
        Experiment("v2_ring", crowd_name(blocks), partial(crowd, "v2_ring", blocks, stages))
        for blocks, stages in V2_STAGES.items()
    ),
    Experiment("v2_ring", PARTS, partial(steps, "v2_ring")),
    Experiment("v2_ring", ASKING, asking),
    Experiment("v2_ring", ELECTED_PARTS, steps_elected),
    Experiment("v2_ring", WHOLE_STEP, partial(whole_steps, "v2_ring", tuple(ASKS))),
)
V3 = (
    *(
        Experiment(
            "v3_specialized", crowd_name(blocks), partial(crowd, "v3_specialized", blocks, stages)
        )
        for blocks, stages in V3_STAGES.items()
    ),
    Experiment("v3_specialized", PARTS, partial(steps, "v3_specialized")),
    Experiment(
        "v3_specialized", WHOLE_STEP, partial(whole_steps, "v3_specialized", ("as written",))
    ),
)
EXPERIMENTS = (*V2, *V3)
