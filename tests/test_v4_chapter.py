"""The chapter on v4: its model, its figures, its experiments on a GPU that is played, exercises."""

import math
import re
import sys
from types import SimpleNamespace

import numpy
import pytest
import test_figures
from hypothesis import given
from hypothesis import strategies as st

from hopper import exercises, figures
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.counters import WANTED, Profiled
from hopper.emulator import Emulator
from hopper.errors import HopperError, ProblemError
from hopper.exercises.v4_two_consumers import registers_to_trade
from hopper.experiments import Curves, curves, experiments_of, two_consumers, under_ncu
from hopper.figures.raster import rasterized, touched, wave_bytes, waves
from hopper.figures.ring_run import ring_run
from hopper.figures.streams import Way, run_streams
from hopper.mutants import compile_mutation, mutations
from hopper.paths import KERNELS, ROOT
from hopper.records import HEADLINE, quantity
from hopper.schema import Metric, Profile

KERNEL = "v4_two_consumers"
SOURCE = (KERNELS / f"{KERNEL}.cu").read_text()
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text()
times = st.integers(1, 40).map(float)


# ---- the model of streams -----------------------------------------------------------------------


@given(load=times, product=times, gap=st.integers(0, 10).map(float), stages=st.integers(1, 6))
def test_one_consumer_takes_what_the_formula_says(load, product, gap, stages):
    run = run_streams(Way(1, 0, stages), load=load, product=product, gap=gap, steps=90)
    expected = max(product + gap, (load + product + gap) / stages)
    assert run.step_time == pytest.approx(expected)


@given(product=times, gap=st.integers(0, 40).map(float))
def test_two_consumers_hide_a_gap_that_is_no_longer_than_the_others_product(product, gap):
    run = run_streams(Way(2, 0, 6), load=0, product=product, gap=gap, steps=60)
    assert run.step_time == pytest.approx(max(product, product / 2 + gap))


@given(
    consumers=st.integers(1, 2), in_flight=st.integers(0, 1), stages=st.integers(2, 5), load=times,
    product=times, gap=st.integers(0, 10).map(float),
)  # fmt: skip
def test_the_model_keeps_its_own_rules(consumers, in_flight, stages, load, product, gap):
    steps = 12
    run = run_streams(
        Way(consumers, in_flight, stages), load=load, product=product, gap=gap, steps=steps
    )
    assert len(run.groups) == consumers * steps
    for before, after in zip(run.groups, run.groups[1:], strict=False):
        assert after.begin >= before.end - 1e-9, "the tensor cores do one group at a time"
    by_step = {(g.consumer, g.step): g for g in run.groups}
    for group in run.groups:
        assert group.issued <= group.begin and group.released >= group.end + gap - 1e-9
        if group.step >= stages:
            freed = max(by_step[c, group.step - stages].released for c in range(consumers))
            assert group.issued >= freed + load - 1e-9, "tiles that have not landed"
        later = by_step.get((group.consumer, group.step + 1 + in_flight))
        assert later is None or later.issued >= group.end, "more groups in flight than allowed"


def test_steps_too_few_for_the_model_to_settle_are_refused():
    run = run_streams(Way(1, 0, 6), load=1, product=1, gap=0, steps=4)
    with pytest.raises(ProblemError, match="4 steps: the model settles later"):
        run.step_time  # noqa: B018


# ---- the order of tiles -------------------------------------------------------------------------

ORDER = r"""
#include "raster.cuh"
extern "C" __global__ void order(int* out) {
  const Tile tile = rasterized<WIDTH>();
  const int block = blockIdx.y * gridDim.x + blockIdx.x;
  out[2 * block] = tile.row;
  out[2 * block + 1] = tile.column;
}
"""


