"""mbarrier: objects in shared memory that count arrivals and bytes, phase by phase.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import Machine, Wait
from hopper.emulator.ptx import Instruction, Sink

MAX_COUNT = (1 << 20) - 1


@dataclass(slots=True)
class _Barrier:
    """``count``: arrivals a phase; ``pending``: still missing; ``tx``: bytes still missing."""

    count: int
    pending: int
    tx: int = 0
    phase: int = 0


class Mbarriers:
    """All mbarriers of a wave. ``place``: index of a barrier's first byte in ``shared.bytes``."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.objects: dict[int, _Barrier] = {}
        # Parity of the phase that runs, -1 where no barrier is: one entry for each 8 bytes.
        self.parity = numpy.full(machine.shared.bytes.size // 8, -1, numpy.int8)

    def init(self, place: int, count: int) -> None:
        """Start a barrier that completes a phase after ``count`` arrivals."""
        if not 1 <= count <= MAX_COUNT:
            raise Fault(f"mbarrier.init with count {count}: a count is 1 to {MAX_COUNT}")
        self.objects[place] = _Barrier(count, count)
        self.parity[place >> 3] = 0

    def expect_tx(self, place: int, bytes: int) -> None:
        """The phase also waits for ``bytes`` more bytes."""
        self._change(place, 0, bytes)

    def complete_tx(self, place: int, bytes: int) -> None:
        """``bytes`` bytes have landed."""
        self._change(place, 0, -bytes)

    def arrive(self, place: int, count: int = 1) -> None:
        """``count`` arrivals."""
        self._change(place, count, 0)

    def words(self, place: int, parity: int) -> str:
        """For a deadlock report."""
        barrier = self.objects[place]
        return (
            f"mbarrier at {self.address(place):#x}, phase of parity {parity}: "
            f"{barrier.pending} of {barrier.count} arrivals and {barrier.tx} bytes are missing"
        )

    def address(self, place: int) -> int:
        """Shared address of a place, in its own block."""
        return place % self.machine.shared.window

    def _change(self, place: int, arrivals: int, tx: int) -> None:
        barrier = self.objects.get(place)
        if barrier is None:
            raise Fault(
                f"no mbarrier at shared address {self.address(place):#x}: it was never "
                f"initialised; execute mbarrier.init, then make it visible"
            )
        if arrivals > barrier.pending:
            raise Fault(
                f"{arrivals} arrivals at the mbarrier at {self.address(place):#x}, whose phase "
                f"waits for {barrier.pending} of {barrier.count}; initialise it with more"
            )
        barrier.pending -= arrivals
        barrier.tx += tx
        if barrier.pending == 0 and barrier.tx == 0:
            barrier.phase += 1
            barrier.pending = barrier.count
            self.parity[place >> 3] = barrier.phase & 1
            self.machine.event("mbarrier.phase", address=self.address(place), phase=barrier.phase)
            self.machine.wake(("mbarrier", place))


def _places(machine: Machine, x: Instruction, position: int):
    """Places of an address operand, as a function of the lanes."""
    address = machine.address(x.operands[position])

    def places(lanes: Lanes) -> numpy.ndarray:
        return machine.shared_bytes_at(machine.lane[lanes], address(lanes), 8)

    return places


@executes("mbarrier.init")
def init(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.init [addr], count``."""
    barriers, places = machine.unit(Mbarriers), _places(machine, x, 0)
    count = machine.read(x.operands[1], "u32")

    def step(lanes: Lanes) -> None:
        for place, n in zip(
            places(lanes).tolist(), machine.each(count, lanes).tolist(), strict=True
        ):
            barriers.init(place, n)

    return step


@executes("mbarrier.arrive.expect_tx")
def arrive_expect_tx(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.arrive.expect_tx _, [addr], bytes``: more bytes to wait for, then an arrival."""
    if not isinstance(x.operands[0], Sink):
        raise unsupported(x, "the state that it returns")
    barriers, places = machine.unit(Mbarriers), _places(machine, x, 1)
    count = machine.read(x.operands[2], "u32")

    def step(lanes: Lanes) -> None:
        for place, n in zip(
            places(lanes).tolist(), machine.each(count, lanes).tolist(), strict=True
        ):
            barriers.expect_tx(place, n)
            barriers.arrive(place)

    return step


@executes("mbarrier.try_wait.parity", control=True)
def try_wait_parity(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.try_wait.parity p, [addr], parity``: wait until that phase has completed."""
    barriers, places = machine.unit(Mbarriers), _places(machine, x, 1)
    parity, put = machine.read(x.operands[2], "u32"), machine.write(x.operands[0], "pred")

    def step(lanes: Lanes) -> None:
        at = places(lanes)
        now = barriers.parity[at >> 3]
        if now.min() < 0:
            raise Fault("mbarrier.try_wait where no mbarrier was initialised")
        wanted = machine.each(parity, lanes)
        done = now != wanted
        if done.all():
            put(lanes, done)
            return
        number = machine.lane[lanes]
        put(number[done], True)
        for place in numpy.unique(at[~done]).tolist():
            mine = ~done & (at == place)
            said = int(wanted[mine][0])
            machine.park(
                number[mine],
                Wait(("mbarrier", place), lambda p=place, s=said: barriers.words(p, s)),
            )

    return step
