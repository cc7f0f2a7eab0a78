"""Elements that say their own number, in types that hold few integers: digit by digit.

A region of shared memory holds in pass p the p-th digit of every element's number. One times a
digit, plus zeros, is exact in every type and accumulator, so a product with an identity matrix
says which elements were read.
"""

from __future__ import annotations

from functools import cache

import numpy

from hopper.emulator.numbers import FORMATS

#: Bits of a digit: integers from 0 to 2^bits - 1 are exact in the type, and in an f16 accumulator.
DIGIT_BITS = {"f16": 11, "bf16": 8, "tf32": 11, "e4m3": 4, "e5m2": 3, "s8": 7, "u8": 8}
#: How C++ and NumPy hold an accumulator; f16 ones lie in pairs.
ACCUMULATORS = {"f32": "float", "s32": "int", "f16": "unsigned"}
DTYPES = {"f32": numpy.float32, "s32": numpy.int32, "f16": numpy.uint32}


def registers(d_type: str, n: int) -> int:
    """Accumulator registers of a thread."""
    return n // 4 if d_type == "f16" else n // 2


def defines_of(d_type: str, a_type: str, b_type: str, n: int) -> dict[str, int | str]:
    """The compile-time names of a probe of one instruction."""
    return {
        "INSTRUCTION": f"wgmma_{d_type}_{a_type}_{b_type}",
        "ACCUMULATOR": ACCUMULATORS[d_type],
        "TILE_N": n,
        "REGISTERS": registers(d_type, n),
    }


@cache
def item_bytes(kind: str) -> int:
    """Bytes of an element."""
    return 1 if kind in ("s8", "u8") else FORMATS[kind].dtype.itemsize


@cache
def codes(kind: str) -> numpy.ndarray:
    """The bits of 0, 1, 2 … in a type, as unsigned integers."""
    values = numpy.arange(1 << DIGIT_BITS[kind])
    if kind in ("s8", "u8"):
        return values.astype(numpy.uint8)
    if kind == "f16":
        return values.astype(numpy.float16).view(numpy.uint16)
    if kind == "tf32":
        return values.astype(numpy.float32).view(numpy.uint32)
    if kind == "bf16":
        return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    every = numpy.arange(128, dtype=numpy.uint8)
    numbers, _ = FORMATS[kind].decode(every)
    return numpy.array([every[numbers == value][0] for value in values])


def passes(kind: str, count: int) -> int:
    """Digits that the numbers 0 to count - 1 take."""
    return -(-(count - 1).bit_length() // DIGIT_BITS[kind])


def numbered(kind: str, count: int) -> numpy.ndarray:
    """(passes, count): the digits of 0 to count - 1, as bits of the type."""
    bits = DIGIT_BITS[kind]
    number = numpy.arange(count)
    digits = [number >> bits * p & (1 << bits) - 1 for p in range(passes(kind, count))]
    return codes(kind)[numpy.stack(digits)]


def identity(kind: str, rows: int) -> numpy.ndarray:
    """(rows, K) of an instruction's depth, 32 bytes: 1 where row equals k."""
    depth = 32 // item_bytes(kind)
    return codes(kind)[numpy.eye(rows, depth, dtype=int)]


def read_back(kind: str, digits: numpy.ndarray) -> numpy.ndarray:
    """The numbers of digits (…, passes, …) along axis 1, given as values."""
    bits = DIGIT_BITS[kind]
    return sum(digits[:, p].astype(numpy.int64) << bits * p for p in range(digits.shape[1]))