@pytest.mark.parametrize("width", [0, 1, 3, 4, 16])
@pytest.mark.parametrize("grid", [(4, 3), (7, 2), (1, 5), (9, 1)], ids=str)
def test_the_raster_in_python_is_that_of_the_header(width, grid):
    program = compile_cuda(ORDER, "order", defines={"WIDTH": width})
    out = numpy.zeros((grid[0] * grid[1], 2), "int32")
    Emulator().launch(program.ptx, "order", (*grid, 1), (1, 1, 1), args=(out,))
    expected = [rasterized(block, *grid, width) for block in range(len(out))]
    assert [tuple(pair) for pair in out.tolist()] == expected
    assert len(set(expected)) == len(out), "a tile is computed twice"


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 9), st.integers(1, 40))
def test_what_waves_need_lies_between_the_matrices_once_and_everything(
    rows, columns, width, running
):
    total = wave_bytes(rows, columns, width, running=running, a_bytes=3, b_bytes=5)
    assert 3 * rows + 5 * columns <= total <= 8 * rows * columns
    assert sum(len(one) for one in waves(rows, columns, running)) == rows * columns
    alone = wave_bytes(rows, columns, width, running=1, a_bytes=3, b_bytes=5)
    assert alone == 8 * rows * columns, "a block alone shares nothing"


def test_the_patch_of_the_page():
    first = range(132)
    assert touched(first, 64, 32, 0) == (64, 3) and touched(first, 64, 32, 16) == (16, 9)
    amounts = {
        width: wave_bytes(64, 32, width, running=132, a_bytes=128, b_bytes=256)
        for width in two_consumers.WIDTHS
    }
    assert min(amounts, key=amounts.get) == 16
    assert amounts[0] == max(amounts.values()) == amounts[64]


# ---- figures ------------------------------------------------------------------------------------


def drawings():
    return {
        "streams": figures.streams(
            [("one", Way(1)), ("two", Way(2))], load=8, product=8, gap=1, steps=5, title="Streams",
            alt="Two rows of products.",
        ),
        "patch": figures.raster_patch((0, 16), 64, 32, 132, tile=(128, 256)),
        "last wave": figures.raster_patch((1, 4), 22, 12, 132, wave=1),
        "pool": figures.register_pool(168, [("consumer 0", 232), ("consumer 1", 232), ("p", 40)]),
        "narrow": figures.register_pool(128, [("a", 152), ("b", 152), ("c", 152), ("load", 56)]),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(drawings()))
def test_a_drawing_is_well_formed_legible_and_on_its_sheet(name):
    drawing = drawings()[name]
    test_figures.test_svg_is_well_formed_and_speaks(drawing)
    test_figures.test_text_is_legible_on_a_phone(drawing)
    test_figures.test_everything_lies_on_the_sheet(drawing)
    test_figures.test_every_colour_is_a_variable_of_the_palette_with_its_light_fallback(drawing)


def test_drawings_say_what_they_count():
    every = drawings()
    assert "64 rows of tiles of A and 3 columns of B" in every["patch"].alt
    assert "16 rows of tiles of A and 9 columns of B" in every["patch"].alt
    assert "64,512 of 64,512" in every["pool"].alt
    assert every["streams"].svg.count(">0</text>") == 3, "step 0 once, and in two halves"
    for matrix in "AB":
        assert every["patch"].svg.count(f">{matrix}</text>") == 2, "in both halves"


def test_the_patch_is_drawn_in_the_shape_of_the_matrix():
    square = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawings()["patch"].svg)
    assert float(square[1]) == pytest.approx(float(square[2]), abs=0.1), "8192 by 8192"
    assert "tile=(tile.tile_m, tile.tile_n)" in PAGE


@pytest.mark.parametrize(
    ("draw", "why"),
    [
        (lambda: figures.register_pool(176, [("a", 8)] * 3), "an SM has 512"),
        (lambda: figures.register_pool(168, [("a", 240), ("b", 232), ("c", 40)]), "512 .*504"),
        (lambda: figures.register_pool(8, [("a", 8)] * 5), "at most 4"),
        (lambda: figures.raster_patch((0, 1), 4, 4, 8, wave=2), "from 0 on"),
        (lambda: figures.raster_patch((0, 1), 400, 32, 8), "do not fit"),
        (
            lambda: figures.streams([], load=1, product=1, gap=0, steps=1, title="t", alt="a"),
            "at least one",
        ),
    ],
)
def test_a_drawing_that_cannot_be_is_refused(draw, why):
    with pytest.raises(ProblemError, match=why):
        draw()


