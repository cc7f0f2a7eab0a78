"""Conversions: every form of ``cvt``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

INTEGER = "[us](?:8|16|32|64)"


@form(rf"cvt\.(?P<to>{INTEGER})\.(?P<from>{INTEGER})")
def integers(machine: Machine, x: Instruction, how: Form) -> Step:
    """Extended as the source is signed, or cut to the low bits."""
    wanted = numpy_type(how["to"])
    return elementwise(machine, x, lambda a: a.astype(wanted), how["to"], (how["from"],))


@form(r"cvt\.rn\.f16x2\.f32")
def pack(machine: Machine, x: Instruction, how: Form) -> Step:
    """Two f32 rounded to f16; the first operand is the upper half."""

    def compute(upper, lower):
        return _f16_bits(upper) << numpy.uint32(16) | _f16_bits(lower)

    return elementwise(machine, x, compute, "b32", ("f32", "f32"))


def _f16_bits(values: numpy.ndarray) -> numpy.ndarray:
    nan = numpy.isnan(values)
    bits = values.astype(numpy.float16).view(numpy.uint16).astype(numpy.uint32)
    return numpy.where(nan, numpy.uint32(0x7FFF), bits) if nan.any() else bits
