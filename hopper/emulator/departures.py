"""Who leaves while others still use its memory, or while its own asynchronous work is under way.

A block's shared memory is given to another block once all of its threads have exited. Until then
every access of another block of the cluster, and every copy that reads or writes it, must be known
to be over: known to some thread of the block (``clocks``), whatever the order of this run was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.clocks import Clocks
from hopper.emulator.ptx import Instruction

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

Report = Callable[[str, str, int, Instruction | None], None]


@dataclass(frozen=True, slots=True)
class _Owed:
    """Asynchronous work on a block's memory: over when its source has done ``count``."""

    count: int
    lane: int
    index: int
    what: str


class Departures:
    """Of each block (place in the wave): accesses and asynchronous work that it must outlive."""

    def __init__(self, machine: Machine, clocks: Clocks, report: Report) -> None:
        self.machine, self.clocks, self.report = machine, clocks, report
        self._owed: dict[int, dict[Hashable, _Owed]] = {}
        # Of a block: when each thread of its cluster accessed it last, and by which instruction.
        self._touched: dict[int, tuple[numpy.ndarray, numpy.ndarray]] = {}
        self._gone: set[int] = set()

    def touched(self, lanes: numpy.ndarray, places: numpy.ndarray, *, copies: bool = False) -> None:
        """Lanes access shared memory at places, some of it maybe of other blocks.

        ``copies``: only start a copy there, which ``owes`` follows up.
        """
        machine = self.machine
        if machine.launch.cluster_size == 1:
            return
        block = places // machine.shared.window
        away = block != machine.block[lanes]
        if not away.any():
            return
        lanes, block = lanes[away], block[away]
        for one in dict.fromkeys(block.tolist()):
            mine = lanes[block == one]
            if one in self._gone:
                self._gone_already(one, int(mine[0]))
            if copies:
                continue
            if one not in self._touched:
                self._touched[one] = tuple(numpy.zeros((2, self.clocks.lanes), numpy.int64))
            when, index = self._touched[one]
            rows = mine % self.clocks.lanes
            when[rows], index[rows] = machine.steps, machine.at

    def owes(self, lane: int, place: int, source: Hashable, count: int, what: str) -> None:
        """``lane`` starts work on the memory of a place's block, that is over at ``count``."""
        block = place // self.machine.shared.window
        owed = _Owed(count, lane, self.machine.at, what)
        self._owed.setdefault(block, {})[source] = owed

    def exited(self, lanes: numpy.ndarray) -> None:
        """Threads exit. A block is gone with the last of them."""
        machine = self.machine
        for block in dict.fromkeys(machine.block[lanes].tolist()):
            span = slice(block * machine.block_lanes, (block + 1) * machine.block_lanes)
            if not machine.alive[span].any():
                self._gone.add(block)
                self._leaves(block, machine.lane[span])

    def _leaves(self, block: int, lanes: numpy.ndarray) -> None:
        if block not in self._owed and block not in self._touched:
            return
        cluster, rows = self.clocks.place(lanes)
        known = self.clocks.known[cluster, rows].max(axis=0)
        code = self.machine.kernel.code
        for source, owed in self._owed.get(block, {}).items():
            if known[self.clocks.column(cluster, source)] < owed.count:
                own = self.machine.block[owed.lane] == block
                kind = "group-never-waited" if own else "peer-gone"
                told = f"the block may end before {owed.what} is over"
                self.report(kind, told, owed.lane, code[owed.index])
        if block in self._touched:
            when, index = self._touched[block]
            late = when > known[: self.clocks.lanes]
            for at in dict.fromkeys(index[late].tolist()):
                lane = cluster * self.clocks.lanes + int(numpy.flatnonzero(late & (index == at))[0])
                self._gone_already(block, lane, code[at])

    def _gone_already(self, block: int, lane: int, x: Instruction | None = None) -> None:
        index = self.machine.launch.block_index(self.machine.blocks[block])
        told = f"shared memory of block {index} is accessed, and the block may have ended before"
        self.report("peer-gone", told, lane, x)
