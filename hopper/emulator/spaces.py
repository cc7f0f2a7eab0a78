"""Memory: the arrays of a launch, shared memory of each block, and the addresses that name them.

Addresses are 64-bit numbers. Windows of the generic address space:

========  ======================  =======================================================
window    address                 what lies there
========  ======================  =======================================================
global    (n + 1) << 40           buffer n: an array of the launch, or a module's variable
shared    SHARED_WINDOW | a       a: shared address, block's rank in its cluster at bit 24
local     LOCAL_WINDOW | offset   a thread's own
const     CONST_WINDOW | offset   ``.const`` variables
param     PARAM_WINDOW | offset   kernel parameters
========  ======================  =======================================================

A shared address counts from the start of a block's shared memory, whose first 1024 bytes belong to
the system (CUDA Programming Guide; measured: dynamic shared memory starts at 0x400).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy

from hopper.emulator.errors import Fault

GLOBAL_SHIFT = 40
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
CONST_WINDOW = 3 << 56
PARAM_WINDOW = 4 << 56
RANK_SHIFT = 24
SYSTEM_SHARED_BYTES = 1024

#: Selects some of the addresses that were given.
Which = slice | numpy.ndarray
#: Says whose address at a position it is, in words.
Who = Callable[[int], str]

_OFFSET_IN_BUFFER = numpy.uint64((1 << GLOBAL_SHIFT) - 1)


@dataclass(frozen=True, eq=False)
class Buffer:
    """One piece of memory: ``bytes`` is a flat uint8 view of what the launch was given."""

    name: str
    bytes: numpy.ndarray
    address: int
    _views: dict[numpy.dtype, numpy.ndarray] = field(default_factory=dict)

    def view(self, kind: numpy.dtype) -> numpy.ndarray:
        """The whole items of ``kind`` that lie in it."""
        if kind not in self._views:
            whole = self.bytes[: self.bytes.size // kind.itemsize * kind.itemsize]
            self._views[kind] = whole.view(kind)
        return self._views[kind]


class Global:
    """Buffers with addresses far apart, so that a wild address meets none of them."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []

    def add(self, name: str, flat: numpy.ndarray) -> Buffer:
        """Give a flat uint8 array an address. The same memory keeps the address it has."""
        start = flat.__array_interface__["data"][0]
        for buffer in self.buffers:
            if (
                buffer.bytes.__array_interface__["data"][0] == start
                and buffer.bytes.size == flat.size
            ):
                return buffer
        buffer = Buffer(name, flat, (len(self.buffers) + 1) << GLOBAL_SHIFT)
        self.buffers.append(buffer)
        return buffer

    def one(self, address: numpy.ndarray, size: int) -> tuple[Buffer, numpy.ndarray] | None:
        """The one buffer that holds all of these accesses, and their offsets in it (int64).

        None where there is no such buffer, or an access is misaligned: ``locate`` says more.
        """
        n = int(address[0]) >> GLOBAL_SHIFT
        if not 1 <= n <= len(self.buffers):
            return None
        buffer = self.buffers[n - 1]
        offset = address - numpy.uint64(buffer.address)
        # An address below the buffer wraps round to a large offset.
        if int(numpy.maximum.reduce(offset)) + size > buffer.bytes.size:
            return None
        if int(numpy.bitwise_or.reduce(offset)) & (size - 1):
            return None
        return buffer, offset.view(numpy.int64)

    def locate(
        self, address: numpy.ndarray, size: int, who: Who | None = None
    ) -> list[tuple[Buffer, numpy.ndarray, Which]]:
        """Buffers that uint64 addresses of ``size`` bytes lie in: (buffer, offsets, which).

        ``which`` selects the addresses of a buffer among those given, ``slice(None)`` for all.
        ``who``: the thread of the address at a position, in words. Raises Fault for a wild address,
        one out of bounds, and one that is no multiple of ``size``, a power of two.
        """
        simple = self.one(address, size)
        if simple:
            return [(*simple, slice(None))]
        number = address >> numpy.uint64(GLOBAL_SHIFT)
        found = []
        for n in numpy.unique(number).tolist():
            which = numpy.flatnonzero(number == n)
            offset = (address[which] & _OFFSET_IN_BUFFER).astype(numpy.int64)
            buffer = self.buffers[n - 1] if 1 <= n <= len(self.buffers) else None
            end = buffer.bytes.size if buffer else 0
            bad = (offset + size > end) | (offset & (size - 1) != 0)
            if bad.any():
                at = int(which[bad.argmax()])
                thread = f" ({who(at)})" if who else ""
                aligned = buffer is None or not int(address[at]) & (size - 1)
                kind = "global-out-of-bounds" if aligned else "misaligned"
                raise Fault(self._wrong(int(address[at]), size) + thread, kind)
            found.append((buffer, offset, which))
        return found

    def _wrong(self, address: int, size: int) -> str:
        """What is wrong with an address."""
        n, offset = _nearest(address)
        if not 1 <= n <= len(self.buffers):
            return f"address {address:#x} lies in no array of this launch: {self.place(address)}"
        if address & (size - 1):
            return (
                f"global address {address:#x} ({self.place(address)}) is not a multiple of the "
                f"{size} bytes that are accessed; align it, or access smaller pieces"
            )
        buffer = self.buffers[n - 1]
        return (
            f"{size} bytes at byte {offset} of {buffer.name} (item {offset // size} of that size), "
            f"which has {buffer.bytes.size}: out of bounds; guard the access, or pass a larger "
            f"array"
        )

    def place(self, address: int) -> str:
        """An address in words: "a + 12 bytes"."""
        n, offset = _nearest(address)
        if 1 <= n <= len(self.buffers):
            return f"{self.buffers[n - 1].name} {'+-'[offset < 0]} {abs(offset)} bytes"
        if address >> 56 == SHARED_WINDOW >> 56:
            return f"shared address {address & 0xFFFFFFFF:#x}"
        return "no array starts there; was a pointer not passed, or an index not bounded?"


