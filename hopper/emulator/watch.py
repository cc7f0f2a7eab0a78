"""The watch over a run: units tell it what happens, and it reports rules that were broken.

It holds the clocks of the wave's threads, the shadow of its shared memory and the watch over
accumulators, and translates between the units' words (lanes, places) and theirs. It changes no
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.clocks import Clocks, Knowledge
from hopper.emulator.hazards import Hazards
from hopper.emulator.instructions import Lanes
from hopper.emulator.ptx import Instruction, Kernel
from hopper.emulator.register_watch import RegisterWatch
from hopper.emulator.shadow import CHUNK, WARPGROUP, Shadow
from hopper.emulator.types import is_type, width

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_ACCESSES = ("ld", "st", "atom", "red", "cp", "ldu")


class Watch:
    """The watch of one wave. Every method is called by a unit as the thing happens."""

    def __init__(self, machine: Machine, hazards: Hazards) -> None:
        self.machine, self.hazards = machine, hazards
        self.cluster_lanes = machine.block_lanes * machine.launch.cluster_size
        self.clocks = Clocks(machine.lane_count // self.cluster_lanes, self.cluster_lanes)
        size = machine.shared.bytes.size
        self.shadow = Shadow(self.clocks, size, grain_of(machine.kernel), self._report)
        self.registers = RegisterWatch(
            machine.kernel, machine.lane_count, self._report, lambda: machine.steps
        )
        self._arrived: dict[int, Knowledge] = {}
        self._released: dict[int, Knowledge] = {}

    @property
    def now(self) -> int:
        """The time of the clocks."""
        return self.machine.steps

    # ---- ordinary accesses to shared memory

    def read(self, lanes: Lanes, places: numpy.ndarray, size: int) -> None:
        """Lanes load ``size`` bytes each, from ``places`` of ``shared.bytes``."""
        self.shadow.read(self.machine.lane[lanes], places, size, self.now)

    def write(self, lanes: Lanes, places: numpy.ndarray, size: int) -> None:
        """Lanes store ``size`` bytes each."""
        self.shadow.write(self.machine.lane[lanes], places, size, self.now)

    def fence_proxy(self, lanes: Lanes) -> None:
        """``fence.proxy.async``: what lanes know of comes before asynchronous accesses."""
        for some in self._by_cluster(self.machine.lane[lanes]):
            self.clocks.fence_proxy(some, self.now)

    # ---- threads that meet

    def meet(self, arrived: numpy.ndarray, waiting: numpy.ndarray) -> None:
        """A barrier opens: ``waiting`` lanes know what ``arrived`` ones knew. One cluster."""
        known = self.clocks.nothing()
        self.clocks.release(arrived, self.now, known)
        self.clocks.acquire(waiting, known)

    def arrive(self, lane: int, place: int) -> None:
        """A thread arrives at the mbarrier at ``place`` and releases what it knows."""
        self.clocks.release(numpy.array([lane]), self.now, self._of(self._arrived, place))

    def phase(self, place: int, completed: int) -> None:
        """A phase of an mbarrier completes: who waits for it learns what was released."""
        released = self._of(self._released, place)
        arrived = self._arrived.pop(place, None)
        if arrived:
            released.add(arrived.known, arrived.fenced)
        column = self.clocks.column(self._cluster_of(place), ("mbarrier", place))
        if column >= released.known.size:
            released.add(self.clocks.nothing().known, released.fenced)
        released.known[column] = completed

    def passed(self, lanes: numpy.ndarray, places: numpy.ndarray) -> None:
        """Lanes have waited for mbarriers, successfully."""
        for place in dict.fromkeys(places.tolist()):
            if place in self._released:
                self.clocks.acquire(lanes[places == place], self._released[place])

    def initialised(self, lane: int, place: int) -> None:
        """A thread initialises (or invalidates) an mbarrier: a write to its 8 bytes."""
        self.shadow.write(numpy.array([lane]), numpy.array([place]), 8, self.now)
        self._arrived.pop(place, None)
        self._released.pop(place, None)

    def used(self, lanes: numpy.ndarray, places: numpy.ndarray) -> None:
        """Lanes use mbarriers: are their initialisations visible to them?"""
        self.shadow.visible(lanes, places, self.now)

    # ---- asynchronous units

    def issued(
        self, x: Instruction, warpgroup: int, chunks: Sequence[numpy.ndarray], count: int
    ) -> None:
        """A warpgroup issues a wgmma of the group that retires as ``count``.

        ``chunks``: the 16-byte pieces of shared memory that its operands are.
        """
        span = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        self.registers.issue(x, span, count)
        for pieces in chunks:
            self.shadow.operand(self.machine.lane[span], pieces, count)

    def retired(self, warpgroup: int, count: int) -> None:
        """A warpgroup has waited: its groups up to ``count`` have retired."""
        span = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        self.registers.retire(span, count)
        in_cluster = warpgroup % (self.cluster_lanes // WARPGROUP)
        self.clocks.learn(self.machine.lane[span], ("wgmma", in_cluster), count)

    def copy_in(self, lane: int, start: int, stop: int, barrier: int, phase: int) -> None:
        """A copy to shared memory starts; it lands before ``phase`` of the mbarrier is complete."""
        self.shadow.async_write(lane, start, stop, ("mbarrier", barrier), phase, self.now)

    def copy_out(self, lane: int, start: int, stop: int, count: int, line: int) -> None:
        """A copy from shared memory starts, of the bulk group that completes as ``count``."""
        source = ("bulk", lane % self.cluster_lanes)
        self.shadow.bulk_read(lane, start, stop, count, source, line)

    def copied_out(self, lane: int, count: int) -> None:
        """A thread knows that the sources of its bulk groups up to ``count`` have been read."""
        self.clocks.learn(numpy.array([lane]), ("bulk", lane % self.cluster_lanes), count)

    # ---- inside

    def _of(self, held: dict[int, Knowledge], place: int) -> Knowledge:
        if place not in held:
            held[place] = self.clocks.nothing()
        return held[place]

    def _cluster_of(self, place: int) -> int:
        block = place // self.machine.shared.window
        return block // self.machine.launch.cluster_size

    def _by_cluster(self, lanes: numpy.ndarray) -> list[numpy.ndarray]:
        cluster = lanes // self.cluster_lanes
        if cluster[0] == cluster[-1]:
            return [lanes]
        return [lanes[cluster == one] for one in numpy.unique(cluster)]

    def _report(self, kind: str, told: str, lane: int) -> None:
        x = self.machine.kernel.code[self.machine.at]
        source = str(x.source) if x.source else ""
        self.hazards.report(kind, told, x.line, source, lambda: self.machine.place(lane))


def grain_of(kernel: Kernel) -> int:
    """Bytes of the smallest ordinary access to shared memory that a kernel makes, 16 at most."""
    smallest = CHUNK
    for x in kernel.code:
        shared = any(part.startswith("shared") for part in x.parts)
        generic = not any(part in ("global", "local", "param", "const") for part in x.parts)
        if x.parts[0] in _ACCESSES and (shared or generic) and is_type(x.parts[-1]):
            smallest = min(smallest, width(x.parts[-1]) // 8)
    return smallest
