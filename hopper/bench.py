"""How fast is a kernel, beside cuBLAS? Measured here on a Hopper GPU, or else as recorded.

Both run in turns in one process, on the same inputs and output type, with tensor maps encoded
outside the timed region. Nothing unchecked is timed.

Burst: launch by launch in turns, for a fraction of a second. Sustained: in turns for a second
each, of which the second half counts, so that neither lives off the other's cool silicon.
cuBLAS is ``cupy.matmul(a, b.T, out=c)``: cublasGemmEx with fp32 compute and output of the inputs'
type. ``b.T`` is a view that CuPy hands to cuBLAS as a transposed operand, without a copy.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from hopper import power, samples
from hopper.backends import HopperGpu, available
from hopper.check import check
from hopper.compile import Program, compile_kernel, nvrtc_version
from hopper.dtypes import filled_with_nan
from hopper.errors import ProblemError
from hopper.gemm import Problem, plan
from hopper.records import (
    GPU,
    NoRecording,
    configuration,
    identity_of,
    load,
    recorded_list,
    same_code,
    save_own,
    size_of,
)
from hopper.schema import Checked, Conditions, Entry, Provenance, Timing, Tuning, TuningRow

PEER = "cupy.matmul(a, b.T, out=c)"
MODES = ("burst", "sustained")
WARM_UP = 5
WARM_UP_MS = 50.0
# A sample spans at least this long, so that an event's half microsecond does not show.
SAMPLE_MS = 0.2
# The first launches behind a pause are slower; untimed ones lead in for at least this long.
LEAD_IN_MS = 0.2
# The host keeps ahead where queueing takes at most this share of what the launches take.
QUEUEING_SHARE = 0.5
PAIRS = 60
BURST_MS = 1000.0
BLOCK_MS = 1000.0
ROUNDS = 5  # counted ones; one more comes first and warms the GPU up
# Below this, queueing a launch takes about as long as the launch, and blocks would run dry.
SUSTAINED_LEAST_MS = 0.1
SPIN_NS = 50_000


@dataclass(frozen=True)
class Measurement:
    """Timings of a kernel beside cuBLAS on one problem, live or recorded.

    ``config``: the ``-D`` names, empty for the kernel as written. Samples are milliseconds a
    launch. A variant that nobody recorded has no samples: ``missing`` says why, every number is
    NaN, and a page that shows them goes on.
    """

    kernel: str
    config: Mapping[str, int | str]
    problem: Problem
    mode: str
    samples_ms: tuple[float, ...]
    peer_samples_ms: tuple[float, ...]
    recorded: bool
    provenance: Provenance | None = None
    check: Checked | None = None
    conditions: Conditions | None = None
    peer_conditions: Conditions | None = None
    missing: str = ""

    @property
    def clock_mhz(self) -> float:
        """Mean SM clock while it was timed, MHz; NaN where that was not read."""
        clock = self.conditions.clock_mhz if self.conditions else None
        return math.nan if clock is None else clock

    @property
    def peer_clock_mhz(self) -> float:
        """The same while cuBLAS ran; the kernel's own in burst mode, where both take turns."""
        conditions = self.peer_conditions or self.conditions
        clock = conditions.clock_mhz if conditions else None
        return math.nan if clock is None else clock

    @property
    def report(self) -> str:
        """What the result was compared with before it was timed, and how it came out."""
        return self.check.report if self.check else self.missing

    @property
    def ms(self) -> float:
        """Median milliseconds a launch."""
        return samples.median(self.samples_ms) if self.samples_ms else math.nan

    @property
    def peer_ms(self) -> float:
        """The same of cuBLAS."""
        return samples.median(self.peer_samples_ms) if self.peer_samples_ms else math.nan

    @property
    def tflops(self) -> float:
        """Rate at the median time, 1e12 floating-point operations a second."""
        return samples.tflops(self.problem.flop, self.ms)

    @property
    def peer_tflops(self) -> float:
        """The same of cuBLAS."""
        return samples.tflops(self.problem.flop, self.peer_ms)

    @property
    def ratio(self) -> float:
        """Speed as a fraction of cuBLAS: median over adjacent pairs of its time over ours."""
        if self.missing:
            return math.nan
        return samples.ratio(self.samples_ms, self.peer_samples_ms)

    @property
    def ratio_spread(self) -> tuple[float, float]:
        """5th and 95th percentile of that ratio over the pairs."""
        if self.missing:
            return math.nan, math.nan
        return samples.ratio_spread(self.samples_ms, self.peer_samples_ms)

    @property
    def label(self) -> str:
        """Which GPU, when, and whether live; for beside a plot."""
        where = self.provenance
        if self.missing:
            return "no recording of this variant"
        if not self.recorded:
            return f"{where.gpu}, this machine, live"
        told = where.label
        if where.nvrtc != nvrtc_version():
            told += f" with NVRTC {where.nvrtc}"
        return told

    def __str__(self) -> str:
        if self.missing:
            return self.missing
        low, high = self.ratio_spread
        return (
            f"{self.kernel} ({configuration(dict(self.config))}) at {size_of(self.problem)}, "
            f"{self.mode}: {self.ms:.4g} ms, {self.tflops:.1f} TFLOPS, {self.ratio:.1%} of cuBLAS "
            f"({low:.1%}–{high:.1%} over {len(self.samples_ms)} pairs) [{self.label}]"
        )


