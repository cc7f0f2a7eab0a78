"""Is this product right?

Two questions. Element by element: is each error within what the arithmetic explains (see
``tolerance``)? And over the whole: is the error as small as rounding makes it? fp64 is the
judge; a second implementation (cuBLAS) may be asked about every element besides.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy

from hopper.arrays import memory_of
from hopper.dtypes import DTYPES, ELEMENT_TYPES, ElementType, bits_of, widened
from hopper.errors import CheckError, ProblemError

# Below this many multiplications every element is compared in fp64.
_FULL_ON_CPU = 2**31
_FULL_ON_GPU = 2**43
_BLOCK = 1024  # rows and columns compared at a time, to bound the fp64 copies
_TILE = 64  # rows of one wgmma: sampled rows include first and last ones of such tiles

FP32_ULP = 2.0**-23  # what truncation to 24 significant bits loses at most, relative
WGMMA_K = 16  # of 16-bit elements: what one instruction adds to a sum before it is rounded


@dataclass(frozen=True)
class Worst:
    """The element whose error is the largest part of its tolerance."""

    row: int
    col: int
    got: float
    expected: float
    tolerance: float


@dataclass(frozen=True)
class Comparison:
    """What a check found. ``str()`` of it is the report.

    ``max_error``: absolute. ``relative_norm``: Frobenius norm of the error over the reference's,
    to stay below ``norm_limit``. ``compared``: how many elements, against what. ``wrong``: how
    many lie outside their tolerance, and ``where``: the rows and columns that enclose them.
    """

    ok: bool
    max_error: float
    worst: Worst
    relative_norm: float
    norm_limit: float
    compared: str
    wrong: int
    where: str

    def __str__(self) -> str:
        worst = self.worst
        compared = self.compared.replace(", ", ",\n  ")
        lines = [
            f"{'right' if self.ok else 'WRONG'}: compared {compared}",
            f"  largest error {self.max_error:.3g}; worst element:",
            f"  C[{worst.row}, {worst.col}] = {worst.got:.6g}, expected {worst.expected:.6g} "
            f"± {worst.tolerance:.3g}",
            f"  relative norm of the error {self.relative_norm:.3g}, limit {self.norm_limit:.3g}",
        ]
        if self.wrong:
            are = "element is" if self.wrong == 1 else "elements are"
            lines.append(f"  {self.wrong:,} {are} wrong, in {self.where}")
        return "\n".join(lines)


def reference_rows(a, b, rows) -> Any:
    """Rows ``rows`` of A·Bᵀ in fp64: exact products, sums rounded at 2^-53. Shape (rows, N)."""
    dtype = a.dtype.name
    return widened(bits_of(a)[rows], dtype) @ widened(bits_of(b), dtype).T


def tolerance(reference, spread, k: int, dtype: str = "float16", fp16_sums: bool = False):
    """How far each element may lie from the fp64 one: an array like ``reference``.

    2^-11·|ref| + 2^-25: rounding the result to fp16, subnormals included; to bf16 it is
    2^-8·|ref| + 2^-134.
    (k/16 + 1)·2^-23·(8·R + |ref|): each wgmma truncates its sum to 24 bits, where partial sums
    are taken to stay below 8·R + |ref|. ``spread`` is R, the root of Σ a²b² over k, which is
    the typical size of a partial sum of values with random signs.

    ``fp16_sums``: each wgmma but the last, which the first line covers, also rounds its sum to
    fp16. Such roundings fall to either side: r of them, each at most 2^-11 of a partial sum, add
    up to at most r of them, and typically to a good third of √r. 2·√r are allowed, or r where
    that is less, of partial sums that stay below 4·R + |ref|. Sums that only grow round to one
    side once what a wgmma adds is below half their last digit; those come out wrong.
    """
    size = abs(reference)
    allowed = _rounding(size, dtype) + (k / WGMMA_K + 1) * FP32_ULP * (8 * spread + size)
    if not fp16_sums:
        return allowed
    roundings = _fp16_roundings(k)
    return allowed + min(roundings, 2 * roundings**0.5) * _rounding(4 * spread + size, "float16")


def _rounding(size, dtype: str):
    """How far rounding to a type moves values of this size at most."""
    element = ELEMENT_TYPES[dtype]
    return element.half_ulp * size + element.half_subnormal


def _usual(expected, spread, k: int, dtype: str, fp16_sums: bool):
    """An error whose norm the whole error's stays below: a norm averages, so every partial sum
    counts at its typical size. One after a share s of K is R·√s with random signs, |ref|·s without.
    """
    usual = _rounding(abs(expected), dtype) + (k / WGMMA_K + 1) * FP32_ULP * 2 * spread
    if not fp16_sums:
        return usual
    mean_square = spread**2 / 2 + expected**2 / 3
    return usual + (_fp16_roundings(k) * mean_square) ** 0.5 * ELEMENT_TYPES["float16"].half_ulp


def _fp16_roundings(k: int) -> int:
    """How often an fp16 accumulator is rounded before the last wgmma rounds it, too."""
    return -(-k // WGMMA_K) - 1


def compare(
    c, a, b, *, rows: Iterable[int] | None = None, peer=None, fp16_sums: bool = False
) -> Comparison:
    """Compare C with A·Bᵀ: like ``check``, but a wrong C is only reported, not raised."""
    m, n, k = _sizes(c, a, b, peer)
    xp, dtype = _module_of(c), memory_of(c).dtype.name
    c, a, b = (bits_of(matrix) for matrix in (c, a, b))
    everything = rows is None and m * n * k <= (_FULL_ON_CPU if xp is numpy else _FULL_ON_GPU)
    chosen = numpy.arange(m) if everything else _sampled(m) if rows is None else _given(rows, m)

    fp64 = _Tally(ELEMENT_TYPES[dtype])
    for some_rows, columns in _blocks(chosen, n):
        block_a, block_b = (widened(x, dtype) for x in (a[xp.asarray(some_rows)], b[columns]))
        expected = block_a @ block_b.T
        spread = xp.sqrt((block_a**2) @ (block_b**2).T)
        got = widened(c[xp.asarray(some_rows), columns], dtype)
        allowed = tolerance(expected, spread, k, dtype, fp16_sums)
        fp64.add(got, expected, allowed, some_rows, columns)
        fp64.allow(_usual(expected, spread, k, dtype, fp16_sums))
    compared = f"{_count(len(chosen), m, n)} against fp64"

    whole = _Tally(ELEMENT_TYPES[dtype])
    if peer is not None:
        # R of every element would cost a second product; by Cauchy and Schwarz it is below this.
        fourth_a, fourth_b = (_fourth_moment(matrix, dtype, xp) for matrix in (a, b))
        peer = bits_of(peer)
        for some_rows, columns in _blocks(numpy.arange(m), n):
            here = slice(int(some_rows[0]), int(some_rows[-1]) + 1)
            expected = widened(peer[here, columns], dtype)
            spread = fourth_a[here, None] * fourth_b[None, columns]
            got = widened(c[here, columns], dtype)
            # Both may be off by a tolerance.
            allowed = 2 * tolerance(expected, spread, k, dtype, fp16_sums)
            whole.add(got, expected, allowed, some_rows, columns)
        compared += f", {_count(m, m, n)} against the peer with twice the tolerance"
    # Rows outside the sample have no reference, but what was never written is still NaN.
    unwritten = _Tally(ELEMENT_TYPES[dtype])
    unwritten.mark(_is_nan(c, dtype, xp), numpy.arange(m), 0)
    return _verdict(fp64, whole, unwritten, compared)


def check(
    c, a, b, *, rows: Iterable[int] | None = None, peer=None, fp16_sums: bool = False
) -> Comparison:
    """Compare C (M, N) with A (M, K) · B (N, K)ᵀ; NumPy or CuPy arrays, all fp16 or all bf16.

    Everything in fp64 where that is affordable, else ``rows`` or a sample of them: the first and
    the last, both edges of some 64-row tiles, and random ones. ``peer``: another result of that
    type, such as cuBLAS's, that every element is compared with at twice the tolerance.
    ``fp16_sums``: the kernel rounds its sums to fp16 step by step, so more error is explained; a
    launch fact of that name says so.
    NaN never passes; fill C with NaN before the kernel runs, and no forgotten tile does.
    Raises CheckError with the report when C is wrong.
    """
    found = compare(c, a, b, rows=rows, peer=peer, fp16_sums=fp16_sums)
    if not found.ok:
        raise CheckError(str(found))
    return found


@dataclass
class _Tally:
    """Sums up a comparison block by block. ``element``: the type of the result."""

    element: ElementType
    error_squared: float = 0.0
    reference_squared: float = 0.0
    allowed_squared: float = 0.0
    max_error: float = 0.0
    wrong: int = 0
    worst: Worst | None = None
    worst_ratio: float = -1.0
    rows_hit: list[int] = field(default_factory=list)
    columns_hit: list[int] = field(default_factory=list)

    def add(self, got, expected, allowed, rows: numpy.ndarray, columns: slice) -> None:
        """Compare one block; every array is fp64 and of the block's shape."""
        xp = _module_of(got)
        error = abs(got - expected)
        # fp16 ends at 65504; from 65520 on, correct rounding gives infinity.
        same_sign = xp.sign(got) == xp.sign(expected)
        beyond = abs(expected) + allowed >= self.element.overflow
        overflows = xp.isinf(got) & same_sign & beyond
        error = xp.where(overflows, 0.0, xp.where(xp.isnan(error), xp.inf, error))
        ratio = error / allowed
        self.error_squared += float((error**2).sum())
        self.reference_squared += float((expected**2).sum())
        self.max_error = max(self.max_error, float(error.max()))
        self.mark(error > allowed, rows, columns.start)
        row, column = divmod(int(ratio.argmax()), ratio.shape[1])
        if float(ratio[row, column]) > self.worst_ratio:
            self.worst_ratio = float(ratio[row, column])
            self.worst = Worst(
                int(rows[row]),
                columns.start + column,
                *(float(each[row, column]) for each in (got, expected, allowed)),
            )

    def mark(self, wrong, rows: numpy.ndarray, left: int) -> None:
        """Count the wrong elements of a block, a mask, and remember what encloses them."""
        xp = _module_of(wrong)
        self.wrong += int(wrong.sum())
        hit_rows = _host(xp.flatnonzero(wrong.any(axis=1)))
        hit_columns = _host(xp.flatnonzero(wrong.any(axis=0)))
        if len(hit_rows):
            self.rows_hit += rows[hit_rows[[0, -1]]].tolist()
            self.columns_hit += (left + hit_columns[[0, -1]]).tolist()

    def allow(self, usual) -> None:
        """Let the norm of the error grow by a block's usual error."""
        self.allowed_squared += float((usual**2).sum())


