"""Conversions to and from pairs, 8-bit floats and tf32; ``cvt.pack`` of small integers.

Of two sources the first is the upper half (PTX ISA, ``cvt``).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.convert import FINITE_RELU, half_bits
from hopper.emulator.forms import Form, apply, elementwise, expect, form
from hopper.emulator.halves import relu, write_halves
from hopper.emulator.instructions import Step
from hopper.emulator.numbers import FORMATS, TF32
from hopper.emulator.ptx import Instruction
from hopper.emulator.rounding import encode, f16_bits

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_SIXTEEN, _EIGHT = numpy.uint32(16), numpy.uint16(8)
FP8 = r"(?P<small>e4m3|e5m2)x2"


@form(rf"cvt\.(?P<rnd>rn|rz){FINITE_RELU}\.(?P<to>f16|bf16)x2\.f32")
def pair(machine: Machine, x: Instruction, how: Form) -> Step:
    """Two f32 rounded to halves."""
    to, mode = how["to"], how["rnd"]
    options = {"finite": ".satfinite" in x.opcode, "relu": ".relu" in x.opcode}

    def compute(upper, lower):
        high, low = (half_bits(value, to, mode, **options) for value in (upper, lower))
        return high.astype(numpy.uint32) << _SIXTEEN | low

    return elementwise(machine, x, compute, "b32", ("f32", "f32"))


@form(
    rf"cvt\.rn\.satfinite(?P<relu>\.relu)?\.{FP8}\.(?P<from>f32)",
    rf"cvt\.rn(?P<relu>\.relu)\.satfinite\.{FP8}\.(?P<from>f32)",
)
def to_fp8(machine: Machine, x: Instruction, how: Form) -> Step:
    """Two f32 as 8-bit floats; beyond the largest number is the largest number."""

    def compute(upper, lower):
        high, low = (_fp8(value, how) for value in (upper, lower))
        return high.astype(numpy.uint16) << _EIGHT | low

    return elementwise(machine, x, compute, "b16", ("f32", "f32"))


@form(
    rf"cvt\.rn\.satfinite(?P<relu>\.relu)?\.{FP8}\.(?P<from>f16)x2",
    rf"cvt\.rn(?P<relu>\.relu)\.satfinite\.{FP8}\.(?P<from>f16)x2",
)
def pair_to_fp8(machine: Machine, x: Instruction, how: Form) -> Step:
    """A pair of f16 as 8-bit floats."""

    def compute(both):
        halves = (both >> _SIXTEEN, both)
        high, low = (_fp8(h.astype(numpy.uint16).view(numpy.float16), how) for h in halves)
        return high.astype(numpy.uint16) << _EIGHT | low

    return elementwise(machine, x, compute, "b16", ("b32",))


@form(rf"cvt\.rn(?P<relu>\.relu)?\.f16x2\.{FP8}")
def from_fp8(machine: Machine, x: Instruction, how: Form) -> Step:
    """A pair of 8-bit floats as f16: exact."""
    table = _as_f16(how["small"], bool(how["relu"]))
    expect(x, 2)
    read = machine.read(x.operands[1], "b16")

    def halves(lanes):
        return numpy.ascontiguousarray(machine.each(read, lanes)).view(numpy.uint8)

    return apply(write_halves(machine, x.operands[0], True), table.take, [halves])


@cache
def _as_f16(name: str, clamp: bool) -> numpy.ndarray:
    """f16 bits of each of the 256 numbers."""
    form_ = FORMATS[name]
    bits = numpy.arange(256).astype(numpy.uint8)
    values = form_.decode(bits)[0]
    values = numpy.where(form_.is_infinite(bits), numpy.float32(numpy.inf), values)
    values = numpy.copysign(values, numpy.where(bits & 0x80, -1, 1).astype(numpy.float32))
    values = numpy.where(form_.is_nan(bits), numpy.float32(numpy.nan), values)
    return f16_bits(relu(values) if clamp else values)


def _fp8(values: numpy.ndarray, how: Form) -> numpy.ndarray:
    values = relu(values) if how["relu"] else values
    return encode(values, FORMATS[how["small"]], "rn", finite=True)


@form(
    r"cvt\.(?P<rnd>rn|rz)(?P<relu>\.relu)?\.tf32\.f32",
    r"cvt\.(?P<rnd>rna)(?P<finite>\.satfinite)?\.tf32\.f32",
)
def to_tf32(machine: Machine, x: Instruction, how: Form) -> Step:
    """f32 rounded to the 10 fraction bits of tf32; the 13 bits below are 0.

    ``.rna`` is not one instruction: ptxas adds half a unit to what is finite and clears the low
    bits of all, so that NaN keeps its upper bits, and without any is infinity.
    """
    if how["rnd"] != "rna":

        def compute(a):
            return encode(relu(a) if how["relu"] else a, TF32, how["rnd"])

        return elementwise(machine, x, compute, "b32", ("f32",))
    half, kept = numpy.uint32(0x1000), numpy.uint32(0xFFFFE000)
    magnitude, infinity = numpy.uint32(0x7FFFFFFF), numpy.uint32(0x7F800000)
    unit = numpy.uint32(0x2000)

    def away(bits):
        below = bits & magnitude < infinity
        rounded = numpy.where(below, bits + half, bits) & kept
        if how.get("finite"):
            rounded = numpy.where(rounded & magnitude >= infinity, rounded - unit, rounded)
        return rounded

    return elementwise(machine, x, away, "b32", ("b32",))


@form(
    r"cvt\.pack\.sat\.(?P<sign>[us])(?P<bits>16)\.s32",
    r"cvt\.pack\.sat\.(?P<sign>[us])(?P<bits>8|4|2)\.s32\.b32",
)
def pack(machine: Machine, x: Instruction, how: Form) -> Step:
    """Two integers clamped to few bits, side by side; ``c`` moves up to make them room."""
    bits = int(how["bits"])
    low, high = (
        (0, 2**bits - 1) if how["sign"] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    low, high, mask = numpy.int32(low), numpy.int32(high), numpy.uint32(2**bits - 1)
    one, two = numpy.uint32(bits), numpy.uint32(2 * bits)

    def clamped(values):
        return numpy.minimum(numpy.maximum(values, low), high).astype(numpy.uint32) & mask

    def compute(a, b, *c):
        both = clamped(a) << one | clamped(b)
        return both | c[0] << two if c else both

    sources = ("s32", "s32") if bits == 16 else ("s32", "s32", "b32")
    return elementwise(machine, x, compute, "b32", sources)
