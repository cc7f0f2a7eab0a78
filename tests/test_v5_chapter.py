"""The chapter on v5: the model's answer, the lag in a run, what is broken, the exercises."""

import math
import re

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper import exercises
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError, ProblemError
from hopper.experiments import curves, two_consumers
from hopper.figures.ring_run import ring_run
from hopper.figures.streams import Way, run_streams
from hopper.gemm import Problem, gemm, plan
from hopper.mutants import compile_mutation, emulated, find_mutation, mutated_source, mutations
from hopper.paths import KERNELS, ROOT

KERNEL = "v5_in_flight"
SOURCE = (KERNELS / f"{KERNEL}.cu").read_text()
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text()
ONE_CONSUMER = {"CONSUMERS": 1, "TILE_M": 64, "TILE_N": 64}
times = st.integers(1, 40).map(float)


# ---- the model ----------------------------------------------------------------------------------


@given(load=times, product=times, gap=st.integers(0, 5).map(float), stages=st.integers(2, 6))
def test_a_step_with_a_group_in_flight_takes_what_the_formula_says(load, product, gap, stages):
    run = run_streams(Way(1, 1, stages), load=load, product=max(product, gap), gap=gap, steps=90)
    assert run.step_time == pytest.approx(max(product, gap, (load + gap) / (stages - 1)))


@given(load=times, product=times, gap=st.integers(0, 5).map(float), stages=st.integers(2, 6))
def test_two_consumers_take_what_the_formulas_say(load, product, gap, stages):
    """The gap hides behind half a product."""
    product += 2 * gap
    four, five = (
        run_streams(
            Way(2, in_flight, stages), load=load, product=product, gap=gap, steps=120
        ).step_time
        for in_flight in (0, 1)
    )
    assert four == pytest.approx(max(product, (load + product + gap) / stages))
    assert five == pytest.approx(max(product, (load + gap) / (stages - 1)))
    assert five >= four - 1e-9, "never faster"


@given(load=times, product=times, gap=st.integers(1, 5).map(float), stages=st.integers(2, 6))
def test_a_group_in_flight_is_faster_exactly_when_the_page_says(load, product, gap, stages):
    product = max(product, gap)
    four, five = (
        run_streams(
            Way(1, in_flight, stages), load=load, product=product, gap=gap, steps=120
        ).step_time
        for in_flight in (0, 1)
    )
    assert "return (load + gap) / (count - 1) < product + gap" in PAGE
    assert (five < four - 1e-9) is ((load + gap) / (stages - 1) < product + gap)
    if (load + product + gap) / stages > product + gap:
        assert five > four, "slower where loads limit v4"


def test_what_the_pages_figures_show():
    assert "slow = dict(load=19, product=8, gap=2)" in PAGE
    slow = {"load": 19, "product": 8, "gap": 2, "steps": 80}
    none, one, two, both = (
        [run_streams(Way(*way, stages), **slow).step_time for stages in (2, 3, 4, 5, 6)]
        for way in ((1, 0), (1, 1), (2, 0), (2, 1))
    )
    assert one == both, "a line for two"
    assert all(a > b for a, b in zip(one[:2], none[:2], strict=True)), "slower with two and three"
    assert all(a < b for a, b in zip(one[2:], none[2:], strict=True)), "faster from four on"
    assert one[2:] == two[2:] == [8, 8, 8], "and all of the time"
    assert none[2:] == [10, 10, 10], "four fifths of it"
    groups = run_streams(Way(1, 1, 2), load=12, product=8, gap=1, steps=6).groups
    idle = [b.begin - a.end for a, b in zip(groups, groups[1:], strict=False)]
    assert idle[0] == 0 and all(gap > 1 for gap in idle[1:]), "a gap from the second product on"


def test_one_stage_is_a_deadlock_in_the_model_too():
    with pytest.raises(ProblemError, match="deadlock"):
        run_streams(Way(1, 1, 1), load=1, product=1, gap=0, steps=3)
    run_streams(Way(1, 0, 1), load=1, product=1, gap=0, steps=3)


