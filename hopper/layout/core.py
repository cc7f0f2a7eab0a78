"""A layout: a shape and a stride, both integers or nested tuples of them with the same nesting.

Source of the definitions: CUTLASS, "CuTe Layouts". Coordinates count colexicographically: the
first mode runs fastest. Two things are stricter than in CuTe, so that a layout is a function on
its own elements and on nothing else: a coordinate outside the shape is refused (CuTe lets the last
mode run on), and strides are not negative.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from hopper.errors import ProblemError

IntTuple = int | tuple["IntTuple", ...]
Index = int | numpy.ndarray
Coordinate = Index | tuple["Coordinate", ...]

# ---- integers and nested tuples of them ---------------------------------------------------------


def flatten(value: Any) -> tuple:
    """The leaves of a nested tuple, from left to right."""
    if not isinstance(value, tuple):
        return (value,)
    return tuple(leaf for part in value for leaf in flatten(part))


def product(shape: IntTuple) -> int:
    """How many coordinates a shape has: the product of its leaves."""
    total = 1
    for leaf in flatten(shape):
        total *= leaf
    return total


def depth(value: IntTuple) -> int:
    """How deep tuples are nested: 0 for an integer, 1 for a tuple of integers, …"""
    if not isinstance(value, tuple):
        return 0
    return 1 + max((depth(part) for part in value), default=0)


def written(value: Any) -> str:
    """A nested tuple as CuTe prints it, without spaces: (4,(2,8)). A tuple of one is (8)."""
    if not isinstance(value, tuple):
        return str(value)
    return f"({','.join(written(part) for part in value)})"


def refold(leaves: Iterator, pattern: IntTuple) -> Any:
    """``leaves`` in the nesting of ``pattern``."""
    if not isinstance(pattern, tuple):
        return next(leaves)
    return tuple(refold(leaves, part) for part in pattern)


def _congruent(first: IntTuple, second: IntTuple) -> bool:
    if not isinstance(first, tuple) or not isinstance(second, tuple):
        return not isinstance(first, tuple) and not isinstance(second, tuple)
    return len(first) == len(second) and all(map(_congruent, first, second))


def _integers(value: Any, what: str, least: int) -> IntTuple:
    """``value`` with plain ints for leaves. Raises ProblemError for a leaf that does not fit."""
    if isinstance(value, tuple | list):
        return tuple(_integers(part, what, least) for part in value)
    try:
        leaf = operator.index(value)
    except TypeError:
        raise ProblemError(
            f"{what} {value!r}: a {what} is an integer or a tuple of {what}s; write whole numbers"
        ) from None
    if leaf < least:
        raise ProblemError(f"{what} {leaf}: a {what} is at least {least} here; choose a larger one")
    return leaf


# ---- coordinates --------------------------------------------------------------------------------


def crd2idx(coordinate: Coordinate, shape: IntTuple, stride: IntTuple | None = None) -> Index:
    """The offset of a coordinate: an integer, or a tuple nested like ``shape`` or less deeply.

    A leaf may be a NumPy array of integers; the result then is one too. ``stride``: left out, that
    of a column-major layout, so the result is where the coordinate stands in colexicographic
    order. Raises ProblemError for a coordinate outside ``shape`` or of another form.
    """
    return _offset(coordinate, shape, _compact(shape) if stride is None else stride)


def _offset(coordinate: Coordinate, shape: IntTuple, stride: IntTuple) -> Index:
    if isinstance(coordinate, tuple):
        if not isinstance(shape, tuple) or len(coordinate) != len(shape):
            raise ProblemError(
                f"coordinate {written(coordinate)}: shape {written(shape)} has no coordinate of "
                f"this form; give an integer for the whole of it, or one part for each of its modes"
            )
        parts = (_offset(*one) for one in zip(coordinate, shape, stride, strict=True))
        return sum(parts, start=0)
    count = product(shape)
    for worst in (numpy.min(coordinate), numpy.max(coordinate)):
        if not 0 <= worst < count:
            raise ProblemError(
                f"coordinate {worst}: shape {written(shape)} has {count} coordinates; count from "
                f"0 to {count - 1}"
            )
    if not isinstance(shape, tuple):
        return coordinate * stride
    offset: Index = coordinate * 0
    rest = coordinate
    for extent, step in zip(flatten(shape), flatten(stride), strict=True):
        offset = offset + rest % extent * step
        rest = rest // extent
    return offset


def idx2crd(coordinate: Coordinate, shape: IntTuple) -> Coordinate:
    """A coordinate in the natural form, nested like ``shape``: 16 in (3,(2,3)) is (1,(1,2)).

    ``coordinate``: in any form; an integer is the place in colexicographic order. Raises
    ProblemError outside the shape.
    """
    index = crd2idx(coordinate, shape)
    leaves = []
    for extent in flatten(shape):
        leaves.append(index % extent)
        index = index // extent
    return refold(iter(leaves), shape)


def _compact(shape: IntTuple) -> IntTuple:
    strides, step = [], 1
    for extent in flatten(shape):
        strides.append(step)
        step *= extent
    return refold(iter(strides), shape)


# ---- layouts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """``Shape:Stride``, a function from the coordinates of a shape to offsets.

    ``shape``: positive integers, nested as you like. ``stride``: as many, nested alike, not
    negative; left out, the column-major ones (``column_major``). Raises ProblemError where the two
    do not fit.
    """

    shape: IntTuple
    stride: IntTuple = None  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        shape = _integers(self.shape, "shape", 1)
        stride = _compact(shape) if self.stride is None else _integers(self.stride, "stride", 0)
        if not _congruent(shape, stride):
            raise ProblemError(
                f"{written(shape)}:{written(stride)}: shape and stride are nested differently; "
                f"write one stride for each integer of the shape"
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    def __call__(self, *coordinate: Coordinate) -> Index:
        """The offset of a coordinate: ``layout(5)``, ``layout(1, 3)``, ``layout(1, (1, 1))``.

        NumPy arrays in place of integers give an array. Raises ProblemError outside the shape.
        """
        whole = coordinate[0] if len(coordinate) == 1 else coordinate
        return _offset(whole, self.shape, self.stride)

    def __getitem__(self, mode: int) -> Layout:
        """One mode as a layout of its own."""
        if not isinstance(self.shape, tuple):
            shape, stride = (self.shape,), (self.stride,)
        else:
            shape, stride = self.shape, self.stride
        if not -len(shape) <= mode < len(shape):
            raise ProblemError(f"mode {mode}: {self} has {len(shape)}; count from 0")
        return Layout(shape[mode], stride[mode])

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[Layout]:
        return (self[mode] for mode in range(self.rank))

    def __str__(self) -> str:
        return f"{written(self.shape)}:{written(self.stride)}"

    __repr__ = __str__

    @property
    def size(self) -> int:
        """How many coordinates there are."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest offset: how many elements of memory it spans."""
        return 1 + sum((s - 1) * d for s, d in self.leaves)

    @property
    def rank(self) -> int:
        """How many modes there are at the top; 1 for an integer shape."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def depth(self) -> int:
        """How deep the shape is nested: 0 for an integer, 1 for a tuple of integers, …"""
        return depth(self.shape)

    @property
    def leaves(self) -> tuple[tuple[int, int], ...]:
        """Every (shape, stride) of a single integer, from left to right."""
        return tuple(zip(flatten(self.shape), flatten(self.stride), strict=True))

    @property
    def flat(self) -> Layout:
        """The same function of an integer, without nesting."""
        return Layout(flatten(self.shape), flatten(self.stride))

    @property
    def offsets(self) -> numpy.ndarray:
        """The offset of every coordinate in colexicographic order, int64, shape (size,)."""
        return self(numpy.arange(self.size))

    @property
    def table(self) -> numpy.ndarray:
        """Offsets of a layout of two modes as a matrix, int64: row i, column j is layout(i, j).

        Raises ProblemError for another rank.
        """
        if self.rank != 2:
            raise ProblemError(f"{self}: it has rank {self.rank}, and a table needs two modes")
        return self.offsets.reshape(self[1].size, self[0].size).T

    @property
    def injective(self) -> bool:
        """Whether no two coordinates share an offset."""
        return len(numpy.unique(self.offsets)) == self.size


def column_major(shape: IntTuple) -> Layout:
    """The first mode has stride 1 (CuTe's LayoutLeft)."""
    return Layout(shape)


def row_major(shape: IntTuple) -> Layout:
    """The last mode has stride 1 (CuTe's LayoutRight)."""
    whole = _integers(shape, "shape", 1)
    strides, step = [], 1
    for extent in reversed(flatten(whole)):
        strides.append(step)
        step *= extent
    return Layout(whole, refold(iter(reversed(strides)), whole))


def make_layout(*modes: Layout) -> Layout:
    """A layout whose modes are the given layouts, side by side."""
    return Layout(tuple(one.shape for one in modes), tuple(one.stride for one in modes))
