"""wgmma's 64-bit matrix descriptor: its fields, and the address that it gives each element.

    python -m hopper.descriptor 0x4000004000010040      says what one means, and what is wrong

``mistakes`` names what is wrong with a number, ``tile`` where the pieces of an operand lie.

Sources: PTX ISA, "Matrix Descriptor Format" and "Strides" of wgmma.mma_async; the offsets of
elements were probed on an H200 for 16-bit types in every mode, on tiles of 64 × 16 (which do not
reach the leading offset of MN-major at 128 bytes). The conformance cases wgmma.layout.* ask for
the other types, for N up to 256, and for base offsets, which are modelled as the PTX ISA words
them. All lengths are bytes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

import numpy

from hopper.errors import ProblemError
from hopper.swizzle import PIECE_BYTES, alignment, require_span, swizzled

Major = Literal["K", "MN"]

#: Lengths are encoded in units of this.
UNIT_BYTES = 16
#: Start and offsets are encoded in 14 bits of 16-byte units.
LIMIT_BYTES = 1 << 18
#: Depth of an instruction: bytes of K in a row, for every type.
STEP_BYTES = 32
#: A core matrix: eight rows (or eight k) of 16 bytes.
CORE_ROWS = 8
#: Span in bytes, 0 for no swizzle -> what the mode's field holds.
SWIZZLE_CODE = {0: 0, 128: 1, 64: 2, 32: 3}
_SWIZZLE_SPAN = {code: span for span, code in SWIZZLE_CODE.items()}


@dataclass(frozen=True)
class Field:
    """A field of the descriptor: ``bits`` bits from bit ``first`` on."""

    name: str
    first: int
    bits: int

    @property
    def last(self) -> int:
        """Its highest bit."""
        return self.first + self.bits - 1

    def of(self, value: int) -> int:
        """The field's content in a descriptor ``value``, as encoded."""
        return value >> self.first & (1 << self.bits) - 1


FIELDS = (
    Field("start address", 0, 14),
    Field("leading byte offset", 16, 14),
    Field("stride byte offset", 32, 14),
    Field("base offset", 49, 3),
    Field("swizzle mode", 62, 2),
)
#: Bits that belong to a field.
FIELD_BITS = sum((1 << field.bits) - 1 << field.first for field in FIELDS)
_RESERVED = "14–15, 30–31, 46–48 and 52–61"


