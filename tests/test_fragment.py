"""Who holds what in a warpgroup: against the PTX ISA, the kernels, and what an H200 recorded."""

import re

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper import mma_sync
from hopper.errors import ProblemError
from hopper.experiments import arrays
from hopper.fragment import a_held_by, a_holder, held_by, holder
from hopper.paths import KERNELS

threads = some.integers(0, 127)


@given(threads, some.integers(0, 127))
def test_an_accumulator_is_found_again(thread, register):
    assert holder(*held_by(thread, register)) == (thread, register)


@given(some.integers(0, 63), some.integers(0, 255))
def test_an_element_is_found_again(row, column):
    assert held_by(*holder(row, column)) == (row, column)


@given(threads, some.integers(0, 3), some.integers(0, 1))
def test_an_element_of_a_is_found_again(thread, register, half):
    assert a_holder(*a_held_by(thread, register, half)) == (thread, register, half)


@pytest.mark.parametrize("n", [8, 16, 136, 256])
def test_a_tile_is_held_once_as_arrays_say_it(n):
    thread, register = numpy.indices((128, n // 2))
    row, column = held_by(thread, register)
    tile = numpy.zeros((64, n), int)
    numpy.add.at(tile, (row, column), 1)
    assert (tile == 1).all()
    again = holder(row, column)
    assert (again[0] == thread).all() and (again[1] == register).all()
    assert (row[77, 3], column[77, 3]) == held_by(77, 3)


def test_a_is_held_once_as_arrays_say_it():
    thread, register, half = numpy.indices((128, 4, 2))
    row, k = a_held_by(thread, register, half)
    tile = numpy.zeros((64, 16), int)
    numpy.add.at(tile, (row, k), 1)
    assert (tile == 1).all()
    for back, given_index in zip(a_holder(row, k), (thread, register, half), strict=True):
        assert (back == given_index).all()


def test_the_accumulators_are_those_that_the_h200_returned():
    """The product said where it stands: 100 · row + column."""
    probe = arrays("one_wgmma", "coordinates")
    held = probe["held"]
    assert held.shape == (128, 8), probe.label
    row, column = held_by(*numpy.indices(held.shape))
    assert (held == 100 * row + column).all()


def test_a_warp_holds_what_mma_sync_gives_it():
    """Each warp's 16 rows are laid out as in mma.m16n8k16, by the PTX ISA's formulas for that."""
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for register in range(4):
            row, column = mma_sync.fragment_d(lane, register)
            assert held_by(thread, register) == (16 * warp + row, column)
            for half in range(2):
                row, k = mma_sync.fragment_a(lane, 2 * register + half)
                assert a_held_by(thread, register, half) == (16 * warp + row, k)


def test_ceiling_loads_a_from_where_the_fragment_says():
    """The kernel's own index expressions; on a GPU its product is checked to the last bit."""
    source = (KERNELS / "ceiling.cu").read_text()
    (row_text, piece_text) = re.findall(r"int row = (warp[^,;]*), piece = ([^;]*);", source)[0]
    assert "(piece ^ row % 8) * 8 + lane % 4 * 2;" in source
    for thread in range(128):
        names = {"warp": thread // 32, "lane": thread % 32, "step": 0}
        for names["r"] in range(4):
            row, piece = (eval(text.replace("/", "//"), names) for text in (row_text, piece_text))
            k = piece * 8 + names["lane"] % 4 * 2
            assert a_held_by(thread, names["r"], 0) == (row, k)
            assert a_held_by(thread, names["r"], 1) == (row, k + 1)


@pytest.mark.parametrize(
    ("use", "indices", "named"),
    [
        (held_by, (128, 0), "thread=128: a warpgroup has 128 threads; count from 0 to 127"),
        (held_by, (-1, 0), "thread=-1"),
        (held_by, (0, 128), "register=128: a thread holds N/2 accumulators"),
        (holder, (64, 0), "row=64: an instruction has 64 rows"),
        (holder, (0, 256), "column=256"),
        (a_held_by, (128, 0, 0), "thread=128"),
        (a_held_by, (0, 4, 0), "register=4: A takes four"),
        (a_held_by, (0, 0, 2), "half=2: a register holds two"),
        (a_holder, (-1, 0), "row=-1"),
        (a_holder, (0, 16), "k=16: an instruction is 16 deep"),
        (held_by, (numpy.array([0, 200]), 0), "thread=200"),
    ],
)
def test_what_no_warpgroup_has_is_refused(use, indices, named):
    with pytest.raises(ProblemError, match=named):
        use(*indices)