def measure(
    kernel: str | Program, problem: Problem, *, mode: str = "burst", **defines: int | str
) -> Measurement:
    """Time a kernel beside cuBLAS on this machine's Hopper GPU, or load the recording.

    ``kernel``: a name, compiled with ``defines``, or a compiled Program. A live result is checked
    before it is timed, and kept in the reader's cache folder. Without a GPU, a variant that was
    not recorded comes back with ``missing`` set. Raises CheckError for a wrong result, and
    RecordError for a record that is damaged.
    """
    program = _program(kernel, mode, defines)
    gpu = available()
    if gpu is None:
        try:
            return recorded(program, problem, mode=mode)
        except NoRecording as error:
            return _missing(program, problem, mode, str(error))
    entry = timed_entry(gpu, program, problem, mode, own=True)
    save_own(entry)
    return _of_entry(entry, recorded=False)


def beside_recording(measurement: Measurement) -> list[Measurement]:
    """A live measurement and the recorded one of the same variant, for one plot.

    Only the measurement itself where it is the recorded one.
    """
    if measurement.recorded:
        return [measurement]
    kernel, problem, mode = measurement.kernel, measurement.problem, measurement.mode
    try:
        return [measurement, recorded(kernel, problem, mode=mode, **measurement.config)]
    except NoRecording as error:
        program = compile_kernel(kernel, **measurement.config)
        return [measurement, _missing(program, problem, mode, str(error))]


def recorded(
    kernel: str | Program,
    problem: Problem,
    *,
    mode: str = "burst",
    gpu: str = GPU,
    **defines: int | str,
) -> Measurement:
    """The recorded timing of this variant, on every machine. Raises NoRecording without one.

    A variant is found by what it compiles to, so ``-D`` names that only repeat the defaults find
    the kernel as written. Under another compiler than the recording's it is found by its
    ``-D`` names, and the label says so.
    """
    program = _program(kernel, mode, defines)
    wanted = identity_of(program)
    record = load(program.kernel, gpu)
    changed = None
    for found, identity in _timings(record.entries, problem, mode):
        if same_code(identity, wanted):
            return found
        if identity.defines == wanted.defines:
            if identity.nvrtc != wanted.nvrtc:
                return found
            changed = found
    why = f"{program.kernel} changed since {changed.provenance.date[:10]}" if changed else ""
    raise NoRecording(
        f"{program.kernel} ({configuration(wanted.defines)}) at {size_of(problem)}, {mode}: no "
        f"recording of this variant{': ' if why else ''}{why}; run on a Hopper GPU, or use what is "
        f"recorded: {recorded_list(record)}"
    )


def _program(kernel: str | Program, mode: str, defines: dict) -> Program:
    if mode not in MODES:
        raise ProblemError(f"mode={mode!r}: a timing is {' or '.join(MODES)}")
    if isinstance(kernel, str):
        return compile_kernel(kernel, **defines)
    if defines:
        raise ProblemError(
            f"{', '.join(defines)} for a compiled {kernel.kernel}: -D names go to the compiler; "
            f"pass them to compile_kernel, or pass the kernel's name here"
        )
    return kernel


