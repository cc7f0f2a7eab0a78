"""The swizzle by address bits, against atoms drawn by hand."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper.errors import ProblemError
from hopper.swizzle import SPANS, alignment, atom_bytes, swizzled

spans = some.sampled_from(SPANS)
addresses = some.integers(0, (1 << 18) - 1)

# Which piece of its row stands in each place of an atom, row by row: a narrower span takes more
# rows to fill 128 bytes, and only then does the order change.
ATOMS = {
    128: ["01234567", "10325476", "23016745", "32107654"]
    + ["45670123", "54761032", "67452301", "76543210"],
    64: ["0123", "0123", "1032", "1032", "2301", "2301", "3210", "3210"],
    32: ["01", "01", "01", "01", "10", "10", "10", "10"],
}


@pytest.mark.parametrize("span", ATOMS)
@pytest.mark.parametrize("atom", [0, 1, 150])
def test_an_atom_is_the_one_drawn(span, atom):
    start = atom * atom_bytes(span)
    for row, places in enumerate(ATOMS[span]):
        for place, piece in enumerate(places):
            unswizzled = start + row * span + 16 * int(piece)
            assert swizzled(unswizzled, span) == start + row * span + 16 * place


@given(address=addresses, span=spans)
def test_it_undoes_itself_and_keeps_the_bytes_of_a_piece_together(address, span):
    there = swizzled(address, span)
    assert type(there) is int
    assert swizzled(there, span) == address
    assert there % 16 == address % 16
    assert there // 128 == address // 128
    assert there // max(span, 16) == address // max(span, 16)


@pytest.mark.parametrize("span", SPANS)
def test_no_two_addresses_meet(span):
    everywhere = numpy.arange(1 << 14)
    there = swizzled(everywhere, span)
    assert (numpy.sort(there) == everywhere).all()
    assert (there == everywhere).all() == (span == 0)


@given(some.lists(addresses, min_size=1), spans, some.sampled_from(["int32", "int64", "uint32"]))
def test_an_array_goes_where_its_elements_go(many, span, dtype):
    there = swizzled(numpy.array(many, dtype), span)
    assert there.dtype == dtype
    assert there.tolist() == [swizzled(address, span) for address in many]


@given(start=some.integers(0, 200), offset=some.integers(0, 1 << 14), span=spans)
def test_from_an_aligned_start_the_offset_alone_decides(start, offset, span):
    start *= alignment(span)
    assert swizzled(start + offset, span) == start + swizzled(offset, span)


@pytest.mark.parametrize("span", [128, 64, 32])
def test_from_half_an_atom_it_does_not(span):
    start = alignment(span) // 2
    offsets = numpy.arange(atom_bytes(span))
    assert (swizzled(start + offsets, span) != start + swizzled(offsets, span)).any()


def test_the_sizes_are_those_of_the_ptx_isa():
    assert [(span, atom_bytes(span), alignment(span)) for span in SPANS] == [
        (128, 1024, 1024),
        (64, 512, 512),
        (32, 256, 256),
        (0, 0, 16),
    ]


@pytest.mark.parametrize("use", [lambda span: swizzled(0, span), atom_bytes, alignment])
@pytest.mark.parametrize("span", [1, 3, 16, 256, -32])
def test_an_unknown_mode_is_refused(use, span):
    with pytest.raises(ProblemError, match=f"swizzle={span}: .*spans are 128, 64, 32"):
        use(span)
