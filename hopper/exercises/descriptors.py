"""Exercises of the chapter ``descriptors``: offsets and 64 bits, an address, wrong fields, padding.

An answer of the wrong type is told in a sentence, too: a check raises nothing.
"""

import operator
from collections.abc import Callable

import numpy

from hopper.banks import fewest, wavefronts
from hopper.descriptor import FIELD_BITS, FIELDS, UNIT_BYTES, Descriptor
from hopper.placement import Placement
from hopper.swizzle import swizzled


def _whole(answer: object) -> int | None:
    """The answer as an int, None if it is no whole number; NumPy's integers are some."""
    if isinstance(answer, bool | numpy.bool_):
        return None
    try:
        return operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        return None


# ---- the offsets of an MN-major tile ------------------------------------------------------------

#: B as (K, N) with N contiguous, fp16, 64 × 128, in two TMA boxes of 64 × 64, 128-byte swizzle.
N_MAJOR = Placement(rows=128, depth=64, major="MN", swizzle=128)
#: Shared address of the first box.
N_MAJOR_START = 0x2000
_STEP = int(N_MAJOR.offset(0, 16)) // UNIT_BYTES
_LEADS = {
    "leading": "the bytes from the first 64 columns of N to the next 64",
    "stride": "the bytes from eight k to the next eight",
    "step": "the way of sixteen k, in units of 16 bytes",
}
#: A step that is right elsewhere -> where.
_STEP_SLIPS = {
    2: "2 is the step of a swizzled K-major tile, where sixteen k are 32 bytes of one row; here "
    "they are sixteen spans, one a k",
    32: "32 bytes are the step of a swizzled K-major tile, where sixteen k lie in one row; here "
    "they are sixteen spans, one a k",
    _STEP // 2: f"{_STEP // 2} units lead to the next eight k, and an instruction takes sixteen",
    4 * _STEP: f"{4 * _STEP} units lead to the next 64 columns of N; a step goes along K",
}


def n_major(
    leading: int | None = None,
    stride: int | None = None,
    step: int | None = None,
    bits: int | None = None,
) -> None:
    """Check what describes N_MAJOR: both byte offsets, the step along K in 16-byte units, 64 bits.

    ``bits``: the descriptor of the first instruction along K, for a tile at N_MAJOR_START.
    """
    right = {"leading": N_MAJOR.leading, "stride": N_MAJOR.stride, "step": _STEP}
    for (name, expected), answer in zip(right.items(), (leading, stride, step), strict=True):
        print(f"{name}: {_length_verdict(name, answer, expected)}")
    print(f"bits: {_bits_verdict(bits)}")


