"""What a launch file's arrays and scalars hold, and what it expects of them.

Every ProblemError says the value, the rule and the way out; the file and the key are put before it
by whoever reads the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy

from hopper.errors import ProblemError

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")
DTYPES = (*_FLOATS, "bfloat16", *_INTEGERS)
SCALARS = (*_INTEGERS, *_FLOATS, "bool")
#: Whole numbers up to here are exact in a type.
_EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
_TERM = r"([A-Za-z_]\w*)(\.T)?"
_PRODUCT = re.compile(rf"\s*{_TERM}\s*(?:@\s*{_TERM}\s*)?")


@dataclass(frozen=True)
class Fill:
    """How to fill an array: ``values`` of a size, in float64 or int64, before conversion.

    ``integral``: whole numbers, which every dtype takes. ``random``: drawn by a seed.
    """

    values: Callable[[int, numpy.random.Generator, bool], numpy.ndarray]
    integral: bool = True
    random: bool = False


# The book's own inputs are drawn the same way: see hopper/gemm.py.
FILLS: dict[str, Fill] = {
    "zeros": Fill(lambda size, random, unsigned: numpy.zeros(size, numpy.int64)),
    "ones": Fill(lambda size, random, unsigned: numpy.ones(size, numpy.int64)),
    "nan": Fill(lambda size, random, unsigned: numpy.full(size, numpy.nan), integral=False),
    "arange": Fill(lambda size, random, unsigned: numpy.arange(size)),
    "normal": Fill(
        lambda size, random, unsigned: random.standard_normal(size), integral=False, random=True
    ),
    "uniform": Fill(
        lambda size, random, unsigned: 2 * random.random(size) - 1, integral=False, random=True
    ),
    "integers": Fill(
        lambda size, random, unsigned: random.integers(-3, 4, size) + 3 * unsigned, random=True
    ),
}


@dataclass(frozen=True, eq=False)
class Expected:
    """What an array must hold behind a run.

    ``equals``: in the file's words. ``value``: in the array's own form. ``element``: the type of
    its elements. ``tolerance``: the largest difference allowed.
    """

    array: str
    equals: str
    value: numpy.ndarray
    element: str
    tolerance: float

    def difference(self, found: numpy.ndarray) -> str:
        """What is wrong with an array, empty where nothing is. NaN equals NaN only."""
        wanted, got = as_numbers(self.value, self.element), as_numbers(found, self.element)
        with numpy.errstate(invalid="ignore"):
            same = (got == wanted) | (numpy.isnan(got) & numpy.isnan(wanted))
            wrong = ~(same | (numpy.abs(got - wanted) <= self.tolerance))
        if not wrong.any():
            return ""
        first = tuple(int(i[0]) for i in numpy.nonzero(wrong))
        return (
            f"{self.array}{list(first)} is {got[first]:.9g}, and {self.equals} has "
            f"{wanted[first]:.9g} there; {int(wrong.sum())} of {wrong.size} elements are off by "
            f"more than {self.tolerance:g}"
        )


def storage(dtype: object) -> numpy.dtype:
    """The NumPy type that holds a dtype; bfloat16 is kept as uint16. Raises ProblemError."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ProblemError(
            f"dtype = {dtype!r}: the dtypes are {', '.join(DTYPES)}; 8-bit floats are the uint8 of "
            f"their bits"
        )
    return numpy.dtype("uint16" if dtype == "bfloat16" else dtype)


def fill_array(shape: tuple[int, ...], dtype: object, fill: object, seed: int) -> numpy.ndarray:
    """An array for the kernel, filled in C order. Raises ProblemError."""
    there = storage(dtype)
    if not isinstance(fill, str) or fill not in FILLS:
        raise ProblemError(f"fill = {fill!r}: the fills are {', '.join(FILLS)}; choose one of them")
    how, size = FILLS[fill], math.prod(shape)
    if not how.integral and dtype in _INTEGERS:
        raise ProblemError(
            f"fill = {fill!r}: its values are no whole numbers, and the dtype is {dtype}; use "
            f'"integers", or a floating-point dtype'
        )
    most = _EXACT.get(dtype) or numpy.iinfo(there).max
    if fill == "arange" and size - 1 > most:
        raise ProblemError(
            f'fill = "arange": it counts to {size - 1}, and {dtype} holds whole numbers up to '
            f'{most}; use a wider dtype, or "integers"'
        )
    random = numpy.random.Generator(numpy.random.PCG64(seed))
    values = how.values(size, random, there.kind == "u" and dtype != "bfloat16")
    values = to_bfloat16(values) if dtype == "bfloat16" else values.astype(there)
    return values.reshape(shape)


