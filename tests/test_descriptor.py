"""The matrix descriptor: its bits against the C++ headers, its addresses against built tiles.

The tiles are built piece by piece, as the PTX ISA draws them, with no formula for an element.
"""

import re
import subprocess
import sys

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper import descriptor
from hopper.compile import compile_cuda, compile_kernel
from hopper.descriptor import Descriptor, decode, element_offset, k_step
from hopper.descriptor.__main__ import main
from hopper.errors import ProblemError
from hopper.exercises.v1_wgmma import expected_descriptor
from hopper.experiments import arrays
from hopper.fragment import held_by
from hopper.paths import ROOT
from hopper.swizzle import SPANS, alignment, atom_bytes

lengths = some.integers(0, (1 << 14) - 1).map(lambda units: 16 * units)
spans = some.sampled_from(SPANS)
majors = some.sampled_from(["K", "MN"])
descriptors = some.builds(Descriptor, lengths, lengths, lengths, some.integers(0, 7), spans)

# ---- 64 bits ------------------------------------------------------------------------------------


@given(descriptors)
def test_what_is_encoded_is_decoded(one):
    assert decode(one.encode()) == one


@given(descriptors)
def test_each_field_stands_where_the_ptx_isa_puts_it(one):
    bits = f"{one.encode():064b}"[::-1]
    assert len(bits) == 64
    fields = {name: int(bits[slice(*where)][::-1], 2) for name, where in WHERE.items()}
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[one.swizzle]
    assert fields == {
        "start": one.start // 16,
        "leading": one.leading // 16,
        "stride": one.stride // 16,
        "base": one.base_offset,
        "mode": mode,
    }
    assert set(bits[14:16] + bits[30:32] + bits[46:49] + bits[52:62]) == {"0"}


WHERE = {"start": (0, 14), "leading": (16, 30), "stride": (32, 46), "base": (49, 52)}
WHERE["mode"] = (62, 64)


@given(some.integers(0, (1 << 64) - 1))
def test_a_number_is_decoded_to_itself_or_refused(value):
    reserved = 0x3FF << 52 | 7 << 46 | 3 << 30 | 3 << 14
    if value & reserved:
        with pytest.raises(ProblemError, match="belong to no field"):
            decode(value)
    assert decode(value & ~reserved).encode() == value & ~reserved


def test_numpy_integers_are_encoded_without_overflow():
    wide = Descriptor(*(numpy.int32(16 * n) for n in (64, 1, 64)), numpy.int32(0), 128)
    assert wide.encode() == 0x4000004000010040


def fixed_bits(ptx: str) -> set[int]:
    """What a compiled kernel joins to the start address of its descriptors."""
    return {int(n) for n in re.findall(r"or\.b64\s+%rd\d+, %rd\d+, (\d+);", ptx)}


def header_bits(header: str, call: str) -> set[int]:
    """The fixed bits that a descriptor function of a header joins to the address of a tile."""
    source = f"""
#include "half.cuh"
#include "{header}"
extern "C" __global__ void k(unsigned long long* out) {{
  __shared__ alignas(1024) half tile[64 * 64];
  *out = {call}(tile);
}}"""
    return fixed_bits(compile_cuda(source).ptx)


def test_v1_and_its_header_describe_a_swizzled_tile():
    expected = {Descriptor(start=0, leading=16, stride=1024, swizzle=128).encode()}
    assert header_bits("descriptor.cuh", "descriptor_k_major_128b") == expected
    assert fixed_bits(compile_kernel("v1_wgmma").ptx) == expected


@pytest.mark.parametrize("depth", [16, 64])
def test_the_header_describes_core_matrices(depth):
    expected = {Descriptor(start=0, leading=128, stride=16 * depth).encode()}
    call = f"descriptor_k_major_unswizzled<{depth}>"
    assert header_bits("core_matrix.cuh", call) == expected
    if depth == 16:
        assert fixed_bits(compile_kernel("one_wgmma").ptx) == expected


