"""The chapter ``warpgroup``: what one instruction returned, and how fast nothing but wgmma is.

``one_wgmma``: two probes, inputs and outputs of the kernel, each compared to the last bit.
``ceiling``: cycles an instruction over every N and both sources of A; TFLOPS, clock and power over
a few N and inputs, in burst and in sustained mode.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy

from hopper import power
from hopper.architecture import constant
from hopper.backends import HopperGpu
from hopper.compile import Program, compile_kernel
from hopper.errors import CheckError, HopperError
from hopper.experiments import Experiment
from hopper.gemm import Problem
from hopper.schema import Array, Probe, Sweep
from hopper.tensormap import TensorMap

EVERY_N = tuple(range(8, 257, 8))
# Where A comes from, and what -DA_FROM_REGISTERS says so.
SOURCES = {"SS": 0, "RS": 1}

# ---- one_wgmma ----------------------------------------------------------------------------------


def coordinates(n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (64, 16) and B (n, 16), fp16, whose product says where it stands: D[i, j] = 100 i + j."""
    a, b = numpy.zeros((64, 16), "float16"), numpy.zeros((n, 16), "float16")
    a[:, 0], a[:, 1] = numpy.arange(64), 1
    b[:, 0], b[:, 1] = 100, numpy.arange(n)
    return a, b


