"""The exercises' checks accept the folded solutions and name what is wrong in other answers."""

import pytest

from hopper import exercises
from hopper.fragment import held_by


def solution(thread: int, register: int) -> tuple[int, int]:
    """The folded solution of the fragment exercise, as the page prints it."""
    warp, lane = thread // 32, thread % 32
    row = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
    column = 8 * (register // 4) + 2 * (lane % 4) + register % 2
    return row, column


def test_the_printed_descriptors_are_right(capsys):
    exercises.descriptor(0x4000004000010840, 0x4000004000010842)
    assert capsys.readouterr().out.count("is right") == 2


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (0x4000004000018400, "start address"),
        (0x4000004000000840, "leading byte offset"),
        (0x4000001000010840, "stride byte offset"),
        (0x4002004000010840, "base offset"),
        (0x8000004000010840, "swizzle mode"),
        (0x4000004000014840, "outside all fields"),
        (None, "not answered"),
    ],
)
def test_a_wrong_descriptor_field_is_named(answer, named, capsys):
    exercises.descriptor(answer, None)
    assert named in capsys.readouterr().out.splitlines()[0]


def test_the_printed_fragment_map_is_right(capsys):
    exercises.fragment(solution)
    assert capsys.readouterr().out == "right: all 8192 elements of a 64 × 128 tile\n"


def test_a_wrong_fragment_map_is_named_by_its_first_element(capsys):
    exercises.fragment(lambda t, r: (solution(t, r)[0], solution(t, r)[1] ^ (t == 37)))
    assert "thread 37, register 0" in capsys.readouterr().out


def test_an_open_fragment_map_is_no_mistake(capsys):
    exercises.fragment(lambda t, r: (None, None))
    assert "not answered yet" in capsys.readouterr().out


def test_every_element_of_the_tile_is_held_once():
    held = {held_by(t, r) for t in range(128) for r in range(64)}
    assert held == {(row, column) for row in range(64) for column in range(128)}


def test_thread_zero_holds_what_every_tutorial_prints():
    first = [held_by(0, r) for r in range(6)]
    assert first == [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9)]


def test_the_printed_solutions_of_the_emulators_chapter_are_right(capsys):
    exercises.executed(512)
    exercises.fused_sum(units=2, rounded_units=1)
    exercises.broken_rules(
        no_fence="no-wgmma-fence", no_wait="operand-overwritten", no_barrier="one-warp-release"
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all("right" in line for line in lines)


def test_other_answers_about_the_emulator_are_not_accepted(capsys):
    exercises.executed(128)
    exercises.fused_sum(units=1, rounded_units=2)
    exercises.broken_rules(no_fence="operand-overwritten", no_wait="nonsense")
    told = capsys.readouterr().out
    assert "right" not in told
    assert "each of four warps counts" in told and "is no kind of hazard" in told
    assert "no_barrier: not answered yet" in told
