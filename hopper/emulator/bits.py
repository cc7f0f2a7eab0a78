"""Bits: logic, shifts, fields, permutations, counts (PTX ISA, "Logic and Shift Instructions").

Shift counts are unsigned; above the width they clamp: every bit is shifted out, and a signed
number leaves its sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, apply, elementwise, expect, form
from hopper.emulator.instructions import Step
from hopper.emulator.ptx import Immediate, Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

LOGIC = r"\.(?P<type>pred|b16|b32|b64)"
_TWO = {"and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}


@form("and" + LOGIC, "or" + LOGIC, "xor" + LOGIC)
def logic(machine: Machine, x: Instruction, how: Form) -> Step:
    """Bit by bit; predicates too."""
    return elementwise(machine, x, _TWO[x.parts[0]], how["type"], (how["type"],) * 2)


@form("not" + LOGIC)
def inverse(machine: Machine, x: Instruction, how: Form) -> Step:
    """Every bit the other."""
    return elementwise(machine, x, numpy.invert, how["type"], (how["type"],))


@form(r"cnot\.(?P<type>b16|b32|b64)")
def logical_not(machine: Machine, x: Instruction, how: Form) -> Step:
    """1 where ``a`` is 0, else 0."""
    return elementwise(machine, x, lambda a: (a == 0).astype(a.dtype), how["type"], (how["type"],))


@form(r"shl\.(?P<type>b16|b32|b64)", r"shr\.(?P<type>[bus](?:16|32|64))")
def shift(machine: Machine, x: Instruction, how: Form) -> Step:
    """Left, or right with zeros (b, u) or the sign (s) from above."""
    kind = how["type"]
    operation = numpy.left_shift if x.parts[0] == "shl" else numpy.right_shift
    width = int(kind[1:])
    # NumPy shifts every bit out for counts from the width up, as PTX does, if both have one type.
    count = x.operands[-1]
    if isinstance(count, Immediate):
        clamped = numpy_type(kind).type(min(count.value & 0xFFFFFFFF, width))
        expect(x, 3)
        put, read = machine.write(x.operands[0], kind), machine.read(x.operands[1], kind)
        return apply(put, lambda a: operation(a, clamped), [read])
    if width == 32:
        return elementwise(machine, x, operation, kind, (kind, kind))
    wanted, most = numpy_type(kind), numpy.uint32(width)

    def compute(a, count):
        return operation(a, numpy.minimum(count, most).astype(wanted))

    return elementwise(machine, x, compute, kind, (kind, "u32"))


@form(r"bfe\.(?P<type>[us](?:32|64))")
def extract(machine: Machine, x: Instruction, how: Form) -> Step:
    """The field of ``c`` bits from bit ``b`` up; a signed one repeats its topmost bit.

    Position and length are the low 8 bits of their operands. A signed field that reaches past the
    register repeats the register's topmost bit; an empty one is 0.
    """
    kind = how["type"]
    return elementwise(machine, x, _extracts(kind), kind, (kind, "u32", "u32"))


def _extracts(kind: str):
    width, unsigned = int(kind[1:]), numpy.dtype(f"u{int(kind[1:]) // 8}")
    low, full, one = numpy.uint32(0xFF), numpy.uint32(width), unsigned.type(1)
    top, before = numpy.uint32(width - 1), numpy.uint32(1)

    def compute(a, position, length):
        bits, length = a.view(unsigned), length & low
        start = numpy.minimum(position & low, full)
        inside = (one << numpy.minimum(length, full - start).astype(unsigned)) - one
        field = bits >> start.astype(unsigned) & inside
        if kind[0] == "u":
            return field
        last = numpy.minimum((position & low) + length - before, top).astype(unsigned)
        negative = (bits >> last & one).astype(bool) & (length > 0)
        return numpy.where(negative, field | ~inside, field)

    return compute


@form(r"bfi\.(?P<type>b32|b64)")
def insert(machine: Machine, x: Instruction, how: Form) -> Step:
    """``b`` with its field of ``d`` bits from bit ``c`` up replaced by the low bits of ``a``.

    Position and length are the low 8 bits of their operands; what reaches past the top is dropped.
    """
    kind = how["type"]
    width, wanted = int(kind[1:]), numpy_type(kind)
    low, full, one = numpy.uint32(0xFF), numpy.uint32(width), wanted.type(1)

    def compute(a, b, position, length):
        position = numpy.minimum(position & low, full).astype(wanted)
        length = numpy.minimum(length & low, full).astype(wanted)
        field = ((one << length) - one) << position
        return (a << position & field) | (b & ~field)

    return elementwise(machine, x, compute, kind, (kind, kind, "u32", "u32"))
