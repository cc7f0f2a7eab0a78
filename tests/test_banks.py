"""Bank conflicts, counted: against a count written otherwise, and what the textbook says."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper.banks import (
    ACCESS_BYTES,
    BANKS,
    LANES,
    WORD_BYTES,
    bank,
    fewest,
    lanes_at_once,
    wavefronts,
)
from hopper.errors import ProblemError
from hopper.swizzle import swizzled

widths = st.sampled_from(ACCESS_BYTES)


@st.composite
def accesses(draw):
    """A width, and an address for each of some lanes."""
    width = draw(widths)
    places = st.lists(st.integers(0, 1023), min_size=1, max_size=LANES)
    return width, [width * place for place in draw(places)]


def turns_one_by_one(lanes: list[int], width: int) -> int:
    """Serve lanes greedily: a turn takes from each bank one word, for all who want it."""
    open_words = {(lane // 4) + i for lane in lanes for i in range(width // WORD_BYTES)}
    turns = 0
    while open_words:
        busy: set[int] = set()
        for word in sorted(open_words):
            if word % BANKS not in busy:
                busy.add(word % BANKS)
                open_words.remove(word)
        turns += 1
    return turns


@given(accesses())
def test_a_count_is_what_serving_one_by_one_takes(access):
    width, lanes = access
    group = 128 // width
    expected = sum(
        turns_one_by_one(lanes[i : i + group], width) for i in range(0, len(lanes), group)
    )
    assert wavefronts(lanes, width) == expected


@given(accesses(), st.integers(0, 1 << 12))
def test_lanes_that_move_together_by_whole_lines_take_as_long(access, lines):
    width, lanes = access
    assert wavefronts(numpy.array(lanes) + 128 * lines, width) == wavefronts(lanes, width)


@given(accesses())
def test_no_access_is_faster_than_its_groups_or_slower_than_its_lanes(access):
    width, lanes = access
    assert fewest(width, len(lanes)) <= wavefronts(lanes, width) <= len(lanes)


@given(widths, st.integers(0, 100))
def test_lanes_that_want_the_same_are_served_together(width, place):
    assert wavefronts([width * place] * LANES, width) == fewest(width)


@pytest.mark.parametrize("stride", range(1, 34))
def test_a_stride_of_words_costs_its_common_divisor_with_the_banks(stride):
    assert wavefronts(numpy.arange(LANES) * 4 * stride, 4) == numpy.gcd(stride, BANKS)


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("piece", range(2))
def test_a_column_of_a_swizzled_tile_has_no_conflict_and_without_it_all_can(span, piece):
    column = numpy.arange(LANES) * span + 16 * piece
    assert wavefronts(swizzled(column, span), 16) == fewest(16) == 4
    assert wavefronts(column, 16) == 4 * span // 16
    # Neither has a row, nor a core matrix that lies in one piece.
    row = numpy.arange(8) * 16
    assert wavefronts(swizzled(row, span), 16) == wavefronts(row, 16) == 1


def test_a_narrower_swizzle_than_the_row_leaves_conflicts():
    column = numpy.arange(LANES) * 128
    assert [wavefronts(swizzled(column, s), 16) for s in (0, 32, 64, 128)] == [32, 16, 8, 4]


def test_banks_are_four_bytes_wide_and_32():
    assert [bank(address) for address in (0, 3, 4, 127, 128, 132)] == [0, 0, 1, 31, 0, 1]
    assert [lanes_at_once(width) for width in ACCESS_BYTES] == [32, 16, 8]


@pytest.mark.parametrize(
    ("addresses", "width", "named"),
    [
        ([0], 2, "access_bytes=2"),
        ([0, 8], 16, "address 8"),
        ([], 4, "32 lanes"),
        (range(0, 33 * 4, 4), 4, "32 lanes"),
        ([[0, 4]], 4, "32 lanes"),
    ],
)
def test_what_no_warp_does_is_refused(addresses, width, named):
    with pytest.raises(ProblemError, match=named):
        wavefronts(list(addresses), width)
