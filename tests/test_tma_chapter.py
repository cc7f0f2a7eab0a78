"""The chapter on TMA and mbarrier: its kernels, its experiments on a GPU that is played."""

import importlib
import json
import math
import sys
from dataclasses import asdict, dataclass
from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper import exercises
from hopper.backends import find_hopper
from hopper.compile import compile_kernel
from hopper.conformance import mbarrier as conformance
from hopper.counters import Profiled
from hopper.emulator import Emulator, EmulatorError
from hopper.emulator.backend import EmulatedGpu
from hopper.emulator.mbarrier import Mbarriers
from hopper.errors import CheckError, CompileError, HopperError, ProblemError
from hopper.experiments import experiments_of, tma_mbarrier, under_ncu
from hopper.experiments.tma_launches import (
    REDUCTIONS,
    Ring,
    copied,
    copy_launch,
    random_words,
    reduced,
    whole_numbers,
)
from hopper.paths import ROOT
from hopper.schema import Metric, Probe, Profile, Sweep, parse

# The package exports the function under the module's name.
mbarrier_stepper = importlib.import_module("hopper.figures.mbarrier_stepper")
KERNELS = ("tma_copy", "tma_ring", "tma_multicast", "tma_reduce")
schedules = st.sampled_from(
    [
        Emulator(),
        Emulator(tma="eager", shared_skew=16),
        *(Emulator(schedule="random", tma="random", seed=seed) for seed in range(5)),
    ]
)


# ---- the kernels --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.sampled_from((0, 32, 64, 128)), st.integers(1, 300), st.integers(1, 40), schedules)
def test_a_copy_of_any_shape_is_exact_and_breaks_no_rule(swizzle, m, pieces, emulator):
    program = compile_kernel("tma_copy", SWIZZLE=swizzle)
    matrix = random_words(m, 8 * pieces).astype("uint16")
    out = numpy.full_like(matrix, 7)
    run = copy_launch(EmulatedGpu(emulator), program, matrix, out)()
    assert (out == matrix).all() and run.hazards == ()


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from((None, True, False)),
    st.integers(1, 5),
    st.sampled_from((16, 32)),
    st.integers(1, 70),
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(1, 2),
    schedules,
)
def test_a_ring_reads_every_box_once_and_counts_its_bytes(
    multicast, stages, rows, m, pieces, boxes, readers, emulator
):
    ring, matrix = Ring(stages, rows, multicast), random_words(m, 4 * pieces)
    blocks = readers * ring.cluster
    start, *outputs = ring.launch(EmulatedGpu(emulator), ring.compile(), matrix, boxes, blocks)
    run = start()
    for got, right in zip(outputs, ring.expected(matrix, boxes, blocks), strict=True):
        assert (got == right).all()
    assert run.hazards == ()
    # What the kernel counts is what was announced, and what TMA reported.
    announced = sum(one.detail["bytes"] for one in run.trace.of("mbarrier.arrive"))
    landed = sum(one.detail["bytes"] for one in run.trace.of("mbarrier.complete_tx"))
    assert announced == landed == int(outputs[1].sum()) == boxes * ring.box_bytes * ring.cluster


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(sorted(REDUCTIONS)),
    st.integers(1, 4),
    st.integers(1, 130),
    st.integers(1, 17),
    schedules,
)
def test_a_reduction_adds_every_plane_once(way, count, m, pieces, emulator):
    planes, out = whole_numbers(count, m, 4 * pieces), whole_numbers(m, 4 * pieces)
    got = reduced(EmulatedGpu(emulator), way, planes, out)
    assert (got == out + planes.sum(axis=0)).all()