def _verdict(fp64: _Tally, whole: _Tally, unwritten: _Tally, compared: str) -> Comparison:
    norm = fp64.reference_squared**0.5
    error, limit = fp64.error_squared**0.5, fp64.allowed_squared**0.5
    tallies = (fp64, whole, unwritten)
    wrong = max(tally.wrong for tally in tallies)
    where = ""
    if wrong:
        rows = [row for tally in tallies for row in tally.rows_hit]
        columns = [column for tally in tallies for column in tally.columns_hit]
        where = f"rows {min(rows)}–{max(rows)}, columns {min(columns)}–{max(columns)}"
    return Comparison(
        ok=not wrong and error <= limit,
        max_error=max(fp64.max_error, whole.max_error),
        worst=whole.worst if whole.worst_ratio > max(1.0, fp64.worst_ratio) else fp64.worst,
        relative_norm=error / norm if norm else error,
        norm_limit=limit / norm if norm else limit,
        compared=compared,
        wrong=wrong,
        where=where,
    )


def _sizes(c, a, b, peer) -> tuple[int, int, int]:
    (m, k), (n, _) = a.shape, b.shape
    wanted = {"A": (a, (m, k)), "B": (b, (n, k)), "C": (c, (m, n))}
    dtype = memory_of(c).dtype.name
    dtype = dtype if dtype in DTYPES else "float16"
    if peer is not None:
        wanted["the peer"] = (peer, (m, n))
    for name, (array, shape) in wanted.items():
        memory = memory_of(array)
        if memory.shape != shape or memory.dtype.name != dtype:
            raise ProblemError(
                f"{name} is {memory.dtype} {memory.shape}: to compare A·Bᵀ it must be {dtype} "
                f"{shape}; convert or reshape it"
            )
        if memory.on_gpu != memory_of(c).on_gpu:
            raise ProblemError(
                f"{name} and C lie in different memories: compare arrays of one kind; move one "
                f"with cupy.asarray or cupy.asnumpy"
            )
    return m, n, k