def _nearest(address: int) -> tuple[int, int]:
    """Number of the buffer that an address is meant for, and its offset there, maybe negative."""
    n = address + (1 << GLOBAL_SHIFT - 1) >> GLOBAL_SHIFT
    return n, address - (n << GLOBAL_SHIFT)


class Shared:
    """Shared memory of all blocks of a wave, one window of equal size each.

    ``end``: first byte behind what a block owns. ``bytes``: flat uint8 of all windows; the byte at
    shared address a of block b is ``bytes[b * window + a]``. It starts as 0xFF, which is NaN in
    every floating-point type, so that what was never written shows.
    """

    def __init__(self, blocks: int, end: int) -> None:
        self.end = end
        self.window = -(-end // 1024) * 1024
        self.bytes = numpy.full(blocks * self.window, 0xFF, numpy.uint8)
        self._views: dict[numpy.dtype, numpy.ndarray] = {}

    def view(self, kind: numpy.dtype) -> numpy.ndarray:
        """``bytes`` as items of ``kind``."""
        if kind not in self._views:
            self._views[kind] = self.bytes.view(kind)
        return self._views[kind]

    def check(self, offset: numpy.ndarray, size: int) -> None:
        """Raise Fault unless ``size`` bytes at each offset in a block's window belong to it."""
        if offset.size == 0:
            return
        low, high = int(offset.min()), int(offset.max())
        if low < SYSTEM_SHARED_BYTES or high + size > self.end:
            bad = low if low < SYSTEM_SHARED_BYTES else high
            raise Fault(
                f"{size} bytes at shared address {bad:#x}: the block owns "
                f"{SYSTEM_SHARED_BYTES:#x} up to {self.end:#x}; pass more shared_bytes to the "
                f"launch, or correct the address",
                "shared-out-of-bounds",
            )
