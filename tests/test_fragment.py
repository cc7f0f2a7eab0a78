"""Who holds what in a warpgroup: against the PTX ISA, the kernels, and what an H200 recorded."""

import re
from functools import partial

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper import mma_sync
from hopper.errors import ProblemError
from hopper.experiments import arrays
from hopper.fragment import (
    a_held_by,
    a_holder,
    b_held_by,
    b_holder,
    f16_held_by,
    f16_holder,
    held_by,
    holder,
    matrix_held_by,
    matrix_holder,
)
from hopper.paths import KERNELS

threads, lanes = some.integers(0, 127), some.integers(0, 31)
sizes = some.sampled_from([1, 2, 4])
flags = some.booleans()


@given(threads, some.integers(0, 127))
def test_an_accumulator_is_found_again(thread, register):
    assert holder(*held_by(thread, register)) == (thread, register)


@given(some.integers(0, 63), some.integers(0, 255))
def test_an_element_is_found_again(row, column):
    assert held_by(*holder(row, column)) == (row, column)


@given(threads, some.integers(0, 63), some.integers(0, 1))
def test_an_f16_accumulator_is_found_again(thread, register, half):
    assert f16_holder(*f16_held_by(thread, register, half)) == (thread, register, half)


@given(threads, some.integers(0, 3), sizes, some.data())
def test_an_element_of_a_is_found_again(thread, register, size, data):
    item = data.draw(some.integers(0, 4 // size - 1))
    element = a_held_by(thread, register, item, item_bytes=size)
    assert a_holder(*element, item_bytes=size) == (thread, register, item)


@given(lanes, some.integers(0, 1), sizes, some.data())
def test_an_element_of_b_is_found_again(lane, register, size, data):
    item = data.draw(some.integers(0, 4 // size - 1))
    element = b_held_by(lane, register, item, item_bytes=size)
    assert b_holder(*element, item_bytes=size) == (lane, register, item)


@given(lanes, some.integers(0, 1), flags)
def test_an_element_of_a_matrix_is_found_again(lane, half, transposed):
    element = matrix_held_by(lane, half, transposed=transposed)
    assert matrix_holder(*element, transposed=transposed) == (lane, half)


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


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_is_held_once_as_arrays_say_it(size):
    given_index = numpy.indices((128, 4, 4 // size))
    row, k = a_held_by(*given_index, item_bytes=size)
    tile = numpy.zeros((64, 32 // size), int)
    numpy.add.at(tile, (row, k), 1)
    assert (tile == 1).all()
    for back, one in zip(a_holder(row, k, item_bytes=size), given_index, strict=True):
        assert (back == one).all()


@pytest.mark.parametrize("size", [1, 2, 4])
def test_b_is_held_once_as_arrays_say_it(size):
    given_index = numpy.indices((32, 2, 4 // size))
    column, k = b_held_by(*given_index, item_bytes=size)
    tile = numpy.zeros((8, 32 // size), int)
    numpy.add.at(tile, (column, k), 1)
    assert (tile == 1).all()
    for back, one in zip(b_holder(column, k, item_bytes=size), given_index, strict=True):
        assert (back == one).all()


def test_pairs_of_f16_accumulators_are_neighbours_in_a_row():
    row, column = f16_held_by(*numpy.indices((128, 64, 2)))
    assert (row[..., 0] == row[..., 1]).all()
    assert (column[..., 0] + 1 == column[..., 1]).all() and not (column[..., 0] % 2).any()
    tile = numpy.zeros((64, 256), int)
    numpy.add.at(tile, (row, column), 1)
    assert (tile == 1).all()


@given(threads, some.integers(0, 3), some.integers(0, 3))
def test_a_byte_has_one_place_whatever_it_belongs_to(thread, register, byte):
    """The picture of the module: only bytes count, and every type cuts them its own way."""
    row, k = a_held_by(thread, register, byte, item_bytes=1)
    for size in (2, 4):
        there = a_held_by(thread, register, byte // size, item_bytes=size)
        assert there == (row, k // size)


def test_the_picture_is_a_matrix_of_ldmatrix():
    """Register r of A is matrix r of an ldmatrix.x4; so it is said that one loads the other."""
    lane, register, half = numpy.indices((32, 4, 2))
    row, column = matrix_held_by(lane, half)
    a_row, k = a_held_by(lane, register, half)
    assert (a_row == row + 8 * (register % 2)).all() and (k == column + 8 * (register // 2)).all()
    b_column, k = b_held_by(lane, register % 2, half)
    assert (b_column == row).all() and (k == column + 8 * (register % 2)).all()
    d_row, d_column = f16_held_by(lane, register, half)
    assert (d_row == a_row).all() and (d_column == column + 8 * (register // 2)).all()


def test_a_transposed_matrix_is_held_as_a_column_lies():
    row, column = matrix_held_by(*numpy.indices((32, 2)))
    t_row, t_column = matrix_held_by(*numpy.indices((32, 2)), transposed=True)
    assert (t_row == column).all() and (t_column == row).all()


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
                k, column = mma_sync.fragment_b(lane, 2 * (register % 2) + half)
                assert b_held_by(lane, register % 2, half) == (column, k)
                assert matrix_held_by(lane, half)[0] == mma_sync.received(lane)[0]
                assert matrix_held_by(lane, 0)[1] == mma_sync.received(lane)[1]


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
        (partial(a_holder, item_bytes=1), (0, 32), "k=32: an instruction is 32 deep for an 8-bit"),
        (partial(a_holder, item_bytes=4), (0, 8), "k=8: an instruction is 8 deep for a 32-bit"),
        (partial(a_held_by, item_bytes=4), (0, 0, 1), "half=1: a register holds one 32-bit"),
        (partial(a_held_by, item_bytes=8), (0, 0, 0), "item_bytes=8: .* pass one of these"),
        (b_held_by, (32, 0, 0), "lane=32: a warp has 32 threads"),
        (b_held_by, (0, 2, 0), "register=2: B takes two"),
        (partial(b_held_by, item_bytes=1), (0, 0, 4), "item=4: a register holds four 8-bit"),
        (b_holder, (8, 0), "column=8: mma.sync has eight columns"),
        (f16_held_by, (0, 64, 0), "register=64"),
        (f16_held_by, (0, 0, 2), "half=2"),
        (f16_holder, (64, 0), "row=64"),
        (matrix_held_by, (32, 0), "lane=32"),
        (matrix_held_by, (0, 2), "half=2"),
        (matrix_holder, (8, 0), "row=8: a matrix has eight rows"),
        (matrix_holder, (0, -1), "column=-1"),
        (held_by, (numpy.array([0, 200]), 0), "thread=200"),
    ],
)
def test_what_no_warpgroup_has_is_refused(use, indices, named):
    with pytest.raises(ProblemError, match=named):
        use(*indices)