# ---- the lag ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["v4_two_consumers", KERNEL])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_stage_is_released_behind_the_wait_of_the_next_step(kernel, seed):
    emulator = Emulator(schedule="random", tma="random", seed=seed) if seed else None
    run, _ = ring_run(kernel, 5, emulator, STAGES=3, **ONE_CONSUMER)
    inits = [event.detail["address"] for event in run.trace.of("mbarrier.init")]
    empty = inits[1::2]  # full and empty in turns
    released = {}
    for event in run.trace.of("mbarrier.arrive"):
        if event.detail["address"] in empty:
            released.setdefault(event.detail["address"], event.step)
    waits = [event.step for event in run.trace.of("wgmma.wait")]
    commits = [event.step for event in run.trace.of("wgmma.commit")]
    lag = 1 if kernel == KERNEL else 0
    for step in range(3):  # the first use of each stage
        at = released[empty[step]]
        assert waits[step + lag] < at
        assert at < waits[step + lag + 1]
        assert (commits[step + 1] < at) == (lag == 1), "the next group is issued before"


def test_the_last_stage_is_never_released():
    run, program = ring_run(KERNEL, 3, STAGES=3, **ONE_CONSUMER)
    inits = [event.detail["address"] for event in run.trace.of("mbarrier.init")]
    arrived = {event.detail["address"] for event in run.trace.of("mbarrier.arrive")}
    assert set(inits) - arrived == {inits[5]}, "empty of the last stage"


def test_the_compiler_keeps_the_group_in_flight():
    for consumers in ({}, {"CONSUMERS": 1, "TILE_N": 128}):
        program = compile_kernel(KERNEL, **consumers)
        program.require_clean()
        waits = [line for line in program.sass().instructions if "WARPGROUP.DEPBAR" in line]
        assert len(waits) == 2
        assert sum("0x1" in line for line in waits) == 1, "one group may run on"


def test_with_one_stage_it_does_not_compile_and_without_the_assertion_it_hangs():
    with pytest.raises(CompileError, match="released when the next is in use"):
        compile_kernel(KERNEL, STAGES=1)
    assert SOURCE.count("STAGES >= 2") == 1
    text = SOURCE.replace("STAGES >= 2", "STAGES >= 1")
    single = compile_cuda(text, KERNEL, defines={"STAGES": 1, **ONE_CONSUMER})
    a, b = Problem(64, 64, 128).inputs()
    with pytest.raises(EmulatorError, match="deadlock"):
        gemm(single, a, b)
    a, b = Problem(64, 64, 64).inputs()
    gemm(single, a, b)  # a single step needs no stage twice


# ---- what was recorded --------------------------------------------------------------------------


def test_what_the_page_says_of_the_gap_is_what_was_recorded():
    """A group in flight saves one consumer its gap, and two consumers nothing; the rest remains."""
    cycles = {
        (kernel, consumers): two_consumers.cycles_of(curves(kernel, two_consumers.K), consumers)
        for kernel in ("v4_two_consumers", KERNEL)
        for consumers in (1, 2)
    }
    for consumers in (1, 2):
        four, five = (cycles[kernel, consumers] for kernel in ("v4_two_consumers", KERNEL))
        assert abs(five.step / five.product - 1) < 0.04, "a step is its product"
        assert abs(five.rest - four.rest) < 2 * math.hypot(four.rest_error, five.rest_error)
        saved, error = four.step - five.step, math.hypot(four.step_error, five.step_error)
        assert saved > 10 * error if consumers == 1 else saved < 2 * error


# ---- what is broken -----------------------------------------------------------------------------


def test_what_the_page_says_about_the_five_mistakes():
    broken = mutations(KERNEL)
    assert len(broken) == 5 and "Five mistakes" in PAGE
    *same, last = broken
    for one in same:
        assert not advisories(compile_mutation(one).log)
        assert emulated(one) == ["operand-overwritten"]
    assert list(advisories(compile_mutation(last).log)) == ["C7517"]
    assert set(emulated(last)) == {"accumulator-pending", "group-never-waited"}


