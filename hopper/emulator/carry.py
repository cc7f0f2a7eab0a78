"""Sums longer than a register: the carry that ``.cc`` leaves and ``addc``, ``subc``, ``madc`` take.

Each thread has one carry flag (PTX ISA, "Extended-Precision Integer Arithmetic"). The hardware
subtracts by adding the complement, so that after ``sub.cc`` the flag is set where nothing was
borrowed: seen when ``addc`` follows ``sub.cc``, or ``subc`` follows ``add.cc`` (probe alu.carry).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.alu import product
from hopper.emulator.forms import Form, expect, form
from hopper.emulator.instructions import Lanes, Step
from hopper.emulator.ptx import Instruction
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

WIDE = r"\.(?P<type>[us](?:32|64))"


class Carry:
    """The carry flag of every lane."""

    def __init__(self, machine: Machine) -> None:
        self.flag = numpy.zeros(machine.lane_count, bool)


@form(
    r"add(?P<out>\.cc)" + WIDE,
    r"addc(?P<out>\.cc)?" + WIDE,
    r"mad\.(?P<part>lo|hi)(?P<out>\.cc)" + WIDE,
    r"madc\.(?P<part>lo|hi)(?P<out>\.cc)?" + WIDE,
)
def add(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a + b`` (or a part of ``a * b``, plus ``c``), plus the carry; ``.cc`` keeps the new one."""
    part = product(how["part"], how["type"]) if how.get("part") else None
    unsigned = numpy.dtype(f"u{numpy_type(how['type']).itemsize}")
    flag, takes = machine.unit(Carry).flag, x.parts[0].endswith("c")
    expect(x, 4 if part else 3)
    reads = [machine.read(operand, how["type"]) for operand in x.operands[1:]]
    put = machine.write(x.operands[0], f"b{8 * unsigned.itemsize}")

    def step(lanes: Lanes) -> None:
        *factors, last = [machine.each(read, lanes) for read in reads]
        first = (part(*factors) if part else factors[0]).view(unsigned)
        total = first + last.view(unsigned)
        out = total < first
        if takes:
            taken = flag[lanes].astype(unsigned)
            total = total + taken
            out = out | (total < taken)
        if how["out"]:
            flag[lanes] = out
        put(lanes, total)

    return step


@form(r"sub(?P<out>\.cc)" + WIDE, r"subc(?P<out>\.cc)?" + WIDE)
def subtract(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a - b``, less 1 where the flag is clear; ``.cc`` sets it where nothing is borrowed."""
    bits = f"b{how['type'][1:]}"
    flag, takes = machine.unit(Carry).flag, x.parts[0] == "subc"
    expect(x, 3)
    reads = [machine.read(operand, bits) for operand in x.operands[1:]]
    put = machine.write(x.operands[0], bits)

    def step(lanes: Lanes) -> None:
        a, b = [machine.each(read, lanes) for read in reads]
        rest, borrows = a - b, a < b
        if takes:
            taken = (~flag[lanes]).astype(rest.dtype)
            borrows = borrows | (rest < taken)
            rest = rest - taken
        if how["out"]:
            flag[lanes] = ~borrows
        put(lanes, rest)

    return step
