"""Which thread of a warpgroup holds what: the accumulator of wgmma, and A when it is in registers.

PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma.mma_async: the figures for
D of m64nNk16 and A of m64k16. A recorded probe of one_wgmma shows the first on an H200.
An argument is an int or a NumPy array of integers, and so are the results.
"""

from __future__ import annotations

import numpy

from hopper.errors import ProblemError

Index = int | numpy.ndarray

_THREADS, _ROWS = 128, 64
_WARP_ROWS = 16
_MAX_N = 256
_REGISTERS = _MAX_N // 2
_K, _A_REGISTERS, _HALVES = 16, 4, 2


def held_by(thread: Index, register: Index) -> tuple[Index, Index]:
    """Row and column of accumulator ``register`` of ``thread`` in a 64 × N tile of a 32-bit type.

    ``thread``: 0–127 in the warpgroup; ``register``: 0 to N/2 - 1. Raises ProblemError outside.
    """
    _require("thread", thread, _THREADS, "a warpgroup has 128 threads")
    _require("register", register, _REGISTERS, "a thread holds N/2 accumulators, N at most 256")
    warp, lane = divmod(thread, 32)
    group, place = divmod(register, 4)
    lower, right = divmod(place, 2)
    return _WARP_ROWS * warp + 8 * lower + lane // 4, 8 * group + 2 * (lane % 4) + right


def holder(row: Index, column: Index) -> tuple[Index, Index]:
    """Thread and register that hold accumulator (row, column): the inverse of ``held_by``.

    ``row``: 0–63; ``column``: 0 to N - 1. Raises ProblemError outside.
    """
    _require("row", row, _ROWS, "an instruction has 64 rows")
    _require("column", column, _MAX_N, "an instruction has at most 256 columns")
    warp, lower = row // _WARP_ROWS, row // 8 % 2
    lane = 4 * (row % 8) + column % 8 // 2
    return 32 * warp + lane, 4 * (column // 8) + 2 * lower + column % 2


def a_held_by(thread: Index, register: Index, half: Index) -> tuple[Index, Index]:
    """Row and k of one element of A (64 × 16, a 16-bit type) that is passed in registers.

    ``register``: 0–3 of ``thread`` 0–127; ``half``: 0 is its lower 16 bits. Raises ProblemError
    outside.
    """
    _require("thread", thread, _THREADS, "a warpgroup has 128 threads")
    _require("register", register, _A_REGISTERS, "A takes four 32-bit registers of a thread")
    _require("half", half, _HALVES, "a register holds two 16-bit elements")
    warp, lane = divmod(thread, 32)
    right, lower = divmod(register, 2)
    return _WARP_ROWS * warp + 8 * lower + lane // 4, 8 * right + 2 * (lane % 4) + half


def a_holder(row: Index, k: Index) -> tuple[Index, Index, Index]:
    """Thread, register and half that hold A's element (row, k): the inverse of ``a_held_by``.

    ``row``: 0–63; ``k``: 0–15. Raises ProblemError outside.
    """
    _require("row", row, _ROWS, "an instruction has 64 rows")
    _require("k", k, _K, "an instruction is 16 deep for a 16-bit type")
    warp, lower = row // _WARP_ROWS, row // 8 % 2
    lane = 4 * (row % 8) + k % 8 // 2
    return 32 * warp + lane, 2 * (k // 8) + lower, k % 2


def _require(name: str, value: Index, count: int, rule: str) -> None:
    for worst in (numpy.min(value), numpy.max(value)):
        if not 0 <= worst < count:
            raise ProblemError(f"{name}={worst}: {rule}; count from 0 to {count - 1}")