def _length_verdict(name: str, answer: object, expected: int) -> str:
    if answer is None:
        return "not answered yet"
    got = _whole(answer)
    if got is None:
        return f"not yet: {answer!r} is no whole number; pass one, such as 1024"
    if got == expected:
        return f"{got} is right"
    units = ("bytes", "units of 16 bytes")
    asked, other = units[::-1] if name == "step" else units
    if name == "step" and got in _STEP_SLIPS:
        return f"not yet: {_STEP_SLIPS[got]}"
    if (name, got) in (("leading", N_MAJOR.stride), ("stride", N_MAJOR.leading)):
        return f"not yet: {got} is the other offset; this one is {_LEADS[name]}"
    if got in (expected * UNIT_BYTES, expected // UNIT_BYTES):
        return f"not yet: {got} is right in {other}; here it is asked in {asked}"
    return f"not yet: {got} is not {_LEADS[name]}"


def _bits_verdict(answer: object) -> str:
    if answer is None:
        return "not answered yet"
    got = _whole(answer)
    if got is None:
        return f"not yet: {answer!r} is no whole number; pass one, such as 0x4000004000010040"
    expected = N_MAJOR.descriptor(N_MAJOR_START).encode()
    if got == expected:
        return f"{got:#018x} is right"
    if not 0 <= got < 1 << 64:
        return f"not yet: {got:#x} is negative or wider than 64 bits"
    for field in FIELDS:
        held, wanted = field.of(got), field.of(expected)
        if held == wanted:
            continue
        slip = ""
        if held == wanted << 4 & (1 << field.bits) - 1:
            slip = "; it was not shifted right by 4"
        return f"not yet: the {field.name}, bits {field.first}–{field.last}, holds {held:#x}{slip}"
    return f"not yet: a bit of no field is set: {got & ~FIELD_BITS:#x}"


# ---- an address ---------------------------------------------------------------------------------

ADDRESSED = Placement(rows=64, depth=64, major="K", swizzle=64)


def byte_offset(answer: Callable[[int, int], int | None]) -> None:
    """Check a map (row, k) → byte offset on every element of ADDRESSED, at a multiple of 1024."""
    if not callable(answer):
        print(f"not yet: {answer!r} is no function; pass one of (row, k)")
        return
    rows, ks = numpy.indices((ADDRESSED.rows, ADDRESSED.depth))
    right = swizzled(ADDRESSED.offset(rows, ks), ADDRESSED.swizzle)
    given = numpy.zeros_like(right)
    for row, k in numpy.ndindex(right.shape):
        try:
            told = answer(row, k)
        except Exception as error:
            print(f"not yet: your map fails at ({row}, {k}): {type(error).__name__}: {error}")
            return
        if told is None:
            print("not answered yet: return a byte offset")
            return
        whole = _whole(told)
        if whole is None:
            rest = "; // divides without a rest" if isinstance(told, float) else ""
            print(f"not yet: at ({row}, {k}) your map returns {told!r}, no whole number{rest}")
            return
        # What lies outside all tiles is wrong, however large.
        given[row, k] = whole if abs(whole) < 1 << 32 else -1
    if (given == right).all():
        print(f"right: all {right.size} elements")
        return
    row, k = (int(i) for i in numpy.argwhere(given != right)[0])
    says = given[row, k]
    print(f"not yet: ({row}, {k}) lies at byte {right[row, k]}, your map says {says}")
    for slip, hint in _address_slips(rows, ks):
        if (given == slip).all():
            print(f"  {hint}")
            return
    if says == ADDRESSED.offset(row, k):
        print("  that is where it would lie without the XOR")
    elif k >= 32 and row == 0:
        print("  a row of a box holds 32 elements; the others are in the second box")


def _address_slips(rows: numpy.ndarray, ks: numpy.ndarray) -> list[tuple[numpy.ndarray, str]]:
    """Maps that are nearly right, and what is missing."""
    plain = ADDRESSED.offset(rows, ks)
    right = swizzled(plain, ADDRESSED.swizzle)
    long = rows * 128 + 2 * ks
    by_row = "the XOR takes bits of the address, not of the row's number: a row is 64 bytes, so "
    by_row += "two rows share a line of 128, and bits 7 and 8 count rows // 2"
    short = "a row of a box holds 32 elements; the others are in the second box"
    return [
        (plain, "that is where each element would lie without the XOR"),
        (
            plain ^ (plain >> 7 & 7) << 4,
            "that XORs three bits, as for 128 bytes; the 64-byte swizzle takes two: & 3",
        ),
        (
            plain ^ (plain >> 7 & 1) << 4,
            "that XORs one bit, as for 32 bytes; the 64-byte swizzle takes two: & 3",
        ),
        (right // 2, "that counts elements; a byte offset is twice as much"),
        (plain // 2, "that counts elements, and the XOR is missing"),
        (plain ^ (rows & 3) << 4, by_row),
        (plain ^ (rows & 7) << 4, by_row),
        (long, short),
        (swizzled(long, 64), short),
        (swizzled(long, 128), short),
    ]


# ---- wrong fields -------------------------------------------------------------------------------

_TILE = Descriptor(0x8400, leading=16, stride=1024, swizzle=128)
#: Each should describe the K-major fp16 tile at 0x8400, 128-byte swizzle, and has one wrong field.
WRONG = {
    "first": Descriptor(0x8400, 16, 64, swizzle=128),
    "second": Descriptor(0x8400, 16, 1024, swizzle=32),
    "third": Descriptor(0x8400, 16, 1024, base_offset=1, swizzle=128),
}
#: Short for a field -> its name.
_SHORT = {
    "start": "start address",
    "address": "start address",
    "lbo": "leading byte offset",
    "leading": "leading byte offset",
    "leading offset": "leading byte offset",
    "sbo": "stride byte offset",
    "stride": "stride byte offset",
    "stride offset": "stride byte offset",
    "base": "base offset",
    "mode": "swizzle mode",
    "swizzle": "swizzle mode",
    "layout type": "swizzle mode",
}


def wrong_field(
    first: str | None = None, second: str | None = None, third: str | None = None
) -> None:
    """Check which field of each of WRONG differs; an answer is a field's name or short for it.

    Prints the three descriptors.
    """
    names = [field.name for field in FIELDS]
    for (name, one), answer in zip(WRONG.items(), (first, second, third), strict=True):
        right = next(f.name for f in FIELDS if f.of(one.encode()) != f.of(_TILE.encode()))
        print(f"{name}, {one.encode():#018x}: ", end="")
        if answer is None:
            print("not answered yet")
            continue
        plain = " ".join(str(answer).lower().replace("_", " ").replace("-", " ").split())
        said = _SHORT.get(plain, plain)
        if said not in names:
            print(f"not yet: {answer!r} names no field; the fields are {', '.join(names)}")
        elif said == right:
            print("right")
        else:
            print(f"not yet: its {said} is that of the tile")


# ---- padding ------------------------------------------------------------------------------------

ROW_BYTES = 192


def padding(answer: int | None) -> None:
    """Check a padding, in bytes: rows of ROW_BYTES, of which 32 lanes read a column of 16 bytes."""
    if answer is None:
        print("not answered yet")
        return
    added = _whole(answer)
    if added is None:
        print(f"not yet: {answer!r} is no whole number; pass bytes, such as 64")
        return
    pitch = ROW_BYTES + added
    if added < 0 or pitch % 16:
        print(
            f"not yet: with {added} bytes a row begins every {pitch} bytes; a lane that reads 16 "
            f"bytes needs a multiple of 16 there, and padding is not negative"
        )
        return
    turns, best = _turns(added), fewest(16)
    if turns > best:
        print(f"not yet: a row every {pitch} bytes: an access takes {turns} turns, not {best}")
    elif any(_turns(less) == best for less in range(0, added, 16)):
        print(f"not yet: {turns} turns, as few as can be, but a smaller padding does it as well")
    else:
        print(f"right: a row every {pitch} bytes, {turns} turns, and no smaller padding does it")


def _turns(padding: int) -> int:
    return wavefronts(numpy.arange(32) * (ROW_BYTES + padding), 16)
