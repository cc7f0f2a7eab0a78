"""Experiments of the chapter on measuring: what can move a number that nobody changed.

All are of v1 beside cuBLAS on a Hopper GPU. Several sweeps come from one run: an experiment holds
one unit, and a clock and a power that belong to a rate were read while that rate was.
"""

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import median
from typing import Any

import numpy

from hopper import power, samples
from hopper.backends import HopperGpu
from hopper.bench import Clocks, Pair, checked_pair, gate_ns, inputs_on, interleaved
from hopper.check import check, compare
from hopper.compile import Program
from hopper.cublas import Cublas
from hopper.errors import HopperError
from hopper.experiments import Experiment
from hopper.gemm import DISTRIBUTIONS, Problem, plan
from hopper.records import HEADLINE
from hopper.schema import Sweep

KERNEL = "v1_wgmma"
PEER = "cuBLAS"
NVML = ", by NVML"  # behind a series that the driver reported

# Ends of the stretches, seconds of load. They grow, since most happens in the first.
LONG = tuple(2 ** (i / 2) / 64 for i in range(18))
SHORT = (0.125, 0.25, 0.5, 1.0)
REST_LONG, REST_SHORT, REST_WINDOW = 1.5, 0.3, 0.2  # seconds of idleness before a load
WINDOWS = (1, 4, 16, 64)  # launches of each side
RUNS = 3
ORDERS = ("kernel first", "cuBLAS first", "in turns")
SMALL = (128, 256, 512, 1024, 2048)  # sizes at which a launch is worth a look
LAUNCHES = 200
NODES, REPLAYS = 100, 5
L2_SIZES = (512, 1024, 2048, 4096)
# Several times the 50 MB of L2, so that what is used again has left it.
COLD_BYTES = 256 * 10**6
FAULTY_SIZE = 4096
SHARES = (1.0, 0.75, 0.5, 0.25)  # of the work that a faulty launch does
FEWER_BLOCKS, SMALLER_K = "fewer blocks", "smaller K"
STALE = FEWER_BLOCKS + ", old C"


def rounded(value: float) -> float:
    """Five digits: more than any of these measurements is worth."""
    return float(f"{value:.5g}")


def sweep(
    name: str,
    axis: tuple[str, str, Sequence[float]],
    unit: str,
    series: Mapping[str, Sequence[float | None]],
) -> Sweep:
    """A Sweep over ``axis`` (name, unit, values). Raises HopperError where a value is missing."""
    for label, values in series.items():
        if any(value is None for value in values):
            raise HopperError(f"{name}: {label} could not be read on this machine")
    curves = {label: tuple(map(rounded, values)) for label, values in series.items()}
    what, its_unit, values = axis
    return Sweep(name, what, its_unit, tuple(map(rounded, values)), unit, curves)


# Under load: rate, clock and power over time.


@dataclass(frozen=True)
class Stretch:
    """What was measured over a stretch of time under load; ``middle`` in seconds of load.

    None: could not be read. ``watts``: the last reading, where none fell into the stretch.
    """

    middle: float
    tflops: float
    clock_mhz: float | None
    nvml_mhz: float | None
    watts: float | None


def middles(ends: Sequence[float]) -> list[float]:
    """Middle of each stretch that ``ends`` bound, the first of which starts at 0."""
    return [(start + end) / 2 for start, end in zip((0, *ends), ends, strict=False)]


def under_load(
    clocks: Clocks, launch: Callable[[], None], flop: int, ms: float, ends: Sequence[float]
) -> list[Stretch]:
    """Launch without a pause, and look at every stretch; ``ms``: about what a launch takes.

    The next stretch is always queued before the last one is waited for.
    """
    counts, starts, stops, seen = [], [], [], []
    with power.Sampler() as sampler:
        probes = [clocks.probe()]
        for length in numpy.diff((0, *ends)):
            counts.append(max(1, round(1e3 * float(length) / ms)))
            starts.append(clocks.event())
            for _ in range(counts[-1]):
                launch()
            stops.append(clocks.event())
            probes.append(clocks.probe())
            if len(stops) > 1:
                clocks.wait(stops[-2])
                seen.append(time.monotonic())
                ms = clocks.elapsed(starts[-2], stops[-2]) / counts[-2]
        clocks.wait(stops[-1])
        seen.append(time.monotonic())
        clocks.synchronize()
    found = []
    for i, count in enumerate(counts):
        taken = clocks.elapsed(starts[i], stops[i])
        middle = (clocks.elapsed(starts[0], starts[i]) + taken / 2) / 1e3
        clock, _ = clocks.read(probes[i], probes[i + 1])
        looks = looked_at(sampler.readings, seen[i] - taken / 1e3, seen[i])
        nvml = typical([one.clock_mhz for one in looks])
        watts = typical([one.power_watts for one in looks])
        found.append(Stretch(middle, samples.tflops(count * flop, taken), clock, nvml, watts))
    return found


