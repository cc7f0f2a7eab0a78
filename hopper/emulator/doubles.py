"""f64 arithmetic: every rounding mode, rounded once.

In NumPy where f64 can tell what it loses, else with whole numbers, one lane at a time.
NaN is unlike f32's: an operand's is returned, made quiet. Which one of several, the order of the
hardware's (or its library's) checks decides (probe cases floats.f64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator import exact
from hopper.emulator.floats import RND
from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import directed, odd_sum, signed_zero, two_sum

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

F64 = r"\.(?P<type>f64)"
#: What an operation without a number as its result returns, where no operand is NaN.
NAN_64 = numpy.uint64(0xFFF8000000000000)
_QUIET = numpy.uint64(0x0008000000000000)


@form(f"add{RND}?{F64}", f"sub{RND}?{F64}")
def add(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a + b`` or ``a - b``."""
    mode = how["rnd"] or "rn"

    def compute(a, b):
        b = -b if x.parts[0] == "sub" else b
        if mode == "rn":
            return a + b
        total, error = two_sum(a, b)
        return signed_zero(directed(total, error, mode), a, b, mode)

    return _f64(machine, x, compute, 2, (1, 0))


@form(f"mul{RND}?{F64}")
def mul(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b``."""
    mode = how["rnd"] or "rn"
    compute = numpy.multiply
    if mode != "rn":
        compute = _each(numpy.multiply, lambda a, b: exact.mul(a, b, mode))
    return _f64(machine, x, compute, 2, (1, 0))


@form(f"fma{RND}{F64}", f"mad{RND}{F64}")
def fma(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b + c``, rounded once."""
    mode = how["rnd"]
    slow = _each(_loose_fma, lambda a, b, c: exact.fma(a, b, c, mode))
    if mode != "rn":
        return _f64(machine, x, slow, 3, (1, 2, 0))

    def compute(a, b, c):
        a, b, c = numpy.broadcast_arrays(a, b, c)
        fast = _ordinary(a) & _ordinary(b) & (_ordinary(c) | (c == 0))
        result = _fused(a, b, c)
        if not fast.all():
            rest = ~fast
            result[rest] = slow(a[rest], b[rest], c[rest])
        return result

    return _f64(machine, x, compute, 3, (1, 2, 0))


def _ordinary(a: numpy.ndarray) -> numpy.ndarray:
    """Where products of two, and what they lose, neither overflow nor underflow."""
    magnitude = numpy.abs(a)
    return (magnitude > 2.0**-400) & (magnitude < 2.0**400)


def _loose_fma(a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray) -> numpy.ndarray:
    """``a * b + c`` where one is infinite or NaN; a finite product takes no part in it."""
    return numpy.where(numpy.isfinite(a) & numpy.isfinite(b), 0, a * b) + c


def _fused(a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray) -> numpy.ndarray:
    """``a * b + c`` of ordinary numbers, to nearest (Boldo and Melquiond, 2008, algorithm Fma)."""
    product = a * b
    a_high, b_high = (_upper(value) for value in (a, b))
    a_low, b_low = a - a_high, b - b_high
    lost = a_low * b_low - (product - a_high * b_high - a_low * b_high - a_high * b_low)
    small, small_lost = two_sum(c, lost)
    total, total_lost = two_sum(product, small)
    return total + odd_sum(small_lost, total_lost)


def _upper(a: numpy.ndarray) -> numpy.ndarray:
    """The upper 26 bits of the significand (Veltkamp and Dekker)."""
    scaled = a * (2.0**27 + 1)
    return scaled - (scaled - a)


@form(f"div{RND}{F64}")
def div(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a / b``."""
    return _f64(machine, x, _quotient(how["rnd"]), 2)


@form(rf"rcp{RND}(?:\.ftz)?{F64}")
def rcp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``1 / a``. ``.ftz`` is accepted and does nothing."""
    quotient, one = _quotient(how["rnd"]), numpy.float64(1)
    return _f64(machine, x, lambda a: quotient(one, a), 1)


@form(f"sqrt{RND}{F64}")
def sqrt(machine: Machine, x: Instruction, how: Form) -> Step:
    """The square root."""
    mode = how["rnd"]
    if mode == "rn":
        return _f64(machine, x, numpy.sqrt, 1)
    root = _each(numpy.sqrt, lambda a: exact.sqrt(a, mode) if a > 0 else a)

    def compute(a):
        return numpy.where(a < 0, numpy.nan, root(numpy.abs(a)) * numpy.copysign(1.0, a))

    return _f64(machine, x, compute, 1)


@form(f"neg{F64}", f"abs{F64}")
def sign(machine: Machine, x: Instruction, how: Form) -> Step:
    """The number with its sign changed, or without."""
    return _f64(machine, x, numpy.negative if x.parts[0] == "neg" else numpy.absolute, 1)


def _quotient(mode: str):
    if mode == "rn":
        return numpy.divide
    return _each(numpy.divide, lambda a, b: exact.div(a, b, mode))


def _each(native, one):
    """An operation that is ``native`` where an operand is not finite, and ``one`` of each other."""

    def compute(*operands):
        operands = numpy.broadcast_arrays(*operands)
        result = numpy.array(native(*operands))
        finite = numpy.logical_and.reduce([numpy.isfinite(operand) for operand in operands])
        places = numpy.flatnonzero(finite)
        values = [operand[places].tolist() for operand in operands]
        result[places] = [one(*each) for each in zip(*values, strict=True)]
        return result

    return compute


def _f64(machine: Machine, x: Instruction, compute, count: int, order=(0, 1)) -> Step:
    """A step of f64 operands. ``order``: in which they are looked at for a NaN to return."""
    order = order[:count]

    def function(*operands):
        values = numpy.asarray(compute(*operands))
        nan = numpy.isnan(values)
        if not nan.any():
            return values
        return with_nan(values, nan, [operands[place] for place in order])

    return elementwise(machine, x, function, "f64", ("f64",) * count)


def with_nan(values: numpy.ndarray, nan: numpy.ndarray, operands) -> numpy.ndarray:
    """Results whose NaNs are those of the first of ``operands`` that is one, made quiet."""
    payload = NAN_64
    for operand in reversed(operands):
        bits = operand.view(numpy.uint64) | _QUIET
        payload = numpy.where(numpy.isnan(operand), bits, payload)
    return numpy.where(nan, payload, values.view(numpy.uint64)).view(numpy.float64)
