"""Floating-point arithmetic of f32 and f64 (PTX ISA, "Floating Point Instructions")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_NAN_32 = numpy.uint32(0x7FFFFFFF).view(numpy.float32)


@form(
    r"add(?:\.rn)?\.(?P<type>f32)", r"sub(?:\.rn)?\.(?P<type>f32)", r"mul(?:\.rn)?\.(?P<type>f32)"
)
def nearest(machine: Machine, x: Instruction, how: Form) -> Step:
    """Sum, difference or product, rounded to nearest even."""
    operation = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply}[x.parts[0]]
    return elementwise(machine, x, lambda a, b: canonical(operation(a, b)), "f32", ("f32",) * 2)


def canonical(values: numpy.ndarray) -> numpy.ndarray:
    """f32 results with every NaN as the one that the hardware returns, 0x7FFFFFFF."""
    nan = numpy.isnan(values)
    return numpy.where(nan, _NAN_32, values) if nan.any() else values


@form(r"fma\.rn\.(?P<type>f32)")
def fma(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b + c``, rounded once."""
    return elementwise(machine, x, fused, "f32", ("f32",) * 3)


def fused(a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray) -> numpy.ndarray:
    """``a * b + c`` of f32 arrays, rounded once to nearest even."""
    return canonical(odd_sum(numpy.multiply(a, b, dtype=numpy.float64), c).astype(numpy.float32))


def odd_sum(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """``a + b`` in f64, rounded to odd: a second rounding to fewer bits then is as good as one.

    The error of the sum is exact (Knuth's TwoSum, no overflow here); where there is one and the
    last bit is even, the neighbour toward the exact sum is odd.
    """
    b = numpy.asarray(b, numpy.float64)
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    fix = (error != 0) & numpy.isfinite(total)
    if not fix.any():
        return total
    bits = numpy.asarray(total).view(numpy.int64)
    step = numpy.where((error > 0) == (total > 0), 1, -1)
    return numpy.where(fix & (bits & 1 == 0), bits + step, bits).view(numpy.float64)