def test_the_run_of_the_page_overwrites_what_is_being_read():
    source = mutated_source(find_mutation(KERNEL, "released while in flight"))
    broken = compile_cuda(source, KERNEL, defines={"STAGES": 2, **ONE_CONSUMER}, lineinfo=True)
    facts = broken.facts
    a, b = Problem(facts.tile_m, facts.tile_n, 4 * facts.tile_k).inputs()
    c = numpy.full((facts.tile_m, facts.tile_n), numpy.nan, "float16")
    launch = plan(broken, a, b, c)
    run = Emulator(on_hazard="collect").launch(
        broken.ptx, KERNEL, launch.grid, launch.block, args=launch.args,
        shared_bytes=facts.shared_bytes,
    )  # fmt: skip
    assert {hazard.kind for hazard in run.hazards} == {"operand-overwritten"}
    assert all("tma_load_2d" in source.splitlines()[line - 1] for line in lines_of(run.hazards))


def lines_of(hazards):
    return {int(re.search(r":(\d+)", str(hazard.source_line))[1]) for hazard in hazards}


# ---- exercises ----------------------------------------------------------------------------------


def printed(capsys) -> str:
    return capsys.readouterr().out


def exercise_said(answer, capsys) -> str:
    exercises.step_time(answer)
    return printed(capsys)


def test_the_time_of_a_step(capsys):
    exercises.step_time(lambda load, product, stages: max(product, load / (stages - 1)))
    assert printed(capsys).startswith("right: 24")
    exercises.step_time(lambda load, product, stages: max(product, (load + product) / stages))
    assert "the model takes" in printed(capsys)
    exercises.step_time(lambda load, product, stages: product)
    assert "a load of 8, a product of 5, 2 stages: your answer is 5" in printed(capsys)
    assert "which stages are being filled" in exercise_said(
        lambda load, product, stages: max(product, load / stages), capsys
    )
    assert "the product of a step alone takes longer" in exercise_said(
        lambda load, product, stages: load / (stages - 1), capsys
    )
    assert "what is left to wait for" in exercise_said(lambda *_: float("nan"), capsys)
    for nothing in (None, ..., "long"):
        exercises.step_time(lambda *_, answer=nothing: answer)
        assert printed(capsys).startswith("not answered")


RELEASE = "  if (lane == 0) mbarrier_arrive(&empty[previous]);\n"
WAIT = "  wgmma_wait_group<0>();\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (WAIT + RELEASE, "right"),
        (WAIT, "there were 0"),
        (RELEASE + WAIT, "before it has waited for the last group"),
        (WAIT + RELEASE.replace("previous", "at.stage"), "stage 0 was filled 1×"),
        (WAIT + RELEASE.replace("if (lane == 0) ", ""), "there were 256"),
        (WAIT + RELEASE + RELEASE, "there were 16"),
        (RELEASE, "C7517"),
        (WAIT + "  release();\n", "identifier"),
        (WAIT + "  __1__;\n", "not answered"),
        (None, "not answered"),
        (5, "in a string"),
        ([1], "in a string"),
    ],
)
def test_the_last_release(lines, said, capsys):
    exercises.last_release(lines)
    out = printed(capsys)
    assert said in out and out.startswith("right") == (said == "right")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("full", "empty", 1), "right"),
        ((" Full", "empty[0]", "step 1"), "right"),
        (("empty", "empty", 1), "not yet: the consumers and 'empty'"),
        (("full", "full", 1), "not yet: the producer and 'full'"),
        (("full", "empty", 0), "about which group is this wait"),
        ((5, [], "x"), "not yet: the consumers and 5"),
        ((None, "empty", 1), "not answered"),
        ((..., ..., ...), "not answered"),
    ],
)
def test_who_waits_with_one_stage(answer, said, capsys):
    consumers, producer, step = answer
    exercises.one_stage(consumers=consumers, producer=producer, released_in_step=step)
    out = printed(capsys)
    assert said in out and out.startswith("right") == (said == "right")