def _module_of(array):
    if not memory_of(array).on_gpu:
        return numpy
    import cupy

    return cupy


def _host(array) -> numpy.ndarray:
    return array.get() if hasattr(array, "get") else array


def _is_nan(c, dtype: str, xp):
    """Where C, as ``bits_of`` returns it, is NaN."""
    return (c & 0x7FFF) > 0x7F80 if dtype == "bfloat16" else xp.isnan(c)


def _fourth_moment(matrix, dtype: str, xp):
    """(Σ_k x⁴)^¼ of each row, fp64."""
    return xp.concatenate(
        [
            (widened(matrix[start : start + _BLOCK], dtype) ** 4).sum(axis=1) ** 0.25
            for start in range(0, len(matrix), _BLOCK)
        ]
    )


def _given(rows: Iterable[int], m: int) -> numpy.ndarray:
    chosen = numpy.unique(numpy.fromiter(rows, numpy.int64))
    if not len(chosen) or chosen[0] < 0 or chosen[-1] >= m:
        raise ProblemError(f"rows={chosen.tolist()}: C has rows 0–{m - 1}; name at least one")
    return chosen


def _sampled(m: int) -> numpy.ndarray:
    """About fifty rows: the ends, both edges of some tiles, and random ones."""
    random = numpy.random.default_rng(0)
    tops = random.integers(0, m, 16) // _TILE * _TILE
    rows = numpy.concatenate([[0, m - 1], tops, tops + _TILE - 1, random.integers(0, m, 16)])
    return numpy.unique(rows.clip(0, m - 1))


def _blocks(rows: numpy.ndarray, n: int) -> Iterator[tuple[numpy.ndarray, slice]]:
    for top in range(0, len(rows), _BLOCK):
        for left in range(0, n, _BLOCK):
            yield rows[top : top + _BLOCK], slice(left, min(left + _BLOCK, n))


def _count(rows: int, m: int, n: int) -> str:
    if rows == m:
        return f"all {m * n:,} elements" if m * n > 1 else "the only element"
    return f"{rows * n:,} of {m * n:,} elements ({rows} rows)"
