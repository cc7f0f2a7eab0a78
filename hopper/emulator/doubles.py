"""f64 arithmetic: every rounding mode, rounded once.

Sums in NumPy; what f64 cannot hold (the exact product in ``fma``) with whole numbers.
NaN is unlike f32's: an operand's is returned, made quiet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator import exact
from hopper.emulator.floats import RND
from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import directed, flush, signed_zero, two_sum

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

F64 = r"\.(?P<type>f64)"
#: What an operation without a number as its result returns, where no operand is NaN.
NAN_64 = numpy.uint64(0xFFF8000000000000)
_QUIET = numpy.uint64(0x0008000000000000)
_LEAST = 2.0**-1022


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

    return _f64(machine, x, compute, 2)


@form(f"mul{RND}?{F64}")
def mul(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b``."""
    mode = how["rnd"] or "rn"
    if mode == "rn":
        return _f64(machine, x, numpy.multiply, 2)
    return _f64(machine, x, _each(numpy.multiply, lambda a, b: exact.mul(a, b, mode)), 2)


@form(f"fma{RND}{F64}", f"mad{RND}{F64}")
def fma(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b + c``, rounded once."""
    mode = how["rnd"]

    def native(a, b, c):
        # A finite product takes no part beside an infinity, however large it is.
        return numpy.where(numpy.isfinite(a) & numpy.isfinite(b), 0, a * b) + c

    compute = _each(native, lambda a, b, c: exact.fma(a, b, c, mode))
    return _f64(machine, x, compute, 3)


@form(f"div{RND}{F64}")
def div(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a / b``."""
    return _f64(machine, x, _quotient(how["rnd"]), 2)


@form(rf"rcp{RND}(?P<ftz>\.ftz)?{F64}")
def rcp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``1 / a``."""
    quotient, one = _quotient(how["rnd"]), numpy.float64(1)

    def compute(a):
        return flush(quotient(one, flush(a, _LEAST)), _LEAST) if how["ftz"] else quotient(one, a)

    return _f64(machine, x, compute, 1)


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


def _f64(machine: Machine, x: Instruction, compute, count: int) -> Step:
    """A step of f64 operands, with the hardware's NaN."""

    def function(*operands):
        values = numpy.asarray(compute(*operands))
        nan = numpy.isnan(values)
        return with_nan(values, nan, operands) if nan.any() else values

    return elementwise(machine, x, function, "f64", ("f64",) * count)


def with_nan(values: numpy.ndarray, nan: numpy.ndarray, operands) -> numpy.ndarray:
    """Results whose NaNs are those of the first operand that is one, made quiet."""
    payload = NAN_64
    for operand in reversed(operands):
        bits = operand.view(numpy.uint64) | _QUIET
        payload = numpy.where(numpy.isnan(operand), bits, payload)
    return numpy.where(nan, payload, values.view(numpy.uint64)).view(numpy.float64)