def test_rings_expected_sums_are_those_of_a_loop():
    ring, matrix = Ring(1, 16), random_words(20, 40)
    sums, received = ring.expected(matrix, boxes=5, blocks=2)
    padded = numpy.zeros((32, 64), "uint32")
    padded[:20, :40] = matrix
    thread, block, total = 77, 1, 0
    for box in (1, 3):  # of four, which lie two side by side
        tile = padded[16 * (box // 2) :, 32 * (box % 2) :][:16, :32].ravel()
        total += sum(int(word) for word in tile[4 * thread : 4 * thread + 4])
    assert int(sums[block, thread]) == total % (1 << 32)
    assert received.tolist() == [3 * 2048, 2 * 2048]


@pytest.mark.parametrize(
    ("kernel", "defines", "rule"),
    [
        ("tma_copy", {"SWIZZLE": 16}, "spans of 32, 64 or 128 bytes"),
        ("tma_ring", {"BOX_M": 24}, "whole number of pieces"),
        ("tma_ring", {"STAGES": 15, "BOX_M": 128}, "lies in shared memory"),
        ("tma_multicast", {"STAGES": 15, "BOX_M": 128}, "lies in shared memory"),
        ("tma_reduce", {"WAY": 3}, "three ways"),
    ],
)
def test_a_variant_that_breaks_a_rule_does_not_compile(kernel, defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel(kernel, **defines)


def test_rows_that_are_no_multiple_of_16_bytes_and_matrices_that_differ_are_refused():
    program, here = compile_kernel("tma_copy"), EmulatedGpu()
    with pytest.raises(ProblemError, match="requires a positive multiple of 16"):
        copied(here, program, random_words(64, 68).astype("uint16"))
    matrix = random_words(64, 64).astype("uint16")
    with pytest.raises(ProblemError, match="of one shape"):
        copy_launch(here, program, matrix, matrix[:32])


# ---- the experiments, on a GPU that is played ---------------------------------------------------


@dataclass(frozen=True)
class PlayedGpu(EmulatedGpu):
    """The emulator, asked for as a GPU is. ``fault``: of the first element of what it returns."""

    sm_count: int = 2
    fault: int = 0

    def numpy(self, device):
        found = numpy.array(device)
        found.flat[0] += found.dtype.type(self.fault)
        return found


class Copyable(numpy.ndarray):
    """An array whose ``data`` is copied to as CuPy's is."""

    @property
    def data(self):
        return SimpleNamespace(array=self, copy_from_device_async=self.copy_from)

    def copy_from(self, source, size):
        assert size == self.nbytes
        self[...] = source.array


def profiled(sectors=(100, 50, 50, 25, 25, 20), metric="lts__t_sectors.sum"):
    """ncu, played: it sees as many kernels as ``sectors``, and returns these counts."""

    def profile(command, *, timeout, environment, metrics):
        assert command[1:] == ["-m", "hopper.experiments.tma_mbarrier"]
        seen = [Profile("tma_multicast", {metric: Metric(n, "sector")}) for n in sectors]
        return Profiled("ncu", tuple(seen), ())

    return profile


@pytest.fixture
def played(monkeypatch):
    """CuPy, as far as the experiments use it, and small sizes. A launch takes 100 ms."""
    event = SimpleNamespace(record=lambda: None, synchronize=lambda: None)
    cuda = SimpleNamespace(Event=lambda: event, get_elapsed_time=lambda start, end: 100.0)

    def made(name):
        return lambda *args, **options: getattr(numpy, name)(*args, **options).view(Copyable)

    names = ("arange", "empty_like", "ones", "zeros")
    made_by = {name: made(name) for name in names}
    monkeypatch.setattr(under_ncu, "profile", profiled())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, **made_by))
    for name, small in {
        "ROUNDS": 1,
        "MOST_LAUNCHES": 1,
        "COPY_SIDES": (64, 128),
        "RING_SIDES": {"memory": 128, "L2": 64},
        "RING_BYTES": 1 << 15,
        "FLUSH_BYTES": 1 << 10,
        "CHECKED": (20, 40),
        "BOX_KB": (2, 4),
        "STAGES": (1, 3),
        "SWEPT_KB": (2, 4),
        "PAIR_STAGES": (1, 2),
        "PAIR_KB": 4,
        "TURNS": 5,
        "PLANES": (1, 3),
        "REDUCED_SIDE": 96,
    }.items():
        monkeypatch.setattr(tma_mbarrier, name, small)
    return PlayedGpu()


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_measured_survives_a_record(played, kernel):
    for one in experiments_of(kernel):
        data = one.run(played, compile_kernel(kernel))
        assert data.name == one.name and isinstance(data, Sweep | Probe)
        written = json.loads(json.dumps(asdict(data)))
        assert parse(type(data), written, "record", "data") == data


def test_the_rates_are_bytes_over_seconds(played):
    by_name = {(one.kernel, one.name): one for one in tma_mbarrier.EXPERIMENTS}

    def recorded(kernel, name):
        return by_name[kernel, name].run(played, compile_kernel(kernel)).series

    copy = recorded("tma_copy", "copy")
    assert set(copy) == {"swizzle 0", "swizzle 32", "swizzle 64", "swizzle 128", "cudaMemcpy"}
    for values in copy.values():  # read and written, two bytes an element, in a tenth of a second
        assert values == pytest.approx((2 * 2 * 64**2 / 1e8, 2 * 2 * 128**2 / 1e8))
    assert recorded("tma_ring", "turn")["L2"] == pytest.approx([1e8 / 5] * 2)
    for name in ("memory", "L2"):  # both are read in passes of as many bytes
        moved = max(4 * tma_mbarrier.RING_SIDES[name] ** 2, tma_mbarrier.RING_BYTES)
        for values in recorded("tma_ring", name).values():
            assert values == pytest.approx([moved / 1e8] * 2)
        for values in recorded("tma_multicast", name).values():
            assert values == pytest.approx([2 * moved / 1e8] * 2)
    # ncu's counts come in the order of the launches: two stage counts of each way.
    arrived = 2 * max(4 * tma_mbarrier.RING_SIDES["L2"] ** 2, tma_mbarrier.RING_BYTES)
    shares = [100 * 32 * n / arrived for n in (100, 50, 50, 25, 25, 20)]
    counted = recorded("tma_multicast", "sectors")
    assert list(counted) == ["two loads", "multicast", "multicast, block scope"]
    assert [one for values in counted.values() for one in values] == pytest.approx(shares)
    for values in recorded("tma_reduce", "reduce").values():
        assert values == pytest.approx([planes * 4 * 96**2 / 1e8 for planes in (1, 3)])


@pytest.mark.parametrize(("kernel", "name"), [("tma_copy", "copy"), ("tma_copy", "promotion"),
    ("tma_ring", "turn"), ("tma_ring", "L2"), ("tma_multicast", "memory"),
    ("tma_reduce", "reduce")])  # fmt: skip
def test_a_single_wrong_element_is_not_recorded(played, kernel, name):
    one = next(one for one in experiments_of(kernel) if one.name == name)
    with pytest.raises(CheckError, match="1 of .* elements are wrong"):
        one.run(PlayedGpu(fault=1), compile_kernel(kernel))


def test_a_timed_ring_that_reads_something_else_is_not_recorded(played, monkeypatch):
    right = Ring.launch

    def short(self, gpu, program, matrix, boxes, blocks):
        return right(self, gpu, program, matrix, boxes - (boxes > 50), blocks)

    monkeypatch.setattr(Ring, "launch", short)
    monkeypatch.setattr(tma_mbarrier, "RING_BYTES", 1 << 18)
    with pytest.raises(CheckError, match="bytes arrived; nothing was recorded"):
        tma_mbarrier.ring_curves("L2", played, compile_kernel("tma_ring"))


@pytest.mark.parametrize("source", ["memory", "L2"])
def test_before_each_timed_launch_from_memory_the_cache_is_filled_with_something_else(
    played, monkeypatch, source
):
    told = []
    monkeypatch.setattr(Copyable, "sum", lambda self, *a, **k: told.append(self.size) or 0)
    launch = Ring.launch

    def noted(self, *args):
        start, sums, received = launch(self, *args)
        return lambda: (told.append(str(self.stages)), start())[1], sums, received

    monkeypatch.setattr(Ring, "launch", noted)
    rings = {"1": Ring(1, 16), "3": Ring(3, 16)}
    tma_mbarrier.ring_seconds(played, rings, source, alone=True)
    timed = told[told.index("3", told.index("3") + 1) + 1 :]  # each was checked, and tried once
    flush = tma_mbarrier.FLUSH_BYTES // 4
    before = [flush] if source == "memory" else []
    rounds = ("1", "3", "3", "1")  # ways take turns: two rounds, the first of which does not count
    assert timed == [one for name in rounds for one in (*before, name)]


def test_a_ring_that_reads_a_box_twice_is_not_measured_from_memory(played, monkeypatch):
    monkeypatch.setattr(tma_mbarrier, "TURNS", 1000)
    with pytest.raises(CheckError, match="1000 boxes of .*, so some come from the L2 cache"):
        tma_mbarrier.ring_seconds(played, {"1": Ring(1, 16)}, "memory", alone=True)
    tma_mbarrier.ring_seconds(played, {"1": Ring(1, 16)}, "L2", alone=True)


@pytest.mark.parametrize(
    ("memory", "cache", "told"),
    [
        # What the first recording had, whose boxes from 4 KB on were partly in the cache.
        ((590, 448, 491, 707, 883), (229, 246, 280, 349, 489), "2 KB from memory takes 590 ns"),
        ((590, 650, 740, 900, 1200), (229, 246, 280, 210, 489), "8 KB from L2 takes 280 ns"),
        ((590, 650, 740, 900, 1200), (229, 246, 280, 349, 1300), "32 KB takes 1200 ns from memory"),
    ],
)
def test_turns_that_cannot_be_are_not_recorded(memory, cache, told):
    with pytest.raises(CheckError, match=told):
        tma_mbarrier.require_plausible_turns({"memory": memory, "L2": cache})


def test_turns_may_differ_by_a_little_noise():
    near = (229, 246, 280, 349, 489)
    tma_mbarrier.require_plausible_turns({"memory": (590, 585, 740, 900, 1200), "L2": near})


@pytest.mark.parametrize(
    ("play", "told"),
    [
        (profiled((1, 2, 3)), "ncu saw"),
        (profiled(metric="dram__bytes_read.sum"), "lts__t_sectors.sum: ncu did not count it"),
    ],
    ids=["few", "other"],
)
def test_counters_of_other_launches_are_not_recorded(played, monkeypatch, play, told):
    monkeypatch.setattr(under_ncu, "profile", play)
    with pytest.raises(HopperError, match=told):
        tma_mbarrier.sector_curves(played, compile_kernel("tma_multicast"))


def test_what_ncu_profiles_are_the_launches_that_are_counted(played, monkeypatch):
    told = []
    monkeypatch.setattr(tma_mbarrier, "find_hopper", lambda: played)
    monkeypatch.setattr(PlayedGpu, "synchronize", lambda self: None)
    runtime = SimpleNamespace(
        profilerStart=lambda: told.append("start"), profilerStop=lambda: told.append("stop")
    )
    monkeypatch.setattr(sys.modules["cupy"].cuda, "runtime", runtime, raising=False)
    launch = Ring.launch

    def noted(self, *args):
        start, sums, received = launch(self, *args)
        return (
            lambda: told.append((self.multicast, self.cluster_scope, self.stages)),
            sums,
            received,
        )

    monkeypatch.setattr(Ring, "launch", noted)
    tma_mbarrier.launch_counted()
    ways = ((False, True), (True, True), (True, False))
    assert told == ["start", *((*way, n) for way in ways for n in (4, 12)), "stop"]


# ---- the stepper's runs -------------------------------------------------------------------------


def ended(one) -> bool:
    return one.moments[-1].kind != "end"


def test_the_runs_that_should_never_end_do_not():
    told = mbarrier_stepper.stories()
    assert {key: ended(one) for key, one in told.items()} == {
        "one": True, "ring": True, "broken0": False, "broken1": False, "broken2": False,
    }  # fmt: skip


def test_replayed_phases_are_those_of_the_trace():
    """The stepper completes a phase by its own arithmetic; the emulator says when it did."""
    program = mbarrier_stepper.changed_ring()
    run = mbarrier_stepper.ring_run(program)
    one = mbarrier_stepper.story("ring", run, program)
    seen = mbarrier_stepper.replay(one)
    addresses = sorted({e.detail["address"] for e in run.trace.of("mbarrier.init")})
    for number, address in enumerate(addresses):
        completed = [e for e in run.trace.of("mbarrier.phase") if e.detail["address"] == address]
        assert seen[-1][number].phase == len(completed) > 0
    assert [one.barriers[i] for i in range(4)] == ["full[0]", "full[1]", "empty[0]", "empty[1]"]
    assert all(not barrier.waiting for barrier in seen[-1])


def test_a_deadlock_ends_with_somebody_waiting_for_a_phase_that_lacks_something():
    for change in mbarrier_stepper.BROKEN.values():
        program = mbarrier_stepper.changed_ring(change)
        one = mbarrier_stepper.story("", mbarrier_stepper.ring_run(program), program)
        stuck = [b for b in mbarrier_stepper.replay(one)[-1] if b.waiting]
        assert stuck
        for barrier in stuck:
            assert not any(barrier.passes(parity) for _, parity in barrier.waiting)
            assert barrier.pending or barrier.tx


def test_a_wait_that_passes_at_once_is_told_and_one_that_has_waited_is_not_told_twice():
    """Each warp waits as often as the loops say: once a box; here and there it needs no waiting."""
    program = mbarrier_stepper.changed_ring()
    one = mbarrier_stepper.story("ring", mbarrier_stepper.ring_run(program), program)
    first = [m for m in one.moments if m.kind in ("wait", "pass") and 4 in m.warps][:2]
    assert [(m.kind, one.barriers[m.barrier], m.amount) for m in first] == [
        ("pass", "empty[0]", 1), ("pass", "empty[1]", 1),
    ]  # fmt: skip
    assert first[0].words.startswith("Warp 4 asks for parity 1 of empty[0]. A phase of parity 0")
    for warp in range(5):
        asked = [m for m in one.moments if m.kind in ("wait", "pass") and warp in m.warps]
        assert len(asked) == mbarrier_stepper.BOXES
        boxes = [one.barriers[m.barrier][-2] for m in asked]
        assert boxes == [str(box % 2) for box in range(mbarrier_stepper.BOXES)]
    now = [None] * len(one.barriers)
    for moment in one.moments:
        if moment.kind in ("pass", "wait"):
            goes = now[moment.barrier].passes(moment.amount)
            assert goes == (moment.kind == "pass")
        mbarrier_stepper.apply(now, moment)


def test_passes_are_told_only_while_asked_for():
    program = mbarrier_stepper.changed_ring()
    plain = mbarrier_stepper.Watch.waited
    run = mbarrier_stepper.ring_run(program)
    assert run.trace.of("mbarrier.pass") and mbarrier_stepper.Watch.waited is plain
    start, *_ = mbarrier_stepper.RING.launch(
        EmulatedGpu(mbarrier_stepper.EMULATOR), program, random_words(40, 40), 5, 1
    )
    assert not start().trace.of("mbarrier.pass")


def test_an_ending_has_the_name_that_the_emulators_message_has():
    told = {key: one.moments[-1].words for key, one in mbarrier_stepper.stories().items()}
    for key in ("broken0", "broken1", "broken2"):
        assert told[key].startswith("The emulator stops: deadlock. Every living warp waits")
    assert told["broken1"].endswith("The rule that was broken is expect-tx.")
    assert "expect-tx" not in told["broken0"] + told["broken2"]


def test_a_deadlock_in_words_folds_alike_warps_and_names_the_barriers():
    program = mbarrier_stepper.changed_ring(("unsigned parity = 1;", "unsigned parity = 0;"))
    start, *_ = mbarrier_stepper.RING.launch(EmulatedGpu(), program, random_words(40, 40), 5, 1)
    with pytest.raises(EmulatorError) as caught:
        start()
    first, *lines = mbarrier_stepper.deadlock_in_words(program, str(caught.value)).splitlines()
    assert first == str(caught.value).splitlines()[0]
    lacks = "arrivals and 0 bytes are missing"
    waits = "wait for phase 0 (parity 0) of full[0]"
    assert lines[0] == f"  block (0, 0, 0): warps 0–3 {waits}: 1 of 1 {lacks}"
    waits = "waits for phase 0 (parity 0) of empty[0]"
    assert lines[2] == f"  block (0, 0, 0): warp 4 {waits}: 4 of 4 {lacks}"
    assert "mbarrier_wait_parity(&empty[stage], parity);" in lines[3] and len(lines) == 4
    other = "line 3: something else\n  and more"
    assert mbarrier_stepper.deadlock_in_words(program, other) == other


@pytest.mark.parametrize("script", [0, 7, 20, 41, 63])
def test_a_barrier_counts_as_the_emulator_does(script):
    """A random script of operations, of those that an H200 was asked (mbarrier.script.random)."""
    (count, *rest) = conformance.RANDOM[script]
    launch = SimpleNamespace(seed=0, schedule="fixed", block_index=lambda block: (0, 0, 0))
    shared = SimpleNamespace(window=1 << 16, view=lambda kind: numpy.zeros(8, kind))
    machine = SimpleNamespace(
        launch=launch, shared=shared, watch=None, blocks=[0], event=lambda *a, **k: None,
        wake=lambda key: None,
    )  # fmt: skip
    theirs = Mbarriers(machine)
    theirs.init(0, count[1])
    mine = mbarrier_stepper.Barrier(count[1], count[1])
    for name, operand in rest:
        if name in ("drop", "drop_tx", "drop_open", "look"):
            continue  # the stepper's kernels drop nobody
        arrivals = {"arrive": operand, "arrive_open": operand, "one": 1, "arrive_tx": 1}
        bytes = {"arrive_tx": operand, "expect": operand, "complete": -operand}
        n, b = arrivals.get(name, 0), bytes.get(name, 0)
        if n > mine.pending:
            continue
        theirs._change(0, theirs._objects[0], n, b)
        mine.change(n, b)
        found = theirs._objects[0]
        assert (mine.pending, mine.tx, mine.phase) == (found.pending, found.tx, found.phase)


# ---- the exercises ------------------------------------------------------------------------------

PRODUCER = """
    unsigned parity = 1;
    if (elect_one()) {
      for (int box = blockIdx.x; box < boxes; box += gridDim.x) {
        const int tile = box % tiles, row = tile / across * BOX_M, column = tile % across * BOX_N;
        unsigned char* to = ring + stage * BOX_BYTES;
        mbarrier_wait_parity(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], __1__);
        tma_load_2d(to, &map, &full[stage], row, column);
        tma_load_2d(to + BOX_BYTES / 2, &map, &full[stage], __2__, column);
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
"""
SOLUTION = PRODUCER.replace("__1__", "BOX_BYTES").replace("__2__", "row + BOX_M / 2")


def test_the_chapter_has_this_producer():
    text = (ROOT / "chapters" / "tma_mbarrier.md").read_text(encoding="utf-8")
    assert f'producer = """{PRODUCER}"""' in text


def test_solutions_are_accepted_and_open_answers_are_no_mistakes(capsys):
    for right in (
        lambda: exercises.counts(1, 8, (128 + 96) * 64 * 2),
        lambda: exercises.parities(lambda role, n, s: n // s % 2 ^ (role == "producer")),
        lambda: exercises.in_flight(lambda turn, rate, box: math.ceil(turn * rate / box)),
        lambda: exercises.two_loads(SOLUTION),
    ):
        right()
        assert capsys.readouterr().out.startswith("right: ")
    for still_open in (
        lambda: exercises.counts(1, None, 3),
        lambda: exercises.parities(lambda *_: ...),
        lambda: exercises.in_flight(lambda *_: None),
        lambda: exercises.two_loads(PRODUCER),
        lambda: exercises.two_loads(None),
        lambda: exercises.parities(None),
        lambda: exercises.in_flight(None),
    ):
        still_open()
        assert capsys.readouterr().out.startswith("not answered yet: ")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda: exercises.counts(2, 8, 28672), "full = 2: two copies, but a copy does not"),
        (lambda: exercises.counts(3, 8, 28672), "full = 3: who executes an arrival"),
        (lambda: exercises.counts(1, 256, 28672), "empty = 256: not every thread"),
        (lambda: exercises.counts(1, 5, 28672), "empty = 5: count who says"),
        (lambda: exercises.counts(1, 8, 23552), "TMA reports a box whole"),
        (lambda: exercises.counts(1, 8, 14336), "these are elements"),
        (lambda: exercises.counts("1", 8, 28672), "full = '1' is no int"),
        (lambda: exercises.counts(True, 8, 28672), "full = True is no int"),
        (lambda: exercises.counts(1, 8, 28672.0), "announced = 28672.0 is no int"),
        (lambda: exercises.parities(lambda role, n, s: n // s % 2), "starts at parity 1"),
        (lambda: exercises.parities(lambda role, n, s: n % 2 ^ (role == "producer")), "of 2"),
        (lambda: exercises.parities(3), "3 is no function; pass one of (role, n, stages)"),
        (lambda: exercises.parities("a"), "'a' is no function"),
        (lambda: exercises.parities(lambda: 1), "raised TypeError"),
        (lambda: exercises.parities(lambda *_: numpy.zeros(2)), "array([0., 0.]), which is no int"),
        (lambda: exercises.parities(lambda *_: 1 / 0), "ZeroDivisionError: division by zero"),
        (lambda: exercises.in_flight(lambda t, r, b: int(t * r / b)), "must be under way"),
        (lambda: exercises.in_flight(lambda t, r, b: int(t * r / b) + 1), "must be under way"),
        (lambda: exercises.in_flight(lambda t, r, b: numpy.ceil(t * r / b)), "which is no int"),
        (lambda: exercises.in_flight(lambda t: 1), "(turn, rate, box) = (600.0, 10.0, 2048)"),
        (lambda: exercises.two_loads(5), "5 is no text"),
    ],
)
def test_a_wrong_answer_is_named(answer, told, capsys):
    answer()
    out = capsys.readouterr().out
    assert out.startswith("not yet: ") and told in out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("full[stage], BOX_BYTES)", "full[stage], BOX_BYTES / 2)", "expect-tx"),
        ("row + BOX_M / 2", "row", "sums are wrong"),
        ("to + BOX_BYTES / 2", "to + BOX_BYTES / 4", "copy-not-arrived"),
        ("parity = 1;", "parity = 0;", "of full[0]: 1 of 1 arrivals and 0 bytes are missing"),
        ("full[stage], BOX_BYTES)", "full[stage], BOX_BYTES + 16)", "0 of 1 arrivals and 16 bytes"),
        ("mbarrier_wait_parity(&empty[stage], parity);", "", "0 of 1 arrivals"),
        ("to + BOX_BYTES", "two + BOX_BYTES", 'identifier "two" is undefined'),
    ],
)
def test_a_wrong_producer_is_named(old, new, told, capsys):
    assert SOLUTION.count(old) == 1
    exercises.two_loads(SOLUTION.replace(old, new))
    out = capsys.readouterr().out
    assert not out.startswith("right") and told in out


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_copy_is_right_on_a_gpu(swizzle):
    program, matrix = compile_kernel("tma_copy", SWIZZLE=swizzle), random_words(1000, 504)
    matrix = matrix.astype("uint16")
    assert (copied(find_hopper(), program, matrix) == matrix).all()


@pytest.mark.hopper
@pytest.mark.parametrize("multicast", [None, True, False])
@pytest.mark.parametrize("stages", [1, 3, 8])
def test_a_ring_is_right_on_a_gpu(multicast, stages):
    for rows in (16, 64):
        tma_mbarrier.check_ring(find_hopper(), Ring(stages, rows, multicast))
    if multicast:
        tma_mbarrier.check_ring(find_hopper(), Ring(stages, 64, True, cluster_scope=False))


@pytest.mark.hopper
@pytest.mark.parametrize("way", REDUCTIONS)
def test_a_reduction_is_right_on_a_gpu(way):
    planes, out = whole_numbers(7, 513, 516), whole_numbers(513, 516)
    assert (reduced(find_hopper(), way, planes, out) == out + planes.sum(axis=0)).all()


@pytest.mark.hopper
def test_swizzles_that_disagree_do_on_a_gpu_what_they_do_in_the_emulator():
    program, tile = compile_kernel("tma_copy", SWIZZLE=128), tma_mbarrier.mismatched()
    there, here = (
        copied(gpu, program, tile, out_swizzle=0) for gpu in (find_hopper(), EmulatedGpu())
    )
    assert (there == here).all() and (here != tile).any()