def load_array(path: Path, dtype: object) -> tuple[numpy.ndarray, str]:
    """The array of a .npy file and the name of its dtype. Raises ProblemError.

    ``dtype``: what the launch file says it is, None where it says nothing.
    """
    try:
        array = numpy.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ProblemError(
            f"no array can be read from it ({error}); paths are relative to the launch file, and "
            f"numpy.save writes such a file"
        ) from error
    if not isinstance(array, numpy.ndarray) or not array.size or not array.ndim:
        raise ProblemError("it holds no array with elements; save one array with numpy.save")
    name = array.dtype.name if dtype is None else dtype
    if array.dtype != storage(name):
        raise ProblemError(
            f"it holds {array.dtype}, and {name} is wanted; convert it before it is saved"
            + (" (bfloat16 is the uint16 of its bits)" if name == "bfloat16" else "")
        )
    return numpy.ascontiguousarray(array), name


def checked_number(dtype: str, value: object) -> numpy.generic:
    """A scalar argument. Raises ProblemError for a value that the type does not hold."""
    if dtype == "bool" or isinstance(value, bool):
        if dtype != "bool" or not isinstance(value, bool):
            raise ProblemError("true and false are bool, and bool is nothing else")
        return numpy.bool_(value)
    if not isinstance(value, int | float):
        raise ProblemError("it is a number; write it without quotes")
    if dtype in _FLOATS:
        with numpy.errstate(over="ignore"):
            found = numpy.dtype(dtype).type(value)
        if math.isinf(found) and not math.isinf(value):
            raise ProblemError(f"{dtype} ends at {numpy.finfo(dtype).max}; use a wider type")
        return found
    limits = numpy.iinfo(dtype)
    if not isinstance(value, int) or not limits.min <= value <= limits.max:
        raise ProblemError(
            f"{dtype} holds whole numbers from {limits.min} to {limits.max}; use another type"
        )
    return numpy.dtype(dtype).type(value)


def parse_product(
    text: object, arrays: Mapping[str, numpy.ndarray], elements: Mapping[str, str], target: str
) -> numpy.ndarray:
    """The value of "a", "a.T", "a @ b", "a @ b.T" … as the array ``target`` would hold it.

    It is taken from what the arrays hold before the kernel runs, computed in float64, and rounded
    to the target's dtype. Raises ProblemError.
    """
    found = _PRODUCT.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ProblemError(
            'it is an array or a product of two, transposed or not: "a", "a.T", "a @ b", '
            '"a @ b.T"; save anything else with numpy.save, and give file'
        )
    values = [
        _operand(name, bool(transposed), arrays, elements)
        for name, transposed in (found.group(1, 2), found.group(3, 4))
        if name
    ]
    if len(values) == 1:
        value = values[0]
    else:
        a, b = values
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ProblemError(
                f"shapes {list(a.shape)} and {list(b.shape)} do not multiply: columns of the first "
                f"are rows of the second; transpose one with .T"
            )
        with numpy.errstate(invalid="ignore", over="ignore"):
            value = a @ b
    if value.shape != arrays[target].shape:
        raise ProblemError(
            f"its shape is {list(value.shape)}, and {target} is {list(arrays[target].shape)}; they "
            f"must agree"
        )
    return _rounded(value, elements[target])


def _operand(
    name: str,
    transposed: bool,
    arrays: Mapping[str, numpy.ndarray],
    elements: Mapping[str, str],
) -> numpy.ndarray:
    if name not in arrays:
        raise ProblemError(f"there is no array {name}, there are {', '.join(arrays)}; correct it")
    value = as_numbers(arrays[name], elements[name])
    return value.T if transposed else value


def as_numbers(array: numpy.ndarray, element: str) -> numpy.ndarray:
    """An array's elements as float64."""
    if element == "bfloat16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float64)


def _rounded(value: numpy.ndarray, element: str) -> numpy.ndarray:
    if element == "bfloat16":
        return to_bfloat16(value)
    if element in _INTEGERS:
        # Integer arithmetic of the hardware wraps.
        return numpy.rint(value).astype(numpy.int64).astype(element)
    with numpy.errstate(over="ignore"):
        return value.astype(element)


def to_bfloat16(values: numpy.ndarray) -> numpy.ndarray:
    """Numbers as the 16 bits of a bfloat16, to the nearest, ties to even; NaN is 0x7FFF.

    Rounds through float32 first, which matters only for numbers within 2^-24 of a tie.
    """
    with numpy.errstate(over="ignore"):
        single = values.astype(numpy.float32)
    bits = single.view(numpy.uint32).astype(numpy.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return numpy.where(numpy.isnan(single), 0x7FFF, rounded).astype(numpy.uint16)
