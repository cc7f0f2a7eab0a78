"""``layout_copy``: a copy whose thread-value layout is a ``Layout``, and what it does to memory.

A tile of 64 × 64 elements of 4 bytes belongs to a block of threads. A thread-value layout says
which place each value of each thread has in it, counted down the columns, as CuTe does. Composed
with the layout of the tile in the matrix it gives offsets in memory, and these tell the rest: how
many 32-byte sectors, memory's unit of transfer, a warp's instruction touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from hopper.backends import Backend
from hopper.compile import Program, compile_kernel
from hopper.errors import ProblemError

from .algebra import composition
from .core import Layout
from .text import parse

TILE = 64
ITEM_BYTES = 4
SECTOR_BYTES = 32
LANES = 32


@dataclass(frozen=True)
class Copy:
    """One way to copy: ``layout`` ((T0,T1),(V0,V1)), ``vector`` values in one instruction.

    Raises ProblemError for a layout of another form, and for values that cannot go together.
    """

    layout: Layout
    vector: int = 1

    def __post_init__(self) -> None:
        threads_values = self.layout.rank == 2 and all(mode.rank == 2 for mode in self.layout)
        if not threads_values or self.layout.depth != 2:
            raise ProblemError(
                f"{self.layout}: layout_copy takes ((T0,T1),(V0,V1)), two modes of threads and two "
                f"of values; write a missing one as 1:0"
            )
        (first, step), _ = self.layout[1].leaves
        if self.vector > 1 and (step != TILE or first % self.vector):
            raise ProblemError(
                f"vector={self.vector}: the values {first}:{step} of {self.layout} cannot go in "
                f"one instruction, which moves neighbours in a row; their stride must be {TILE}, "
                f"and their number a multiple of {self.vector}"
            )

    @property
    def defines(self) -> dict[str, int]:
        """The ``-D`` names that make the kernel use this layout."""
        names = ("T0", "T1", "V0", "V1")
        shape = dict(zip(names, (s for s, _ in self.layout.leaves), strict=True))
        stride = {f"D{name}": d for name, (_, d) in zip(names, self.layout.leaves, strict=True)}
        return {"TILE_M": TILE, "TILE_N": TILE, **shape, **stride, "VECTOR": self.vector}

    def compile(self) -> Program:
        """The kernel with this layout. Raises CompileError where an element has no owner or two."""
        return compile_kernel("layout_copy", **self.defines)

    def offsets(self, columns: int) -> Layout:
        """(thread, value) -> element of a row-major matrix with so many ``columns``.

        The layout of the tile in the matrix, after the thread-value layout. Raises ProblemError
        where that is no layout.
        """
        return composition(Layout((TILE, TILE), (columns, 1)), self.layout)

    def sectors(self, columns: int) -> numpy.ndarray:
        """Sectors that each instruction of each warp touches, int64, (warps, instructions).

        For loads as for stores. ``columns``: of the matrix.
        """
        threads, values = self.layout[0].size, self.layout[1].size
        offsets = self.offsets(columns)
        thread = numpy.arange(threads)[:, None]
        first = offsets(thread, numpy.arange(0, values, self.vector)[None, :]) * ITEM_BYTES
        last = first + self.vector * ITEM_BYTES - 1
        touched = numpy.stack([first, last]) // SECTOR_BYTES  # 16 bytes lie in one or in two
        by_warp = touched.reshape(2, threads // LANES, LANES, -1)
        ordered = numpy.sort(numpy.concatenate(by_warp, axis=1), axis=1)
        return 1 + (numpy.diff(ordered, axis=1) > 0).sum(axis=1)

    def waste(self, columns: int) -> float:
        """Sectors asked for, over those that the tile needs: 1 where none is asked for twice."""
        needed = TILE * TILE * ITEM_BYTES // SECTOR_BYTES
        return float(self.sectors(columns).sum() / needed)


#: What the chapter compares, the best first by sectors.
COPIES = {
    "rows, 4 at once": Copy(parse("((16,16),(4,4)):((256,1),(64,16))"), 4),
    "rows": Copy(parse("((64,4),(1,16)):((64,1),(0,4))")),
    "chunks, 4 at once": Copy(parse("((4,64),(16,1)):((1024,1),(64,0))"), 4),
    "fours, one by one": Copy(parse("((16,16),(4,4)):((256,1),(64,16))")),
    "columns": Copy(parse("((64,4),(1,16)):((1,64),(0,256))")),
}


def grid(rows: int, columns: int) -> tuple[int, int, int]:
    """Blocks for a matrix. Raises ProblemError unless both sides are multiples of the tile."""
    for name, side in (("rows", rows), ("columns", columns)):
        if side < TILE or side % TILE:
            raise ProblemError(
                f"{name}={side}: layout_copy copies whole tiles of {TILE} × {TILE}; pad the matrix "
                f"to {-(-max(side, 1) // TILE) * TILE} {name}"
            )
    return columns // TILE, rows // TILE, 1


def copy(here: Backend, program: Program, matrix: Any, out: Any) -> None:
    """Launch ``layout_copy`` from ``matrix`` to ``out``, both on ``here``, int32 or uint32, (M, N).

    Returns before it is done on a GPU. Raises ProblemError for sides that are no multiples of the
    tile, for another type, for matrices that do not match or are not stored row by row.
    """
    for name, one in (("matrix", matrix), ("out", out)):
        if one.dtype.kind not in "iu" or one.dtype.itemsize != ITEM_BYTES or one.ndim != 2:
            raise ProblemError(
                f"{name}: {one.dtype}, {one.ndim} dimensions; layout_copy copies matrices of "
                f"32-bit integers; pass a view of that type"
            )
        if not one.flags.c_contiguous:
            raise ProblemError(f"{name}: rows are not stored one after another; pass a copy of it")
    if matrix.shape != out.shape:
        raise ProblemError(f"out is {out.shape}, matrix {matrix.shape}: make them alike")
    rows, columns = matrix.shape
    arguments = (matrix, out, numpy.int32(columns))
    here.launch(program, grid(rows, columns), (program.facts.threads, 1, 1), arguments, 0)
