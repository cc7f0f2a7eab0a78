"""A whole operand in shared memory, laid out as kernels do it: which offsets, which bytes.

``hopper.descriptor`` says where one instruction reads, given the two byte offsets. This module
chooses them for a tile that several instructions read, and lays the tile out:

- K-major, swizzled: a row is one span; groups of eight rows follow each other; where K is deeper
  than a span, whole such tiles stand side by side.
- K-major, no swizzle: core matrices of 8 rows × 16 bytes, first along K, then down the rows.
- MN-major, swizzled: for each k a span of rows; eight k make an atom; atoms follow first along K,
  then along the rows.
- MN-major, no swizzle: core matrices of 8 k × 16 bytes, first down the rows, then along K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.descriptor import CORE_ROWS, STEP_BYTES, Descriptor, Major, element_offset
from hopper.errors import ProblemError
from hopper.swizzle import PIECE_BYTES, atom_bytes, require_span, swizzled

_CORE_BYTES = CORE_ROWS * PIECE_BYTES


@dataclass(frozen=True)
class Placement:
    """A (rows, depth) operand: rows of M or N, ``depth`` elements of K.

    ``swizzle``: span in bytes, or 0. Raises ProblemError where rows or depth are no whole number of
    what the layout repeats.
    """

    rows: int
    depth: int
    major: Major = "K"
    swizzle: int = 128
    item_bytes: int = 2

    def __post_init__(self) -> None:
        require_span(self.swizzle)
        row_unit = self._piece if self.major == "MN" else CORE_ROWS
        k_unit = STEP_BYTES // self.item_bytes
        if self.major == "K" and self.swizzle:
            k_unit = self._piece
        for name, value, unit in (("rows", self.rows, row_unit), ("depth", self.depth, k_unit)):
            if value <= 0 or value % unit:
                raise ProblemError(
                    f"{name}={value}: a {self.major}-major tile whose span is {self.swizzle} bytes "
                    f"repeats every {unit} {name}; use a multiple of {unit}"
                )

    @property
    def _piece(self) -> int:
        """Elements of a contiguous piece: a span, or 16 bytes."""
        return (self.swizzle or PIECE_BYTES) // self.item_bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * self.depth * self.item_bytes

    @property
    def leading(self) -> int:
        """Leading byte offset; 16 where nothing reads it."""
        if self.major == "MN":
            if self.swizzle:
                return self.depth // CORE_ROWS * atom_bytes(self.swizzle)
            return self.rows // CORE_ROWS * _CORE_BYTES
        return PIECE_BYTES if self.swizzle else _CORE_BYTES

    @property
    def stride(self) -> int:
        """Stride byte offset."""
        if self.swizzle:
            return atom_bytes(self.swizzle)
        if self.major == "MN":
            return _CORE_BYTES
        return self.depth * self.item_bytes // PIECE_BYTES * _CORE_BYTES

    def descriptor(self, start: int = 0, step: int = 0) -> Descriptor:
        """The descriptor of instruction ``step`` along K, for a tile that starts at ``start``."""
        behind = self.offset(0, step * STEP_BYTES // self.item_bytes)
        return Descriptor(start + int(behind), self.leading, self.stride, swizzle=self.swizzle)

    def offset(self, r: int | numpy.ndarray, k: int | numpy.ndarray) -> int | numpy.ndarray:
        """Bytes from the tile's start to element (r, k), before the swizzle's XOR."""
        beside = 0
        if self.major == "K" and self.swizzle:
            beside, k = k // self._piece * self.rows * self.swizzle, k % self._piece
        return beside + element_offset(
            r,
            k,
            major=self.major,
            swizzle=self.swizzle,
            leading=self.leading,
            stride=self.stride,
            item_bytes=self.item_bytes,
        )

    def image(self, matrix: numpy.ndarray) -> numpy.ndarray:
        """The bytes of a (rows, depth) matrix as they lie from a multiple of 1024 on, as uint8.

        Raises ProblemError for another shape or another size of element.
        """
        if matrix.shape != (self.rows, self.depth) or matrix.itemsize != self.item_bytes:
            raise ProblemError(
                f"a matrix of {matrix.shape} with {matrix.itemsize} bytes an element: this tile is "
                f"({self.rows}, {self.depth}) of {self.item_bytes} bytes; pass that"
            )
        r, k = numpy.indices(matrix.shape)
        places = swizzled(self.offset(r, k), self.swizzle) // self.item_bytes
        items = numpy.empty(matrix.size, matrix.dtype)
        items[places] = matrix
        return items.view(numpy.uint8)
