"""Inputs of the kernels that break a rule, in any shape, and what is right for them.

All are numbers whose sums are exact, so that right is what NumPy says, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.conformance import Tiled, blank
from hopper.fragment import a_held_by, held_by


@dataclass(frozen=True)
class Shape:
    """What changes when things happen in a kernel, and no rule.

    ``size``: of its tiles (``-DSIZE``), 1 to 32; ``cells``: how many blocks, or clusters, run, each
    with inputs of its own; ``seed``: of the inputs.
    """

    size: int = 1
    cells: int = 1
    seed: int = 7

    def draw(self, low: int, high: int, *shape: int) -> numpy.ndarray:
        """Whole numbers from low to high - 1, int64, a set for each cell: (cells, *shape)."""
        random = numpy.random.default_rng(self.seed)
        return random.integers(low, high, (self.cells, *shape))


AS_WRITTEN = Shape()
#: Arguments in the kernel's order, and what the corrected twin leaves in the output.
Data = tuple[list, numpy.ndarray]


# ---- kernels that copy --------------------------------------------------------------------------

#: 1 KB, and 32 KB.
COPIED = (1, 32)


def _numbers(shape: Shape, *words: int) -> numpy.ndarray:
    return shape.draw(1, 1 << 31, *words).astype(numpy.uint32)


def _blank_like(array: numpy.ndarray) -> numpy.ndarray:
    return blank(array.shape, array.dtype)


def copy(words: int, more: int = 0, *, back: bool = False, large: int = 0) -> dict:
    """A kernel that copies ``words`` words, and ``large`` more for each further size.

    ``more``: words that lie behind them in its input; ``back``: the order is reversed.
    """

    def data(shape: Shape) -> Data:
        count = words + (shape.size - 1) * large
        source = _numbers(shape, count + more)
        right = source[:, :count][:, :: -1 if back else 1]
        return [source, _blank_like(right)], right

    return {"data": data, "sizes": COPIED if large else (1,)}


def copy_tile(steps: int = 1, more: int = 0) -> dict:
    """``steps`` times WORDS."""
    return copy(256 * steps, more, large=256 * steps)


def fours_reversed(shape: Shape) -> Data:
    """Fours of words in reverse order, 512 words and as many more for each size."""
    values = _numbers(shape, 128 * shape.size, 4)
    return [values, _blank_like(values)], values[:, ::-1]


def sums_of_two(shape: Shape) -> Data:
    """WORDS sums of two numbers each."""
    values = _numbers(shape, 2, 256 * shape.size)
    right = values.sum(axis=1, dtype=numpy.uint32)
    return [values, _blank_like(right)], right


def swapped(shape: Shape) -> Data:
    """Two blocks of 128 words, each the other one's."""
    values = _numbers(shape, 2, 128)
    return [values, _blank_like(values)], values[:, ::-1]


def mapped(swizzle: int) -> Callable[[Shape], Data]:
    """A tensor map over a tile of 8 × 64 fp16 a cell, which is copied."""

    def data(shape: Shape) -> Data:
        values = _numbers(shape, 8, 32)
        tiles = Tiled(values.view(numpy.uint16).reshape(-1, 64), (8, 64), swizzle)
        return [tiles, _blank_like(values)], values

    return data


def each_with_next(shape: Shape) -> Data:
    """128 words a cell, each plus the next one in all, and how many there are."""
    values = _numbers(shape, 128).reshape(-1)
    right = values + numpy.append(values[1:], numpy.uint32(0))
    return [values, _blank_like(values), numpy.int32(values.size)], right


def sums_of_four(shape: Shape) -> Data:
    """128 sums a cell of four words each, from the second word on."""
    count = 128 * shape.cells
    values = _numbers(Shape(seed=shape.seed), 4 * count + 4)[0]
    right = values[1 : 4 * count + 1].reshape(count, 4).sum(axis=1, dtype=numpy.uint32)
    return [values, _blank_like(right)], right


