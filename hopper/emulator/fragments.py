"""Matrices in registers: gathered from the lanes that hold them, and spread over them again.

``hopper.fragment`` says who holds what; here its answer becomes one index into all registers of a
width, so that a matrix of every warp (or warpgroup) at an instruction is a single NumPy take.
"""

from __future__ import annotations

from functools import cache

import numpy

from hopper import fragment
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, unsupported
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import Instruction, Register, Vector
from hopper.emulator.types import width

WORD_BYTES, WORD_BITS = 4, 32


class RegisterMatrix:
    """A matrix of 32-bit words, each in a register of a thread.

    ``thread``, ``register``: arrays of the matrix's shape (rows, words): who holds a word, and
    which operand of the vector it is.
    """

    def __init__(
        self,
        machine: Machine,
        x: Instruction,
        operand: Vector,
        holders: tuple[numpy.ndarray, numpy.ndarray],
    ) -> None:
        thread, register = holders
        count = int(register.max()) + 1
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != count:
            raise unsupported(x, f"{len(items)} registers where this shape takes {count}")
        if any(isinstance(item, Register) and width(item.type) != WORD_BITS for item in items):
            raise unsupported(x, "the registers of a fragment have 32 bits each")
        self._direct = all(isinstance(item, Register) for item in items)
        if self._direct:
            matrix, rows = machine.registers.block(items)
            self._flat = matrix.reshape(-1)
            self._index = rows[register] * machine.lane_count + thread
        else:
            # Some are constants (of C) or sinks (of D): one by one.
            self._machine, self._holders, self._items = machine, holders, items

    def read(self, lanes: Lanes, first: numpy.ndarray) -> numpy.ndarray:
        """The words: (groups, rows, words). ``first``: of ``first_lanes``."""
        if self._direct:
            return self._flat[self._index + first]
        thread, register = self._holders
        machine = self._machine
        each = [machine.each(machine.read(item, "b32"), lanes) for item in self._items]
        held = numpy.stack(each).reshape(len(each), len(first), -1)
        return numpy.ascontiguousarray(held[register, :, thread].transpose(2, 0, 1))

    def write(self, lanes: Lanes, first: numpy.ndarray, words: numpy.ndarray) -> None:
        """Store words of shape (groups, rows, words)."""
        if self._direct:
            self._flat[self._index + first] = words
            return
        thread, register = self._holders
        held = numpy.empty((len(self._items), len(first), int(thread.max()) + 1), numpy.uint32)
        held[register, :, thread] = words.transpose(1, 2, 0)
        for item, values in zip(self._items, held, strict=True):
            self._machine.write(item, "b32")(lanes, values.reshape(-1))


def first_lanes(machine: Machine, lanes: Lanes, size: int) -> numpy.ndarray:
    """The first lane of each warp (size 32) or warpgroup (128), as (groups, 1, 1).

    Raises Fault where a warp is not whole.
    """
    if isinstance(lanes, slice):
        start, stop = lanes.start, lanes.stop
        first = numpy.arange(start, stop, size)
        whole = start % size == 0 and stop % size == 0
    else:
        first = lanes[::size]
        whole = lanes.size % size == 0 and bool(
            (first % size == 0).all() and (lanes[size - 1 :: size] - first == size - 1).all()
        )
    if not whole:
        raise Fault(
            f"only a part of a warp executes it ({machine.place(int(machine.lanes(lanes)[0]))} "
            f"among them): the matrices lie in the registers of all {size} threads, and without "
            f"those that have exited the result is undefined; let every thread of the warp come "
            f"here"
        )
    return first[:, None, None]


@cache
def a_words(rows: int, words: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Holders of A's 32-bit words, (rows, words)."""
    return fragment.a_holder(*numpy.indices((rows, words)), item_bytes=WORD_BYTES)[:2]


@cache
def b_words(words: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Holders of the 32-bit words of B of an ``mma.sync``, (8 columns, words of K)."""
    return fragment.b_holder(*numpy.indices((8, words)), item_bytes=WORD_BYTES)[:2]


@cache
def d_words(rows: int, n: int, f16: bool) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Holders of an accumulator's words: (rows, n), or (rows, n/2) for pairs of f16."""
    if not f16:
        return fragment.holder(*numpy.indices((rows, n)))
    row, pair = numpy.indices((rows, n // 2))
    return fragment.f16_holder(row, 2 * pair)[:2]