def looked_at(
    readings: Sequence[power.Reading], start: float, end: float
) -> Sequence[power.Reading]:
    """The readings of a stretch of time.monotonic(), or else the nearest, rather before it."""
    inside = [one for one in readings if start <= one.seconds <= end]
    return inside or [one for one in readings if one.seconds <= end][-1:] or readings[:1]


def typical(values: Sequence[float | None]) -> float | None:
    """Median of the values that could be read, None without one."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def launch_ms(clocks: Clocks, launch: Callable[[], None]) -> float:
    """About how long a launch of some milliseconds takes."""
    start = clocks.event()
    for _ in range(3):
        launch()
    end = clocks.event()
    clocks.synchronize()
    return clocks.elapsed(start, end) / 3


def after_a_rest(
    clocks: Clocks, pair: Pair, flop: int, ends: Sequence[float], rest: float
) -> dict[str, list[Stretch]]:
    """The kernel and cuBLAS, each alone under load after ``rest`` seconds of idleness."""
    found = {}
    for name, launch in ((KERNEL, pair.run), (PEER, pair.peer)):
        ms = launch_ms(clocks, launch)
        time.sleep(rest)
        found[name] = under_load(clocks, launch, flop, ms, ends)
    return found


def on_grid(stretches: Sequence[Stretch], quantity: str, ends: Sequence[float]) -> list:
    """A quantity at the nominal middles: a stretch is a whole number of launches, and drifts."""
    values = [getattr(one, quantity) for one in stretches]
    if None in values:
        return values
    return numpy.interp(middles(ends), [one.middle for one in stretches], values).tolist()


@cache
def headline_pair(gpu: HopperGpu, program: Program) -> Pair:
    """v1 and cuBLAS on the headline problem, checked once."""
    return checked_pair(program, *inputs_on(gpu, HEADLINE))


@cache
def long_load(gpu: HopperGpu, program: Program) -> dict[str, list[Stretch]]:
    """Some six seconds of each side, from rest."""
    pair = headline_pair(gpu, program)
    return after_a_rest(Clocks(gpu), pair, HEADLINE.flop, LONG, REST_LONG)


QUANTITIES = {"rate": ("tflops", "TFLOPS"), "clock": ("clock_mhz", "MHz"), "power": ("watts", "W")}


def over_time(quantity: str, gpu: HopperGpu, program: Program) -> Sweep:
    """One quantity of the long load over seconds; the clock also as the driver reports it."""
    field, unit = QUANTITIES[quantity]
    load = long_load(gpu, program)
    series = {name: on_grid(load[name], field, LONG) for name in (KERNEL, PEER)}
    if quantity == "clock":
        series |= {name + NVML: on_grid(load[name], "nvml_mhz", LONG) for name in (KERNEL, PEER)}
    return sweep(f"{quantity} over time", ("time under load", "s", middles(LONG)), unit, series)


@cache
def loads_by_inputs(gpu: HopperGpu, program: Program) -> dict[str, list[Stretch]]:
    """A second of each side on inputs of each distribution."""
    clocks, found = Clocks(gpu), {}
    for distribution in DISTRIBUTIONS:
        problem = replace(HEADLINE, distribution=distribution)
        if problem == HEADLINE:
            pair = headline_pair(gpu, program)
        else:
            pair = checked_pair(program, *inputs_on(gpu, problem))
        load = after_a_rest(clocks, pair, problem.flop, SHORT, REST_SHORT)
        found |= {f"{name}, {distribution}": stretches for name, stretches in load.items()}
    return found


def by_inputs(quantity: str, gpu: HopperGpu, program: Program) -> Sweep:
    """One quantity over seconds of load, a curve for each side and distribution."""
    field, unit = QUANTITIES[quantity]
    loads = loads_by_inputs(gpu, program)
    series = {name: on_grid(stretches, field, SHORT) for name, stretches in loads.items()}
    return sweep(f"{quantity} by inputs", ("time under load", "s", middles(SHORT)), unit, series)


# Windows: who is timed first, and for how long.


def window_ratio(clocks: Clocks, pair: Pair, order: str, launches: int) -> float:
    """Speed of the kernel as percent of cuBLAS, from ``launches`` of each in an order."""
    if order == "in turns":
        marks = [clocks.event()]
        for _ in range(launches):
            for launch in (pair.run, pair.peer):
                launch()
                marks.append(clocks.event())
        clocks.synchronize()
        spans = [clocks.elapsed(*span) for span in itertools.pairwise(marks)]
        return 100 * samples.ratio(spans[::2], spans[1::2])
    first, second = (pair.run, pair.peer) if order == "kernel first" else (pair.peer, pair.run)
    start = clocks.event()
    for _ in range(launches):
        first()
    middle = clocks.event()
    for _ in range(launches):
        second()
    end = clocks.event()
    clocks.synchronize()
    times = clocks.elapsed(start, middle), clocks.elapsed(middle, end)
    own, peer = times if order == "kernel first" else times[::-1]
    return 100 * peer / own


def ratio_by_window(gpu: HopperGpu, program: Program) -> Sweep:
    """Percent of cuBLAS over the length of the window, each run from a short rest."""
    clocks, pair = Clocks(gpu), headline_pair(gpu, program)
    runs: dict[tuple[str, int], list[float]] = {}
    for _, launches, order in itertools.product(range(RUNS), WINDOWS, ORDERS):
        time.sleep(REST_WINDOW)
        ratio = window_ratio(clocks, pair, order, launches)
        runs.setdefault((order, launches), []).append(ratio)
    series = {}
    for order in ORDERS:
        for suffix, of in (("", median), (", lowest", min), (", highest", max)):
            series[order + suffix] = [of(runs[order, launches]) for launches in WINDOWS]
    axis = ("launches of each", "", WINDOWS)
    return sweep("ratio by window", axis, "% of cuBLAS", series)


# Launches: what a small product costs, by how it is timed.


def launch_times(clocks: Clocks, launch: Callable[[], None]) -> dict[str, float]:
    """Microseconds a launch by four ways of timing it."""
    launch()
    clocks.synchronize()
    each = []
    for _ in range(LAUNCHES):
        started = time.perf_counter_ns()
        launch()
        clocks.synchronize()
        each.append(time.perf_counter_ns() - started)
    started = time.perf_counter_ns()
    start = clocks.event()
    for _ in range(LAUNCHES):
        launch()
    end = clocks.event()
    returned = (time.perf_counter_ns() - started) / LAUNCHES
    clocks.synchronize()
    queued = clocks.elapsed(start, end) / LAUNCHES
    clocks.gate(gate_ns(returned, LAUNCHES))
    start = clocks.event()
    for _ in range(LAUNCHES):
        launch()
    end = clocks.event()
    clocks.synchronize()
    gated = clocks.elapsed(start, end) / LAUNCHES
    return {
        "no wait": returned / 1e3,
        "a wait each": median(each) / 1e3,
        "events around many": 1e3 * queued,
        "behind a gate": 1e3 * gated,
    }


def launch_time(gpu: HopperGpu, program: Program) -> Sweep:
    """Microseconds a launch over the size of the product, by how it was timed."""
    clocks, series = Clocks(gpu), {}
    for size in SMALL:
        pair = checked_pair(program, *inputs_on(gpu, Problem(size, size, size)))
        for name, launch in ((KERNEL, pair.run), (PEER, pair.peer)):
            for way, microseconds in launch_times(clocks, launch).items():
                series.setdefault(f"{name}, {way}", []).append(microseconds)
    return sweep("launch time", ("M = N = K", "", SMALL), "µs", series)


def graph_time(clocks: Clocks, stream, launch: Callable[[], None]) -> float:
    """Microseconds a launch when NODES of them are one CUDA graph, replayed."""
    stream.begin_capture()
    for _ in range(NODES):
        launch()
    graph = stream.end_capture()
    graph.launch(stream)  # the first one uploads it
    stream.synchronize()
    clocks.gate(2_000_000)
    start = clocks.event()
    for _ in range(REPLAYS):
        graph.launch(stream)
    end = clocks.event()
    stream.synchronize()
    return 1e3 * clocks.elapsed(start, end) / (NODES * REPLAYS)


def launch_time_in_a_graph(gpu: HopperGpu, program: Program) -> Sweep:
    """The same inside a CUDA graph, on both sides; results are checked after the replays."""
    import cupy

    series: dict[str, list[float]] = {KERNEL: [], PEER: []}
    for size in SMALL:
        a, b = inputs_on(gpu, Problem(size, size, size))
        c, peer_c = (cupy.full((size, size), cupy.nan, "float16") for _ in range(2))
        launch = plan(program, a, b, c)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream, Cublas(stream) as cublas:
            product = cublas.product(a, b, peer_c)
            clocks = Clocks(gpu)
            launch.run()  # loads the module, which a capture must not
            product()
            gpu.synchronize()
            c.fill(cupy.nan)
            peer_c.fill(cupy.nan)
            series[KERNEL].append(graph_time(clocks, stream, launch.run))
            series[PEER].append(graph_time(clocks, stream, product))
            gpu.synchronize()
        check(c, a, b, peer=peer_c)
        check(peer_c, a, b)
    return sweep("launch time in a graph", ("M = N = K", "", SMALL), "µs", series)


# L2: the same arrays again, or others.


def sets_for(problem: Problem) -> int:
    """How many copies of A, B and C are needed so that together they exceed COLD_BYTES."""
    m, n, k = problem.m, problem.n, problem.k
    return max(2, math.ceil(COLD_BYTES / (2 * (m * k + n * k + m * n))))


def in_turn(launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """One launch that takes the next of ``launches`` every time."""
    turns = itertools.cycle(launches)
    return lambda: next(turns)()


def warm_and_cold(gpu: HopperGpu, program: Program) -> Sweep:
    """Microseconds a launch over the size: one set of arrays, or many in rotation."""
    series: dict[str, list[float]] = {}
    for size in L2_SIZES:
        problem = Problem(size, size, size)
        a, b = inputs_on(gpu, problem)
        pairs = [checked_pair(program, a.copy(), b.copy()) for _ in range(sets_for(problem))]
        for state, used in (("warm", pairs[:1]), ("cold", pairs)):
            own, peer = ([getattr(pair, side) for pair in used] for side in ("run", "peer"))
            timed = interleaved(gpu, in_turn(own), in_turn(peer))
            for name, found in ((KERNEL, timed.samples_ms), (PEER, timed.peer_samples_ms)):
                series.setdefault(f"{name}, {state}", []).append(1e3 * median(found))
    return sweep("warm and cold L2", ("M = N = K", "", L2_SIZES), "µs", series)


# Faults: launches that do less than they claim.


@dataclass(frozen=True)
class Claims:
    """Rates claimed and percent of wrong elements, each by fault, a value for each of SHARES."""

    tflops: dict[str, list[float]]
    wrong: dict[str, list[float]]


def faulty(sound, fault: str, share: float):
    """The launch that does only ``share`` of the work: by fewer blocks, or by a smaller K."""
    if fault == SMALLER_K:
        *rest, k = sound.args
        return replace(sound, args=(*rest, numpy.int32(int(k) * share)))
    along_m, along_n, _ = sound.grid
    return replace(sound, grid=(along_m, math.ceil(along_n * share), 1))


@cache
def claims(gpu: HopperGpu, program: Program) -> Claims:
    """Launch v1 wrongly on purpose, time it as if nothing were, and look at C."""
    import cupy

    problem = Problem(FAULTY_SIZE, FAULTY_SIZE, FAULTY_SIZE)
    a, b = inputs_on(gpu, problem)
    pair = checked_pair(program, a, b)
    c = cupy.full((problem.m, problem.n), cupy.nan, "float16")
    sound = plan(program, a, b, c)

    def wrong_percent() -> float:
        return 100 * compare(c, a, b).wrong / c.size

    rates: dict[str, list[float]] = {FEWER_BLOCKS: [], SMALLER_K: [], PEER: []}
    wrong: dict[str, list[float]] = {FEWER_BLOCKS: [], SMALLER_K: [], STALE: []}
    for share in SHARES:
        for fault in (FEWER_BLOCKS, SMALLER_K):
            launch = faulty(sound, fault, share)
            c.fill(cupy.nan)
            launch.run()
            wrong[fault].append(wrong_percent())
            timed = interleaved(gpu, launch.run, pair.peer)
            rates[fault].append(samples.tflops(problem.flop, median(timed.samples_ms)))
        rates[PEER].append(samples.tflops(problem.flop, median(timed.peer_samples_ms)))
        sound.run()
        faulty(sound, FEWER_BLOCKS, share).run()
        wrong[STALE].append(wrong_percent())
    return Claims(rates, wrong)


_SHARE = ("share of the work done", "", SHARES)


def claimed_rate(gpu: HopperGpu, program: Program) -> Sweep:
    """TFLOPS that a faulty launch seems to reach, over the share of the work it does."""
    return sweep("claimed rate", _SHARE, "TFLOPS", claims(gpu, program).tflops)


def wrong_elements(gpu: HopperGpu, program: Program) -> Sweep:
    """Percent of C that the check calls wrong, over the same share."""
    return sweep("wrong elements", _SHARE, "%", claims(gpu, program).wrong)


_RUNS: dict[str, Callable[[Any, Program], Sweep]] = {
    "rate over time": partial(over_time, "rate"),
    "clock over time": partial(over_time, "clock"),
    "power over time": partial(over_time, "power"),
    "ratio by window": ratio_by_window,
    "rate by inputs": partial(by_inputs, "rate"),
    "clock by inputs": partial(by_inputs, "clock"),
    "power by inputs": partial(by_inputs, "power"),
    "launch time": launch_time,
    "warm and cold L2": warm_and_cold,
    "claimed rate": claimed_rate,
    "wrong elements": wrong_elements,
    # Last: it alone goes past CuPy, and a fault there must cost nothing else.
    "launch time in a graph": launch_time_in_a_graph,
}
EXPERIMENTS = tuple(Experiment(KERNEL, name, run) for name, run in _RUNS.items())
