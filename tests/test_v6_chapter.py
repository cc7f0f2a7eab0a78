"""The chapter on v6: what it says of sums in fp16, its figure of turns, the exercises."""

import math

import numpy
import pytest

from hopper import exercises, figures
from hopper.exercises.v6_fp16_acc import in_the_ring, last_value
from hopper.experiments import curves, experiments_of, fp16_sums
from hopper.experiments.fp16_sums import INPUTS, errors, inputs, summed
from hopper.mutants import MUTATIONS
from hopper.paths import ROOT

KERNEL = "v6_fp16_acc"
PAGE = (ROOT / "chapters" / f"{KERNEL}.md").read_text()


# ---- what sums in fp16 cost ---------------------------------------------------------------------


def rounded_once(a, b):
    return (a.astype("float64") @ b.astype("float64").T).astype("float16")


@pytest.mark.parametrize(("name", "share"), [("normal", 2), ("uniform", 2), ("positive", 3)])
@pytest.mark.parametrize("k", [1024, 8192])
def test_the_error_is_that_of_a_random_walk(name, share, k):
    a, b = inputs(name, k, 24, 24)
    once, _ = errors(rounded_once(a, b), a, b)
    found, infinite = errors(summed(a, b), a, b)
    assert found == pytest.approx(once * math.sqrt(k / 16 / share), rel=0.25)
    assert infinite == 0


def test_small_integers_are_exact_and_a_trap():
    a, b = inputs("integers", 8192, 24, 24)
    assert errors(summed(a, b), a, b) == (0, 0)
    assert "It is a trap" in PAGE


def test_sums_that_only_grow_stand_still_before_they_overflow():
    assert INPUTS["positive"](numpy.random.default_rng(0), 4, 4, 16)[0].min() >= 0
    a, b = inputs("positive", 131072, 4, 4)
    found = summed(a, b).astype("float64")
    assert ((found >= 16384) & (found < 16512)).all()
    assert errors(summed(a, b), a, b)[0] == pytest.approx(0.5, abs=0.05)


def test_there_and_back_is_infinite_although_its_result_is_not():
    for k, share in ((4096, (0, 0)), (8192, (0.05, 0.95)), (16384, (1, 1))):
        a, b = inputs("there and back", k, 12, 12)
        error, infinite = errors(summed(a, b), a, b)
        assert share[0] <= infinite <= share[1]
        assert errors(rounded_once(a, b), a, b)[1] == 0, "in fp32 it is a number"
        if k == 4096:
            assert 0.01 < error < 0.2, "percents, says the page"


def test_inputs_are_the_same_everywhere_and_differ_by_depth():
    one, same, deeper = (inputs("normal", k, 4, 4)[0] for k in (64, 64, 128))
    assert one.tobytes() == same.tobytes() and (one != deeper[:, :64]).any()
    assert [one.name for one in experiments_of(KERNEL)] == [
        fp16_sums.ERROR, fp16_sums.ERROR_FP32, fp16_sums.INFINITE,
        fp16_sums.LIKE, fp16_sums.LIKE_ERROR,
    ]  # fmt: skip


def test_what_the_page_says_like_for_like_is_what_was_recorded():
    found = curves(KERNEL, fp16_sums.LIKE)
    small, middle, large = found[fp16_sums.OF_FP16]
    assert small < 70 and 95 < middle < 100 < large
    small, middle, large = found[fp16_sums.OF_FP32]
    assert small < 99 and abs(middle - 100) < 2 and large < 99


def test_what_is_infinite_where_the_exact_value_is_too_counts_for_nothing():
    a = numpy.array([[200.0] * 16, [1.0] * 16], "float16")
    b = numpy.array([[200.0] * 16], "float16")
    assert errors(numpy.array([[numpy.inf], [3200]], "float16"), a, b) == (0, 0)
    assert errors(numpy.array([[numpy.inf], [numpy.inf]], "float16"), a, b) == (0, 1)


# ---- turns, and what is broken ------------------------------------------------------------------


