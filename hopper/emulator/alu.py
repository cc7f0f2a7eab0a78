"""Integer arithmetic: sums, products, quotients, extremes (PTX ISA, "Integer Arithmetic").

Everything wraps at the width of its type unless the form says ``.sat``. Packed pairs of 16-bit
integers are in ``packed``, carries in ``carry``, logic and shifts in ``bits``. Left out: the video
instructions (``vadd``, ``vabsdiff4`` …), ``addc`` and ``madc`` of 16 bits, and 128-bit types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, expect, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

INTEGER = r"\.(?P<type>[us](?:16|32|64))"
SIGNED = r"\.(?P<type>s(?:16|32|64))"
_LOW_24, _SIGN_24 = 0xFFFFFF, 0x800000


@form("add" + INTEGER)
def add(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a + b``."""
    return _same(machine, x, how, numpy.add, 2)


@form("sub" + INTEGER)
def sub(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a - b``."""
    return _same(machine, x, how, numpy.subtract, 2)


@form(r"add\.sat\.(?P<type>s32)", r"sub\.sat\.(?P<type>s32)")
def saturating(machine: Machine, x: Instruction, how: Form) -> Step:
    """A sum or difference that stops at the ends of the type."""
    operation = numpy.add if x.parts[0] == "add" else numpy.subtract

    def compute(a, b):
        return saturated(operation(a, b, dtype=numpy.int64), "s32")

    return _same(machine, x, how, compute, 2)


@form("neg" + SIGNED)
def neg(machine: Machine, x: Instruction, how: Form) -> Step:
    """``-a``; the smallest number stays itself."""
    return _same(machine, x, how, numpy.negative, 1)


@form("abs" + SIGNED)
def absolute(machine: Machine, x: Instruction, how: Form) -> Step:
    """``|a|``; the smallest number stays itself."""
    return _same(machine, x, how, numpy.absolute, 1)


@form("min" + INTEGER, r"min(?P<relu>\.relu)\.(?P<type>s32)")
def minimum(machine: Machine, x: Instruction, how: Form) -> Step:
    """The smaller; with ``.relu`` at least 0."""
    return _same(machine, x, how, _relu(numpy.minimum, how), 2)


@form("max" + INTEGER, r"max(?P<relu>\.relu)\.(?P<type>s32)")
def maximum(machine: Machine, x: Instruction, how: Form) -> Step:
    """The larger; with ``.relu`` at least 0."""
    return _same(machine, x, how, _relu(numpy.maximum, how), 2)


@form(r"mul\.(?P<part>lo|hi)" + INTEGER, r"mul\.(?P<part>wide)\.(?P<type>[us](?:16|32))")
def mul(machine: Machine, x: Instruction, how: Form) -> Step:
    """The product's lower half, upper half, or all of it in twice the width."""
    kind = how["type"]
    return elementwise(machine, x, product(how["part"], kind), _result(how), (kind, kind))


@form(r"mad\.(?P<part>lo|hi)" + INTEGER, r"mad\.(?P<part>wide)\.(?P<type>[us](?:16|32))")
def mad(machine: Machine, x: Instruction, how: Form) -> Step:
    """A part of the product, plus ``c``."""
    kind, result = how["type"], _result(how)
    part = product(how["part"], kind)

    def compute(a, b, c):
        return part(a, b) + c

    return elementwise(machine, x, compute, result, (kind, kind, result))


@form(r"mad\.hi\.sat\.s32")
def mad_hi_sat(machine: Machine, x: Instruction, how: Form) -> Step:
    """The upper half of the product plus ``c``, stopped at the ends of s32."""
    part = product("hi", "s32")

    def compute(a, b, c):
        return saturated(numpy.add(part(a, b), c, dtype=numpy.int64), "s32")

    return elementwise(machine, x, compute, "s32", ("s32",) * 3)


@form(r"mul24\.(?P<part>lo|hi)\.(?P<type>[us]32)", r"mad24\.(?P<part>lo|hi)\.(?P<type>[us]32)")
def mul24(machine: Machine, x: Instruction, how: Form) -> Step:
    """Bits 0 to 31 (lo) or 16 to 47 (hi) of the product of two 24-bit numbers, plus ``c``."""
    kind = how["type"]
    part = partial(_product24, 16 if how["part"] == "hi" else 0, kind)
    if x.parts[0] == "mul24":
        return elementwise(machine, x, part, kind, (kind, kind))
    return elementwise(machine, x, lambda a, b, c: part(a, b) + c, kind, (kind,) * 3)


@form(r"mad24\.hi\.sat\.s32")
def mad24_hi_sat(machine: Machine, x: Instruction, how: Form) -> Step:
    """``mad24.hi``, stopped at the ends of s32."""

    def compute(a, b, c):
        return saturated(numpy.add(_product24(16, "s32", a, b), c, dtype=numpy.int64), "s32")

    return elementwise(machine, x, compute, "s32", ("s32",) * 3)


@form("sad" + INTEGER)
def sad(machine: Machine, x: Instruction, how: Form) -> Step:
    """``c + |a - b|``."""

    def compute(a, b, c):
        return c + (numpy.maximum(a, b) - numpy.minimum(a, b))

    return _same(machine, x, how, compute, 3)


@form("div" + INTEGER, "rem" + INTEGER)
def divide(machine: Machine, x: Instruction, how: Form) -> Step:
    """Quotient truncated toward zero, or its remainder."""
    return _same(machine, x, how, partial(_divide, x.parts[0] == "rem"), 2)


def saturated(wide: numpy.ndarray, kind: str) -> numpy.ndarray:
    """Values clamped to the range of an integer type, in which they are returned."""
    ends = numpy.iinfo(numpy_type(kind))
    return numpy.clip(wide, ends.min, ends.max).astype(numpy_type(kind))


def product(part: str, kind: str) -> Callable[..., numpy.ndarray]:
    """Product of two arrays of an integer type: its "lo" or "hi" half, or "wide" as a whole."""
    if part == "lo":
        return numpy.multiply
    bits = int(kind[1:])
    if bits == 64:
        return partial(_high_64, kind[0] == "s")
    double = numpy_type(f"{kind[0]}{2 * bits}")

    def wide(a, b):
        return numpy.multiply(a, b, dtype=double)

    if part == "wide":
        return wide
    half, shift = numpy_type(kind), double.type(bits)
    return lambda a, b: (wide(a, b) >> shift).astype(half)


def _high_64(signed: bool, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """Bits 64 to 127 of a product, from the four products of the factors' halves."""
    half, mask = numpy.uint64(32), numpy.uint64(0xFFFFFFFF)
    u, v = a.view(numpy.uint64), b.view(numpy.uint64)
    low = (u & mask) * (v & mask)
    left = (u >> half) * (v & mask) + (low >> half)
    right = (u & mask) * (v >> half) + (left & mask)
    high = (u >> half) * (v >> half) + (left >> half) + (right >> half)
    if not signed:
        return high
    # A negative factor stands for itself plus 2**64: take the other factor off the upper half.
    zero = numpy.uint64(0)
    return (high - numpy.where(a < 0, v, zero) - numpy.where(b < 0, u, zero)).view(numpy.int64)


def _product24(shift: int, kind: str, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    factors = []
    for value in (a, b):
        wide = value.astype(numpy.int64) & _LOW_24
        factors.append((wide ^ _SIGN_24) - _SIGN_24 if kind == "s32" else wide)
    return (factors[0] * factors[1] >> shift).astype(numpy_type(kind))


def _divide(remainder: bool, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    zero = b == 0
    divisor = numpy.where(zero, b.dtype.type(1), b)
    rest = numpy.fmod(a, divisor)
    result = rest if remainder else (a - rest) // divisor
    # Division by zero is "machine-specific"; the H200 returns all ones (probe alu.division).
    return numpy.where(zero, ~b, result)


def _relu(extreme: numpy.ufunc, how: Form) -> Callable[..., numpy.ndarray]:
    if not how.get("relu"):
        return extreme
    zero = numpy.int32(0)
    return lambda a, b: numpy.maximum(extreme(a, b), zero)


def _result(how: Form) -> str:
    kind = how["type"]
    return f"{kind[0]}{2 * int(kind[1:])}" if how["part"] == "wide" else kind


def _same(machine: Machine, x: Instruction, how: Form, function, count: int) -> Step:
    """A result and ``count`` sources, all of the type that the form names."""
    kind = how["type"]
    expect(x, 1 + count)
    return elementwise(machine, x, function, kind, (kind,) * count)
