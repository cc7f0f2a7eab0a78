"""Moves and selections: ``mov`` with packing and unpacking, ``selp``, ``slct``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, elementwise, expect, form
from hopper.emulator.instructions import Lanes, Step, unsupported
from hopper.emulator.ptx import Instruction, Register, Sink, Vector
from hopper.emulator.types import numpy_type, width

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

ANY = r"\.(?P<type>[bus](?:16|32|64)|f32|f64)"


@form(r"mov\.(?P<type>pred)", "mov" + ANY)
def mov(machine: Machine, x: Instruction, how: Form) -> Step:
    """A copy; ``{lo, hi}`` packs or unpacks, the first element in the lowest bits."""
    expect(x, 2)
    to, source = x.operands
    kind = how["type"]
    if kind[0] != "b" and (isinstance(to, Vector) or isinstance(source, Vector)):
        raise unsupported(x, "only .b types are packed and unpacked")
    if isinstance(to, Vector):
        return _unpack(machine, x, to, kind)
    if isinstance(source, Vector):
        return _pack(machine, x, source, kind)
    if isinstance(source, Register) and isinstance(to, Register):
        bits = "pred" if kind == "pred" else f"b{width(kind)}"
        if width(to.type) == width(kind):
            # Most frequent of all instructions: no call between the two rows.
            target, origin = machine.registers.row(to, bits), machine.registers.row(source, bits)

            def copy(lanes: Lanes) -> None:
                target[lanes] = origin[lanes]

            return copy
    return elementwise(machine, x, lambda a: a, kind, (kind,))


def _pack(machine: Machine, x: Instruction, source: Vector, kind: str) -> Step:
    wanted = numpy_type(f"b{width(kind)}")
    part = width(kind) // len(source.items)
    reads = [machine.read(item, f"b{part}") for item in source.items]
    shifts = [wanted.type(part * place) for place in range(len(reads))]
    put = machine.write(x.operands[0], f"b{width(kind)}")

    def step(lanes: Lanes) -> None:
        value = reads[0](lanes).astype(wanted)
        for read, shift in zip(reads[1:], shifts[1:], strict=True):
            value = value | read(lanes).astype(wanted) << shift
        put(lanes, value)

    return step


def _unpack(machine: Machine, x: Instruction, to: Vector, kind: str) -> Step:
    part = width(kind) // len(to.items)
    narrow = numpy_type(f"b{part}")
    wide = numpy_type(f"b{width(kind)}")
    read = machine.read(x.operands[1], f"b{width(kind)}")
    puts = [
        (machine.write(item, f"b{part}"), wide.type(part * place))
        for place, item in enumerate(to.items)
        if not isinstance(item, Sink)
    ]

    def step(lanes: Lanes) -> None:
        value = read(lanes)
        for put, shift in puts:
            put(lanes, (value >> shift).astype(narrow))

    return step


@form("selp" + ANY)
def selp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a`` where the predicate holds, else ``b``."""
    bits = f"b{width(how['type'])}"
    return elementwise(machine, x, lambda a, b, p: numpy.where(p, a, b), bits, (bits, bits, "pred"))


@form(
    r"slct" + ANY + r"\.(?P<by>s32)",
    r"slct(?P<ftz>\.ftz)?" + ANY + r"\.(?P<by>f32)",
)
def slct(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a`` where ``c`` is at least 0, else ``b``; -0 counts as 0, and NaN takes ``b``.

    With ``.ftz`` a subnormal ``c`` is a zero, so it takes ``a``.
    """
    bits = f"b{width(how['type'])}"
    least = numpy.float32(2.0**-126)

    def compute(a, b, c):
        holds = c >= c.dtype.type(0)
        if how.get("ftz"):
            holds = holds | (numpy.abs(c) < least)
        return numpy.where(holds, a, b)

    return elementwise(machine, x, compute, bits, (bits, bits, how["by"]))