def integers(n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (64, 16) and B (n, 16), fp16, whole numbers from -3 to 3: fp32 holds every sum exactly."""
    return Problem(64, n, 16, distribution="integers").inputs()


def launch_one(gpu: HopperGpu, program: Program, a, b) -> tuple[numpy.ndarray, numpy.ndarray]:
    """D (64, N) and what each thread holds of it (128, N/2), fp32, by ``one_wgmma``."""
    import cupy

    threads, n = program.facts.threads, program.facts.tile_n
    d = cupy.full((64, n), cupy.nan, "float32")
    held = cupy.full((threads, n // 2), cupy.nan, "float32")
    gpu.launch(program, (1, 1, 1), (threads, 1, 1), (gpu.array(a), gpu.array(b), d, held), 0)
    return gpu.numpy(d), gpu.numpy(held)


def probe_one(name: str, gpu: HopperGpu, program: Program) -> Probe:
    """Run ``one_wgmma`` on ``coordinates`` or ``integers``, and keep what went in and came out.

    Raises CheckError unless every bit of D is right.
    """
    program.require_clean()
    a, b = {"coordinates": coordinates, "integers": integers}[name](program.facts.tile_n)
    d, held = launch_one(gpu, program, a, b)
    _require_equal("one_wgmma", d, a.astype("float64") @ b.astype("float64").T)
    arrays = {"a": a, "b": b, "d": d, "held": held}
    return Probe(
        name,
        "Is D = A·Bᵀ right to the last bit, and which thread holds which element?",
        {key: Array.of(value) for key, value in arrays.items()},
    )


def _require_equal(what: str, got, expected) -> None:
    wrong = int((got != expected).sum())  # a NaN differs from everything
    if wrong:
        raise CheckError(f"{what}: {wrong} of {got.size} elements are wrong; nothing was recorded")


# ---- ceiling ------------------------------------------------------------------------------------

WARPGROUPS = 2
RESTART = 128  # rounds after which the kernel's sums start anew
# Rounds to check, a short sum and one behind a restart.
CHECKED_ROUNDS = (3, RESTART + 2)
# A launch takes about this many cycles where the tensor cores are the limit: 2 ms, in which
# loading the tiles and storing the sums, some microseconds, do not show.
LAUNCH_CYCLES = 3_500_000
CYCLE_LAUNCHES = 3


@dataclass(frozen=True, eq=False)
class Ceiling:
    """A variant of ``ceiling`` with its inputs in place; a launch is one block an SM."""

    gpu: HopperGpu
    program: Program
    a: numpy.ndarray
    b: numpy.ndarray
    maps: tuple[TensorMap, TensorMap]
    encoded: tuple[Any, Any]
    d: Any

    @property
    def n(self) -> int:
        """Columns of the instruction."""
        return self.program.facts.tile_n

    @property
    def instructions_a_round(self) -> int:
        """What an SM issues in a round of both warpgroups."""
        return WARPGROUPS * self.program.facts.tile_k // 16

    def flop(self, rounds: int) -> int:
        """Operations of a launch on all SMs."""
        return 2 * 64 * self.n * 16 * self.instructions_a_round * rounds * self.gpu.sm_count

    @property
    def rounds(self) -> int:
        """Rounds of a launch of about LAUNCH_CYCLES."""
        cycles = self.n * 64 * 16 * 2 / constant("flop_per_sm_cycle").value
        return round(LAUNCH_CYCLES / (self.instructions_a_round * cycles))

    def clocks(self, launches: int):
        """Room for what ``launches`` write: [launch, SM, warpgroup, (start, end), (cycles, ns)]."""
        import cupy

        return cupy.zeros((launches, self.gpu.sm_count, WARPGROUPS, 2, 2), "int64")

    def run(self, rounds: int, clocks) -> None:
        """Launch once; ``clocks`` is one launch's part of ``clocks()``. Returns at once."""
        facts = self.program.facts
        args = (*self.encoded, self.d, clocks, numpy.int32(rounds))
        grid = (self.gpu.sm_count, 1, 1)
        self.gpu.launch(self.program, grid, (facts.threads, 1, 1), args, facts.shared_bytes)


def ceiling(gpu: HopperGpu, n: int, source: str, distribution: str = "normal") -> Ceiling:
    """A variant with N = ``n`` and A from ``source``, a key of SOURCES, ready to launch."""
    import cupy

    program = compile_kernel("ceiling", TILE_N=n, A_FROM_REGISTERS=SOURCES[source])
    program.require_clean()
    facts = program.facts
    a, b = Problem(facts.tile_m, n, facts.tile_k, distribution=distribution).inputs()
    maps = (TensorMap(gpu.array(a), facts.a_box), TensorMap(gpu.array(b), facts.b_box))
    d = cupy.empty((gpu.sm_count, facts.tile_m, n), "float32")
    return Ceiling(gpu, program, a, b, maps, (maps[0].encode(), maps[1].encode()), d)


def check_ceiling(gpu: HopperGpu, n: int, source: str) -> None:
    """Compare a variant's sums with fp64, on whole numbers, to the last bit, in every block.

    Raises CheckError when one differs: nothing unchecked is timed.
    """
    variant = ceiling(gpu, n, source, "integers")
    product = variant.a.astype("float64") @ variant.b.astype("float64").T
    clocks = variant.clocks(1)
    for rounds in CHECKED_ROUNDS:
        variant.d.fill(numpy.nan)
        variant.run(rounds, clocks[0])
        expected = gpu.array(((rounds - 1) % RESTART + 1) * product)
        _require_equal(f"ceiling, N={n} {source}, {rounds} rounds", variant.d, expected)


def cycles(gpu: HopperGpu, n: int, source: str) -> float:
    """Cycles from one instruction of an SM to the next: the median over SMs and launches.

    Counted by ``%clock64`` on each SM from the first warpgroup's start to the last one's end, so
    the clock's frequency does not matter. The variant is checked first.
    """
    check_ceiling(gpu, n, source)
    variant = ceiling(gpu, n, source)
    clocks = variant.clocks(1 + CYCLE_LAUNCHES)
    for one in clocks:
        variant.run(variant.rounds, one)
    counted = gpu.numpy(clocks)[1:, :, :, :, 0]  # without the first launch, which warms up
    spans = counted[..., 1].max(axis=-1) - counted[..., 0].min(axis=-1)
    return float(numpy.median(spans)) / (variant.instructions_a_round * variant.rounds)


def cycle_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Cycles an instruction over every N, A from shared memory (SS) and from registers (RS)."""
    series = {source: tuple(cycles(gpu, n, source) for n in EVERY_N) for source in SOURCES}
    return Sweep("cycles", "N", "columns", EVERY_N, "cycles", series)


RATE_N = (64, 128, 192, 256)
# Curve -> inputs, source of A.
RATES = {
    "normal SS": ("normal", "SS"),
    "normal RS": ("normal", "RS"),
    "zeros SS": ("zeros", "SS"),
}


@dataclass(frozen=True)
class Pace:
    """How a rate is taken. Seconds: of rest before, uncounted under load, counted."""

    rest: float
    warm_up: float
    counted: float


PACES = {"burst": Pace(0.5, 0.05, 0.2), "sustained": Pace(0.0, 0.6, 0.6)}
PREHEAT_SECONDS = 2.0  # before the first sustained rate, so that it finds the chip as hot


@dataclass(frozen=True)
class Rate:
    """All SMs at work: TFLOPS by events, mean SM clock by the kernel's own counters, power."""

    tflops: float
    clock: float
    power: float


def rate(variant: Ceiling, pace: Pace) -> Rate:
    """Launch back to back at a pace. Raises HopperError where NVML does not give the power."""
    import cupy

    seconds = LAUNCH_CYCLES / 1.7e9  # of a launch, roughly; the clock moves
    skipped, counted = (max(1, round(t / seconds)) for t in (pace.warm_up, pace.counted))
    clocks = variant.clocks(skipped + counted)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    rounds = variant.rounds
    variant.gpu.synchronize()
    time.sleep(pace.rest)
    with power.Sampler() as sampler:
        for index, one in enumerate(clocks):
            if index == skipped:
                start.record()
            variant.run(rounds, one)
        end.record()
        variant.gpu.synchronize()
        finished = time.monotonic()
    elapsed_ms = cupy.cuda.get_elapsed_time(start, end)
    window = (finished - elapsed_ms / 1e3, finished)
    found = power.conditions(sampler.readings, [window], [None], [None])
    if found.power_watts is None:
        raise HopperError("NVML gave no power reading: a rate is recorded with the power it took")
    ticks = variant.gpu.numpy(clocks)[skipped:]
    spans = ticks[..., 1, :] - ticks[..., 0, :]  # cycles, nanoseconds
    megahertz = 1e3 * float(numpy.median(spans[..., 0] / spans[..., 1]))
    tflops = variant.flop(rounds) * counted / elapsed_ms / 1e9
    return Rate(tflops, megahertz, found.power_watts.median)


@cache
def rates(gpu: HopperGpu, mode: str) -> dict[str, tuple[Rate, ...]]:
    """Every curve of RATES over RATE_N; measured once, for the sweeps of its three quantities."""
    for n in RATE_N:
        for source in SOURCES:
            check_ceiling(gpu, n, source)
    if mode == "sustained":
        rate(ceiling(gpu, RATE_N[-1], "SS"), Pace(0.0, PREHEAT_SECONDS, 0.1))

    def curve(distribution: str, source: str) -> Iterator[Rate]:
        for n in RATE_N:
            yield rate(ceiling(gpu, n, source, distribution), PACES[mode])

    return {name: tuple(curve(*what)) for name, what in RATES.items()}


def rate_sweep(mode: str, quantity: str, unit: str, gpu: HopperGpu, program: Program) -> Sweep:
    """One quantity of ``rates`` as a sweep; its name is the mode, and the quantity if no rate."""
    found = rates(gpu, mode)
    series = {name: tuple(getattr(one, quantity) for one in curve) for name, curve in found.items()}
    return Sweep(_rate_name(mode, quantity), "N", "columns", RATE_N, unit, series)


def _rate_name(mode: str, quantity: str) -> str:
    return mode if quantity == "tflops" else f"{mode} {quantity}"


UNITS = {"tflops": "TFLOPS", "clock": "MHz", "power": "W"}
EXPERIMENTS = (
    *(
        Experiment("one_wgmma", name, partial(probe_one, name))
        for name in ("coordinates", "integers")
    ),
    Experiment("ceiling", "cycles", cycle_curves),
    *(
        Experiment("ceiling", _rate_name(mode, quantity), partial(rate_sweep, mode, quantity, unit))
        for mode in PACES
        for quantity, unit in UNITS.items()
    ),
)
