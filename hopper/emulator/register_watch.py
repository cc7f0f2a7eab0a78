"""The watch over wgmma's registers: accumulators, and A where it is passed in registers.

PTX ISA, "Asynchronous wgmma instructions": ``wgmma.fence`` orders other accesses to these registers
before a wgmma; from its issue until ``wait_group`` has retired its group they are off limits. Only
a wgmma of the same shape may follow on the same accumulators without a fence, and A that is only
read may be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy

from hopper.emulator.instructions import Step
from hopper.emulator.ptx import (
    Address,
    Instruction,
    Kernel,
    Not,
    Operand,
    Pair,
    Register,
    Vector,
)

WARPGROUP = 128
_NEVER = -1
_READ = 0

Report = Callable[[str, str, int], None]


class RegisterWatch:
    """Of each watched register and lane: until which group it is pending, when it was touched.

    ``report(kind, told, lane)`` is called for a hazard; ``now()`` gives the time.
    """

    def __init__(self, kernel: Kernel, lanes: int, report: Report, now: Callable[[], int]) -> None:
        self.report, self.now = report, now
        self.rows = {register: row for row, register in enumerate(_watched(kernel))}
        shape = (len(self.rows), lanes)
        self._pending = numpy.zeros(shape, numpy.int32)
        self._touched = numpy.full(shape, _NEVER, numpy.int32)
        # Of the wgmma that a register is pending for: the shape it accumulates in, or only read.
        self._shape = numpy.full(shape, _READ, numpy.int32)
        self._retired = numpy.zeros(lanes, numpy.int32)
        self._fenced = numpy.full(lanes, _NEVER, numpy.int32)
        self._shapes: dict[str, int] = {}
        self._issued: dict[int, tuple[list[int], list[int], int]] = {}

    def around(self, x: Instruction, step: Step) -> Step:
        """The step of an ordinary instruction, its accesses to watched registers looked at."""
        if x.parts[0] == "wgmma" or not self.rows:
            return step
        used = {register for operand in x.operands for register in registers_in(operand)}
        rows = numpy.array([self.rows[r] for r in used if r in self.rows], numpy.int64)
        if not rows.size:
            return step
        renames = x.parts[0] == "mov" and all(
            isinstance(operand, Register) and operand in self.rows for operand in x.operands
        )
        if renames:
            to, source = (self.rows[operand] for operand in x.operands)

            def rename(lanes) -> None:
                # A pending accumulator gets another name, as the compiler's copies do.
                step(lanes)
                self._pending[to, lanes] = self._pending[source, lanes]
                self._touched[to, lanes] = self._touched[source, lanes]
                self._shape[to, lanes] = self._shape[source, lanes]

            return rename

        def touch(lanes) -> None:
            for row in rows:
                pending = self._pending[row, lanes] > self._retired[lanes]
                if pending.any():
                    self._tell_pending(int(row), lanes, pending)
                self._touched[row, lanes] = self.now()
            step(lanes)

        return touch

    def fence(self, lanes) -> None:
        """``wgmma.fence``."""
        self._fenced[lanes] = self.now()

    def issue(self, x: Instruction, lanes: slice, count: int) -> None:
        """A wgmma of the group that retires as ``count`` is issued by one warpgroup's lanes."""
        first = lanes.start
        d, a, shape = self._operands(x)
        if (self._fenced[lanes] == _NEVER).any():
            self.report("no-wgmma-fence", "the first wgmma has no fence before it", first)
        behind = (self._touched[d + a, lanes] > self._fenced[lanes]).any(axis=1)
        if behind.any():
            name = self._name((d + a)[int(behind.argmax())])
            told = f"register {name} was accessed behind the last wgmma.fence"
            self.report("no-wgmma-fence", told, first)
        used = numpy.array(d + a)
        wanted = numpy.array([shape] * len(d) + [_READ] * len(a))[:, None]
        held = self._shape[used, lanes]
        other = (self._pending[used, lanes] > self._retired[lanes]) & (held != wanted)
        if other.any():
            at, lane = (int(i) for i in numpy.argwhere(other)[0])
            does = "reads" if held[at, lane] == _READ else "accumulates in"
            told = f"register {self._name(int(used[at]))} is used, and a pending wgmma "
            told += does + (" it" if at >= len(d) or does == "reads" else " it, of another shape")
            self.report("accumulator-pending", told, first + lane)
        self._pending[used, lanes] = count
        self._shape[used, lanes] = wanted

    def _operands(self, x: Instruction) -> tuple[list[int], list[int], int]:
        """Rows of a wgmma's accumulators and of its A, and a number for its shape."""
        if x.index not in self._issued:
            d = [self.rows[register] for register in registers_in(x.operands[0])]
            vector = isinstance(x.operands[1], Vector)
            a = [self.rows[register] for register in registers_in(x.operands[1])] if vector else []
            shape = self._shapes.setdefault(".".join(x.parts[4:6]), len(self._shapes) + 1)
            self._issued[x.index] = d, a, shape
        return self._issued[x.index]

    def retire(self, lanes, count: int) -> None:
        """Groups up to ``count`` of the warpgroup of these lanes have retired."""
        self._retired[lanes] = count

    def _tell_pending(self, row: int, lanes, pending: numpy.ndarray) -> None:
        lane = int(numpy.arange(self._retired.size)[lanes][pending][0])
        told = f"register {self._name(row)} is accessed while a wgmma that uses it may still run"
        self.report("accumulator-pending", told, lane)

    def _name(self, row: int) -> str:
        return next(register.name for register, place in self.rows.items() if place == row)


def registers_in(operand: Operand) -> Iterator[Register]:
    """The registers that an operand names."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from registers_in(item)
    elif isinstance(operand, Pair):
        yield from registers_in(operand.first)
        yield from registers_in(operand.second)
    elif isinstance(operand, Not):
        yield from registers_in(operand.operand)
    elif isinstance(operand, Address):
        yield from registers_in(operand.base)
        if operand.coordinates:
            yield from registers_in(operand.coordinates)


def _watched(kernel: Kernel) -> list[Register]:
    """Accumulators and A fragments, and the registers that moves rename them to."""
    found: dict[Register, None] = {}
    moves = []
    for x in kernel.code:
        if x.parts[:2] == ("wgmma", "mma_async"):
            found.update(dict.fromkeys(registers_in(x.operands[0])))
            if isinstance(x.operands[1], Vector):
                found.update(dict.fromkeys(registers_in(x.operands[1])))
        elif x.parts[0] == "mov" and all(isinstance(o, Register) for o in x.operands):
            moves.append(x.operands)
    grew = bool(found)
    while grew:
        grew = False
        for to, source in moves:
            if source in found and to not in found:
                found[to] = None
                grew = True
    return list(found)