@pytest.mark.parametrize(
    ("kernel", "defines"),
    [
        ("v3_specialized", {"TILE_M": 64, "TILE_N": 24, "STAGES": 3}),
        (KERNEL, {"TILE_N": 64, "STAGES": 2}),
        (KERNEL, {"TILE_N": 16, "STAGES": 4}),
    ],
)
def test_stages_are_named_where_copies_put_them(kernel, defines):
    run, program = ring_run(kernel, 2 * defines["STAGES"], **defines)
    names = figures.ring_names(program)
    stages = [names[event.detail["writes"][1]] for event in run.trace.of("tma.copy")]
    expected = [
        f"{matrix}, stage {step % defines['STAGES']}"
        for step in range(2 * defines["STAGES"])
        for matrix in "AB"
    ]
    assert stages == expected


def test_in_the_timeline_one_consumer_waits_while_a_group_of_the_other_runs():
    at_random = Emulator(schedule="random", tma="random", seed=1)
    assert 'Emulator(schedule="random", tma="random", seed=1)' in PAGE
    run, _ = ring_run(KERNEL, 4, at_random, TILE_N=64, STAGES=2)
    spans = {}
    for warp in (0, 4):
        mine = [e for e in run.trace.events if e.warp == warp]
        issued = [e.step for e in mine if e.kind == "wgmma.issue"][::4]
        retired = [e.step for e in mine if e.kind == "wgmma.wait"]
        spans[warp] = list(zip(issued, retired, strict=True))
    (_, retired), (next_issue, end) = spans[0][:2]
    assert retired < spans[4][1][0] < next_issue, "consumer 1 is in its second step, 0 waits"
    waits = [event.step for event in run.trace.of("wgmma.wait")]
    assert waits[3] == end, "and the window of the page shows two steps of both"


# ---- registers ----------------------------------------------------------------------------------


def test_what_the_page_says_about_registers():
    program = compile_kernel(KERNEL)
    assert program.resources.registers == 168 and 2 * 232 + 40 == 3 * 168
    without = re.sub(r"setmaxnreg_(inc|dec)<\d+>\(\);", "", SOURCE)
    for m, n, stages, fits in ((128, 256, 4, True), (256, 128, 4, True), (256, 192, 3, False)):
        shape = {"TILE_M": m, "TILE_N": n, "STAGES": stages}
        compile_cuda(SOURCE, KERNEL, defines=shape).require_clean()
        spilled = compile_cuda(without, KERNEL, defines=shape).resources.spill_stores
        assert (spilled == 0) is fits


def test_a_bound_on_threads_is_enough_and_none_is_not():
    assert SOURCE.count("__launch_bounds__(THREADS, 1)") == 1
    for bound, said in (("__launch_bounds__(THREADS)", False), ("", True)):
        text = SOURCE.replace("__launch_bounds__(THREADS, 1)", bound)
        assert ("C7508" in compile_cuda(text, KERNEL).log) is said


@pytest.mark.parametrize("name", list(two_consumers.OVER_STAGES))
def test_registers_leave_room_for_one_block_on_an_sm(name):
    tile, every = two_consumers.OVER_STAGES[name]
    for stages in every:
        program = compile_kernel(KERNEL, STAGES=stages, **tile)
        assert 2 * program.resources.registers * program.facts.threads > 65536


@given(st.integers(2, 6), st.integers(3, 12).map(lambda n: 8 * n))
def test_what_is_traded_is_never_more_than_there_is(consumers, kept):
    launched, raised = registers_to_trade(consumers, kept)
    assert launched % 8 == raised % 8 == 0
    total = consumers * raised + kept
    assert (
        total
        <= launched * (consumers + 1)
        <= 512
        < 8 * (consumers + 1) + launched * (consumers + 1)
    )
    assert total + 8 * consumers > launched * (consumers + 1)


# ---- what is broken -----------------------------------------------------------------------------


def test_the_compiler_notices_none_of_the_mistakes():
    broken = mutations(KERNEL)
    assert len(broken) == 6 and "Six mistakes" in PAGE
    assert not any(advisories(compile_mutation(one).log) for one in broken)


# ---- experiments, on a GPU that is played -------------------------------------------------------


