"""Exercises of the chapter ``descriptors``: offsets, an address, wrong fields, padding."""

from collections.abc import Callable

import numpy

from hopper.banks import fewest, wavefronts
from hopper.descriptor import FIELDS, Descriptor
from hopper.placement import Placement
from hopper.swizzle import swizzled

# ---- the offsets of an MN-major tile ------------------------------------------------------------

#: B as (K, N) with N contiguous, fp16, 64 × 128, in two TMA boxes of 64 × 64, 128-byte swizzle.
N_MAJOR = Placement(rows=128, depth=64, major="MN", swizzle=128)


def n_major(leading: int | None, stride: int | None, step: int | None) -> None:
    """Check what describes N_MAJOR: both byte offsets, and the step along K in 16-byte units."""
    right = {
        "leading": (leading, N_MAJOR.leading, "from the first 64 columns of N to the next"),
        "stride": (stride, N_MAJOR.stride, "from eight rows of K to the next eight"),
        "step": (step, N_MAJOR.offset(0, 16) // 16, "sixteen rows of K, in units of 16 bytes"),
    }
    for name, (answer, expected, meaning) in right.items():
        if answer is None:
            print(f"{name}: not answered yet")
        elif answer == expected:
            print(f"{name}: {answer} is right")
        elif (name, answer) in (("leading", N_MAJOR.stride), ("stride", N_MAJOR.leading)):
            print(f"{name}: not yet: {answer} is the other offset; this one leads {meaning}")
        elif answer in (expected * 16, expected / 16):
            print(f"{name}: not yet: {answer} is right in another unit")
        else:
            print(f"{name}: not yet: it leads {meaning}, and {answer} does not")


# ---- an address ---------------------------------------------------------------------------------

ADDRESSED = Placement(rows=64, depth=64, major="K", swizzle=64)


def byte_offset(answer: Callable[[int, int], int | None]) -> None:
    """Check a map (row, k) → byte offset on every element of ADDRESSED, at a multiple of 1024."""
    for row in range(ADDRESSED.rows):
        for k in range(ADDRESSED.depth):
            got = answer(row, k)
            if got is None:
                print("not answered yet: return a byte offset")
                return
            plain = int(ADDRESSED.offset(row, k))
            right = swizzled(plain, ADDRESSED.swizzle)
            if got == right:
                continue
            print(f"not yet: ({row}, {k}) lies at byte {right}, your map says {got}")
            if got == plain:
                print("  that is where it would lie without the XOR")
            elif k >= 32 and row == 0:
                print("  a row of this tile holds 32 elements; the others are another tile's")
            return
    print(f"right: all {ADDRESSED.rows * ADDRESSED.depth} elements")


# ---- wrong fields -------------------------------------------------------------------------------

_TILE = Descriptor(0x8400, leading=16, stride=1024, swizzle=128)
#: Each should describe the K-major fp16 tile at 0x8400, 128-byte swizzle, and has one wrong field.
WRONG = {
    "first": Descriptor(0x8400, 16, 64, swizzle=128),
    "second": Descriptor(0x8400, 16, 1024, swizzle=32),
    "third": Descriptor(0x8400, 16, 1024, base_offset=1, swizzle=128),
}


def wrong_field(
    first: str | None = None, second: str | None = None, third: str | None = None
) -> None:
    """Check which field of each of WRONG differs; an answer is a field's name. Prints them."""
    names = [field.name for field in FIELDS]
    for (name, one), answer in zip(WRONG.items(), (first, second, third), strict=True):
        right = next(f.name for f in FIELDS if f.of(one.encode()) != f.of(_TILE.encode()))
        print(f"{name}, {one.encode():#018x}: ", end="")
        if answer is None:
            print("not answered yet")
        elif answer not in names:
            print(f"{answer!r} is no field; the fields are {', '.join(names)}")
        elif answer == right:
            print("right")
        else:
            print(f"not yet: its {answer} is that of the tile")


# ---- padding ------------------------------------------------------------------------------------

ROW_BYTES = 192


def padding(answer: int | None) -> None:
    """Check a padding, in bytes: rows of ROW_BYTES, of which 32 lanes read a column of 16 bytes."""
    if answer is None:
        print("not answered yet")
        return
    pitch = ROW_BYTES + answer
    if answer < 0 or pitch % 16:
        print(f"not yet: rows every {pitch} bytes; 16-byte accesses need a multiple of 16")
        return
    turns, best = _turns(answer), fewest(16)
    if turns > best:
        print(f"not yet: rows every {pitch} bytes take {turns} turns an access, not {best}")
    elif any(_turns(less) == best for less in range(0, answer, 16)):
        print(f"{turns} turns, as few as can be, but less padding does it too")
    else:
        print(f"right: rows every {pitch} bytes, {turns} turns, and no smaller padding does it")


def _turns(padding: int) -> int:
    return wavefronts(numpy.arange(32) * (ROW_BYTES + padding), 16)