def _timings(entries, problem: Problem, mode: str) -> Iterator[tuple[Measurement, Any]]:
    """Every recorded timing of a problem, those inside tuning tables last, with its identity."""
    wanted = [e for e in entries if getattr(e.data, "problem", None) == problem]
    for entry in wanted:
        if isinstance(entry.data, Timing) and entry.data.mode == mode:
            yield _of_entry(entry, recorded=True), entry.identity
    for entry in wanted:
        if not isinstance(entry.data, Tuning) or mode != "burst":
            continue
        for row in entry.data.rows:
            if row.status == "timed":
                yield _of_row(entry, row), row.identity


def _missing(program: Program, problem: Problem, mode: str, why: str) -> Measurement:
    return Measurement(
        kernel=program.kernel,
        config=program.defines,
        problem=problem,
        mode=mode,
        samples_ms=(),
        peer_samples_ms=(),
        recorded=True,
        missing=why,
    )


def _of_entry(entry: Entry, *, recorded: bool) -> Measurement:
    data: Timing = entry.data
    return Measurement(
        kernel=entry.kernel,
        config=entry.identity.defines,
        problem=data.problem,
        mode=data.mode,
        samples_ms=data.samples_ms,
        peer_samples_ms=data.peer_samples_ms,
        provenance=entry.provenance,
        check=data.check,
        conditions=data.conditions,
        peer_conditions=data.peer_conditions,
        recorded=recorded,
    )


def _of_row(entry: Entry, row: TuningRow) -> Measurement:
    return Measurement(
        kernel=entry.kernel,
        config=row.defines,
        problem=entry.data.problem,
        mode="burst",
        samples_ms=row.samples_ms,
        peer_samples_ms=row.peer_samples_ms,
        recorded=True,
        provenance=entry.provenance,
        check=row.check,
    )


# From here on a GPU is needed.


@dataclass(frozen=True, eq=False)
class Pair:
    """A kernel and cuBLAS, ready to launch on the same checked problem."""

    run: Callable[[], None]
    peer: Callable[[], None]
    check: Checked


def inputs_on(gpu: HopperGpu, problem: Problem) -> tuple[Any, Any]:
    """A problem's A and B as CuPy arrays."""
    a, b = problem.inputs()
    return gpu.array(a), gpu.array(b)


def checked_pair(program: Program, a, b, *, blocks: int | None = None, places: str = "gpc") -> Pair:
    """Run the kernel and cuBLAS once on A (M, K) and B (N, K), CuPy, and compare.

    ``blocks``, ``places``: as ``plan`` takes them. Raises CheckError when the kernel's result is
    wrong: nothing unchecked is timed.
    """
    import cupy

    shape = (a.shape[0], b.shape[0])
    c, peer_c = (filled_with_nan(cupy, shape, program.facts.dtype) for _ in range(2))
    launch = plan(program, a, b, c, blocks=blocks, places=places)
    transposed = b.T

    def peer() -> None:
        cupy.matmul(a, transposed, out=peer_c)

    launch.run()
    peer()
    fp16_sums = bool(program.facts.fp16_sums)
    return Pair(launch.run, peer, Checked.of(check(c, a, b, peer=peer_c, fp16_sums=fp16_sums)))


@dataclass(frozen=True)
class Timed:
    """What ``interleaved`` measured; the fields are those of ``hopper.schema.Timing``."""

    samples_ms: tuple[float, ...]
    peer_samples_ms: tuple[float, ...]
    launches_per_sample: int
    warm_up: int
    conditions: Conditions
    peer_conditions: Conditions | None


def timed_entry(
    gpu: HopperGpu, program: Program, problem: Problem, mode: str, *, own: bool, arrays=None
) -> Entry:
    """Check, then time ``program`` on a GPU; ``arrays`` are A and B if they are there already."""
    # Imported late: the module is also a command, which must not be loaded twice.
    from hopper.provenance import collect

    provenance = collect(gpu, program.nvrtc, own=own)
    pair = checked_pair(program, *(arrays or inputs_on(gpu, problem)))
    timed = interleaved(gpu, pair.run, pair.peer, mode=mode)
    data = Timing(
        problem=problem,
        mode=mode,
        peer=PEER,
        warm_up=timed.warm_up,
        launches_per_sample=timed.launches_per_sample,
        samples_ms=timed.samples_ms,
        peer_samples_ms=timed.peer_samples_ms,
        conditions=timed.conditions,
        peer_conditions=timed.peer_conditions,
        check=pair.check,
    )
    return Entry(program.kernel, "timing", identity_of(program), provenance, data)


