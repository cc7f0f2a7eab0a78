"""The chapters on v4 and v5: what the order of tiles moves, and what consumers and stages buy.

``raster hits``, ``raster bytes``: what ncu counts for each width of v4's groups of tiles, in a
process of its own, which this module is as a command. ``one consumer``, ``two consumers`` and the
one of ``WIDE``: speed over the number of stages. ``K``: cycles of a launch over K with one tile on
each SM and with four, from which ``cycles_of`` takes a step of the loop apart from what surrounds
it.

Each variant is checked before it is timed or profiled.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy

from hopper.architecture import constant
from hopper.backends import find_hopper
from hopper.bench import Timed, checked_pair, inputs_on, interleaved
from hopper.compile import Program, compile_kernel
from hopper.counters import WANTED
from hopper.errors import HopperError
from hopper.experiments import Curves, Experiment
from hopper.experiments.under_ncu import SECTOR_BYTES, launched, profiled
from hopper.facts import LaunchFacts
from hopper.gemm import Problem
from hopper.records import HEADLINE
from hopper.samples import median, ratio
from hopper.schema import Profile, Sweep

V4, V5 = "v4_two_consumers", "v5_in_flight"

# ---- the order of tiles -------------------------------------------------------------------------

#: Rows of tiles in a group; 0: the grid's own order.
WIDTHS = (0, 1, 2, 4, 8, 16, 32, 64)
HITS, BYTES = "raster hits", "raster bytes"
NCU_SECONDS = 180


def launch_widths() -> None:
    """Launch v4 with each of WIDTHS for ncu; each is checked first."""
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    pairs = [checked_pair(compile_kernel(V4, RASTER=width), *arrays) for width in WIDTHS]
    launched(gpu, [pair.run for pair in pairs])


@cache
def profiled_widths() -> tuple[Profile, ...]:
    """What ncu counted, in the order of WIDTHS; once in a process, for all experiments of it.

    Raises HopperError as ``under_ncu.profiled`` does.
    """
    kernels = [V4] * len(WIDTHS)
    return profiled("hopper.experiments.two_consumers", kernels=kernels, seconds=NCU_SECONDS)


def counted(profiles: Sequence[Profile], alias: str) -> numpy.ndarray:
    """One counter of each profile, in ncu's base unit. Raises HopperError where one lacks it."""
    values = []
    for one in profiles:
        name = next((name for name in WANTED[alias] if name in one.metrics), None)
        if name is None:
            raise HopperError(f"{alias}: this ncu counted none of {', '.join(WANTED[alias])}")
        values.append(one.metrics[name].value)
    return numpy.array(values)


def _over_widths(name: str, unit: str, series: dict[str, numpy.ndarray], digits: int) -> Sweep:
    curves = {
        label: tuple(round(v, digits) for v in found.tolist()) for label, found in series.items()
    }
    return Sweep(name, "width", "rows of tiles", tuple(map(float, WIDTHS)), unit, curves)


def raster_hits(gpu: Any, program: Program) -> Sweep:
    """Percent of the sectors that were asked of L2 and were there, over the width."""
    found = profiled_widths()
    return _over_widths(HITS, "%", {"L2": counted(found, "l2_hit_rate")}, 2)


def raster_bytes(gpu: Any, program: Program) -> Sweep:
    """Gigabytes that memory read and wrote, and that passed L2, over the width."""
    found = profiled_widths()
    series = {
        "read": counted(found, "dram_read") / 1e9,
        "written": counted(found, "dram_write") / 1e9,
        "through L2": counted(found, "l2_sectors") * SECTOR_BYTES / 1e9,
    }
    return _over_widths(BYTES, "GB", series, 3)


# ---- consumers and stages -----------------------------------------------------------------------

#: Consumers -> the tile. Either has one block on an SM, and 64 rows or more for each consumer.
TILES = {1: {"CONSUMERS": 1, "TILE_M": 128, "TILE_N": 128}, 2: {"TILE_M": 128, "TILE_N": 256}}
STAGES = {1: (2, 3, 4, 5, 6), 2: (2, 3, 4)}
NAMES = {1: "one consumer", 2: "two consumers"}
#: One consumer with the instruction of two, and with more bytes an operation to load.
WIDE = "one consumer, 64 × 256"
#: Name of a sweep over stages -> the tile, and the numbers of stages.
OVER_STAGES: dict[str, tuple[dict[str, int], tuple[int, ...]]] = {
    **{NAMES[consumers]: (TILES[consumers], STAGES[consumers]) for consumers in TILES},
    WIDE: ({"CONSUMERS": 1, "TILE_M": 64, "TILE_N": 256}, (3, 4, 5)),
}


def busy(problem: Problem, timed: Timed, sms: int) -> float:
    """Percent of the tensor cores' time that the operations of a launch need at their peak rate."""
    peak = sms * constant("flop_per_sm_cycle").value
    return 100 * problem.flop / (clock_of(timed) * 1e3 * median(timed.samples_ms) * peak)


