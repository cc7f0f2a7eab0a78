"""Registers of all lanes, and operands as functions of the lanes that ask for them.

Registers of one width form one matrix, a row a register and a column a lane, so that an
instruction with 128 registers (``wgmma``) takes a block of rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from hopper.emulator.errors import Unsupported
from hopper.emulator.instructions import Lanes
from hopper.emulator.ptx import Immediate, Register
from hopper.emulator.types import bits_type, numpy_type, width

Read = Callable[[Lanes], numpy.ndarray]
Write = Callable[[Lanes, numpy.ndarray], None]

_KINDS = {1: bool, 8: "u1", 16: "u2", 32: "u4", 64: "u8"}


class Registers:
    """``rows`` registers of each width in bits, for ``lanes`` lanes. All bits start set."""

    def __init__(self, rows: dict[int, int], lanes: int) -> None:
        self.files = {
            bits: numpy.full((count, lanes), True if bits == 1 else -1 & (1 << bits) - 1, kind)
            for bits, kind in _KINDS.items()
            if (count := rows.get(bits, 0))
        }

    def block(self, registers: Sequence[Register]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The matrix that holds registers of one width, and their rows in it.

        ``matrix[rows[:, None], lanes]`` reads them all; the matrix holds unsigned integers.
        """
        bits = width(registers[0].type)
        return self.files[bits], numpy.array([register.row for register in registers])

    def row(self, register: Register, kind: str) -> numpy.ndarray:
        """A register of every lane as PTX type ``kind``, which is at most as wide.

        A narrower type sees the low bits (PTX ISA, "Operand Size Exceeding Instruction-Type
        Size"). The result is a view: what is stored in it is in the register.
        """
        bits, wanted = width(register.type), width(kind)
        row = self.files[bits][register.row]
        if bits == 1 or wanted == 1:
            if bits != wanted:
                raise Unsupported(f"{register.name} (.{register.type}) is used as .{kind}")
            return row
        if wanted > bits:
            raise Unsupported(
                f"{register.name} has {bits} bits (.{register.type}) and is used as .{kind}"
            )
        return row.view(numpy_type(kind))[:: bits // wanted]

    def reader(self, register: Register, kind: str) -> Read:
        """Read a register as ``kind``."""
        row = self.row(register, kind)
        return lambda lanes: row[lanes]

    def writer(self, register: Register, kind: str) -> Write:
        """Write values of ``kind`` to a register; a wider register is sign- or zero-extended."""
        bits, given = width(register.type), width(kind)
        if given == bits or bits == 1:
            row = self.row(register, kind)
        elif given > bits:
            raise Unsupported(
                f"{register.name} has {bits} bits (.{register.type}) and is given .{kind}"
            )
        else:
            letter = "i" if kind[0] == "s" and kind[1:].isdigit() else "u"
            row = self.files[bits][register.row].view(f"{letter}{bits // 8}")
            bits_of = numpy_type(kind) if letter == "i" else bits_type(kind)

            def extend(lanes: Lanes, values: numpy.ndarray) -> None:
                values = numpy.asarray(values)
                row[lanes] = values if values.dtype == bits_of else values.view(bits_of)

            return extend

        def store(lanes: Lanes, values: numpy.ndarray) -> None:
            row[lanes] = values

        return store


def constant(immediate: Immediate, kind: str) -> numpy.generic:
    """An immediate as a NumPy scalar of PTX type ``kind``."""
    wanted = numpy_type(kind)
    if kind == "pred":
        return numpy.bool_(immediate.value)
    if immediate.type == "f64" and wanted.itemsize == 4 and wanted.kind == "f":
        return numpy.uint64(immediate.value).view("f8").astype("f4")
    bits = immediate.value & (1 << 8 * wanted.itemsize) - 1
    return bits_type(kind).type(bits).view(wanted)