def interleaved(
    gpu: HopperGpu,
    run: Callable[[], None],
    peer: Callable[[], None],
    *,
    mode: str = "burst",
    rounds: int = ROUNDS,
) -> Timed:
    """Time two launches in turns on the current stream; both were run at least once before.

    ``rounds``: of sustained mode, blocks of each that count.
    """
    clocks = Clocks(gpu)
    estimate = _estimate(clocks, run, peer)
    if mode == "sustained":
        return _sustained(clocks, run, peer, estimate, rounds)
    return _burst(clocks, run, peer, estimate)


@dataclass(frozen=True)
class Estimate:
    """What warming up showed: milliseconds a launch, and host time to queue one of each.

    ``launches``: how many of each there were.
    """

    own_ms: float
    peer_ms: float
    queueing_ns: float
    launches: int

    @property
    def pair_ms(self) -> float:
        """A launch of each."""
        return self.own_ms + self.peer_ms


class Clocks:
    """The clock probe, which also is the gate that holds the GPU while launches are queued.

    Everything is queued on CuPy's current stream.
    """

    def __init__(self, gpu: HopperGpu) -> None:
        import cupy

        self._gpu, self._cupy = gpu, cupy
        self._program = power.probe_program()
        self._discard = self._buffer()
        # The first launch loads the module, which must not happen inside a timed region.
        self.gate(0)
        gpu.synchronize()

    def _buffer(self):
        return self._cupy.zeros((power.SM_SLOTS, 4), "uint64")

    def _launch(self, out, blocks: int, spin_ns: int) -> None:
        spin = numpy.uint32(min(spin_ns, 2**32 - 1))
        self._gpu.launch(self._program, (blocks, 1, 1), (1, 1, 1), (out, spin), 0)

    def gate(self, spin_ns: int) -> None:
        """Hold the stream for ``spin_ns``."""
        self._launch(self._discard, 1, spin_ns)

    def probe(self):
        """Queue a reading of every SM's counters; returns the buffer it will be in."""
        out = self._buffer()
        # One block an SM: the scheduler fills empty SMs first, and one it leaves out is not read.
        self._launch(out, self._gpu.sm_count, SPIN_NS)
        return out

    def event(self):
        """Queue an event."""
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def elapsed(self, start, end) -> float:
        """Milliseconds between two events that have happened."""
        return self._cupy.cuda.get_elapsed_time(start, end)

    def wait(self, event) -> None:
        """Wait until an event has happened; what was queued after it goes on."""
        event.synchronize()

    def synchronize(self) -> None:
        """Wait for everything queued."""
        self._gpu.synchronize()

    def read(self, before, after) -> tuple[float | None, float | None]:
        """Mean clock between two probes, and during the second one's spin, in MHz."""
        first, second = self._gpu.numpy(before), self._gpu.numpy(after)
        return power.region_clock_mhz(first, second), power.spin_clock_mhz(second)


def _estimate(clocks: Clocks, run, peer) -> Estimate:
    """Warm up, and learn how long a launch of each takes on the GPU and on the host."""
    for _ in range(WARM_UP):
        run()
        peer()
    clocks.synchronize()
    queued = time.perf_counter_ns()
    for _ in range(WARM_UP):
        run()
        peer()
    queueing_ns = (time.perf_counter_ns() - queued) / WARM_UP
    clocks.gate(gate_ns(queueing_ns, WARM_UP))
    start = clocks.event()
    for _ in range(WARM_UP):
        run()
    middle = clocks.event()
    for _ in range(WARM_UP):
        peer()
    end = clocks.event()
    clocks.synchronize()
    own_ms, peer_ms = (clocks.elapsed(*span) / WARM_UP for span in ((start, middle), (middle, end)))
    # An idle GPU takes some milliseconds to raise its clock.
    more = min(1000, math.ceil(WARM_UP_MS / (own_ms + peer_ms)))
    for _ in range(more):
        run()
        peer()
    return Estimate(own_ms, peer_ms, queueing_ns, 3 * WARM_UP + more)


def launches_per_sample(launch_ms: float) -> int:
    """How many launches go between two events so that a sample spans at least SAMPLE_MS."""
    return max(1, math.ceil(SAMPLE_MS / launch_ms))


def pairs_for(pair_ms: float) -> int:
    """How many pairs of samples fit a burst: at least ten, at most PAIRS."""
    return max(10, min(PAIRS, int(BURST_MS / pair_ms)))


