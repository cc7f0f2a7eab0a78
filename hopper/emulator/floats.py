"""f32 arithmetic (PTX ISA, "Floating Point Instructions"): every rounding mode, rounded once.

f64 is in ``doubles``, halves in ``halves``, minimum and maximum in ``extremes``. The hardware's
approximations are published only as error bounds: they are refused.

One freedom of ptxas is not followed: of ``mul`` and ``add`` without a rounding mode, where nothing
else uses the product, it makes one ``fma`` (PTX ISA, ``add``). NVRTC leaves it few of these, for it
writes ``fma.rn`` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step, unsupported
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import directed, flush, odd_sum, saturate, signed_zero

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

RND = r"(?:\.(?P<rnd>rn|rz|rm|rp))"
FTZ, SAT = r"(?P<ftz>\.ftz)?", r"(?P<sat>\.sat)?"
F32 = r"\.(?P<type>f32)"
#: What the hardware returns for every f32 operation without a number as its result.
NAN_32 = numpy.uint32(0x7FFFFFFF).view(numpy.float32)
#: The bits of an f64 that a normal f32 has not, and the pattern of them that is a tie.
_BELOW_F32, _HALF_F32 = (1 << 29) - 1, 1 << 28
_LEAST_F32 = numpy.float32(2.0**-126)
_NEAREST = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply}


@form(*(f"{name}{RND}?{FTZ}{SAT}{F32}" for name in _NEAREST))
def arithmetic(machine: Machine, x: Instruction, how: Form) -> Step:
    """Sum, difference, product."""
    name, mode = x.parts[0], how["rnd"] or "rn"
    operation = _NEAREST[name]
    if mode == "rn":
        return _f32(machine, x, how, operation, 2)

    def compute(a, b):
        if name == "mul":
            return to_f32(numpy.multiply(a, b, dtype=numpy.float64), mode)
        return rounded_sum(a, -b if name == "sub" else b, mode)

    return _f32(machine, x, how, compute, 2)


@form(f"fma{RND}{FTZ}{SAT}{F32}", f"mad{RND}{FTZ}{SAT}{F32}")
def fma(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b + c``, rounded once."""
    mode = how["rnd"]

    def compute(a, b, c):
        product = numpy.multiply(a, b, dtype=numpy.float64)
        if mode != "rn":
            return rounded_sum(product, c, mode)
        total = product + c
        nearest = total.astype(numpy.float32)
        # Rounding twice is wrong only where the first result lies between two f32.
        tie = (total.view(numpy.int64) & _BELOW_F32) == _HALF_F32
        if tie.any() or not (numpy.abs(nearest) > _LEAST_F32).all():
            return rounded_sum(product, c, mode)
        return nearest

    return _f32(machine, x, how, compute, 3)


@form(f"div{RND}{FTZ}{F32}")
def div(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a / b``."""
    return _f32(machine, x, how, lambda a, b: _quotient(a, b, how["rnd"]), 2)


@form(f"rcp{RND}{FTZ}{F32}")
def rcp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``1 / a``."""
    one = numpy.float32(1)
    return _f32(machine, x, how, lambda a: _quotient(one, a, how["rnd"]), 1)


@form(f"sqrt{RND}{FTZ}{F32}")
def sqrt(machine: Machine, x: Instruction, how: Form) -> Step:
    """The square root."""

    def compute(a):
        nearest = numpy.sqrt(a)
        if how["rnd"] == "rn":
            return nearest
        wide = nearest.astype(numpy.float64)
        return directed(nearest, a.astype(numpy.float64) - wide * wide, how["rnd"])

    return _f32(machine, x, how, compute, 1)


@form(f"neg{FTZ}{F32}", f"abs{FTZ}{F32}")
def sign(machine: Machine, x: Instruction, how: Form) -> Step:
    """The number with its sign changed, or without."""
    return _f32(machine, x, how, numpy.negative if x.parts[0] == "neg" else numpy.absolute, 1)


@form(
    *(rf"{name}\.(?:approx|full)[.\w]*" for name in ("ex2", "lg2", "sin", "cos", "tanh")),
    *(rf"{name}\.(?:approx|full)[.\w]*" for name in ("rsqrt", "rcp", "sqrt", "div")),
)
def approximation(machine: Machine, x: Instruction, how: Form) -> Step:
    """Refused: no model of it gives the hardware's bits."""
    raise unsupported(
        x,
        f"{x.opcode} is an approximation by a table that NVIDIA does not publish; an emulator can "
        f"only give other bits. Use a form with a rounding mode where there is one (div.rn, "
        f"sqrt.rn, rcp.rn; compile without --use_fast_math), or compute this part on a GPU",
    )


def rounded_sum(a: numpy.ndarray, b: numpy.ndarray, mode: str) -> numpy.ndarray:
    """f32: ``a + b`` of f32 numbers, or of a product of two in f64, rounded once."""
    a, b = numpy.asarray(a, numpy.float64), numpy.asarray(b, numpy.float64)
    return signed_zero(to_f32(odd_sum(a, b), mode), a, b, mode)


def to_f32(values: numpy.ndarray, mode: str) -> numpy.ndarray:
    """f64 values, exact or rounded to odd, as f32."""
    nearest = values.astype(numpy.float32)
    return nearest if mode == "rn" else directed(nearest, values - nearest, mode)


def canonical(values: numpy.ndarray) -> numpy.ndarray:
    """f32 results with every NaN as the one that the hardware returns, 0x7FFFFFFF."""
    nan = numpy.isnan(values)
    return numpy.where(nan, NAN_32, values) if nan.any() else values


def _quotient(a: numpy.ndarray, b: numpy.ndarray, mode: str) -> numpy.ndarray:
    nearest = a / b
    if mode == "rn":
        return nearest
    # The remainder is exact in f64; a negative divisor turns its sign.
    wide = b.astype(numpy.float64)
    rest = a.astype(numpy.float64) - nearest.astype(numpy.float64) * wide
    return directed(nearest, rest * numpy.copysign(1.0, wide), mode)


def _f32(machine: Machine, x: Instruction, how: Form, compute, count: int) -> Step:
    """A step of f32 operands: subnormals flushed before and behind if asked, NaN as hardware's."""

    def finished(values):
        values = canonical(values)
        if how.get("ftz"):
            values = flush(values)
        return saturate(values) if how.get("sat") else values

    if how.get("ftz"):

        def function(*operands):
            return finished(compute(*[flush(operand) for operand in operands]))

    elif count == 2 and not how.get("sat"):
        # The usual case, with as few calls as it can have.

        def function(a, b):
            return canonical(compute(a, b))

    else:

        def function(*operands):
            return finished(compute(*operands))

    return elementwise(machine, x, function, "f32", ("f32",) * count)
