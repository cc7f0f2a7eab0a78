"""Barriers of a block and of a cluster.

PTX ISA, "bar", "barrier", "barrier.cluster". A block has sixteen barriers. A warp counts as a
whole: its arrival is 32 threads once each of its living threads is there.
"""

from __future__ import annotations

import numpy

from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import Machine, Wait
from hopper.emulator.ptx import Immediate, Instruction


class BlockBarriers:
    """First version: barriers that all living threads of a block meet at."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.here = numpy.zeros((16, machine.lane_count), bool)
        machine.on_exit(self.exited)

    def sync(self, number: int, lanes: Lanes) -> None:
        """Lanes arrive, and wait until all living threads of their block have."""
        machine, here = self.machine, self.here[number]
        arrived = machine.lane[lanes]
        here[arrived] = True
        machine.running[arrived] = True
        complete = self._complete(number)[machine.block[arrived]]
        for block in numpy.unique(machine.block[arrived[~complete]]).tolist():
            mine = arrived[machine.block[arrived] == block]
            machine.park(mine, Wait(("bar", number, block), lambda b=block: self.words(number, b)))
        self._release(number)

    def exited(self, lanes: numpy.ndarray) -> None:
        """Threads that have gone are waited for no longer."""
        if self.here.any():
            self.here[:, lanes] = False
            for number in numpy.flatnonzero(self.here.any(axis=1)).tolist():
                self._release(number)

    def words(self, number: int, block: int) -> str:
        """For a deadlock report."""
        span = slice(block * self.machine.block_lanes, (block + 1) * self.machine.block_lanes)
        arrived, alive = self.here[number][span], self.machine.alive[span]
        return f"barrier {number}: {int(arrived.sum())} of {int(alive.sum())} threads have arrived"

    def _complete(self, number: int) -> numpy.ndarray:
        missing = self.machine.alive & ~self.here[number]
        return ~missing.reshape(-1, self.machine.block_lanes).any(axis=1)

    def _release(self, number: int) -> None:
        here = self.here[number].reshape(-1, self.machine.block_lanes)
        done = self._complete(number) & here.any(axis=1)
        here[done] = False
        for block in numpy.flatnonzero(done).tolist():
            self.machine.wake(("bar", number, block), advance=True)


@executes("bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync", control=True)
def sync(machine: Machine, x: Instruction) -> Step:
    """``bar.sync a``: wait for all threads of the block."""
    if len(x.operands) != 1 or not isinstance(x.operands[0], Immediate):
        raise unsupported(x, "a thread count, or a barrier number in a register")
    barriers, number = machine.unit(BlockBarriers), x.operands[0].value
    return lambda lanes: barriers.sync(number, lanes)
