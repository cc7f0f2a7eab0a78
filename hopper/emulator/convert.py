"""Conversions between integers and floats, and among floats (PTX ISA, ``cvt``).

Packed and 8-bit formats, tf32 and ``cvt.pack`` are in ``convert_packed``. A destination register
may be wider than the type: it is sign- or zero-extended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.floats import NAN_32, canonical
from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.halves import values_of
from hopper.emulator.instructions import Step, unsupported
from hopper.emulator.numbers import BF16, F16, F32
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import (
    directed,
    encode,
    f16_bits,
    f32_to_bf16,
    flush,
    odd_sum,
    saturate,
    tiny,
    two_sum,
)
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

INTEGER = "[us](?:8|16|32|64)"
RND = r"(?:\.(?P<rnd>rn|rz|rm|rp))"
WHOLE = r"(?:\.(?P<whole>rni|rzi|rmi|rpi))"
FTZ, SAT = r"(?P<ftz>\.ftz)?", r"(?P<sat>\.sat)?"
#: Either order is written; ptxas takes both.
FINITE_RELU = r"(?:(?P<finite>\.satfinite)?(?P<relu>\.relu)?|\.relu\.satfinite)"
_ROUND = {"rni": numpy.rint, "rzi": numpy.trunc, "rmi": numpy.floor, "rpi": numpy.ceil}
_FORMATS = {"f16": F16, "bf16": BF16, "f32": F32}
_QUIET_64 = numpy.uint64(0x0008000000000000)
_TWO_32 = numpy.float64(2**32)


@form(rf"cvt{SAT}\.(?P<to>{INTEGER})\.(?P<from>{INTEGER})")
def integers(machine: Machine, x: Instruction, how: Form) -> Step:
    """Extended as the source is signed, or cut to the low bits; ``.sat`` clamps."""
    wanted, given = numpy_type(how["to"]), numpy_type(how["from"])
    if not how["sat"]:
        return elementwise(machine, x, lambda a: a.astype(wanted), how["to"], (how["from"],))
    ends, own = numpy.iinfo(wanted), numpy.iinfo(given)
    low, high = given.type(max(ends.min, own.min)), given.type(min(ends.max, own.max))
    if low == own.min and high == own.max:
        raise unsupported(x, f"every .{how['from']} is a .{how['to']}: ptxas refuses .sat")

    def compute(a):
        return numpy.minimum(numpy.maximum(a, low), high).astype(wanted)

    return elementwise(machine, x, compute, how["to"], (how["from"],))


@form(
    rf"cvt{RND}{SAT}\.(?P<to>f16|f64)\.(?P<from>{INTEGER})",
    rf"cvt{RND}{FTZ}{SAT}\.(?P<to>f32)\.(?P<from>{INTEGER})",
    rf"cvt{RND}\.(?P<to>bf16)\.(?P<from>[us](?:16|32|64))",
)
def from_integer(machine: Machine, x: Instruction, how: Form) -> Step:
    """An integer as a float, rounded once."""
    to, mode = how["to"], how["rnd"]
    long = how["from"][1:] == "64"

    def compute(a):
        if not long:
            return _finish(a.astype(numpy.float64), to, mode, how)
        # Both halves are exact in f64; the lower one is not negative.
        upper = (a >> a.dtype.type(32)).astype(numpy.float64) * _TWO_32
        lower = (a & a.dtype.type(0xFFFFFFFF)).astype(numpy.float64)
        if to == "f64":
            return _finish(directed(*two_sum(upper, lower), mode), to, mode, how)
        return _finish(odd_sum(upper, lower), to, mode, how)

    return elementwise(machine, x, compute, f"b{to.lstrip('bf')}", (how["from"],))


@form(
    rf"cvt{WHOLE}{SAT}\.(?P<to>{INTEGER})\.(?P<from>f16|f64)",
    rf"cvt{WHOLE}{FTZ}{SAT}\.(?P<to>{INTEGER})\.(?P<from>f32)",
    rf"cvt{WHOLE}\.(?P<to>[us](?:16|32|64))\.(?P<from>bf16)",
)
def to_integer(machine: Machine, x: Instruction, how: Form) -> Step:
    """A float rounded to a whole number, which is clamped to the integer's range.

    NaN becomes 0, but the topmost bit alone where source or destination has 64 bits.
    """
    wanted, given = numpy_type(how["to"]), how["from"]
    ends, operation = numpy.iinfo(wanted), _ROUND[how["whole"]]
    # As f64 the largest 64-bit number is the power of 2 behind it.
    lowest, highest = numpy.float64(ends.min), numpy.float64(ends.max)
    topmost = given == "f64" or wanted.itemsize == 8
    no_number = wanted.type(1).view(wanted) << wanted.type(8 * wanted.itemsize - 1)

    def compute(a):
        values = _values(a, given, how).astype(numpy.float64)
        whole = operation(values)
        over, nan = whole >= highest, numpy.isnan(whole)
        inside = numpy.where(over | nan, numpy.float64(0), numpy.maximum(whole, lowest))
        result = numpy.where(over, wanted.type(ends.max), inside.astype(wanted))
        return numpy.where(nan, no_number if topmost else wanted.type(0), result)

    return elementwise(machine, x, compute, how["to"], (_bits(given),))


@form(
    rf"cvt{WHOLE}?{FTZ}{SAT}\.(?P<to>f32)\.(?P<from>f32)",
    rf"cvt{WHOLE}?{SAT}\.(?P<to>f16)\.(?P<from>f16)",
    rf"cvt{WHOLE}?{SAT}\.(?P<to>f64)\.(?P<from>f64)",
    rf"cvt{WHOLE}?\.(?P<to>bf16)\.(?P<from>bf16)",
)
def same(machine: Machine, x: Instruction, how: Form) -> Step:
    """A float rounded to a whole number, saturated, or merely copied."""
    kind, operation = how["to"], _ROUND.get(how["whole"], numpy.positive)
    bits = _bits(kind)
    if kind in ("f32", "f64") and not (how["whole"] or how["sat"] or how.get("ftz")):
        return elementwise(machine, x, lambda a: a, bits, (bits,))

    def compute(a):
        return _finish(operation(_values(a, kind, how)), kind, "rn", how)

    return elementwise(machine, x, compute, bits, (bits,))


@form(
    rf"cvt{FTZ}{SAT}\.(?P<to>f32)\.(?P<from>f16)",
    rf"cvt{RND}?{FTZ}\.(?P<to>f32)\.(?P<from>bf16)",
    rf"cvt{FTZ}{SAT}\.(?P<to>f64)\.(?P<from>f32)",
    rf"cvt{SAT}\.(?P<to>f64)\.(?P<from>f16)",
    rf"cvt{RND}?\.(?P<to>f64)\.(?P<from>bf16)",
)
def widen(machine: Machine, x: Instruction, how: Form) -> Step:
    """A float in a wider format: exact, so that a rounding mode says nothing."""
    to, given = how["to"], how["from"]
    if (to, given) == ("f32", "bf16") and not how["ftz"]:
        # The same bits with zeros below, so that NaN keeps its own.
        shift = numpy.uint32(16)
        return elementwise(machine, x, lambda a: a.astype(numpy.uint32) << shift, "b32", ("b16",))

    def compute(a):
        values = _values(a, given, how)
        if to == "f64":
            # With .ftz a product with 1 comes first, which has one NaN only.
            values = canonical(values) if how.get("ftz") else values
            values = values.astype(numpy.float64)
            values = (values.view(numpy.uint64) | numpy.isnan(values) * _QUIET_64).view("f8")
        return _finish(values, to, "rn", how)

    return elementwise(machine, x, compute, _bits(to), (_bits(given),))


@form(
    rf"cvt{RND}{FTZ}{SAT}\.(?P<to>f32)\.(?P<from>f64)",
    rf"cvt{RND}{SAT}\.(?P<to>f16)\.(?P<from>f64)",
    rf"cvt{RND}\.(?P<to>bf16)\.(?P<from>f64)",
    rf"cvt{RND}{FTZ}{SAT}\.(?P<to>f16)\.(?P<from>f32)",
    rf"cvt{RND}{FTZ}\.(?P<to>bf16)\.(?P<from>f32)",
    rf"cvt\.(?P<rnd>rn|rz){FINITE_RELU}\.(?P<to>f16|bf16)\.(?P<from>f32)",
    rf"cvt{RND}?\.(?P<to>f16)\.(?P<from>bf16)",
    rf"cvt{RND}?\.(?P<to>bf16)\.(?P<from>f16)",
)
def narrow(machine: Machine, x: Instruction, how: Form) -> Step:
    """A float in a narrower format, rounded once.

    NaN of f64 keeps its sign and the upper bits of its payload; any other becomes canonical. From
    f32 to f16 ``.ftz`` is accepted and does nothing (probe case convert.halves.from_f32).
    """
    to, given, mode = how["to"], how["from"], how["rnd"] or "rn"
    how = dict(how, relu=".relu" in x.opcode, finite=".satfinite" in x.opcode)
    if (to, given) == ("f16", "f32"):
        how["ftz"] = ""

    def compute(a):
        values = _values(a, given, how)
        bits = _finish(values, to, mode, how)
        if given == "f64" and not how.get("sat"):
            nan = numpy.isnan(values)
            bits = numpy.where(nan, _shortened_nan(a, to), bits) if nan.any() else bits
        return bits

    return elementwise(machine, x, compute, _bits(to), (_bits(given),))


def _shortened_nan(bits: numpy.ndarray, to: str) -> numpy.ndarray:
    """NaN of f64 in a narrower format: sign, a quiet bit, and the payload's upper bits."""
    form_ = _FORMATS[to]
    fraction = numpy.uint64((1 << 52) - 1)
    payload = (bits & fraction) >> numpy.uint64(52 - form_.fraction)
    sign = bits >> numpy.uint64(63) << numpy.uint64(form_.bits - 1)
    quiet = numpy.uint64(form_.first_special | 1 << form_.fraction - 1)
    return (sign | quiet | payload).astype(form_.dtype)


