"""CuTe's ``Sw<B,M,S>``: an XOR on offsets, and a layout with one behind it.

``Sw<B,M,S>`` takes B bits of the offset, S places above the bits from M on, and XORs them into
those. Source: CUTLASS, cute/swizzle.hpp. wgmma's three modes are Sw<B,4,3> on bytes: see
``Swizzle.of_span`` and ``hopper.swizzle``, which the emulator uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.errors import ProblemError
from hopper.swizzle import require_span

from .core import Coordinate, Index, Layout

_BITS_OF_SPAN = {128: 3, 64: 2, 32: 1, 0: 0}
_PIECE_BITS = 4  # pieces of 16 bytes move as a whole
_ROW_BITS = 3  # the pieces of 128 bytes are counted by three bits


@dataclass(frozen=True)
class Swizzle:
    """``Sw<bits,base,shift>``, a function from offsets to offsets that is its own inverse.

    ``bits``: how many bits take part. ``base``: the lowest bit that changes. ``shift``: from a bit
    that changes to the one that decides, at least ``bits``. Raises ProblemError for others.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if min(self.bits, self.base) < 0 or self.shift < self.bits:
            raise ProblemError(
                f"{self}: B and M are not negative, and S is at least B, or the bits that decide "
                f"would change as well; wgmma's are Sw<1,4,3>, Sw<2,4,3> and Sw<3,4,3>"
            )

    @classmethod
    def of_span(cls, span: int) -> Swizzle:
        """The swizzle of TMA and wgmma, on bytes. ``span``: 128, 64, 32 or 0 bytes.

        Raises ProblemError for another.
        """
        require_span(span)
        return cls(_BITS_OF_SPAN[span], _PIECE_BITS, _ROW_BITS)

    def in_items(self, item_bytes: int) -> Swizzle:
        """The same swizzle of bytes, on offsets that count items of 1, 2, 4 … 2^base bytes.

        Raises ProblemError for a size that is no power of two or larger than what moves as one.
        """
        if item_bytes not in [1 << bit for bit in range(self.base + 1)]:
            raise ProblemError(
                f"item_bytes={item_bytes}: {self} moves pieces of {1 << self.base} bytes, so items "
                f"have a power of two of bytes, up to that; choose one"
            )
        return Swizzle(self.bits, self.base - item_bytes.bit_length() + 1, self.shift)

    def __call__(self, offset: Index) -> Index:
        """Where ``offset`` goes; an int or a NumPy array of integers."""
        mask = (1 << self.bits) - 1 << self.base
        return offset ^ offset >> self.shift & mask

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"

    __repr__ = __str__


@dataclass(frozen=True)
class SwizzledLayout:
    """A layout, and a swizzle of the offsets it gives: ``Sw<3,3,3> o (8,64):(64,1)``.

    Both count in the same unit. It is called like a layout.
    """

    swizzle: Swizzle
    layout: Layout

    def __call__(self, *coordinate: Coordinate) -> Index:
        """The offset of a coordinate, in any form that the layout takes."""
        return self.swizzle(self.layout(*coordinate))

    @property
    def offsets(self) -> numpy.ndarray:
        """The offset of every coordinate in colexicographic order, int64, shape (size,)."""
        return self.swizzle(self.layout.offsets)

    @property
    def table(self) -> numpy.ndarray:
        """Offsets of a layout of two modes as a matrix, int64."""
        return self.swizzle(self.layout.table)

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.layout}"

    __repr__ = __str__