@dataclass(frozen=True)
class Descriptor:
    """Where an operand lies in shared memory. Lengths in bytes, multiples of 16 below 2^18.

    ``start``: its shared address. ``leading``, ``stride``: the two byte offsets, whose meaning
    ``element_offset`` spells out. ``base_offset``: 0 to 7, 0 where swizzle atoms lie on multiples
    of their size, otherwise bits 7–9 of an atom's address. ``swizzle``: span in bytes, 128, 64, 32
    or 0. Raises ProblemError when one of these cannot be encoded.
    """

    start: int
    leading: int
    stride: int
    base_offset: int = 0
    swizzle: int = 0

    def __post_init__(self) -> None:
        for name in ("start", "leading", "stride"):
            _require_length(name, getattr(self, name))
        if not 0 <= self.base_offset < 8:
            raise ProblemError(
                f"base_offset={self.base_offset}: it has three bits; pass 0 for a tile on a "
                f"multiple of its swizzle atom, otherwise (address of an atom >> 7) & 7"
            )
        require_span(self.swizzle)

    def encode(self) -> int:
        """The 64 bits that wgmma takes."""
        lengths = (self.start, self.leading, self.stride)
        codes = [operator.index(length) // UNIT_BYTES for length in lengths]
        codes += [operator.index(self.base_offset), SWIZZLE_CODE[self.swizzle]]
        return sum(code << field.first for field, code in zip(FIELDS, codes, strict=True))

    def address(
        self, r: int | numpy.ndarray, k: int | numpy.ndarray, *, major: Major, item_bytes: int = 2
    ) -> int | numpy.ndarray:
        """Shared address of element (r, k), after the swizzle's XOR; see ``element_offset``.

        A base offset moves the pattern: its first row lies where bits 7–9 of an address equal it.
        Raises ProblemError for what ``element_offset`` refuses.
        """
        offset = element_offset(
            r,
            k,
            major=major,
            swizzle=self.swizzle,
            leading=self.leading,
            stride=self.stride,
            item_bytes=item_bytes,
        )
        moved = 128 * self.base_offset
        return swizzled(self.start + offset - moved, self.swizzle) + moved


def decode(value: int) -> Descriptor:
    """The descriptor that 64 bits encode.

    Raises ProblemError for a number wider than 64 bits and for a bit outside all fields.
    """
    if not 0 <= value < 1 << 64:
        raise ProblemError(
            f"{value:#x}: a descriptor has 64 bits; pass a whole number from 0 to 2^64 - 1"
        )
    outside = [bit for bit in range(64) if value & ~FIELD_BITS & 1 << bit]
    if outside:
        raise ProblemError(
            f"{value:#x}: bit {outside[0]} is set, but bits {_RESERVED} belong to no field and are "
            f"0; shift start and offsets right by 4 and mask them to 14 bits before you join them"
        )
    start, leading, stride, base_offset, mode = (field.of(value) for field in FIELDS)
    return Descriptor(
        start * UNIT_BYTES,
        leading * UNIT_BYTES,
        stride * UNIT_BYTES,
        base_offset,
        _SWIZZLE_SPAN[mode],
    )


def element_offset(
    r: int | numpy.ndarray,
    k: int | numpy.ndarray,
    *,
    major: Major,
    swizzle: int,
    leading: int,
    stride: int,
    item_bytes: int = 2,
) -> int | numpy.ndarray:
    """Bytes from an operand's start to element (r, k), before the swizzle's XOR.

    ``r``: row of A, or of B as (N, K). ``major``: "K" where neighbours along K lie side by side,
    "MN" where neighbours along r do. ``swizzle``: span in bytes, or 0. What ``leading`` and
    ``stride`` lead to:

    =====  ===========  =========================  ===============
    major  swizzle      leading                    stride
    =====  ===========  =========================  ===============
    K      0            the next 16 bytes along K  the next 8 rows
    K      128, 64, 32  unused                     the next 8 rows
    MN     0            the next 8 of k            the next 8 rows
    MN     128, 64, 32  the next span of rows      the next 8 of k
    =====  ===========  =========================  ===============

    Raises ProblemError for an unknown major or swizzle, for MN-major items that have not 2 bytes,
    for a negative index, and for a k behind the end of a swizzled K-major row.
    """
    require_span(swizzle)
    if major not in ("K", "MN"):
        raise ProblemError(f"major={major!r}: an operand is K-major or MN-major; pass 'K' or 'MN'")
    if item_bytes not in (1, 2, 4):
        raise ProblemError(
            f"item_bytes={item_bytes}: wgmma's operands have 1, 2 or 4 bytes an element; pass one "
            f"of these"
        )
    if major == "MN" and item_bytes != 2:
        raise ProblemError(
            f"item_bytes={item_bytes}: wgmma reads MN-major operands of 16-bit types only; "
            f"store the operand K-major"
        )
    for name, index in (("r", r), ("k", k)):
        if numpy.min(index) < 0:
            raise ProblemError(f"{name}={numpy.min(index)}: an element is counted from 0")
    # The contiguous piece of a row: the span, or without a swizzle one row of a core matrix.
    piece = (swizzle or PIECE_BYTES) // item_bytes
    if major == "MN":
        inside = r % piece * item_bytes + k % CORE_ROWS * piece * item_bytes
        across, along = (leading, stride) if swizzle else (stride, leading)
        return inside + r // piece * across + k // CORE_ROWS * along
    inside = r % CORE_ROWS * piece * item_bytes + k % piece * item_bytes
    if not swizzle:
        return inside + r // CORE_ROWS * stride + k // piece * leading
    if numpy.max(k) >= piece:
        raise ProblemError(
            f"k={numpy.max(k)}: a K-major row of {swizzle} bytes holds {piece} elements of "
            f"{item_bytes} bytes; start a descriptor in the tile that holds this k"
        )
    return inside + r // CORE_ROWS * stride


def k_step(
    steps: int = 1,
    *,
    major: Major,
    swizzle: int,
    leading: int,
    stride: int,
    item_bytes: int = 2,
) -> int:
    """Bytes to add to a descriptor's start to go ``steps`` instructions further along K.

    One instruction is 32 bytes of K deep. Divide by 16 to add it to an encoded descriptor.
    Raises ProblemError as ``element_offset`` does, so also for a step out of a swizzled row.
    """
    return element_offset(
        0,
        steps * STEP_BYTES // item_bytes,
        major=major,
        swizzle=swizzle,
        leading=leading,
        stride=stride,
        item_bytes=item_bytes,
    )


def described(value: int) -> str:
    """The fields of an encoded descriptor in words, a line each. Raises ProblemError as decode."""
    it = decode(value)
    atom = alignment(it.swizzle)
    start = f"{it.start} bytes into shared memory"
    if it.swizzle:
        past = it.start % atom
        start += f", {past} past a multiple of {atom}" if past else f", a multiple of {atom}"
        leading = f"to the next {it.swizzle // 2} rows if MN-major (16-bit), unused if K-major"
        stride = "to the next 8 rows if K-major, to the next 8 of k if MN-major"
        mode = f"{it.swizzle} bytes"
    else:
        leading = "to the next core matrix along K"
        stride = "to the core matrix of the next 8 rows"
        mode = "none"
    if it.base_offset:
        base = f"a swizzle atom starts {128 * it.base_offset} bytes past a multiple of 1024"
    else:
        base = f"swizzle atoms start on multiples of {atom}" if it.swizzle else "none"
    words = (start, f"{it.leading} bytes {leading}", f"{it.stride} bytes {stride}", base, mode)
    lines = [
        f"bits {field.first:2}–{field.last:2}  {field.name:<19}  {field.of(value):#6x}  {meaning}"
        for field, meaning in zip(FIELDS, words, strict=True)
    ]
    return "\n".join(lines)


def _require_length(name: str, value: int) -> None:
    if value % UNIT_BYTES:
        raise ProblemError(
            f"{name}={value}: a descriptor counts in units of 16 bytes; pass bytes, a multiple "
            f"of 16, such as {value // UNIT_BYTES * UNIT_BYTES}"
        )
    if not 0 <= value < LIMIT_BYTES:
        raise ProblemError(
            f"{name}={value}: its field holds 0 to {LIMIT_BYTES - UNIT_BYTES} bytes (14 bits of "
            f"16-byte units); pass an address or a distance in shared memory, not a generic "
            f"address"
        )