@pytest.fixture
def played(monkeypatch):
    """Every launch takes what a line says, at 1000 MHz: cycles are nanoseconds."""
    step, rest, launch = {1: 600.0, 2: 1100.0}, {1: 3000.0, 2: 5000.0}, 7000.0
    seen = []

    def inputs_on(gpu, problem):
        return problem, None

    def checked_pair(program, problem, _):
        facts = program.facts
        seen.append((program, problem))
        consumers = facts.threads // 128 - 1
        tiles = problem.m // facts.tile_m * (problem.n // facts.tile_n) / gpu.sm_count
        turns = math.ceil(tiles)
        cycles = launch + turns * (rest[consumers] + step[consumers] * problem.k / facts.tile_k)
        return SimpleNamespace(run=cycles / 1e6, peer=cycles / 2e6)  # as cuBLAS, twice as fast

    def interleaved(gpu, run, peer):
        conditions = SimpleNamespace(clock_mhz=gpu.clock)
        return SimpleNamespace(samples_ms=(run,), peer_samples_ms=(peer,), conditions=conditions)

    gpu = SimpleNamespace(sm_count=132, clock=1000.0)
    for double in (inputs_on, checked_pair, interleaved):
        monkeypatch.setattr(two_consumers, double.__name__, double)
    return SimpleNamespace(gpu=gpu, step=step, rest=rest, launch=launch, seen=seen)


def as_curves(sweep):
    return Curves(numpy.array(sweep.axis_values), "", sweep)


@pytest.mark.parametrize("kernel", ["v4_two_consumers", "v5_in_flight"])
def test_a_line_over_k_gives_back_a_step_and_the_rest(played, kernel):
    (one,) = (one for one in experiments_of(kernel) if one.name == two_consumers.K)
    sweep = one.run(played.gpu, compile_kernel(kernel))
    assert sweep.name == one.name and len(sweep.series) == 4
    assert {program.kernel for program, _ in played.seen} == {kernel}
    for consumers in (1, 2):
        found = two_consumers.cycles_of(as_curves(sweep), consumers)
        assert found.step == pytest.approx(played.step[consumers], rel=1e-4)
        assert found.rest == pytest.approx(played.rest[consumers], rel=1e-3)
        assert 0 <= found.rest_error < 5 and 0 <= found.step_error < 0.1, "points on a line"
        assert found.product == 512 * consumers
        steps = 128 * found.step + found.rest
        assert found.share(128) == pytest.approx(128 * found.product / steps)
    problems = {(p.m, p.n) for program, p in played.seen if program.facts.tile_n == 256}
    assert problems == {(1408, 3072), (2816, 6144)}, "whole waves on 132 SMs"


@pytest.mark.parametrize("kernel", ["v4_two_consumers", "v5_in_flight"])
@pytest.mark.parametrize("name", list(two_consumers.OVER_STAGES))
def test_speed_over_stages_is_a_share_of_the_peer_and_of_the_peak(played, kernel, name):
    (one,) = (one for one in experiments_of(kernel) if one.name == name)
    sweep = one.run(played.gpu, compile_kernel(kernel))
    tile, stages = two_consumers.OVER_STAGES[name]
    assert sweep.name == name and sweep.axis_values == stages
    assert [program.facts.stages for program, _ in played.seen] == list(stages)
    facts = compile_kernel(kernel, **tile).facts
    assert facts.threads == 128 * (tile.get("CONSUMERS", 2) + 1)
    assert {(p.facts.tile_m, p.facts.tile_n, p.facts.threads) for p, _ in played.seen} == {
        (facts.tile_m, facts.tile_n, facts.threads)
    }
    assert sweep.series["of cuBLAS"] == (50.0,) * len(stages)
    program, problem = played.seen[0]
    cycles = two_consumers.checked_pair(program, problem, None).run * 1e6
    expected = 100 * problem.flop / (cycles * 132 * 4096)
    assert sweep.series["busy"][0] == pytest.approx(expected, abs=0.01)


def test_without_a_clock_nothing_is_recorded(played):
    played.gpu.clock = None
    with pytest.raises(HopperError, match="clock could not be read"):
        two_consumers.over_k(KERNEL, played.gpu, compile_kernel(KERNEL))


def test_every_variant_that_is_timed_compiles_clean_and_stands_alone_on_its_sm():
    for kernel in ("v4_two_consumers", "v5_in_flight"):
        for consumers, tile in two_consumers.TILES.items():
            for stages in two_consumers.STAGES[consumers]:
                program = compile_kernel(kernel, STAGES=stages, **tile)
                program.require_clean()
                assert 2 * program.facts.threads * program.resources.registers > 65536


def test_where_nothing_was_recorded_cycles_are_not_known():
    found = two_consumers.cycles_of(Curves(numpy.array([math.nan]), "", None), 2)
    assert math.isnan(found.step) and math.isnan(found.share(128)) and found.product == 1024


