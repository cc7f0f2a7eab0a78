"""Which thread holds what: matrices that are spread over the registers of a warp or a warpgroup.

One picture explains all of them. Eight rows of 16 bytes belong to the 32 lanes of a warp, four
bytes (a register) a lane: **lane l holds bytes 4 (l % 4) to 4 (l % 4) + 3 of row l // 4**. So
``ldmatrix`` deals out an 8 × 8 matrix of 16-bit elements. Larger matrices are several such pieces,
a register each:

- A, 32 bytes of K deep: rows 0–7, rows 8–15, then both again 16 bytes further along K. Four warps
  hold 16 rows each of wgmma's 64; ``mma.sync`` has one warp.
- B of ``mma.sync``: its columns are the rows of the picture, and bytes run along K.
- The accumulator, as 16-bit elements: rows 0–7, rows 8–15, then both again eight columns further.
  Elements of 32 bits have the same place, and two registers where the picture has one.

Sources: PTX ISA, "Register Fragments" of wgmma.mma_async, "Matrix Fragments" of mma, and ldmatrix.
Recorded probes on an H200 show each of them. An argument is an int or a NumPy array of integers,
and so are the results; ProblemError is raised for one outside its range.
"""

from __future__ import annotations

import numpy

from hopper.errors import ProblemError

Index = int | numpy.ndarray

_THREADS, _LANES, _ROWS = 128, 32, 64
_WARP_ROWS, _PIECE_ROWS = 16, 8
_MAX_N, _MMA_N = 256, 8
_DEPTH_BYTES, _PIECE_BYTES, _REGISTER_BYTES = 32, 16, 4
_A_REGISTERS, _B_REGISTERS, _HALVES = 4, 2, 2

# ---- accumulators -------------------------------------------------------------------------------


