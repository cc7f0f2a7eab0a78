"""How a warp's store meets global memory: which sectors of 32 bytes it touches, and what it fills.

Source: CUDA C++ Programming Guide, device memory accesses: global memory is accessed in aligned
pieces of 32 bytes, so a store that fills half of one still costs a whole one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.errors import ProblemError

SECTOR_BYTES = 32
WIDTHS = (1, 2, 4, 8, 16)  # bytes that one thread can store with an instruction


@dataclass(frozen=True)
class Touched:
    """What one store instruction of a warp touches: sectors, and bytes written in them."""

    sectors: int
    bytes: int

    @property
    def filled(self) -> float:
        """The part of the touched sectors that is written, 0 to 1."""
        return self.bytes / (self.sectors * SECTOR_BYTES)


def touched(addresses: numpy.ndarray, width: int) -> Touched:
    """Sectors and bytes of a store of ``width`` bytes a lane to byte ``addresses``, one a lane.

    Raises ProblemError for a width that no thread stores, and for an address that is no multiple
    of it, which the hardware refuses too.
    """
    if width not in WIDTHS:
        raise ProblemError(f"width={width}: a thread stores 1, 2, 4, 8 or 16 bytes at once")
    addresses = numpy.asarray(addresses).ravel()
    crooked = addresses[addresses % width != 0]
    if crooked.size:
        raise ProblemError(
            f"address {crooked[0]}: a store of {width} bytes needs a multiple of {width}; store "
            f"smaller pieces there"
        )
    written = numpy.unique(addresses[:, None] + numpy.arange(width))
    return Touched(len(numpy.unique(written // SECTOR_BYTES)), len(written))