def test_what_the_page_says_of_a_slope_is_what_was_recorded():
    found = curves(KERNEL, two_consumers.K)
    one, two = (two_consumers.cycles_of(found, consumers) for consumers in (1, 2))
    assert one.step > 1.1 * one.product, "the gap of one consumer"
    assert abs(two.product / two.step - 1) < 0.04, "good to a few percent"
    assert two.rest > one.rest > 0
    again = curves(KERNEL, two_consumers.NAMES[2])
    busy = HEADLINE.flop / (
        quantity(f"{KERNEL} ms").value * quantity(f"{KERNEL} clock").value * 1e3 * 132 * 4096
    )
    tiles = 64 * 32
    left = 100 * (busy - two.share(128) * tiles / (math.ceil(tiles / 132) * 132))
    assert abs(left) <= abs(100 * busy - again.at("busy", 4)), "differ by no less"


def test_a_number_of_turns_that_is_no_square_is_refused():
    facts = compile_kernel(KERNEL).facts
    with pytest.raises(HopperError, match="turns=2"):
        two_consumers.whole_waves(facts, 132, 2, 512)
    assert two_consumers.whole_waves(facts, 114, 1, 512).m == 6 * 128


def profiles(kernels):
    """Of each width: 10 % more hits, a GB less read, 1 GB written, 2 GB through L2."""
    values = {"l2_hit_rate": 10.0, "dram_read": -1e9, "dram_write": 0.0, "l2_sectors": 0.0}
    first = {"l2_hit_rate": 20.0, "dram_read": 9e9, "dram_write": 1e9, "l2_sectors": 2e9 / 32}
    return tuple(
        Profile(
            kernel,
            {WANTED[a][0]: Metric(first[a] + i * values[a], "") for a in values},
        )
        for i, kernel in enumerate(kernels)
    )


@pytest.fixture
def counted(monkeypatch):
    """What ncu is played to see; it is asked once for both experiments."""
    state = SimpleNamespace(kernels=[f"{KERNEL}(TensorMap, ...)"] * 8, commands=[])

    def profile(command, *, timeout, environment, metrics):
        state.commands.append(command)
        return Profiled("ncu", profiles(state.kernels), ())

    monkeypatch.setattr(under_ncu, "profile", profile)
    two_consumers.profiled_widths.cache_clear()
    yield state
    two_consumers.profiled_widths.cache_clear()


def test_what_ncu_counts_is_kept_by_width_and_asked_for_once(counted):
    both = {
        one.name: one.run(None, None)
        for one in experiments_of(KERNEL)
        if one.name in (two_consumers.HITS, two_consumers.BYTES)
    }
    assert len(counted.commands) == 1
    assert counted.commands[0][1:] == ["-m", "hopper.experiments.two_consumers"]
    hits, moved = both[two_consumers.HITS], both[two_consumers.BYTES]
    assert hits.axis_values == moved.axis_values == two_consumers.WIDTHS
    assert hits.series["L2"] == tuple(20.0 + 10 * i for i in range(8)) and hits.unit == "%"
    assert moved.series["read"] == tuple(9.0 - i for i in range(8)) and moved.unit == "GB"
    assert moved.series["through L2"] == (2.0,) * 8


@pytest.mark.parametrize("kernels", [[KERNEL] * 7, [KERNEL] * 7 + ["other"], []])
def test_anything_else_that_ncu_sees_is_refused(counted, kernels):
    counted.kernels = kernels
    with pytest.raises(HopperError, match=rf"ncu saw .*, and not \['{KERNEL}'"):
        two_consumers.raster_hits(None, None)


def test_a_counter_that_this_ncu_lacks_is_named(counted):
    with pytest.raises(HopperError, match="occupancy: this ncu counted none"):
        two_consumers.counted(two_consumers.profiled_widths(), "occupancy")


