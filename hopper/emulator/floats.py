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
from hopper.emulator.numbers import F32 as FORMAT_32
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import directed, flush, odd_sum, saturate, signed_zero, tiny

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

    def compute(a, b):
        if name == "mul":
            return to_f32(numpy.multiply(a, b, dtype=numpy.float64), mode)
        return rounded_sum(a, -b if name == "sub" else b, mode)

    def exact(a, b):
        # A sum that could be tiny is exact in f64, as every product is.
        return operation(a, b, dtype=numpy.float64)

    return _f32(machine, x, how, operation if mode == "rn" else compute, 2, exact)


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

    def exact(a, b, c):
        return odd_sum(numpy.multiply(a, b, dtype=numpy.float64), c.astype(numpy.float64))

    return _f32(machine, x, how, compute, 3, exact)


@form(f"div{RND}{FTZ}{F32}")
def div(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a / b``."""
    return _f32(machine, x, how, lambda a, b: _quotient(a, b, how["rnd"]), 2, _wide_quotient)


@form(f"rcp{RND}{FTZ}{F32}")
def rcp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``1 / a``."""
    one = numpy.float32(1)

    def compute(a):
        return _quotient(one, a, how["rnd"])

    return _f32(machine, x, how, compute, 1, lambda a: _wide_quotient(one, a))


@form(f"sqrt{RND}{FTZ}{F32}")
def sqrt(machine: Machine, x: Instruction, how: Form) -> Step:
    """The square root."""

    def compute(a):
        nearest = numpy.sqrt(a)
        if how["rnd"] == "rn":
            return nearest
        wide = nearest.astype(numpy.float64)
        return directed(nearest, a.astype(numpy.float64) - wide * wide, how["rnd"])

    return _f32(machine, x, how, compute, 1, numpy.sqrt)


@form(f"neg{FTZ}{F32}", f"abs{FTZ}{F32}")
def sign(machine: Machine, x: Instruction, how: Form) -> Step:
    """The number with its sign changed, or without."""
    operation = numpy.negative if x.parts[0] == "neg" else numpy.absolute
    return _f32(machine, x, how, operation, 1, operation)


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


def _wide_quotient(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """In f64: near enough, for no quotient of two f32 lies that close to where one becomes tiny."""
    return a.astype(numpy.float64) / b.astype(numpy.float64)


def _f32(machine: Machine, x: Instruction, how: Form, compute, count: int, exact) -> Step:
    """A step of f32 operands, with the hardware's NaN, and flushed and saturated if asked.

    ``compute``: results in f32; ``exact``: in f64, as ``tiny`` wants them.
    """
    sat, mode = bool(how.get("sat")), how.get("rnd") or "rn"

    def flushed(*operands):
        operands = [flush(operand) for operand in operands]
        values = canonical(compute(*operands))
        if not (numpy.abs(values) > _LEAST_F32).all():
            zero = numpy.copysign(numpy.float32(0), values)
            values = numpy.where(tiny(exact(*operands), FORMAT_32, mode), zero, values)
        return saturate(values) if sat else values

    def saturated(*operands):
        return saturate(compute(*operands))

    def plain(a, b):
        return canonical(compute(a, b))

    def other(*operands):
        return canonical(compute(*operands))

    # The usual case with as few calls as it can have.
    usual = plain if count == 2 else other
    function = flushed if how.get("ftz") else saturated if sat else usual
    return elementwise(machine, x, function, "f32", ("f32",) * count)
