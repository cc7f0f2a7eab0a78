"""Whole operands in shared memory: every element has a place of its own, where a wgmma finds it."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper.descriptor import STEP_BYTES
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import ProblemError
from hopper.experiments.descriptors import dump
from hopper.placement import Placement
from hopper.swizzle import SPANS, swizzled


@st.composite
def placements(draw):
    major = draw(st.sampled_from(("K", "MN")))
    item = draw(st.sampled_from((1, 2, 4))) if major == "K" else 2
    span = draw(st.sampled_from(SPANS))
    piece = (span or 16) // item
    rows = draw(st.integers(1, 4)) * (piece if major == "MN" else 8)
    deep = piece if major == "K" and span else STEP_BYTES // item
    return Placement(rows, draw(st.integers(1, 3)) * deep, major, span, item)


def places(tile: Placement) -> numpy.ndarray:
    return swizzled(tile.offset(*numpy.indices((tile.rows, tile.depth))), tile.swizzle)


@given(placements())
def test_elements_fill_the_tile_without_a_gap_and_none_twice(tile):
    assert sorted(places(tile).flat) == list(range(0, tile.size, tile.item_bytes))


@given(placements(), st.integers(0, 3))
def test_the_descriptor_of_a_step_leads_to_the_elements_of_that_step(tile, atoms):
    start = 1024 * atoms
    deep = STEP_BYTES // tile.item_bytes
    r, k = numpy.indices((tile.rows, deep))
    for step in range(tile.depth // deep):
        one = tile.descriptor(start, step)
        found = one.address(r, k, major=tile.major, item_bytes=tile.item_bytes)
        assert (found == start + places(tile)[:, step * deep : (step + 1) * deep]).all()


@given(placements())
def test_an_image_holds_each_element_at_its_place(tile):
    matrix = numpy.arange(tile.rows * tile.depth).reshape(tile.rows, tile.depth)
    matrix = matrix.astype(f"u{tile.item_bytes}")
    items = tile.image(matrix).view(matrix.dtype)
    assert (items[places(tile) // tile.item_bytes] == matrix).all()


@pytest.mark.parametrize("span", [32, 64, 128])
def test_it_is_what_tma_writes(span):
    gpu = EmulatedGpu()
    rows, columns = 1024 // span, span // 2
    numbered = numpy.arange(512, dtype="uint16").reshape(rows, columns)
    written = dump(gpu, span)[0, :512]
    assert (Placement(rows, columns, "K", span).image(numbered).view("uint16") == written).all()
    # The same box of a matrix stored (K, N): rows of the box are k.
    if rows % 16 == 0:
        across = Placement(columns, rows, "MN", span)
        assert (across.image(numbered.T.copy()).view("uint16") == written).all()


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (dict(rows=12, depth=64), "rows=12.*multiple of 8"),
        (dict(rows=64, depth=32), "depth=32.*multiple of 64"),
        (dict(rows=32, depth=64, major="MN"), "rows=32.*multiple of 64"),
        (dict(rows=64, depth=8, swizzle=0), "depth=8.*multiple of 16"),
        (dict(rows=0, depth=64), "rows=0"),
        (dict(rows=64, depth=64, swizzle=16), "swizzle=16"),
    ],
)
def test_a_tile_that_does_not_repeat_is_refused(made, named):
    with pytest.raises(ProblemError, match=named):
        Placement(**made)


@pytest.mark.parametrize("matrix", [numpy.zeros((64, 32), "u2"), numpy.zeros((64, 64), "u1")])
def test_another_matrix_than_the_tiles_is_refused(matrix):
    with pytest.raises(ProblemError, match="this tile is"):
        Placement(64, 64).image(matrix)