def test_the_process_that_ncu_watches_launches_each_width_once_behind_its_check(monkeypatch):
    log = []

    def checked_pair(program, *arrays):
        width = program.defines["RASTER"]
        log.append(("checked", width))
        return SimpleNamespace(run=lambda: log.append(("run", width)))

    runtime = SimpleNamespace(
        profilerStart=lambda: log.append("start"), profilerStop=lambda: log.append("stop")
    )
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    gpu = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(two_consumers, "find_hopper", lambda: gpu)
    monkeypatch.setattr(two_consumers, "inputs_on", lambda gpu, problem: ())
    monkeypatch.setattr(two_consumers, "checked_pair", checked_pair)
    two_consumers.launch_widths()
    widths = list(two_consumers.WIDTHS)
    assert log == [
        *(("checked", w) for w in widths), "start", *(("run", w) for w in widths), "stop",
    ]  # fmt: skip


# ---- exercises ----------------------------------------------------------------------------------


def printed(capsys) -> str:
    return capsys.readouterr().out


def test_registers_to_trade(capsys):
    exercises.traded(registers_to_trade)
    assert printed(capsys).startswith("right")
    exercises.traded(lambda consumers, kept: (512 // (consumers + 1), 232))
    assert "your launch has 170" in printed(capsys)
    exercises.traded(lambda consumers, kept: (168 if consumers == 2 else 128, 232))
    assert "the producer keeps 24: your consumers get 232" in printed(capsys)
    exercises.traded(
        lambda consumers, kept: (
            512 // (consumers + 1) // 8 * 8,
            (512 - kept) // consumers // 8 * 8,
        )
    )
    assert "the producer keeps 32: your consumers get 240" in printed(capsys), "512 are not 504"
    for nothing in (None, (None, None), (168, ...), ...):
        exercises.traded(lambda consumers, kept, answer=nothing: answer)
        assert printed(capsys).startswith("not answered")
    for nonsense in (("a", "b"), (168.0, 232.0)):
        exercises.traded(lambda consumers, kept, answer=nonsense: answer)
        assert "in whole numbers" in printed(capsys)
    exercises.traded(lambda consumers, kept: 168)
    assert "your function returned 168" in printed(capsys)


@pytest.mark.parametrize("check", [exercises.traded, exercises.tile_of_block, exercises.step_time])
def test_what_is_no_function_or_raises_is_said_and_not_shown_as_a_traceback(check, capsys):
    check(None)
    assert "hand over your function; this is None" in printed(capsys)
    check(lambda *arguments: 1 // 0)
    assert "raised ZeroDivisionError" in printed(capsys)


def test_tiles_in_order(capsys):
    exercises.tile_of_block(rasterized)
    assert printed(capsys).startswith("right")

    def forgets_the_last_group(block, rows, columns, width):
        group, within = divmod(block, width * columns)
        return group * width + within % width, within // width

    exercises.tile_of_block(forgets_the_last_group)
    assert "its group begins in row 3 and is 1 rows high" in printed(capsys)
    exercises.tile_of_block(lambda *_: None)
    assert printed(capsys).startswith("not answered")
    exercises.tile_of_block(lambda *_: (-1, "x"))
    assert "in whole numbers" in printed(capsys)
    exercises.tile_of_block(lambda *_: (0.0, 0.0))
    assert "in whole numbers" in printed(capsys)
    exercises.tile_of_block(lambda *_: (-1, 0))
    assert "your answer is (-1, 0)" in printed(capsys)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((32, 160, 200), "right: 192 × 200"),
        ((56, 152, 200), "right: 192 × 200"),
        ((40, 152, 200), "it runs, but 4 · 128 − 40 − 3 · 152 = 16 are left over"),
        ((32, 160, 192), "it runs, but a width of 200 compiles, too"),
        ((40, 144, 192), "= 40 are left over, and a width of 200 compiles, too"),
        ((32, 160, 208), "C7602"),
        ((40, 160, 192), "the emulator reports"),
        (("a", "b", "c"), "kept='a': a whole number"),
        ((40, 152, 192.0), "tile_n=192.0: a whole number"),
        ((40, 152, 256), "C7602"),
        ((40, 150, 192), "a multiple of 8"),
        ((40, 152, 100), "multiple of 8 up to 256"),
        ((None, 152, 192), "not answered"),
    ],
)
def test_three_consumers(answer, said, capsys):
    exercises.three_consumers(*answer)
    assert said in printed(capsys)


def test_three_consumers_that_are_right_are_those_of_the_page():
    for tried in ("kept=40, raised=152, tile_n=200", "kept=32, raised=160, tile_n=208",
                  "kept=32, raised=160, tile_n=200"):  # fmt: skip
        assert tried in PAGE