def test_the_figure_shows_turns():
    figure = figures.turns(KERNEL, title="turns", alt="alt", TILE_N=64, STAGES=2)
    labels = [lane.label for lane in figure.model.lanes]
    assert labels[:4] == [f"consumer {number}" for number in range(4)]
    assert labels[-1] == "the buffer" and not any("tensor" in label for label in labels)
    reads = [span for span in figure.model.lanes[-1].spans if span.kind.startswith("read")]
    assert len(figure.model.lanes[-1].spans) == 4
    assert all(one.end <= other.begin for one, other in zip(reads, reads[1:], strict=False))


def test_the_page_counts_its_mistakes():
    """What compiler and emulator say of them is tested with all mutants."""
    broken = [one for one in MUTATIONS if one.kernel == KERNEL]
    assert len(broken) == 7 and "Seven mistakes" in PAGE and "about all seven" in PAGE


def test_the_page_says_that_it_compares_two_arithmetics():
    head = PAGE[: PAGE.index("## Predict")]
    assert "```{warning}" in head and "two different arithmetics" in head


# ---- exercises ----------------------------------------------------------------------------------


def printed(capsys) -> str:
    return capsys.readouterr().out


def room(tile_m, tile_n, bits):
    return tile_n * bits // 64, 65536 - tile_m * tile_n * bits // 32


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (room, "right: five tiles"),
        (lambda *_: None, "not answered yet"),
        (lambda *_: (..., ...), "not answered yet"),
        (lambda *_: (None, 0), "not answered yet"),
        (lambda *_: 64, "return two numbers"),
        (lambda *_: ("a", "b"), "you say 'a' registers a thread"),
        (lambda m, n, bits: (room(m, n, bits)[0], 0), "an SM has 65,536"),
        (lambda m, n, bits: (n, room(m, n, bits)[1]), "a register has 32 bits"),
        (lambda m, n, bits: room(m, n, 32), "with sums of 16 bits"),
        (lambda: 1, "raised TypeError"),
        (None, "hand over your function"),
    ],
)
def test_room_for_sums(answer, said, capsys):
    exercises.room_for_sums(answer)
    assert said in printed(capsys)


def still(step):
    top = 1024 * 2 ** math.ceil(math.log2(2 * step))
    return top if top < 65536 else math.inf


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (still, "right: twelve"),
        (lambda step: ..., "not answered yet"),
        (lambda step: "far", "not answered yet"),
        (lambda step: 2048, "behind 8192 the last digit of fp16 is worth 8"),
        (lambda step: math.inf, "never gets there"),
        (lambda step: float("nan"), "your answer is nan"),
        (lambda step: min(still(step), 65504), "it goes on to infinity"),
        (5, "hand over your function"),
    ],
)
def test_where_a_sum_stands_still(answer, said, capsys):
    exercises.stands_still(answer)
    assert said in printed(capsys)


@pytest.mark.parametrize("step", [4.0, 17.0])
def test_the_exercises_sums_are_those_of_the_instruction(step):
    """One product of that size in each wgmma."""
    k = 16 * (int(min(last_value(step), 65536) / step) + 8)
    a, b = numpy.zeros((1, k), "float16"), numpy.ones((1, k), "float16")
    a[:, ::16] = step
    assert float(summed(a, b)[0, 0]) == last_value(step)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("  named_barrier_sync(9, 128 * CONSUMERS);", "right: three consumers"),
        ("", "operand-overwritten"),
        ("  named_barrier_sync(own, 128);", "operand-overwritten"),
        ("  wgmma_wait_group<0>();", "operand-overwritten"),
        ("  named_barrier_sync(9, 128 * CONSUMERS + 128);", "deadlock"),
        ("  meet();", 'identifier "meet" is undefined'),
        ("\n  __1__;\n", "not answered yet"),
        (None, "not answered yet"),
        (..., "not answered yet"),
        (9, "in a string; this is 9"),
    ],
)
def test_without_turns(lines, said, capsys):
    exercises.without_turns(lines)
    assert said in printed(capsys)


def test_without_turns_nobody_waits_for_leave():
    changed = in_the_ring("  named_barrier_sync(9, 128 * CONSUMERS);")
    epilogue = changed.split("// [turn]")[1]
    assert "named_barrier_sync(turn" not in epilogue and "named_barrier_arrive" not in epilogue
    assert "shared.out[" not in epilogue
