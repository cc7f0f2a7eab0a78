"""Boxes of a tensor: which elements lie in one, and where its bytes lie in shared memory.

CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors". Without a swizzle a box lies in
shared memory row after row without gaps. With one each row has a span of its own, also where it is
shorter, and its 16-byte pieces are permuted by the swizzle of their absolute addresses (observed on
an H200: ``tma.load.2d.narrow``). What of a box lies outside the tensor reads as the map's fill, and
is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy

from hopper.emulator.reduction import Reduction
from hopper.swizzle import PIECE_BYTES, atom_bytes, swizzled
from hopper.tensormap import TensorMap

# A piece of 16 bytes as one item, so that NumPy moves it whole: its bits are never looked at.
PIECE = numpy.dtype(numpy.complex128)
_ATOM = atom_bytes(128)  # every swizzle repeats after it
# The NaN of a box's outside: these 16 bits again and again, whatever the element (observed on an
# H200: ``tma.load.2d.nan``).
_FILL_NAN = 0x7FF7


class Boxes:
    """The boxes of one map over a C-contiguous NumPy array.

    ``bytes``: what a box counts as for an mbarrier, its outside included. ``span``: bytes of shared
    memory from the first to the last that it may touch: more where rows are shorter than the
    swizzle's span. A corner names the first element of a box along each axis, in the array's order;
    it may be negative.
    """

    def __init__(self, tensor: TensorMap) -> None:
        self.tensor = tensor
        self.rank = len(tensor.box)
        itemsize = tensor.array.itemsize
        self.bytes = prod(tensor.box) * itemsize
        self._row = tensor.box[-1] * itemsize
        self._pitch = tensor.swizzle or self._row
        self.span = prod(tensor.box[:-1]) * self._pitch
        self._bits = tensor.array.view(f"u{itemsize}")
        nan = numpy.full(itemsize // 2, _FILL_NAN, "u2") if tensor.fill == "nan" else None
        self._fill = 0 if nan is None else nan.view(self._bits.dtype)[0]
        self._orders: dict[int, numpy.ndarray] = {}

    def read(self, corner: Sequence[int]) -> numpy.ndarray:
        """A box as pieces, in the tensor's order."""
        inside = self._inside(corner)
        if inside and inside[2]:
            box = numpy.ascontiguousarray(self._bits[inside[0]])
        else:
            box = numpy.full(self.tensor.box, self._fill, self._bits.dtype)
            if inside:
                box[inside[1]] = self._bits[inside[0]]
        return box.reshape(-1).view(PIECE)

    def write(
        self, corner: Sequence[int], pieces: numpy.ndarray, reduction: Reduction | None = None
    ) -> None:
        """Write the part of a box that lies inside the tensor, or reduce it into the tensor."""
        inside = self._inside(corner)
        if not inside:
            return
        here, box = inside[0], pieces.view(self._bits.dtype).reshape(self.tensor.box)[inside[1]]
        if reduction is None:
            self._bits[here] = box
        else:
            self._bits[here] = reduction(self._bits[here], box)

    def scatter(self, shared: numpy.ndarray, place: int, pieces: numpy.ndarray) -> None:
        """Put a box's pieces at ``place``; ``shared``: shared memory as pieces."""
        shared[self._where(place)] = pieces

    def gather(self, shared: numpy.ndarray, place: int) -> numpy.ndarray:
        """A copy of the pieces of a box that lies at ``place``."""
        return shared[self._where(place)].copy()

    def _where(self, place: int) -> slice | numpy.ndarray:
        first, count = place // PIECE_BYTES, self.bytes // PIECE_BYTES
        if not self.tensor.swizzle:
            return slice(first, first + count)
        start = place % _ATOM
        if start not in self._orders:
            row, piece = numpy.divmod(PIECE_BYTES * numpy.arange(count), self._row)
            there = swizzled(start + row * self._pitch + piece, self.tensor.swizzle) - start
            self._orders[start] = there // PIECE_BYTES
        return first + self._orders[start]

    def _inside(
        self, corner: Sequence[int]
    ) -> tuple[tuple[slice, ...], tuple[slice, ...], bool] | None:
        """What of the tensor a box covers, what of the box that is, and whether it is all of it."""
        of_tensor, of_box, whole = [], [], True
        for start, length, end in zip(corner, self.tensor.box, self._bits.shape, strict=True):
            first, stop = max(start, 0), min(start + length, end)
            if first >= stop:
                return None
            whole = whole and stop - first == length
            of_tensor.append(slice(first, stop))
            of_box.append(slice(first - start, stop - start))
        return tuple(of_tensor), tuple(of_box), whole
