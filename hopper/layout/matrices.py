"""The book's matrices as layouts: what wgmma's threads hold, and how its operands lie.

Each equals a map that the book has elsewhere, element by element, and tests/test_layout.py compares
them over their whole range: ``hopper.fragment``, ``hopper.descriptor``, ``core_matrix.cuh``.
Thread-value layouts give the place of an element in a matrix that is stored without gaps; CuTe
writes its own, ``CLayout_64xN`` and ``ALayout_64x16``, for a column-major one.
"""

from __future__ import annotations

from typing import Literal

from hopper.descriptor import CORE_ROWS, Major
from hopper.errors import ProblemError
from hopper.swizzle import PIECE_BYTES, require_span

from .core import Layout
from .swizzle import Swizzle, SwizzledLayout

Order = Literal["column", "row"]
ROWS = 64


def accumulator(n: int, order: Order = "column") -> Layout:
    """(thread, register) -> place of the accumulator in a 64 × ``n`` matrix, f32 or s32.

    Shape ((4,8,4),(2,2,n/8)): the threads as four in a row, eight rows, four warps; the registers
    as two neighbours, two halves of sixteen rows, every eight columns. ``order``: which neighbours
    lie side by side in the matrix. Raises ProblemError for an n that wgmma has not.
    """
    if n % 8 or not 8 <= n <= 256:
        raise ProblemError(f"n={n}: wgmma takes multiples of 8 from 8 to 256; choose one of them")
    return _fragment(n, 2, order)


def a_fragment(order: Order = "column", *, item_bytes: int = 2) -> Layout:
    """(thread, element) -> place in the 64 × K matrix A that a warpgroup passes in registers.

    Elements count from the lowest bits of the first register on. ``item_bytes``: 2, 1 or 4; K is
    32 bytes. Raises ProblemError for another size.
    """
    if item_bytes not in (1, 2, 4):
        raise ProblemError(f"item_bytes={item_bytes}: elements have 1, 2 or 4 bytes; pass one")
    return _fragment(32 // item_bytes, 4 // item_bytes, order)


def _fragment(columns: int, neighbours: int, order: Order) -> Layout:
    """Four neighbouring groups in each of eight rows a warp; rows +8; then the next columns."""
    down, right = {"column": (1, ROWS), "row": (columns, 1)}[order]
    threads = (4, 8, 4), (neighbours * right, down, 16 * down)
    reach = 4 * neighbours
    values = (neighbours, 2, columns // reach), (right, CORE_ROWS * down, reach * right)
    return Layout((threads[0], values[0]), (threads[1], values[1]))


def operand(
    rows: int,
    depth: int,
    *,
    major: Major,
    swizzle: int,
    leading: int = 0,
    stride: int,
    item_bytes: int = 2,
) -> Layout:
    """(row, k) -> element of an operand of wgmma in shared memory, before the swizzle's XOR.

    What a descriptor with ``leading`` and ``stride`` (bytes) describes; see
    ``hopper.descriptor.element_offset``, whose bytes are ``item_bytes`` times these elements. CuTe
    calls these the canonical layouts. Raises ProblemError where ``rows`` and ``depth`` are not
    whole core matrices (whole spans, where swizzled), or ``depth`` goes beyond a swizzled row.
    """
    require_span(swizzle)
    piece = PIECE_BYTES // item_bytes
    row = max(swizzle, PIECE_BYTES) // item_bytes
    lead, step = leading // item_bytes, stride // item_bytes
    if major == "K":
        _require_multiple("rows", rows, CORE_ROWS)
        _require_multiple("depth", depth, piece)
        if not swizzle:
            along = (piece, depth // piece), (1, lead)
        elif depth <= row:
            along = depth, 1
        else:
            raise ProblemError(
                f"depth={depth}: a row of a {swizzle}-byte swizzle holds {row} elements; describe "
                f"each of them as an operand of its own"
            )
        return Layout(((CORE_ROWS, rows // CORE_ROWS), along[0]), ((row, step), along[1]))
    if major != "MN" or item_bytes != 2:
        raise ProblemError(
            f"major={major!r}, item_bytes={item_bytes}: operands are K-major, or MN-major for "
            f"16-bit types; pass one of these"
        )
    _require_multiple("rows", rows, row)
    _require_multiple("depth", depth, CORE_ROWS)
    next_rows, next_depth = (lead, step) if swizzle else (step, lead)
    return Layout(
        ((row, rows // row), (CORE_ROWS, depth // CORE_ROWS)),
        ((1, next_rows), (row, next_depth)),
    )


def core_matrices(rows: int, depth: int) -> Layout:
    """(row, k) -> fp16 element as ``core_matrix.cuh`` stores a tile: nothing swizzled, K-major."""
    return operand(rows, depth, major="K", swizzle=0, leading=128, stride=16 * depth)


def swizzled_tile(rows: int, span: int, *, item_bytes: int = 2) -> SwizzledLayout:
    """(row, k) -> element of a K-major tile of rows of ``span`` bytes, after the swizzle's XOR.

    As TMA writes it from a box as wide as the span, at an address that is a multiple of the atom;
    CuTe tiles ``Layout_K_SW128_Atom`` (64, 32) to the same. Raises ProblemError for other spans.
    """
    if span == 0:
        raise ProblemError("span=0: nothing is swizzled; use core_matrices for such a tile")
    depth = span // item_bytes if span else 0
    plain = Layout((rows, depth), (depth, 1))
    return SwizzledLayout(Swizzle.of_span(span).in_items(item_bytes), plain)


def _require_multiple(name: str, value: int, of: int) -> None:
    if value % of or value < of:
        raise ProblemError(f"{name}={value}: it is a positive multiple of {of}; pad it to one")