def gate_ns(queueing_ns: float, launches: int) -> int:
    """How long the GPU is held so that ``launches`` of both are queued before the first starts."""
    return int(2 * queueing_ns * launches) + 50_000


def lead_ins(estimate: Estimate) -> int:
    """How many launches of each go untimed behind a gate; 0 where the host needs no gate."""
    if estimate.queueing_ns <= QUEUEING_SHARE * 1e6 * estimate.pair_ms:
        return 0
    return math.ceil(LEAD_IN_MS / estimate.pair_ms)


def _burst(clocks: Clocks, run, peer, estimate: Estimate) -> Timed:
    launches = launches_per_sample(min(estimate.own_ms, estimate.peer_ms))
    pairs = pairs_for(launches * estimate.pair_ms)
    leading = lead_ins(estimate)
    triples = []
    with power.Sampler() as sampler:
        # A head start of a pair of samples, which a host that keeps ahead does not lose again.
        clocks.gate(gate_ns(estimate.queueing_ns, max(10, launches)))
        started = time.monotonic()
        before = clocks.probe()
        for _ in range(pairs):
            if leading:
                clocks.gate(gate_ns(estimate.queueing_ns, leading + launches))
                # Straight behind the gate, the side timed first would pay for the pause, in every
                # pair. So each is timed behind the other, as in a row of pairs without gates.
                for _ in range(leading):
                    run()
                for _ in range(leading):
                    peer()
            start = clocks.event()
            for _ in range(launches):
                run()
            middle = clocks.event()
            for _ in range(launches):
                peer()
            triples.append((start, middle, clocks.event()))
        after = clocks.probe()
        clocks.synchronize()
        window = (started, time.monotonic())
    clock, spin = clocks.read(before, after)
    return Timed(
        _milliseconds(clocks, [(start, middle) for start, middle, _ in triples], launches),
        _milliseconds(clocks, [(middle, end) for _, middle, end in triples], launches),
        launches,
        estimate.launches + leading,
        power.conditions(sampler.readings, [window], [clock], [spin]),
        None,
    )


def _milliseconds(clocks, spans, launches: int) -> tuple[float, ...]:
    return tuple(round(clocks.elapsed(start, end) / launches, 6) for start, end in spans)


@dataclass(frozen=True)
class _Block:
    ms: float
    window: tuple[float, float]
    clock_mhz: float | None
    spin_mhz: float | None


def _sustained(clocks: Clocks, run, peer, estimate: Estimate, rounds: int = ROUNDS) -> Timed:
    fastest = min(estimate.own_ms, estimate.peer_ms)
    if fastest < SUSTAINED_LEAST_MS:
        raise ProblemError(
            f"a launch takes {fastest:.3g} ms: sustained mode needs {SUSTAINED_LEAST_MS} ms, "
            f"or the GPU waits for the next launch; use a larger problem, or burst mode"
        )
    half = math.ceil(BLOCK_MS / 2 / max(estimate.own_ms, estimate.peer_ms))
    blocks: tuple[list[_Block], list[_Block]] = ([], [])
    with power.Sampler() as sampler:
        for _ in range(1 + rounds):
            for side, launch in zip(blocks, (run, peer), strict=True):
                side.append(_block(clocks, launch, half))
    own, theirs = ([block for block in side[1:]] for side in blocks)
    return Timed(
        tuple(block.ms for block in own),
        tuple(block.ms for block in theirs),
        half,
        estimate.launches + 2 * half,
        _block_conditions(sampler.readings, own),
        _block_conditions(sampler.readings, theirs),
    )


def _block(clocks: Clocks, launch, half: int) -> _Block:
    """Launch for about a second, and time the second half of it."""
    for _ in range(half):
        launch()
    before = clocks.probe()
    start = clocks.event()
    for _ in range(half):
        launch()
    end = clocks.event()
    after = clocks.probe()
    clocks.synchronize()
    finished = time.monotonic()
    elapsed = clocks.elapsed(start, end)
    clock, spin = clocks.read(before, after)
    return _Block(round(elapsed / half, 6), (finished - elapsed / 1e3, finished), clock, spin)


def _block_conditions(readings, blocks: list[_Block]) -> Conditions:
    return power.conditions(
        readings,
        [block.window for block in blocks],
        [block.clock_mhz for block in blocks],
        [block.spin_mhz for block in blocks],
    )