def half_bits(values: numpy.ndarray, kind: str, mode: str, *, finite: bool, relu: bool):
    """f32 or f64 values rounded to f16 or bf16 ``kind``, as uint16.

    ``finite``: the largest number stands for everything beyond; ``relu``: 0 for what is negative.
    """
    if relu:
        values = numpy.where(values <= 0, values.dtype.type(0), values)
    if mode == "rn" and not finite:
        if kind == "f16":
            return f16_bits(values)
        if values.dtype == numpy.float32:
            return f32_to_bf16(values)
    return encode(values, _FORMATS[kind], mode, finite=finite)


def _bits(kind: str) -> str:
    return f"b{kind.lstrip('bf')}"


def _values(bits: numpy.ndarray, kind: str, how: Form) -> numpy.ndarray:
    """Bits as floats; subnormal f32 as zeros with ``.ftz``."""
    if kind in ("f16", "bf16"):
        values = values_of(bits, kind)
    else:
        values = bits.view(numpy_type(kind))
    return flush(values) if how.get("ftz") and kind in ("f32", "bf16") else values


def _finish(values: numpy.ndarray, to: str, mode: str, how: Form) -> numpy.ndarray:
    """Values rounded to ``to``, then flushed and saturated as the form says; bits."""
    if to in ("f16", "bf16"):
        if how.get("sat"):
            # 1 and 0 are numbers of every format: clamping before rounding is as good.
            values = saturate(values)
        return half_bits(
            values, to, mode, finite=bool(how.get("finite")), relu=bool(how.get("relu"))
        )
    if to == "f64":
        wide = values.astype(numpy.float64)
        return (saturate(wide) if how.get("sat") else wide).view(numpy.uint64)
    small = tiny(values, F32, mode) if how.get("ftz") and values.dtype == numpy.float64 else None
    if values.dtype == numpy.float64:
        values = _to_f32(values, mode)
    values = canonical(values.astype(numpy.float32))
    if small is not None:
        values = numpy.where(small, numpy.copysign(numpy.float32(0), values), values)
    return (saturate(values) if how.get("sat") else values).view(numpy.uint32)


def _to_f32(values: numpy.ndarray, mode: str) -> numpy.ndarray:
    nearest = values.astype(numpy.float32)
    if mode == "rn":
        return nearest
    error = values - nearest
    return numpy.where(numpy.isnan(values), NAN_32, directed(nearest, error, mode))
