"""Logic and shifts (PTX ISA, "Logic and Shift Instructions"). Bit fields are in ``fields``.

Shift counts are unsigned; above the width they clamp: every bit is shifted out, and a signed
number leaves its sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, apply, elementwise, expect, form
from hopper.emulator.instructions import Lanes, Step, unsupported
from hopper.emulator.ptx import Immediate, Instruction, Pair
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


@form(r"lop3\.b32", r"lop3\.(?P<bool>and|or)\.b32")
def lop3(machine: Machine, x: Instruction, how: Form) -> Step:
    """Any function of three bits, by its truth table; with ``.and``/``.or`` also "any bit, op q".

    Bit ``4a + 2b + c`` of the table is the function's value.
    """
    combine = how.get("bool", "")
    expect(x, 6 if combine else 5)
    table = x.operands[4]
    if not isinstance(table, Immediate) or not 0 <= table.value <= 255:
        raise unsupported(x, "the truth table must be a constant between 0 and 0xFF")
    without, differs = table.value & 15, table.value >> 4 ^ table.value & 15
    base, change = _OF_TWO[without], _OF_TWO[differs]

    def compute(a, b, c):
        return base(b, c) ^ (a & change(b, c))

    reads = [machine.read(operand, "b32") for operand in x.operands[1:4]]
    if not combine:
        return apply(machine.write(x.operands[0], "b32"), compute, reads)
    if not isinstance(x.operands[0], Pair):
        raise unsupported(x, f"{x.opcode} has two results, d|p")
    put = machine.write(x.operands[0].first, "b32")
    put_any = machine.write(x.operands[0].second, "pred")
    q, join = machine.read(x.operands[5], "pred"), _TWO[combine]

    def step(lanes: Lanes) -> None:
        value = compute(*[read(lanes) for read in reads])
        holds = join(value != 0, q(lanes))
        put(lanes, value)
        put_any(lanes, holds)

    return step


#: Functions of two bits by truth table: bit ``2b + c`` is the value.
_OF_TWO = (
    lambda b, c: b & numpy.uint32(0),
    lambda b, c: ~(b | c),
    lambda b, c: ~b & c,
    lambda b, c: ~b,
    lambda b, c: b & ~c,
    lambda b, c: ~c,
    lambda b, c: b ^ c,
    lambda b, c: ~(b & c),
    lambda b, c: b & c,
    lambda b, c: ~(b ^ c),
    lambda b, c: c,
    lambda b, c: ~b | c,
    lambda b, c: b,
    lambda b, c: b | ~c,
    lambda b, c: b | c,
    lambda b, c: b | numpy.uint32(0xFFFFFFFF),
)


@form(r"shf\.(?P<to>l|r)\.(?P<mode>clamp|wrap)\.b32")
def funnel(machine: Machine, x: Instruction, how: Form) -> Step:
    """Shift the 64 bits ``b:a``: left, and keep the upper half, or right, and keep the lower.

    A count above 32 is 32 with ``.clamp``; ``.wrap`` takes its low 5 bits.
    """
    left, wrap = how["to"] == "l", how["mode"] == "wrap"
    half, low, most = numpy.uint64(32), numpy.uint32(31), numpy.uint32(32)

    def compute(a, b, count):
        count = (count & low if wrap else numpy.minimum(count, most)).astype(numpy.uint64)
        both = b.astype(numpy.uint64) << half | a
        return (both << count) >> half if left else both >> count

    return elementwise(machine, x, compute, "b32", ("b32", "b32", "u32"))