def test_one_wgmmas_elements_are_stored_where_they_are_read():
    pairs = [(row, k) for row in range(0, 64, 3) for k in range(16)]
    asserted = "\n".join(
        f"static_assert(core_matrix_index<16>({row}, {k}) * 2 == "
        f"{element_offset(row, k, major='K', swizzle=0, leading=128, stride=256)});"
        for row, k in pairs
    )
    compile_cuda(f'#include "core_matrix.cuh"\n{asserted}\nextern "C" __global__ void k() {{}}')


# ---- tiles, built by hand -----------------------------------------------------------------------


def core_matrices(major: str, leading: int, stride: int, rows: int, depth: int) -> dict:
    """Byte of a tile -> (r, k): 16-byte pieces one by one, core matrix by core matrix."""
    placed = {}
    for down in range(rows // 8):
        for along in range(depth // 8):
            byte = down * stride + along * leading
            for outer in range(8):
                for inner in range(8):
                    r, k = (outer, inner) if major == "K" else (inner, outer)
                    placed[byte] = 8 * down + r, 8 * along + k
                    byte += 2
    return placed


def atoms(major: str, span: int, leading: int, stride: int, rows: int, depth: int) -> dict:
    """Byte of a tile on a multiple of its atom -> (r, k): each atom has 8 lines of one span.

    The pieces of a line swap places by the number of the 128-byte row that the line lies in.
    """
    placed = {}
    items = span // 2
    if major == "K":
        tops = {(8 * down, 0): down * stride for down in range(rows // 8)}
    else:
        tops = {
            (items * across, 8 * along): across * leading + along * stride
            for across in range(rows // items)
            for along in range(depth // 8)
        }
    for (r0, k0), top in tops.items():
        for line in range(8):
            for place in range(span // 16):
                piece = place ^ (line * span // 128) % (span // 16)
                for item in range(8):
                    along = 8 * piece + item
                    r, k = (line, along) if major == "K" else (along, line)
                    placed[top + line * span + 16 * place + 2 * item] = r0 + r, k0 + k
    return placed


@some.composite
def tiles(draw):
    """(major, span, leading, stride, rows, depth): what a descriptor and a tile have in common.

    The offsets leave gaps or not, and no two atoms or core matrices overlap.
    """
    major, span = draw(majors), draw(spans)
    items = span // 2 or 8
    unit = atom_bytes(span) or 128
    down, along = draw(some.integers(1, 4)), draw(some.integers(1, 4))
    rows, depth = (8 * down, 8 * along) if not span else (8 * down, items)
    if span and major == "MN":
        rows, depth = items * down, 8 * along
    inner = unit * draw(some.integers(1, 3))
    outer = inner * max(down, along) * draw(some.integers(1, 2))
    leading, stride = draw(some.permutations([inner, outer]))
    return major, span, leading, stride, rows, depth


def placed_by_hand(tile) -> dict:
    """Byte of a tile -> (r, k)."""
    major, span, leading, stride, rows, depth = tile
    if span:
        return atoms(major, span, leading, stride, rows, depth)
    return core_matrices(major, leading, stride, rows, depth)


@given(tiles(), some.integers(0, 40))
def test_an_element_lies_where_a_tile_built_by_hand_has_it(tile, start):
    major, span, leading, stride, rows, depth = tile
    start *= alignment(span)
    placed = placed_by_hand(tile)
    assert sorted(placed.values()) == [(r, k) for r in range(rows) for k in range(depth)]
    one = Descriptor(start, leading, stride, swizzle=span)
    r, k = numpy.indices((rows, depth))
    addresses = one.address(r, k, major=major)
    assert {start + byte: place for byte, place in placed.items()} == {
        int(addresses[place]): place for place in numpy.ndindex(rows, depth)
    }
    last = rows - 1, depth - 1
    assert one.address(*last, major=major) == addresses[last]


@given(tiles(), some.integers(0, 40))
def test_a_base_offset_says_that_the_pattern_starts_elsewhere(tile, start):
    """A tile whose atoms lie 128 · n bytes behind where they belong, pattern and all."""
    major, span, leading, stride, rows, depth = tile
    start *= 128
    one = Descriptor(start, leading, stride, base_offset=start // 128 % 8, swizzle=span)
    addresses = one.address(*numpy.indices((rows, depth)), major=major)
    for byte, place in placed_by_hand(tile).items():
        assert addresses[place] == start + byte


@given(tiles(), some.integers(0, 3), some.integers(0, 15))
def test_a_step_along_k_moves_the_start(tile, steps, k):
    major, span, leading, stride, rows, depth = tile
    layout = dict(major=major, swizzle=span, leading=leading, stride=stride)
    if span and major == "K" and 16 * steps + k >= depth:
        steps, k = 0, k % depth
    there = k_step(steps, **layout)
    for r in (0, rows - 1):
        moved = there + element_offset(r, k, **layout)
        assert moved == element_offset(r, 16 * steps + k, **layout)


@pytest.mark.parametrize(("step", "start"), [(0, 0x8400), (1, 0x8420), (3, 0x8460)])
def test_v1_steps_32_bytes_inside_a_row_and_finds_the_same_bytes(step, start):
    """The XOR is of absolute addresses, so a start inside an atom needs no other base offset."""
    layout = dict(leading=16, stride=1024, swizzle=128)
    whole, moved = Descriptor(0x8400, **layout), Descriptor(start, **layout)
    assert start == 0x8400 + k_step(step, major="K", **layout)
    assert moved.encode() == expected_descriptor(start)
    r, k = numpy.indices((64, 16))
    there = whole.address(r, 16 * step + k, major="K")
    assert (moved.address(r, k, major="K") == there).all()


def test_the_exercise_of_the_loop_steps_two_core_matrices():
    assert k_step(major="K", swizzle=0, leading=128, stride=1024) == 16 * 16


def test_other_types_fill_the_same_16_bytes():
    rows = numpy.arange(64)
    for swizzle in SPANS:
        layout = dict(major="K", swizzle=swizzle, leading=128, stride=2048)
        for item_bytes in (1, 4):
            for byte in range(0, swizzle or 64, item_bytes):
                there = element_offset(rows, byte // item_bytes, item_bytes=item_bytes, **layout)
                assert (there == element_offset(rows, byte // 2, **layout) + byte % 2).all()
    assert k_step(item_bytes=1, major="K", swizzle=128, leading=16, stride=1024) == 32


@pytest.mark.parametrize("name", ["coordinates", "integers"])
def test_what_one_wgmma_read_gives_what_the_h200_returned(name):
    """Operands stored by the kernel's index, read by address: the product is the recorded one."""
    probe = arrays("one_wgmma", name)
    operands = []
    for stored, start in ((probe["a"], 0x400), (probe["b"], 0xC00)):
        shared = numpy.zeros(0x2000, "uint8")
        for (row, k), value in numpy.ndenumerate(stored):
            index = (row // 8 * 2 + k // 8) * 64 + row % 8 * 8 + k % 8  # core_matrix_index<16>
            shared[start + 2 * index :][:2] = numpy.frombuffer(value.tobytes(), "uint8")
        one = Descriptor(start, leading=128, stride=256)
        addresses = one.address(*numpy.indices(stored.shape), major="K")
        operands.append(shared.view("float16")[addresses // 2].astype("float64"))
    a, b = operands
    held = probe["held"]
    assert held.any(), probe.label
    assert (held == (a @ b.T)[held_by(*numpy.indices(held.shape))]).all()


# ---- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (dict(start=0x8408), "start=33800: .*multiple of 16"),
        (dict(start=1 << 18), "start=262144: its field holds 0 to 262128"),
        (dict(start=-16), "start=-16: its field holds"),
        (dict(leading=1), "leading=1: .*units of 16 bytes"),
        (dict(leading=1 << 18), "leading=262144"),
        (dict(stride=64 + 8), "stride=72"),
        (dict(stride=1 << 20), "stride=1048576"),
        (dict(base_offset=8), "base_offset=8: it has three bits"),
        (dict(base_offset=-1), "base_offset=-1"),
        (dict(swizzle=1), "swizzle=1: a mode is named by its span"),
    ],
)
def test_what_cannot_be_encoded_is_named(fields, named):
    with pytest.raises(ProblemError, match=named):
        Descriptor(**{"start": 0, "leading": 16, "stride": 1024, **fields})


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_a_wider_number_is_no_descriptor(value):
    with pytest.raises(ProblemError, match="a descriptor has 64 bits"):
        decode(value)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (dict(major="M"), "major='M': .*pass 'K' or 'MN'"),
        (dict(swizzle=16), "swizzle=16"),
        (dict(item_bytes=3), "item_bytes=3"),
        (dict(major="MN", item_bytes=1), "16-bit types only"),
        (dict(r=-1), "r=-1"),
        (dict(k=numpy.array([0, -8])), "k=-8"),
        (dict(k=64), "k=64: a K-major row of 128 bytes holds 64 elements"),
        (dict(k=32, item_bytes=4), "holds 32 elements of 4 bytes"),
    ],
)
def test_an_element_that_no_operand_has_is_refused(changed, named):
    element = dict(r=0, k=0, major="K", swizzle=128, leading=16, stride=1024)
    with pytest.raises(ProblemError, match=named):
        element_offset(**{**element, **changed})


def test_a_step_out_of_a_swizzled_row_is_refused():
    with pytest.raises(ProblemError, match="k=16: a K-major row of 32 bytes"):
        k_step(major="K", swizzle=32, leading=16, stride=256)


def test_a_base_offset_is_encoded_and_moves_the_pattern():
    one = Descriptor(0x480, 16, 1024, base_offset=1, swizzle=128)
    assert decode(one.encode()) == one
    # Row 0 of the pattern, which swaps nothing, is where the tile starts; absolute it is row 1.
    assert one.address(0, 0, major="K") == 0x480
    assert Descriptor(0x480, 16, 1024, swizzle=128).address(0, 0, major="K") == 0x490


# ---- in words -----------------------------------------------------------------------------------


def test_the_command_line_says_what_a_descriptor_means():
    command = [sys.executable, "-m", "hopper.descriptor", "0x4000004000010040"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == [
        "bits 16–29",
        "bits 32–45",
        "bits 49–51",
        "bits 62–63",
    ]
    assert "0x40  1024 bytes into shared memory, a multiple of 1024" in lines[0]
    assert "unused if K-major" in lines[1]
    assert "1024 bytes to the next 8 rows if K-major" in lines[2]
    assert lines[4].endswith("128 bytes")
    assert not done.stderr


@given(descriptors)
def test_every_descriptor_has_words(one):
    text = descriptor.described(one.encode())
    assert len(text.splitlines()) == 5
    for length in (one.start, one.leading, one.stride):
        assert f"  {length} bytes " in text


@pytest.mark.parametrize(
    ("arguments", "status", "named"),
    [
        (["1024 bytes"], 1, "'1024 bytes': not a whole number"),
        (["0x400", "--rows", "12"], 2, "rows=12: an instruction reads"),
        ([], 2, "python -m hopper.descriptor"),
        (["0x400", "--major", "M"], 2, "invalid choice: 'M'"),
    ],
)
def test_arguments_that_make_no_sense_are_named(arguments, status, named, capsys):
    assert main(arguments) == status
    out, error = capsys.readouterr()
    assert named in error
    assert not out


def test_a_start_inside_an_atom_shows():
    text = descriptor.described(Descriptor(0x8420, 16, 1024, swizzle=128).encode())
    assert "32 past a multiple of 1024" in text
