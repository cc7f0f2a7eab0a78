"""Several small integers in one register: 16-bit pairs and dot products of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_TWO = {"add": numpy.add, "min": numpy.minimum, "max": numpy.maximum}


@form(
    r"add\.(?P<type>[us]16)x2",
    r"min\.(?P<type>[us]16)x2",
    r"max\.(?P<type>[us]16)x2",
    r"min(?P<relu>\.relu)\.(?P<type>s16)x2",
    r"max(?P<relu>\.relu)\.(?P<type>s16)x2",
)
def pairs(machine: Machine, x: Instruction, how: Form) -> Step:
    """The same on both halves, each on its own; with ``.relu`` at least 0."""
    operation, kind = _TWO[x.parts[0]], numpy_type(how["type"])
    zero = kind.type(0)

    def half(a, b):
        value = operation(a.astype(kind), b.astype(kind))
        value = numpy.maximum(value, zero) if how.get("relu") else value
        return value.astype(numpy.uint16).astype(numpy.uint32)

    shift = numpy.uint32(16)

    def compute(a, b):
        return half(a >> shift, b >> shift) << shift | half(a, b)

    return elementwise(machine, x, compute, "b32", ("b32", "b32"))


@form(
    r"dp4a\.(?P<a>[us]32)\.(?P<b>[us]32)",
    r"dp2a\.(?P<half>lo|hi)\.(?P<a>[us]32)\.(?P<b>[us]32)",
)
def dot(machine: Machine, x: Instruction, how: Form) -> Step:
    """``c`` plus the dot product of 4 bytes, or of 2 halves and the lower or upper 2 bytes."""
    count = 4 if x.parts[0] == "dp4a" else 2
    wide, first = 32 // count, 16 if how.get("half") == "hi" else 0
    a_kind = numpy_type(f"{how['a'][0]}{wide}")
    b_kind = numpy_type(f"{how['b'][0]}8")

    def compute(a, b, c):
        # Modulo 2**32 the signs of sum and products make no difference.
        total = c
        for place in range(count):
            left = (a >> numpy.uint32(place * wide)).astype(a_kind).astype(numpy.uint32)
            right = (b >> numpy.uint32(first + place * 8)).astype(b_kind).astype(numpy.uint32)
            total = total + left * right
        return total

    return elementwise(machine, x, compute, "b32", ("b32", "b32", "b32"))
