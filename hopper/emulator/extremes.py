"""Minimum and maximum of floats, ``copysign`` and ``testp``: on the bits, so nothing is rounded.

-0 is less than +0. One NaN loses against a number, unless the form has ``.NaN``; of two, or with
``.NaN``, the result is the type's canonical NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.doubles import with_nan
from hopper.emulator.floats import FTZ
from hopper.emulator.forms import Form, apply, elementwise, expect, form
from hopper.emulator.halves import BF16_TYPE, F16, read_halves, write_halves
from hopper.emulator.instructions import Step
from hopper.emulator.numbers import FORMATS
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import F64

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_OPTIONS = r"(?P<nan>\.NaN)?(?P<xorsign>\.xorsign\.abs)?"
_FORMATS = {**FORMATS, "f64": F64}


@form(
    *(rf"{name}{FTZ}{_OPTIONS}\.(?P<type>f32)" for name in ("min", "max")),
    *(rf"{name}{FTZ}{_OPTIONS}{F16}" for name in ("min", "max")),
    *(rf"{name}{_OPTIONS}{BF16_TYPE}" for name in ("min", "max")),
    *(rf"{name}\.(?P<type>f64)" for name in ("min", "max")),
)
def extreme(machine: Machine, x: Instruction, how: Form) -> Step:
    """The smaller or larger; ``.xorsign.abs``: of the magnitudes, with the signs' product."""
    kind, pair = how["type"], bool(how.get("pair"))
    expect(x, 3)
    compute = _extreme(x.parts[0] == "min", how)
    if kind in ("f32", "f64"):
        bits = f"b{kind[1:]}"
        return elementwise(machine, x, compute, bits, (bits, bits))
    reads = [read_halves(machine, operand, pair) for operand in x.operands[1:]]
    return apply(write_halves(machine, x.operands[0], pair), compute, reads)


def _extreme(smaller: bool, how: Form):
    form_ = _FORMATS[how["type"]]
    unsigned = form_.dtype.type
    sign, magnitudes = unsigned(form_.sign), unsigned(form_.sign - 1)
    infinity, least = unsigned(form_.first_special), unsigned(1 << form_.fraction)
    signed = numpy.dtype(f"i{form_.bits // 8}")

    def order(bits):
        """Signed numbers in the order of the floats."""
        return numpy.where(bits & sign, bits ^ magnitudes, bits).view(signed)

    def compute(a, b):
        given = a, b
        if how.get("ftz"):
            a, b = [numpy.where(v & magnitudes < least, v & sign, v) for v in (a, b)]
        if how.get("xorsign"):
            signs = (a ^ b) & sign
            a, b = a & magnitudes, b & magnitudes
        first = order(a) < order(b) if smaller else order(a) > order(b)
        result = numpy.where(first, a, b)
        nan_a, nan_b = a & magnitudes > infinity, b & magnitudes > infinity
        if (nan_a | nan_b).any():
            result = numpy.where(nan_a, b, numpy.where(nan_b, a, result))
        if how.get("xorsign"):
            result = result | signs
        lost = nan_a | nan_b if how.get("nan") else nan_a & nan_b
        if not lost.any():
            return result
        if how["type"] == "f64":
            values = [bits.view(numpy.float64) for bits in (result, *reversed(given))]
            return with_nan(values[0], lost, values[1:]).view(numpy.uint64)
        return numpy.where(lost, magnitudes, result)

    return compute


@form(r"copysign\.(?P<type>f32|f64)")
def copysign(machine: Machine, x: Instruction, how: Form) -> Step:
    """``b`` with the sign of ``a``."""
    bits = f"b{how['type'][1:]}"
    form_ = _FORMATS[how["type"]]
    sign, rest = form_.dtype.type(form_.sign), form_.dtype.type(form_.sign - 1)
    return elementwise(machine, x, lambda a, b: a & sign | b & rest, bits, (bits, bits))


@form(
    r"testp\.(?P<what>finite|infinite|number|notanumber|normal|subnormal)\.(?P<type>f32|f64)",
)
def test(machine: Machine, x: Instruction, how: Form) -> Step:
    """Whether ``a`` belongs to a class of numbers. Zero counts as normal (floats.f32.compare)."""
    least = 2.0**-126 if how["type"] == "f32" else 2.0**-1022
    tests = {
        "finite": numpy.isfinite,
        "infinite": numpy.isinf,
        "number": lambda a: ~numpy.isnan(a),
        "notanumber": numpy.isnan,
        "normal": lambda a: numpy.isfinite(a) & ((numpy.abs(a) >= a.dtype.type(least)) | (a == 0)),
        "subnormal": lambda a: (numpy.abs(a) < a.dtype.type(least)) & (a != 0),
    }
    return elementwise(machine, x, tests[how["what"]], "pred", (how["type"],))
