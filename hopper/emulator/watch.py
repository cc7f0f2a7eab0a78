"""The watch over a run: units tell it what happens, and it reports rules that were broken.

It holds the clocks of the wave's threads, the shadow of its shared memory and the watch over
accumulators, and translates between the units' words (lanes, places) and theirs. It changes no
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.clocks import Clocks, Knowledge
from hopper.emulator.departures import Departures
from hopper.emulator.hazards import Hazards
from hopper.emulator.instructions import Lanes, Step
from hopper.emulator.launch_watch import LaunchWatch
from hopper.emulator.ptx import Immediate, Instruction, Kernel
from hopper.emulator.register_watch import RegisterWatch
from hopper.emulator.shadow import CHUNK, WARP, WARPGROUP, Shadow
from hopper.emulator.types import is_type, width

if TYPE_CHECKING:
    from hopper.emulator.locate import Pieces
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
        self.departures = Departures(machine, self.clocks, self._report)
        self.launches = LaunchWatch(machine, self.clocks, self._report)
        machine.on_exit(self.departures.exited)
        # Of each mbarrier: who announced bytes last, the bytes it lacks, copies on their way to it.
        self._announced: dict[int, tuple[Instruction, int]] = {}
        self._lacks: dict[int, int] = {}
        self._under_way: dict[int, int] = {}
        # cp.async under way: lanes, places, bytes, and by which columns and counts they are known.
        self._copying: list[tuple] = []
        self._arrived: dict[int, Knowledge] = {}
        self._released: dict[int, Knowledge] = {}
        self._phases: dict[int, int] = {}
        # Of a lane and whether the scope is wide: what its last fence released. Of a lane: what its
        # relaxed waits saw, for a fence to acquire.
        self._fenced: dict[tuple[int, bool], Knowledge] = {}
        self._seen: dict[int, Knowledge] = {}
        self._initialised: set[int] = set()
        self._updates: dict[int, Knowledge] = {}

    @property
    def now(self) -> int:
        """The time of the clocks."""
        return self.machine.steps

    def around(self, x: Instruction, step: Step) -> Step:
        """The step of an instruction, with what is looked at before it is taken."""
        return self.launches.around(x, self.registers.around(x, step))

    # ---- ordinary accesses to shared memory

    def loaded(self, lanes: Lanes, pieces: Pieces, size: int) -> None:
        """Lanes load ``size`` bytes each, from wherever ``locate`` found their addresses."""
        for memory, places, which in pieces:
            if memory is self.machine.shared:
                self.read(self.machine.lane[lanes][which], places, size)

    def stored(self, lanes: Lanes, pieces: Pieces, size: int) -> None:
        """Lanes store ``size`` bytes each."""
        for memory, places, which in pieces:
            if memory is self.machine.shared:
                self.write(self.machine.lane[lanes][which], places, size)

    def loaded_strongly(self, lanes: Lanes, pieces: Pieces, size: int) -> None:
        """A load that is volatile, relaxed or acquires: no race with operations like it.

        It learns from the last of these that stored there.
        """
        for memory, places, which in pieces:
            if memory is self.machine.shared:
                mine = self.machine.lane[lanes][which]
                self.departures.touched(mine, places)
                self.shadow.read_strongly(mine, places, size, self.now)
                for lane, place in zip(mine.tolist(), places.tolist(), strict=True):
                    if place in self._updates:
                        self.acquired(numpy.array([lane]), self._updates[place])

    def stored_strongly(self, lanes: Lanes, pieces: Pieces, size: int) -> None:
        """A store that is volatile, relaxed or releases."""
        for memory, places, which in pieces:
            if memory is self.machine.shared:
                self.updated(self.machine.lane[lanes][which], places, size)

    def updated(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int) -> None:
        """Lanes update shared memory atomically or strongly: among themselves that is no race.

        Who does so after another at the same place is taken to know what that one knew: a lock or a
        flag that threads build of such operations is not looked into.
        """
        self.shadow.write_strongly(lanes, places, size, self.now)
        self.departures.touched(lanes, places)
        for lane, place in zip(lanes.tolist(), places.tolist(), strict=True):
            one = numpy.array([lane])
            if place in self._updates:
                self.acquired(one, self._updates[place])
            self._updates[place] = self.released(one, self._updates.get(place))

    def rows(
        self, first: numpy.ndarray, pieces: numpy.ndarray, access: Callable[..., None]
    ) -> None:
        """Warps access rows of matrices: lane i of each brought the address of row i.

        ``first``: first lane of each warp; ``pieces``: indices of 16-byte pieces, (warps, rows).
        """
        rows = pieces.reshape(first.size, -1)
        lanes = first.reshape(-1, 1) + numpy.arange(rows.shape[1])
        access(lanes.reshape(-1), rows.reshape(-1) * CHUNK, CHUNK)

    def read(self, lanes: Lanes, places: numpy.ndarray, size: int) -> None:
        """Lanes load ``size`` bytes each, from ``places`` of ``shared.bytes``."""
        lanes = self.machine.lane[lanes]
        self.departures.touched(lanes, places)
        self.shadow.read(lanes, places, size, self.now)

    def write(self, lanes: Lanes, places: numpy.ndarray, size: int) -> None:
        """Lanes store ``size`` bytes each."""
        lanes = self.machine.lane[lanes]
        self.departures.touched(lanes, places)
        self.shadow.write(lanes, places, size, self.now)

    def copying(
        self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, groups: numpy.ndarray
    ) -> None:
        """Lanes start a ``cp.async`` each, in the group of theirs of this number."""
        columns = numpy.array([self._copies_of(lane) for lane in lanes.tolist()])
        by = columns, groups + 1
        self.departures.touched(lanes, places)
        self.shadow.write(lanes, places, size, self.now, by)
        self._copying.append((lanes, places, size, by))

    def copied(self, lanes: numpy.ndarray, limit: numpy.ndarray) -> None:
        """Lanes have waited for their ``cp.async`` of groups below ``limit`` (one a lane)."""
        before = numpy.zeros(self.machine.lane_count, numpy.int64)
        before[lanes] = limit
        kept = []
        for who, places, size, (columns, counts) in self._copying:
            done = counts <= before[who]
            if done.any():
                by = columns[done], counts[done]
                self.shadow.settle(who[done], places[done], size, self.now, by)
            if not done.all():
                left = ~done
                kept.append((who[left], places[left], size, (columns[left], counts[left])))
        self._copying = kept

    def fence_proxy(self, lanes: Lanes) -> None:
        """``fence.proxy.async``: what lanes know of comes before asynchronous accesses."""
        for some in self._by_cluster(self.machine.lane[lanes]):
            self.clocks.fence_proxy(some, self.now)

    def fence_memory(self, lanes: Lanes, *, wide: bool, releases: bool, acquires: bool) -> None:
        """A memory fence: a relaxed arrival behind it releases what was known at the fence.

        ``wide``: of the cluster or more, else of the block. ``acquires``: and what relaxed waits
        before it saw is known from now on.
        """
        for lane in self.machine.lane[lanes].tolist():
            one = numpy.array([lane])
            if acquires and lane in self._seen:
                self.acquired(one, self._seen.pop(lane))
            if releases:
                known = self.released(one)
                self._fenced[lane, False] = known
                if wide:
                    self._fenced[lane, True] = known

    def fence_initialisations(self, lanes: Lanes) -> None:
        """``fence.mbarrier_init``: lanes make their initialisations known, and nothing else."""
        for lane in self.machine.lane[lanes].tolist():
            if lane in self._initialised:
                self.clocks.tick(numpy.array([lane]), self.now)
                self.clocks.learn(
                    numpy.array([lane]),
                    self.clocks.initialises(lane % self.cluster_lanes),
                    self.now,
                )

    # ---- threads that meet

    def met(self, lanes: numpy.ndarray) -> None:
        """Lanes of one cluster have waited for each other."""
        self.acquired(lanes, self.released(lanes))

    def blocks_met(self, blocks: range) -> None:
        """All lanes of each block have waited for each other."""
        size = self.machine.block_lanes
        for block in blocks:
            self.met(self.machine.lane[block * size : (block + 1) * size])

    def released(
        self,
        lanes: numpy.ndarray,
        into: Knowledge | None = None,
        *,
        relaxed: bool = False,
        wide: bool = True,
    ) -> Knowledge:
        """What lanes of one cluster know, added to what others released.

        ``relaxed``: only what a fence before released, and which asynchronous units are done.
        ``wide``: by an operation of cluster scope; a fence of the block is not enough for it.
        """
        into = into or self.clocks.nothing()
        if not relaxed:
            self.clocks.release(lanes, self.now, into)
            return into
        self.clocks.release_done(lanes, into)
        for lane in lanes.tolist():
            if (lane, wide) in self._fenced:
                known = self._fenced[lane, wide]
                into.add(known.known, known.fenced)
        return into

    def acquired(self, lanes: numpy.ndarray, known: Knowledge) -> None:
        """Lanes of one cluster come to know what was released."""
        self.clocks.acquire(lanes, known)

    def arrived(
        self, lanes: numpy.ndarray, places: numpy.ndarray, *, relaxed: bool, wide: bool = True
    ) -> None:
        """Threads arrive at mbarriers and release what they know."""
        self.used(lanes, places)
        for place in dict.fromkeys(places.tolist()):
            mine = lanes[places == place]
            self._arrived[place] = self.released(
                mine, self._arrived.get(place), relaxed=relaxed, wide=wide
            )

    def phase(self, place: int, completed: int) -> None:
        """A phase of an mbarrier completes: who waits for it learns what was released."""
        released = self._released.setdefault(place, self.clocks.nothing())
        arrived = self._arrived.pop(place, None)
        if arrived:
            released.add(arrived.known, arrived.fenced)
        column = self.clocks.column(self._cluster_of(place), ("mbarrier", place))
        if column >= released.known.size:
            released.add(self.clocks.nothing().known, released.fenced)
        released.known[column] = completed
        self._phases[place] = completed
        if self._under_way.get(place):
            told = "a phase completes while a copy that reports to its mbarrier is under way"
            self._report_announced(place, told)

    def waited(
        self, lanes: numpy.ndarray, places: numpy.ndarray, done: numpy.ndarray, *, relaxed: bool
    ) -> None:
        """Lanes ask whether phases of mbarriers have completed: ``done`` says which had.

        ``relaxed``: they learn nothing by it, unless a fence follows.
        """
        self.used(lanes, places)
        lanes, places = lanes[done], places[done]
        for place in dict.fromkeys(places.tolist()):
            if place not in self._released:
                continue
            known = self._released[place]
            if not relaxed:
                self.clocks.acquire(lanes[places == place], known)
                continue
            for lane in lanes[places == place].tolist():
                seen = self._seen.setdefault(lane, self.clocks.nothing())
                seen.add(known.known, known.fenced)

    def initialised(self, lane: int, place: int, *, alive: bool = True) -> None:
        """A thread initialises (or invalidates) an mbarrier: a write to its 8 bytes."""
        self._initialised.add(lane)
        if not alive:
            self.shadow.guard(place, False)
        self.shadow.write(numpy.array([lane]), numpy.array([place]), 8, self.now)
        self.shadow.guard(place, alive)
        for held in (self._arrived, self._released, self._phases, self._announced, self._lacks):
            held.pop(place, None)

    def used(self, lanes: numpy.ndarray, places: numpy.ndarray) -> None:
        """Lanes use mbarriers: are their initialisations visible to them?"""
        self.departures.touched(lanes, places)
        self.shadow.visible(lanes, places, self.now)

    # ---- bytes that mbarriers wait for

    def announced(self, lanes: numpy.ndarray, places: numpy.ndarray) -> None:
        """Lanes tell mbarriers of bytes to come (``expect_tx``)."""
        x = self.machine.kernel.code[self.machine.at]
        for lane, place in zip(lanes.tolist(), places.tolist(), strict=True):
            self._announced[place] = (x, lane)

    def counted(self, place: int, lacks: int) -> None:
        """An mbarrier counts bytes: ``lacks`` of them are missing now."""
        self._lacks[place] = lacks

    def landed(self, place: int) -> None:
        """A copy has landed and is about to tell its mbarrier."""
        self._under_way[place] -= 1

    def announcer(self, place: int) -> tuple[Instruction | None, int | None]:
        """Who announced bytes at an mbarrier last: the instruction, and the lane."""
        return self._announced.get(place, (None, None))

    def ended(self) -> None:
        """The kernel is over: no mbarrier that copies reported to may lack bytes."""
        for place in self._under_way:
            if lacks := self._lacks.get(place):
                told = f"the kernel ends, and {lacks} bytes of a phase have not come"
                if lacks < 0:
                    told = f"the kernel ends, and {-lacks} bytes have come that nobody announced"
                self._report_announced(place, told)

    # ---- asynchronous units

    def issued(
        self, x: Instruction, warpgroup: int, chunks: Sequence[numpy.ndarray], count: int
    ) -> None:
        """A warpgroup issues a wgmma of the group that retires as ``count``.

        ``chunks``: the 16-byte pieces of shared memory that its operands are.
        """
        span = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        self.registers.issue(x, span, count)
        place = int(self.machine.block[span][0]) * self.machine.shared.window
        group = warpgroup % (self.cluster_lanes // WARPGROUP)
        for warp in range(WARPGROUP // WARP):
            lane = warpgroup * WARPGROUP + warp * WARP
            self.departures.owes(lane, place, ("wgmma", group, warp), count, "a wgmma")
        for pieces in chunks:
            self.shadow.operand(self.machine.lane[span], pieces, count)

    def retired(self, warpgroup: int, count: int) -> None:
        """Each warp of a warpgroup has waited: its groups up to ``count`` have retired."""
        span = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
        self.registers.retire(span, count)
        columns = self.clocks.warps(*divmod(warpgroup, self.cluster_lanes // WARPGROUP))
        self.clocks.learn_columns(self.machine.lane[span], columns.repeat(WARP), count)

    def placed(self, lane: int, address: int, atom: int) -> None:
        """A lane names a swizzled tile that starts at a shared address. ``atom``: bytes."""
        if address % atom:
            told = f"a tile starts at shared address {address:#x}, not on a multiple of {atom}"
            self._report("swizzle-unaligned", told, lane)

    def copy_in(self, lane: int, start: int, stop: int, barrier: int) -> None:
        """A copy to shared memory starts; it lands before the mbarrier's phase is complete."""
        one, at = numpy.array([lane]), numpy.array([barrier])
        self.used(one, at)
        source, phase = ("mbarrier", barrier), self._phase_of(barrier) + 1
        cluster, row = divmod(lane, self.cluster_lanes)
        column = self.clocks.column(cluster, source)  # first: it may widen ``known``
        if self.clocks.known[cluster, row, column] < phase - 1:
            told = "a phase may complete before a copy that reports to its mbarrier has started"
            self._report_announced(barrier, told)
        self._under_way[barrier] = self._under_way.get(barrier, 0) + 1
        self.departures.touched(one, numpy.array([start]), copies=True)
        self.departures.owes(lane, barrier, source, phase, "a copy into its shared memory")
        self.shadow.async_write(lane, start, stop, source, phase, self.now)

    def stored_remotely(self, lane: int, start: int, stop: int, barrier: int) -> None:
        """``st.async`` or ``red.async`` starts; it lands before the phase is complete."""
        self.used(numpy.array([lane]), numpy.array([barrier]))
        source, phase = ("mbarrier", barrier), self._phase_of(barrier) + 1
        self.departures.owes(lane, barrier, source, phase, "a store into its shared memory")
        strong = self.machine.kernel.code[self.machine.at].has("relaxed")
        self.shadow.remote_write(lane, start, stop, source, phase, self.now, strong=strong)

    def copy_from_peer(self, lane: int, start: int, stop: int, barrier: int) -> None:
        """Such a copy also reads shared memory, until the same phase is complete."""
        source, phase = ("mbarrier", barrier), self._phase_of(barrier) + 1
        line = self.machine.kernel.code[self.machine.at].line
        self.departures.owes(lane, start, source, phase, "a copy out of its shared memory")
        self.shadow.bulk_read(lane, start, stop, phase, source, line)

    def copy_out(self, lane: int, start: int, stop: int, count: int, line: int) -> None:
        """A copy from shared memory starts, of the bulk group that completes as ``count``."""
        source = ("bulk", lane % self.cluster_lanes)
        self.departures.owes(lane, start, source, count, "a copy out of its shared memory")
        self.shadow.bulk_read(lane, start, stop, count, source, line)

    def copied_out(self, lane: int, count: int) -> None:
        """A thread knows that the sources of its bulk groups up to ``count`` have been read."""
        self.clocks.learn(numpy.array([lane]), ("bulk", lane % self.cluster_lanes), count)

    # ---- inside

    def _copies_of(self, lane: int) -> int:
        cluster, row = divmod(lane, self.cluster_lanes)
        return self.clocks.column(cluster, ("cp.async", row))

    def _phase_of(self, barrier: int) -> int:
        return self._phases.get(barrier, 0)

    def _cluster_of(self, place: int) -> int:
        block = place // self.machine.shared.window
        return block // self.machine.launch.cluster_size

    def _by_cluster(self, lanes: numpy.ndarray) -> list[numpy.ndarray]:
        cluster = lanes // self.cluster_lanes
        if cluster[0] == cluster[-1]:
            return [lanes]
        return [lanes[cluster == one] for one in numpy.unique(cluster)]

    def _report_announced(self, place: int, told: str) -> None:
        """An mbarrier's bytes are wrong: tell of who announced them, if anybody did."""
        x, lane = self.announcer(place)
        if x is None:
            x, lane = self.machine.kernel.code[self.machine.at], 0
        self._report("expect-tx", told, lane, x)

    def _report(self, kind: str, told: str, lane: int, x: Instruction | None = None) -> None:
        x = x or self.machine.kernel.code[self.machine.at]
        if (kind, x.line) not in self.hazards.found:
            self.machine.event("hazard", lane, hazard=kind, found_at=x.line)
        self.hazards.report(kind, told, x, lambda: self.machine.place(lane))


def grain_of(kernel: Kernel) -> int:
    """Bytes of the smallest ordinary access to shared memory that a kernel makes, 16 at most.

    An mbarrier is an object of 8 bytes, and the next one may lie beside it.
    """
    smallest = CHUNK
    for x in kernel.code:
        if x.parts[0] == "mbarrier":
            smallest = min(smallest, 8)
        shared = any(part.startswith("shared") for part in x.parts)
        generic = not any(part in ("global", "local", "param", "const") for part in x.parts)
        if x.parts[:2] == ("cp", "async") and shared and len(x.operands) > 2:
            # cp.async names its size as an operand, and ends with the space it reads.
            size = x.operands[2]
            smallest = min(smallest, size.value if isinstance(size, Immediate) else CHUNK)
        elif x.parts[0] in _ACCESSES and (shared or generic) and is_type(x.parts[-1]):
            smallest = min(smallest, width(x.parts[-1]) // 8)
    return smallest
