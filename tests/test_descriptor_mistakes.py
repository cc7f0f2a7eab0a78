"""Mistakes in descriptors: what is fine has none, what was broken on purpose is named."""

import random
from functools import cache
from itertools import product

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper.descriptor import FIELD_BITS, Descriptor, decode
from hopper.descriptor.__main__ import main, readings, report
from hopper.descriptor.mistakes import (
    SHARED_END,
    SHARED_START,
    TENSOR_MAP_CODE,
    mistakes,
)
from hopper.descriptor.pieces import core_matrix, pieces
from hopper.descriptor.sentences import SENTENCES
from hopper.emulator.wgmma import _behind_atom
from hopper.errors import ProblemError
from hopper.placement import Placement
from hopper.swizzle import SPANS, atom_bytes, swizzled
from hopper.tensormap import _SWIZZLE

GOOD = 0x4000004000010040
K64 = dict(major="K", rows=64)
MN128 = dict(major="MN", rows=128)
#: Tile of 64 × 64 and 128 × 64 in fp16, swizzled.
MN_GOOD = Placement(128, 64, "MN", 128).descriptor(0x400).encode()
CORES = Placement(64, 64, "K", 0).descriptor(0x400).encode()


def keys(value: int, **operand) -> list[str]:
    return [one.key for one in mistakes(value, **operand)]


def changed(one: int, **fields: int) -> int:
    """The descriptor with some of its fields, in bytes, replaced."""
    it = decode(one)
    names = ("start", "leading", "stride", "base_offset", "swizzle")
    return Descriptor(**{name: fields.get(name, getattr(it, name)) for name in names}).encode()


# ---- what is fine -------------------------------------------------------------------------------