def clock_of(timed: Timed) -> float:
    """The mean SM clock in MHz. Raises HopperError where it could not be read."""
    clock = timed.conditions.clock_mhz
    if clock is None:
        raise HopperError("the SM clock could not be read on this machine, so cycles are not known")
    return clock


def over_stages(kernel: str, name: str, gpu: Any, program: Program) -> Sweep:
    """Percent of cuBLAS, and of the tensor cores' time, over the number of stages."""
    arrays = inputs_on(gpu, HEADLINE)
    tile, every = OVER_STAGES[name]
    of_peer, share = [], []
    for stages in every:
        pair = checked_pair(compile_kernel(kernel, STAGES=stages, **tile), *arrays)
        timed = interleaved(gpu, pair.run, pair.peer)
        of_peer.append(round(100 * ratio(timed.samples_ms, timed.peer_samples_ms), 2))
        share.append(round(busy(HEADLINE, timed, gpu.sm_count), 2))
    return Sweep(
        name,
        "stages",
        "stages",
        tuple(map(float, every)),
        "%",
        {"of cuBLAS": tuple(of_peer), "busy": tuple(share)},
    )


# ---- time against K -----------------------------------------------------------------------------

DEPTHS = (512, 1024, 2048, 4096, 8192)
#: Tiles that each SM computes, one after the other: two numbers, for a difference.
TURNS = (1, 4)
K = "K"


def whole_waves(facts: LaunchFacts, sms: int, turns: int, k: int) -> Problem:
    """A problem whose tiles are ``turns`` for each SM, in a grid about as high as wide."""
    rows = max(n for n in range(1, math.isqrt(sms) + 1) if sms % n == 0)
    side = math.isqrt(turns)
    if side * side != turns:
        raise HopperError(f"turns={turns}: a square, so that the grid grows alike along both sides")
    return Problem(side * rows * facts.tile_m, side * (sms // rows) * facts.tile_n, k)


def over_k(kernel: str, gpu: Any, program: Program) -> Sweep:
    """Cycles of a launch over K, by consumers and by tiles an SM."""
    series: dict[str, list[float]] = {}
    for consumers, defines in TILES.items():
        variant = compile_kernel(kernel, **defines)
        for k in DEPTHS:
            problems = [whole_waves(variant.facts, gpu.sm_count, turns, k) for turns in TURNS]
            runs = [checked_pair(variant, *inputs_on(gpu, problem)).run for problem in problems]
            timed = interleaved(gpu, *runs)
            both = (timed.samples_ms, timed.peer_samples_ms)
            for turns, samples in zip(TURNS, both, strict=True):
                cycles = median(samples) * 1e3 * clock_of(timed)
                series.setdefault(curve(consumers, turns), []).append(round(cycles, 1))
    return Sweep(
        K, "K", "elements", tuple(map(float, DEPTHS)), "cycles",
        {name: tuple(values) for name, values in series.items()},
    )  # fmt: skip


def curve(consumers: int, turns: int) -> str:
    """'two consumers, 4 tiles'."""
    return f"{NAMES[consumers]}, {turns} tile{'s' * (turns > 1)}"


@dataclass(frozen=True)
class TileCycles:
    """Cycles of one tile on an SM: ``step`` for each K step, and ``rest``, whatever K is.

    ``product``: of a step, at the tensor cores' peak rate. ``step_error``, ``rest_error``: standard
    errors of the line. Not recorded: NaN.
    """

    step: float
    rest: float
    product: float
    step_error: float = math.nan
    rest_error: float = math.nan

    def share(self, steps: int) -> float:
        """Of the tensor cores' time in use, with so many steps a tile."""
        return steps * self.product / (steps * self.step + self.rest)


def cycles_of(found: Curves, consumers: int) -> TileCycles:
    """A straight line through the cycles of a tile over its steps.

    By least squares of relative errors. The cycles of a tile are the difference between four tiles
    an SM and one, so a launch's own share is not in them.
    """
    tile = TILES[consumers]
    facts = compile_kernel(V4, **tile).facts
    flop = 2 * facts.tile_m * facts.tile_n * facts.tile_k
    product = flop / constant("flop_per_sm_cycle").value
    if found.sweep is None:
        return TileCycles(math.nan, math.nan, product)
    few, many = (found[curve(consumers, turns)] for turns in TURNS)
    tiles = (many - few) / (TURNS[1] - TURNS[0])
    steps = found.x / facts.tile_k
    (step, rest), variances = numpy.polyfit(steps, tiles, 1, w=1 / tiles, cov=True)
    errors = numpy.sqrt(numpy.diag(variances))
    return TileCycles(float(step), float(rest), product, *map(float, errors))


EXPERIMENTS = (
    Experiment(V4, HITS, raster_hits),
    Experiment(V4, BYTES, raster_bytes),
    *(
        Experiment(kernel, name, partial(over_stages, kernel, name))
        for kernel in (V4, V5)
        for name in OVER_STAGES
    ),
    *(Experiment(kernel, K, partial(over_k, kernel)) for kernel in (V4, V5)),
)

if __name__ == "__main__":
    launch_widths()
