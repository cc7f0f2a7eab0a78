"""Reductions that the copy engine performs: a value in memory and one that arrives, combined.

PTX ISA, "cp.reduce.async.bulk": which operation exists for which type. It says that the sum of f32
flushes subnormal numbers to zero; an H200 keeps them (``tma.bulk.global.add.f32``), as in f16 and
bf16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy

#: ``reduction(memory, value)``: both as unsigned integers of the element's size, as is the result.
Reduction = Callable[[numpy.ndarray, numpy.ndarray], numpy.ndarray]

_BITWISE = {"and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}
_SHARED = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(_BITWISE, ("b32",)),
}
_GLOBAL = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    **dict.fromkeys(_BITWISE, ("b32", "b64")),
}
_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}
_F64_NAN = 0xFFF8000000000000


def types_of(op: str, space: str) -> tuple[str, ...]:
    """Types that ``op`` exists for, as ptxas has it; ``space``: of the destination."""
    return (_GLOBAL if space == "global" else _SHARED).get(op, ())


def reduction(op: str, kind: str) -> Reduction:
    """The operation ``op`` ("add", "min" …) on PTX type ``kind``."""
    if op in _BITWISE:
        return _BITWISE[op]
    if op == "inc":
        return lambda memory, value: numpy.where(memory >= value, 0, memory + 1).astype("u4")
    if op == "dec":
        return lambda memory, value: numpy.where(
            (memory == 0) | (memory > value), value, memory - 1
        ).astype("u4")
    if op == "add":
        return _SUMS.get(kind, numpy.add)
    if kind in ("f16", "bf16"):
        return partial(_extreme_half, op == "max", _NAN[kind], _infinity(kind))
    choose = numpy.minimum if op == "min" else numpy.maximum
    if kind[0] == "u":
        return choose
    return partial(_signed, choose)


def _signed(choose, memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    kind = memory.dtype.str.replace("u", "i")
    return choose(memory.view(kind), value.view(kind)).view(memory.dtype)


def _infinity(kind: str) -> int:
    return 0x7C00 if kind == "f16" else 0x7F80


def _extreme_half(
    largest: bool, nan: int, infinity: int, memory: numpy.ndarray, value: numpy.ndarray
) -> numpy.ndarray:
    """Minimum or maximum of f16 or bf16: −0 below +0; a NaN loses against a number."""
    chosen = numpy.where((_rank(value) > _rank(memory)) == largest, value, memory)
    memory_nan, value_nan = (bits & 0x7FFF > infinity for bits in (memory, value))
    chosen = numpy.where(memory_nan, value, numpy.where(value_nan, memory, chosen))
    return numpy.where(memory_nan & value_nan, numpy.uint16(nan), chosen)


def _rank(bits: numpy.ndarray) -> numpy.ndarray:
    """16-bit floats, as bits, to integers in the same order."""
    signed = bits.view("i2")
    return numpy.where(signed < 0, ~signed ^ numpy.int16(-0x8000), signed)


def _sum_f16(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    total = memory.view("f2") + value.view("f2")
    return numpy.where(numpy.isnan(total), numpy.uint16(_NAN["f16"]), total.view("u2"))


def _sum_bf16(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    """f32 holds more than twice the digits of bf16, so rounding twice is rounding once."""
    wide = [(bits.astype("u4") << 16).view("f4") for bits in (memory, value)]
    total = wide[0] + wide[1]
    bits = total.view("u4")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("u2")
    return numpy.where(numpy.isnan(total), numpy.uint16(_NAN["bf16"]), rounded)


def _sum_f32(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    total = memory.view("f4") + value.view("f4")
    return numpy.where(numpy.isnan(total), numpy.uint32(_NAN["f32"]), total.view("u4"))


def _sum_f64(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    """A NaN stays as it is, signalling or quiet; that of the value that arrives goes first."""
    total = memory.view("f8") + value.view("f8")
    bits = numpy.where(numpy.isnan(total), numpy.uint64(_F64_NAN), total.view("u8"))
    for operand in (memory, value):
        bits = numpy.where(numpy.isnan(operand.view("f8")), operand, bits)
    return bits


_SUMS = {"f16": _sum_f16, "bf16": _sum_bf16, "f32": _sum_f32, "f64": _sum_f64}