def held_by(thread: Index, register: Index) -> tuple[Index, Index]:
    """Row and column of accumulator ``register`` of ``thread``, for f32 and s32.

    ``thread``: 0–127 in the warpgroup, or 0–31 in the warp of an ``mma.sync``, whose tile is the
    first 16 rows. ``register``: 0 to N/2 - 1 (0 to 3 for ``mma.sync``).
    """
    _require("thread", thread, _THREADS, "a warpgroup has 128 threads")
    _require("register", register, _MAX_N // 2, "a thread holds N/2 accumulators, N at most 256")
    warp, lane = divmod(thread, _LANES)
    group, place = divmod(register, 4)
    lower, right = divmod(place, 2)
    return _WARP_ROWS * warp + _PIECE_ROWS * lower + lane // 4, 8 * group + 2 * (lane % 4) + right


def holder(row: Index, column: Index) -> tuple[Index, Index]:
    """Thread and register that hold accumulator (row, column): the inverse of ``held_by``.

    ``row``: 0–63 (0–15 for ``mma.sync``); ``column``: 0 to N - 1.
    """
    _require("row", row, _ROWS, "an instruction has 64 rows")
    _require("column", column, _MAX_N, "an instruction has at most 256 columns")
    thread = _thread(row, column % 8 // 2)
    return thread, 4 * (column // 8) + 2 * _lower(row) + column % 2


def f16_held_by(thread: Index, register: Index, half: Index) -> tuple[Index, Index]:
    """Row and column of one of the two accumulators that an f16 ``register`` holds.

    ``register``: 0 to N/4 - 1 (0 or 1 for ``mma.sync``); ``half``: 0 is its lower 16 bits.
    """
    _require("register", register, _MAX_N // 4, "a thread holds N/2 f16 accumulators in pairs")
    _require("half", half, _HALVES, "a register holds two 16-bit elements")
    return held_by(thread, 2 * register + half)


def f16_holder(row: Index, column: Index) -> tuple[Index, Index, Index]:
    """Thread, register and half of f16 accumulator (row, column): the inverse of the above."""
    thread, place = holder(row, column)
    return thread, place // 2, place % 2


# ---- operands -----------------------------------------------------------------------------------


def a_held_by(
    thread: Index, register: Index, half: Index, *, item_bytes: int = 2
) -> tuple[Index, Index]:
    """Row and k of one element of A that is passed in registers.

    ``thread``: 0–127 for wgmma, 0–31 for ``mma.sync``. ``register``: 0–3 (0 and 1 where an
    ``mma.sync`` is 16 bytes deep). ``half``: which element of the register, 0 in the lowest bits,
    0 to 4/``item_bytes`` - 1. ``item_bytes``: 2, 1 (fp8, integers) or 4 (tf32).
    """
    items = _items(item_bytes)
    _require("thread", thread, _THREADS, "a warpgroup has 128 threads")
    _require("register", register, _A_REGISTERS, "A takes four 32-bit registers of a thread")
    _require("half", half, items, _ITEMS_RULE[item_bytes])
    warp, lane = divmod(thread, _LANES)
    right, lower = divmod(register, 2)
    row = _WARP_ROWS * warp + _PIECE_ROWS * lower + lane // 4
    return row, (_PIECE_BYTES // item_bytes) * right + items * (lane % 4) + half


def a_holder(row: Index, k: Index, *, item_bytes: int = 2) -> tuple[Index, Index, Index]:
    """Thread, register and half that hold A's element (row, k): the inverse of ``a_held_by``.

    ``row``: 0–63; ``k``: 0 to 32/``item_bytes`` - 1.
    """
    items = _items(item_bytes)
    _require("row", row, _ROWS, "an instruction has 64 rows")
    _require_k(k, item_bytes)
    piece, inside = divmod(k, _PIECE_BYTES // item_bytes)
    return _thread(row, inside // items), 2 * piece + _lower(row), k % items


def b_held_by(
    lane: Index, register: Index, item: Index, *, item_bytes: int = 2
) -> tuple[Index, Index]:
    """Column and k of one element of B (K × 8) of an ``mma.sync``.

    ``lane``: 0–31; ``register``: 0 or 1; ``item``: which element of it, 0 in the lowest bits.
    """
    items = _items(item_bytes)
    _require("lane", lane, _LANES, "a warp has 32 threads")
    _require("register", register, _B_REGISTERS, "B takes two 32-bit registers of a thread")
    _require("item", item, items, _ITEMS_RULE[item_bytes])
    return lane // 4, (_PIECE_BYTES // item_bytes) * register + items * (lane % 4) + item


def b_holder(column: Index, k: Index, *, item_bytes: int = 2) -> tuple[Index, Index, Index]:
    """Lane, register and item that hold B's element: the inverse of ``b_held_by``."""
    items = _items(item_bytes)
    _require("column", column, _MMA_N, "mma.sync has eight columns")
    _require_k(k, item_bytes)
    register, inside = divmod(k, _PIECE_BYTES // item_bytes)
    return 4 * column + inside // items, register, k % items


# ---- ldmatrix, stmatrix, movmatrix --------------------------------------------------------------


def matrix_held_by(lane: Index, half: Index, *, transposed: bool = False) -> tuple[Index, Index]:
    """Row and column of the 8 × 8 matrix, as it lies in memory, whose element ``lane`` holds.

    A row lies in 16 bytes, and elements have 16 bits; ``half``: 0 is the lower one of a register.
    ``transposed``: with ``.trans``.
    """
    _require("lane", lane, _LANES, "a warp has 32 threads")
    _require("half", half, _HALVES, "a register holds two 16-bit elements")
    place = lane // 4, 2 * (lane % 4) + half
    return place[::-1] if transposed else place


def matrix_holder(row: Index, column: Index, *, transposed: bool = False) -> tuple[Index, Index]:
    """Lane and half that hold (row, column) of the matrix: the inverse of ``matrix_held_by``."""
    _require("row", row, _PIECE_ROWS, "a matrix has eight rows")
    _require("column", column, _PIECE_ROWS, "a matrix has eight columns of 16 bits")
    if transposed:
        row, column = column, row
    return 4 * row + column // 2, column % 2


# -------------------------------------------------------------------------------------------------

_ITEMS_RULE = {
    1: "a register holds four 8-bit elements",
    2: "a register holds two 16-bit elements",
    4: "a register holds one 32-bit element",
}


def _thread(row: Index, quarter: Index) -> Index:
    """Who holds part ``quarter`` (0–3) of a row of 64."""
    return _LANES * (row // _WARP_ROWS) + 4 * (row % _PIECE_ROWS) + quarter


def _lower(row: Index) -> Index:
    """Whether a row is among the lower eight of its warp's sixteen: 0 or 1."""
    return row // _PIECE_ROWS % 2


def _items(item_bytes: int) -> int:
    if item_bytes not in _ITEMS_RULE:
        raise ProblemError(
            f"item_bytes={item_bytes}: elements in registers have 1, 2 or 4 bytes; pass one of "
            f"these"
        )
    return _REGISTER_BYTES // item_bytes


def _require_k(k: Index, item_bytes: int) -> None:
    depth, bits = _DEPTH_BYTES // item_bytes, 8 * item_bytes
    article = "an" if bits == 8 else "a"
    _require("k", k, depth, f"an instruction is {depth} deep for {article} {bits}-bit type")


def _require(name: str, value: Index, count: int, rule: str) -> None:
    for worst in (numpy.min(value), numpy.max(value)):
        if not 0 <= worst < count:
            raise ProblemError(f"{name}={worst}: {rule}; count from 0 to {count - 1}")