@cache
def placements() -> list[tuple[Placement, int]]:
    """Tiles as kernels lay them out, and how many rows an instruction reads of them."""
    found = []
    for major, span, item_bytes, rows, deep in product(
        ("K", "MN"), SPANS, (1, 2, 4), (8, 16, 32, 64, 128, 192, 256), (32, 64, 128, 256)
    ):
        if major == "MN" and item_bytes != 2:
            continue
        try:
            tile = Placement(rows, deep // item_bytes, major, span, item_bytes)
        except ProblemError:
            continue
        found += [(tile, read) for read in {rows, min(rows, 64)}]
    return found


def test_tiles_as_kernels_lay_them_out_have_no_mistake():
    seen = 0
    for tile, rows in placements():
        depth = 32 // tile.item_bytes
        for step, start in product(range(tile.depth // depth), (0x400, 0x8400)):
            value = tile.descriptor(start, step).encode()
            for meant in (None, tile.swizzle):
                operand = dict(major=tile.major, item_bytes=tile.item_bytes, rows=rows)
                assert mistakes(value, swizzle=meant, **operand) == (), (tile, rows, step)
                seen += 1
    assert seen > 2000


lengths = some.one_of(
    some.sampled_from([0, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]),
    some.integers(0, (1 << 14) - 1).map(lambda units: 16 * units),
)
near = some.builds(
    Descriptor,
    some.integers(64, SHARED_END // 16).map(lambda units: 16 * units),
    lengths,
    lengths,
    some.sampled_from([0, 0, 0, 1, 4, 7]),
    some.sampled_from(SPANS),
)


@given(near, some.sampled_from(["K", "MN"]), some.integers(1, 32), some.sampled_from([1, 2, 4]))
def test_a_number_without_a_mistake_leads_to_separate_bytes_inside_shared_memory(
    one, major, eighths, item_bytes
):
    if major == "MN":
        item_bytes = 2
    rows = 8 * eighths
    found = keys(one.encode(), major=major, item_bytes=item_bytes, rows=rows)
    r, k = pieces(rows, 32 // item_bytes, major=major, item_bytes=item_bytes)
    where = one.address(r, k, major=major, item_bytes=item_bytes).ravel()
    if not found:
        assert len(set(where.tolist())) == where.size
        assert where.min() >= SHARED_START and where.max() + 16 <= SHARED_END
    if "tile-beyond" in found:
        assert where.max() + 16 > SHARED_END
    if "overlap" in found:
        apart = numpy.diff(numpy.sort(where - where % 16))
        assert apart.min() < 16


@given(some.sampled_from(SPANS[:3]), some.integers(0, 127), some.booleans())
def test_a_start_is_right_where_rows_lie_as_the_swizzle_has_them(span, units, mn):
    """From an atom on, a tile's rows are those of an atom: elsewhere they are found elsewhere."""
    start = 0x400 + 16 * units
    atom = atom_bytes(span)
    major, rows = ("MN", span // 4) if mn else ("K", 64)
    need = 2 * rows if mn else 32
    value = Descriptor(start, 16, atom, swizzle=span).encode()
    top = start // atom * atom
    right = start - top + need <= span
    found = keys(value, major=major, rows=rows, swizzle=span)
    # Half a step along K is told, though what is read there lies where the swizzle has it.
    half = [] if mn or units % 2 == 0 else ["start-half-step"]
    assert (found == half) == right
    assert set(found) - set(half) <= {"start-inside-atom", "tile-unaligned", "row-crossed"}
    # An atom has eight rows of one span. Is what is read as (r, k) row r (or k) of this atom?
    depth = 16
    r, k = numpy.indices((8 if not mn else rows, depth if not mn else 8))
    line, item = (r, k) if not mn else (k, r)
    stored = swizzled(top + line * span + (start - top) + 2 * item, span)
    read = decode(value).address(r, k, major=major)
    assert (stored == read).all()
    inside = (stored < top + atom).all() and ((start - top) + 2 * item < span).all()
    assert inside == right


@given(near, some.sampled_from(["K", "MN"]))
def test_a_tile_of_which_the_emulator_warns_has_a_mistake(one, major):
    if not one.swizzle:
        return
    found = set(keys(one.encode(), major=major, rows=64, swizzle=one.swizzle))
    named = found & {"start-inside-atom", "tile-unaligned", "base-of-aligned", "base-other"}
    if _behind_atom(one.encode()) and one.start < SHARED_END:
        assert named
    elif one.swizzle == 128:
        assert not named


# ---- what was broken ----------------------------------------------------------------------------

BROKEN = [
    ("too-wide", 1 << 64 | GOOD, K64),
    ("too-wide", -1, K64),
    ("blackwell", GOOD | 1 << 46, K64),
    ("mode-at-61", GOOD | 1 << 61, K64),
    ("start-wide", GOOD - 0x40 + 0x8400, K64),
    ("leading-wide", GOOD | 1 << 30, K64),
    ("stride-wide", GOOD | 3 << 46, K64),
    ("stride-wide", (GOOD & ~(0x3FFF << 32)) | 16384 << 32, K64),
    ("high-bits", GOOD | 1 << 55, K64),
    ("mn-not-16-bit", GOOD, dict(major="MN", rows=64, item_bytes=1)),
    ("mode-missing", GOOD & ~(3 << 62), K64),
    ("mode-of-tensor-map", GOOD | 3 << 62, K64),
    ("mode-of-tensor-map", changed(GOOD, stride=256), K64),
    ("mode-of-tensor-map", changed(GOOD, swizzle=32), K64 | dict(swizzle=128)),
    ("mode-of-stride", changed(GOOD, stride=512), K64),
    ("mode-of-stride", changed(GOOD, stride=256, swizzle=64), K64),
    ("mode-other", changed(GOOD, swizzle=64), K64 | dict(swizzle=128)),
    ("start-low", changed(GOOD, start=0), K64),
    ("start-low", changed(GOOD, start=0x40), K64),
    ("start-unshifted", GOOD - 0x40 + 0x3C00, K64),
    ("start-beyond", changed(GOOD, start=SHARED_END + 16), K64),
    ("base-without-swizzle", CORES | 1 << 49, K64),
    ("start-inside-atom", changed(GOOD, start=0x480), K64),
    ("start-half-step", changed(GOOD, start=0x410), K64),
    ("start-half-step", changed(GOOD, start=0x450), K64 | dict(swizzle=128)),
    ("start-half-step", changed(GOOD, start=0x410, stride=512, swizzle=64), K64),
    ("tile-unaligned", changed(MN_GOOD, start=0x480), MN128),
    ("base-of-aligned", GOOD | 1 << 49, K64),
    ("base-other", changed(GOOD, start=0x480) | 2 << 49, K64),
    ("row-crossed", changed(GOOD, start=0x400 + 112), K64),
    ("row-crossed", changed(MN_GOOD, start=0x410), MN128),
    ("swapped", changed(GOOD, leading=1024, stride=16), K64),
    ("swapped", changed(MN_GOOD, leading=1024, stride=16), dict(major="MN", rows=64)),
    ("swapped", changed(CORES, leading=256, stride=128), K64),
    ("offsets-unshifted", changed(GOOD, stride=16384), K64),
    ("offsets-unshifted", changed(CORES, leading=2048, stride=4096), K64),
    ("offsets-shifted-twice", changed(GOOD, stride=64), K64),
    ("stride-of-other-swizzle", changed(GOOD, stride=512), K64 | dict(swizzle=128)),
    ("stride-of-other-swizzle", changed(GOOD, stride=256), K64 | dict(swizzle=128)),
    ("stride-of-other-swizzle", changed(MN_GOOD, stride=512), MN128 | dict(swizzle=128)),
    ("leading-not-atoms", changed(MN_GOOD, leading=16), MN128),
    ("stride-not-atoms", changed(GOOD, stride=1024 + 128), K64),
    ("stride-not-atoms", changed(MN_GOOD, stride=1024 + 16), MN128),
    ("overlap", changed(GOOD, leading=16, stride=0), K64),
    ("overlap", changed(CORES, leading=128, stride=128), K64),
    ("tile-beyond", changed(GOOD, start=SHARED_END - 1024), K64),
]
BROKEN_IDS = [f"{key}-{i}" for i, (key, *_) in enumerate(BROKEN)]


@pytest.mark.parametrize(("key", "value", "operand"), BROKEN, ids=BROKEN_IDS)
def test_a_broken_number_has_one_mistake_and_it_is_named(key, value, operand):
    (one,) = mistakes(value, **operand)
    assert one.key == key
    assert "{" not in str(one) and str(one).endswith(".")


def test_every_sentence_is_told_by_some_number():
    assert {key for key, *_ in BROKEN} == set(SENTENCES)


@pytest.mark.parametrize(
    ("value", "operand", "words"),
    [
        (GOOD | 3 << 62, K64, "mode is 3: a tensor map calls 128 bytes so, a descriptor 32 bytes"),
        (GOOD - 0x40 + 0x8400, K64, "(address & 0x3ffff) >> 4, which is 0x840"),
        (GOOD - 0x40 + 0x3C00, K64, "0x3c000, and shared memory ends at 0x39000"),
        (changed(GOOD, stride=64), K64, "stride 64 bytes are too small, 16 times as much"),
        (
            changed(GOOD, stride=512),
            K64 | dict(swizzle=128),
            "512 bytes, 8 × 64: that is the stride of the 64-byte swizzle, and this one has 128",
        ),
        (changed(GOOD, start=0x450), K64, "0x450 lies 80 bytes into a row of 128 bytes, an odd"),
        (
            changed(GOOD, swizzle=0),
            K64 | dict(swizzle=128),
            "mode is 0, which is no swizzle, and you meant 128 bytes; put 1 into",
        ),
        (CORES, K64 | dict(swizzle=128), "which is no swizzle, and you meant 128 bytes"),
        (GOOD, K64 | dict(swizzle=0), "which is 128 bytes, and you meant no swizzle; put 0 into"),
        (changed(GOOD, stride=1152), K64, "multiple of 1024 bytes (8 × 128) further"),
        (changed(GOOD, start=0x480), K64, "0x480 is 128 bytes behind a multiple of 1024"),
        (changed(GOOD, start=0x480) | 2 << 49, K64, "bits 7–9 of the start 0x480 are 1"),
        (changed(GOOD, start=SHARED_END - 1024), K64, "from 0x38c00 to 0x3ab9f"),
    ],
)
def test_a_sentence_names_the_value_and_the_way_out(value, operand, words):
    (one,) = mistakes(value, **operand)
    assert words in str(one)


def test_a_fifth_step_along_k_leaves_the_row():
    tile = Placement(64, 64, "K", 128)
    for step in range(4):
        assert keys(tile.descriptor(0x400, step).encode(), **K64) == []
    assert keys(changed(GOOD, start=0x400 + 4 * 32), **K64) == ["start-inside-atom"]


def test_what_was_meant_is_believed():
    """A tile whose groups of rows lie further apart looks like a slip, unless you say you know."""
    apart = Descriptor(0x400, 16, 1024, swizzle=32).encode()
    assert keys(apart, **K64) == ["mode-of-tensor-map"]
    assert keys(apart, swizzle=32, **K64) == []


def test_a_stride_that_no_row_needs_is_not_judged():
    assert keys(changed(GOOD, stride=0), major="K", rows=8) == []
    assert keys(changed(GOOD, leading=0), **K64) == []
    assert keys(changed(MN_GOOD, leading=0), major="MN", rows=64) == []


def test_mistakes_of_unlike_kinds_are_told_together():
    value = changed(GOOD, start=0x410, stride=64) | 1 << 46
    assert keys(value, **K64) == ["blackwell", "start-half-step", "offsets-shifted-twice"]
    assert keys(changed(GOOD, start=0x480 + 112, stride=1040), **K64) == [
        "start-inside-atom",
        "row-crossed",
        "stride-not-atoms",
    ]


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("meant", SPANS)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_after_a_mode_that_was_not_meant_nothing_else_is_judged(span, meant, major):
    """A sound descriptor of one mode has a single mistake where another was meant."""
    value = Placement(128, 64, major, span).descriptor(0x400).encode()
    found = keys(value, major=major, rows=128, swizzle=meant)
    assert len(found) == (span != meant)
    assert set(found) <= {"mode-of-tensor-map", "mode-other"}
    nowhere = changed(value, start=0x40)
    assert keys(nowhere, major=major, rows=128, swizzle=meant)[-1] == "start-low"


def test_codes_of_a_tensor_map_are_those_that_tensor_maps_get():
    assert TENSOR_MAP_CODE == _SWIZZLE


@pytest.mark.parametrize(
    ("operand", "named"),
    [
        (dict(major="M"), "major='M': .*pass 'K' or 'MN'"),
        (dict(major="K", item_bytes=3), "item_bytes=3"),
        (dict(major="K", rows=12), "rows=12: an instruction reads 64 rows of A"),
        (dict(major="K", rows=264), "rows=264"),
        (dict(major="K", swizzle=16), "swizzle=16"),
    ],
)
def test_an_operand_that_wgmma_has_not_is_refused(operand, named):
    with pytest.raises(ProblemError, match=named):
        mistakes(GOOD, **operand)


# ---- pieces -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("major", "item_bytes"), [("K", 1), ("K", 2), ("K", 4), ("MN", 2)])
def test_pieces_and_core_matrices_part_an_operand(major, item_bytes):
    r, k = pieces(16, 64 // item_bytes, major=major, item_bytes=item_bytes)
    assert r.size * 16 == 16 * 64
    cores = {
        tuple(map(tuple, zip(*core_matrix(a, b, major=major, item_bytes=item_bytes), strict=True)))
        for a, b in zip(r.flat, k.flat, strict=True)
    }
    all_pieces = sorted(piece for core in cores for piece in core)
    assert all_pieces == sorted(zip(r.ravel(), k.ravel(), strict=True))
    assert {len(core) for core in cores} == {8}


# ---- the command line ---------------------------------------------------------------------------


def ran(capsys, *arguments: str) -> tuple[int, str]:
    status = main(arguments)
    out, error = capsys.readouterr()
    assert not error
    return status, out


def test_the_command_line_tells_what_depends_on_the_reading(capsys):
    status, out = ran(capsys, hex(GOOD))
    assert status == 0
    assert "MN-major with 128 or 256 rows: The leading offset is 16 bytes" in out
    assert "Nothing is wrong, if the operand is K-major, or MN-major with 64 rows." in out
    assert ran(capsys, hex(GOOD), "--major", "K") == (
        0,
        out.split("\n\n")[0] + "\n\nNothing is wrong with it.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["0xC000004000010040"], 1, "a tensor map calls 128 bytes so"),
        (["0xC000004000010040", "--swizzle", "32", "--major", "K"], 0, "Nothing is wrong with it"),
        (["0x4000404000010040"], 1, "Wrong, however it is read:\n  - Bits 46–48 are 1"),
        (["0x4000004000018400"], 1, "which is 0x840"),
        ([str(GOOD), "--bits", "8"], 0, "Nothing is wrong with it"),
        ([hex(GOOD), "--bits", "8", "--major", "MN"], 1, "16-bit types only"),
        ([hex(MN_GOOD), "--major", "MN", "--rows", "128"], 0, "Nothing is wrong with it"),
        ([hex(GOOD), "--major", "MN", "--rows", "72"], 1, "Wrong:\n  - The leading offset"),
        (["0x4000_0040_0001_0040ull", "--major", "K"], 0, "Nothing is wrong with it"),
    ],
)
def test_the_command_line_names_mistakes_and_its_status_says_so(arguments, status, words, capsys):
    got, out = ran(capsys, *arguments)
    assert got == status
    assert words in out
    assert out.startswith("bits  0–13  start address")


def test_every_reading_is_tried_or_the_one_that_is_given():
    assert len(readings(None, None, None)) == 6
    assert readings(None, 8, None) == [("K", 1, 64), ("K", 1, 128), ("K", 1, 256)]
    assert readings("MN", 16, 24) == [("MN", 2, 24)]
    text, status = report(GOOD | 1 << 15, readings("K", 16, 64), None)
    assert status == 1 and text.count("  - ") == 1


# ---- a corpus, for the browser as well ----------------------------------------------------------


def corpus(count: int) -> list[tuple[int, str, int, int, int | None]]:
    """Numbers with a way to read each: sound ones, with a field or a bit or two changed, and noise.

    (value, major, item bytes, rows, swizzle that is meant).
    """
    dice = random.Random(64)
    tiles = placements()
    found = []
    for i in range(count):
        tile, rows = dice.choice(tiles)
        step = dice.randrange(tile.depth * tile.item_bytes // 32)
        value = tile.descriptor(0x400 * dice.randrange(1, 200), step).encode()
        kind = i % 8
        if kind in (1, 2):
            value ^= 1 << dice.randrange(64)
        if kind in (2, 3):
            field, length = (
                dice.choice((0, 16, 32)),
                dice.choice((0, 1, 4, 8, 16, 32, 64, 256, 1024, 4096)),
            )
            value = value & ~(0x3FFF << field) | length << field
        if kind == 4:
            value = value & ~(7 << 49 | 3 << 62) | dice.randrange(8) << 49 | dice.randrange(4) << 62
        if kind == 5:
            leading, stride = value >> 16 & 0x3FFF, value >> 32 & 0x3FFF
            value = value & ~(0x3FFF << 16 | 0x3FFF << 32) | stride << 16 | leading << 32
        if kind == 6:
            value = value & ~0x3FFF | dice.randrange(1 << 14)
        if kind == 7:
            value = dice.getrandbits(66 if i % 64 == 7 else 64)
            if i % 16 == 15:
                value &= FIELD_BITS
        major = dice.choice((tile.major, tile.major, "K", "MN"))
        meant = dice.choice((None, tile.swizzle, dice.choice(SPANS)))
        found.append((value, major, dice.choice((tile.item_bytes, 2)), rows, meant))
    return found


def test_the_corpus_has_every_mistake_and_many_sound_numbers():
    seen = [
        keys(value, major=major, item_bytes=item, rows=rows, swizzle=meant)
        for value, major, item, rows, meant in corpus(6000)
    ]
    assert {key for each in seen for key in each} == set(SENTENCES)
    assert 500 < seen.count([]) < 5000