def with_flag(shape: Shape) -> Data:
    """A flag that is zero, and 64 words a cell that are copied."""
    values = _numbers(shape, 64)
    return [numpy.zeros(1, "u4"), values, _blank_like(values)], values


# ---- kernels that multiply ----------------------------------------------------------------------

#: N = 8, and N = 256.
MULTIPLIED = (1, 32)


def _matrices(shape: Shape, steps: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (cells, steps, 64, 16) and B (cells, steps, N, 16), small whole numbers: sums are exact."""
    both = shape.draw(-4, 5, steps, 64 + 8 * shape.size, 16).astype(numpy.float16)
    return both[:, :, :64], both[:, :, 64:]


def _core_matrices(x: numpy.ndarray) -> numpy.ndarray:
    """(…, rows, 16) as the kernels' descriptors expect it: (…, rows * 16)."""
    outer, rows = x.shape[:-2], x.shape[-2]
    cores = x.reshape(*outer, rows // 8, 8, 2, 8).swapaxes(-3, -2)
    return cores.reshape(*outer, rows * 16)


def _tiles(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """A and B of each step, (cells, words)."""
    both = numpy.concatenate([_core_matrices(a), _core_matrices(b)], axis=-1)
    return both.reshape(len(both), -1).view("u4")


def _held(product: numpy.ndarray) -> numpy.ndarray:
    """(…, 64, N) as 128 threads hold it: (…, 128, N / 2)."""
    row, column = held_by(*numpy.indices((128, product.shape[-1] // 2)))
    return product[..., row, column].astype(numpy.float32)


def _product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    return a.astype(numpy.float32) @ b.astype(numpy.float32).swapaxes(-1, -2)


def multiply(steps: int = 1, *, blocks: int = 0, sizes: tuple[int, ...] = MULTIPLIED) -> dict:
    """The sum of ``steps`` products, each SIZE times if there is more than one.

    ``blocks``: of a cluster, which all get the same.
    """

    def data(shape: Shape) -> Data:
        a, b = _matrices(shape, steps)
        right = _held(_product(a, b).sum(axis=1) * (shape.size if steps > 1 else 1))
        if blocks:
            right = numpy.repeat(right[:, None], blocks, axis=1)
        return [_tiles(a, b), _blank_like(right)], right

    return {"data": data, "sizes": sizes}


def with_fragments(shape: Shape) -> Data:
    """A of two steps as threads hold it, and B of one: the sum of the two products."""
    a, b = _matrices(shape, 2)
    row, k = a_held_by(*numpy.indices((128, 4, 2)))
    fragments = numpy.ascontiguousarray(a[:, :, row, k]).view("u4")[..., 0]
    right = _held(_product(a, b[:, :1]).sum(axis=1))
    return [fragments, _tiles(a[:, :1], b[:, :1]), _blank_like(right)], right


def with_start(shape: Shape) -> Data:
    """A product, and what it is added to."""
    a, b = _matrices(shape, 1)
    product = _held(_product(a, b)[:, 0])
    start = shape.draw(-99, 99, *product.shape[1:]).astype(numpy.float32)
    return [_tiles(a, b), start, _blank_like(product)], product + start


def pipeline(shape: Shape) -> Data:
    """Two products of seven steps by each of two blocks; see ``kernels/hazards/none.cu``."""
    draw = numpy.random.default_rng(shape.seed).integers
    a = draw(-4, 5, (2, 2, 7, 128, 16)).astype(numpy.float16)
    b = draw(-4, 5, (2, 7, 8, 16)).astype(numpy.float16)
    products = numpy.einsum("bpsmk,psnk->bpmn", a.astype("f4"), b.astype("f4"))
    right = _held(products.reshape(-1, 64, 8))
    flat = [_core_matrices(x).reshape(-1) for x in (a, b)]
    return [*flat, _blank_like(right)], right
