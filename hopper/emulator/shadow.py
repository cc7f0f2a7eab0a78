"""Shared memory remembered: who accessed each piece last, and whether an access comes behind it.

For every grain (the smallest piece that an instruction of the kernel stores) the shadow keeps its
last writer and the readers since: of each warp which lanes read it last and when, and who read it
before and is not known to have. An access is a hazard unless all it conflicts with is known to
the accessing thread (``clocks``): so a race is found on schedules too on which it does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.emulator.clocks import Clocks

CHUNK = 16  # bytes that the asynchronous units move at least
WARP, WARPGROUP = 32, 128
_LANES = numpy.arange(WARP)

Report = Callable[[str, str, int], None]


@dataclass(frozen=True, slots=True)
class BulkRead:
    """A bulk store's source: bytes ``start`` to ``stop``, read by a thread's group ``count``."""

    start: int
    stop: int
    column: int
    cluster: int
    count: int
    line: int


class Shadow:
    """The shadow of a wave's shared memory.

    ``report(kind, told, lane)`` is called for a hazard. ``size``: bytes of all blocks' windows;
    ``grain``: bytes. Places are indices into those bytes.
    """

    def __init__(self, clocks: Clocks, size: int, grain: int, report: Report) -> None:
        self.clocks, self.grain, self.report = clocks, grain, report
        self.writer = numpy.full(size // grain, -1, numpy.int32)
        self.written = numpy.zeros(size // grain, numpy.int32)
        self._warps = clocks.lanes // WARP
        self._size = size
        #: Grains that are a live mbarrier.
        self.barriers = numpy.zeros(size // grain, bool)
        self._is_read = numpy.zeros(size // grain, bool)
        self._read_at = numpy.zeros((self._warps, 0), numpy.int32)
        self._read_by = numpy.zeros((self._warps, 0), numpy.uint32)
        # Of (warp, grain): lanes whose read is older than the last, and not known to the last.
        self._older: dict[tuple[int, int], dict[int, int]] = {}
        # Grains that were last written by a strong operation; and of each who read it by one since
        # its last weak write, and when.
        self._strong = numpy.zeros(size // grain, bool)
        self._any_strong = False
        self._read_strongly: dict[int, dict[int, int]] = {}
        self._operands: numpy.ndarray | None = None
        self._bulk: list[BulkRead] = []

    # ---- ordinary accesses

    def read(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int) -> None:
        """Threads read ``size`` bytes each, at ``places`` (one a lane)."""
        grains = self._grains(places, size)
        rows = lanes[:, None]
        self._tick(lanes, now)
        self._behind_write(rows, grains, "reads")
        if not self._read_at.size:
            shape = (self._warps, self.writer.size)
            self._read_at = numpy.zeros(shape, numpy.int32)
            self._read_by = numpy.zeros(shape, numpy.uint32)
        warp = rows % self.clocks.lanes // WARP
        bit = numpy.uint32(1) << (rows % WARP).astype(numpy.uint32)
        at, by = self._read_at[warp, grains], self._read_by[warp, grains]
        self._read_by[warp, grains] = bit
        if lanes.size > 1 and (self._read_by[warp, grains] != bit).any():
            # Several lanes read one grain.
            numpy.bitwise_or.at(self._read_by, (warp, grains), bit)
        self._read_at[warp, grains] = now
        self._is_read[grains] = True
        left = numpy.where((at > 0) & (at < now), by & ~self._read_by[warp, grains], 0)
        if left.any():
            self._keep(rows, grains, at, left)

    def _keep(self, rows, grains, at: numpy.ndarray, left: numpy.ndarray) -> None:
        """Remember readers (masks ``left``, at times ``at``) that newer readers do not know of."""
        for i, j in zip(*left.nonzero(), strict=True):
            lane, time = int(rows[i, 0]), int(at[i, j])
            cluster, row = lane // self.clocks.lanes, lane % self.clocks.lanes
            first = row // WARP * WARP
            known = self.clocks.known[cluster, row, first : first + WARP]
            unknown = (int(left[i, j]) >> _LANES & 1).astype(bool) & (known < time)
            if unknown.any():
                older = self._older.setdefault((first // WARP, int(grains[i, j])), {})
                older |= dict.fromkeys((first + numpy.flatnonzero(unknown)).tolist(), time)

    def write(
        self,
        lanes: numpy.ndarray,
        places: numpy.ndarray,
        size: int,
        now: int,
        by: tuple[numpy.ndarray, numpy.ndarray] | None = None,
    ) -> None:
        """Threads write ``size`` bytes each.

        ``by``: columns and counts, one a lane, where the write happens only later.
        """
        grains = self._grains(places, size)
        rows = lanes[:, None]
        self._tick(lanes, now)
        self._beside_barriers(int(lanes[0]), grains, "a thread stores to")
        self._behind_write(rows, grains, "writes")
        self._behind_reads(rows, grains, self._known, "shared-race")
        self._behind_operands(lanes, grains)
        self._behind_bulk(lanes, places, size)
        writer = rows % self.clocks.lanes if by is None else by[0][:, None]
        self.writer[grains] = writer
        self.written[grains] = now if by is None else by[1][:, None]
        self._weaken(grains)
        if lanes.size > 1 and (other := self.writer[grains] != writer).any():
            column = int(self.writer[grains][other][0])
            whose = f"thread {column}" if column < self.clocks.lanes else "another thread's copy"
            told = f"a thread writes what {whose} writes, too"
            self.report("shared-race", told, _first(rows, other))
        self._forget_reads(grains)

    def settle(
        self,
        lanes: numpy.ndarray,
        places: numpy.ndarray,
        size: int,
        now: int,
        by: tuple[numpy.ndarray, numpy.ndarray],
    ) -> None:
        """Lanes have waited for such writes: from ``now`` on they are as ordinary ones."""
        grains = self._grains(places, size)
        columns, counts = by[0][:, None], by[1][:, None]
        still = (self.writer[grains] == columns) & (self.written[grains] == counts)
        row = numpy.broadcast_to((lanes % self.clocks.lanes)[:, None], grains.shape)
        self.writer[grains[still]] = row[still]
        self.written[grains[still]] = now
        self._tick(lanes, now)

    def write_strongly(
        self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int
    ) -> None:
        """The same by strong operations: among themselves they race with nobody."""
        grains = self._grains(places, size)
        rows = lanes[:, None]
        self._tick(lanes, now)
        self._beside_barriers(int(lanes[0]), grains, "a thread stores to")
        self._behind_write(rows, grains, "writes", strong=True)
        self._behind_reads(rows, grains, self._known, "shared-race", strong=True)
        self._behind_operands(lanes, grains)
        self._behind_bulk(lanes, places, size)
        self.writer[grains] = rows % self.clocks.lanes
        self.written[grains] = now
        self._strong[grains] = self._any_strong = True
        self._forget_reads(grains)

    def read_strongly(
        self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int
    ) -> None:
        """Threads read ``size`` bytes each by strong operations."""
        grains = self._grains(places, size)
        self._tick(lanes, now)
        self._behind_write(lanes[:, None], grains, "reads", strong=True)
        for lane, some in zip(lanes.tolist(), grains.tolist(), strict=True):
            for grain in some:
                self._read_strongly.setdefault(grain, {})[lane % self.clocks.lanes] = now

    def guard(self, place: int, alive: bool) -> None:
        """An mbarrier is made at a place, or invalidated there."""
        self.barriers[self._range(place, place + 8)] = alive

    def visible(self, lanes: numpy.ndarray, places: numpy.ndarray, now: int) -> None:
        """Threads use mbarriers: there are some, and their initialisations are known."""
        grains = self._grains(places, 8)
        self._tick(lanes, now)
        writer, written = self.writer[grains], self.written[grains]
        late = self._known(lanes[:, None], writer) < written
        for at, piece in numpy.argwhere(late).tolist():
            # A fence.mbarrier_init makes it known, and nothing else of the thread's past.
            cluster = int(lanes[at]) // self.clocks.lanes
            source = self.clocks.initialises(int(writer[at, piece]))
            column = self.clocks.column(cluster, source)
            late[at, piece] = self._known(lanes[at], column) < written[at, piece]
        late |= ~self.barriers[grains]
        if late.any():
            lane = int(lanes[int(numpy.argwhere(late)[0][0])])
            self.report(
                "barrier-not-visible",
                "an mbarrier is used, and nothing orders its init before",
                lane,
            )

    # ---- asynchronous accesses

    def operand(self, lanes: numpy.ndarray, chunks: numpy.ndarray, count: int) -> None:
        """A warpgroup's wgmma reads 16-byte ``chunks``, in the group that retires as ``count``."""
        cluster, rows = self.clocks.place(lanes)
        known = self.clocks.known[cluster, rows].min(axis=0)
        fenced = self.clocks.fenced[cluster, rows].min(axis=0)
        grains = self._grains(chunks.reshape(-1) * CHUNK, CHUNK)
        self._async_behind_write(int(lanes[0]), grains, known, fenced, "a wgmma reads")
        if self._operands is None:
            shape = (self.clocks.lanes // WARPGROUP, self._size // CHUNK)
            self._operands = numpy.zeros(shape, numpy.int32)
        self._operands[int(rows[0]) // WARPGROUP, chunks] = count

    def bulk_read(self, lane: int, start: int, stop: int, count: int, source, line: int) -> None:
        """A bulk store of ``lane`` reads bytes, in its bulk group ``count``."""
        cluster, row = lane // self.clocks.lanes, lane % self.clocks.lanes
        grains = self._range(start, stop)
        known, fenced = self.clocks.known[cluster, row], self.clocks.fenced[cluster, row]
        self._async_behind_write(lane, grains, known, fenced, "a bulk store reads")
        column = self.clocks.column(cluster, source)
        self._bulk.append(BulkRead(start, stop, column, cluster, count, line))

    def remote_write(
        self, lane: int, start: int, stop: int, source, count: int, now: int, *, strong: bool
    ) -> None:
        """``lane`` starts a store to bytes (st.async) that lands as ``count`` of ``source``.

        It goes by the generic proxy. Several may go to one grain: who orders them is not looked at.
        ``strong``: a red.async.
        """
        self._tick(numpy.array([lane]), now)
        grains = self._range(start, stop)
        rows = numpy.array([[lane]])
        self._behind_reads(rows, grains[None], self._known, "shared-race", strong=strong)
        self.writer[grains] = self.clocks.column(lane // self.clocks.lanes, source)
        self.written[grains] = count
        if strong:
            self._strong[grains] = self._any_strong = True
        else:
            self._weaken(grains)

    def async_write(self, lane: int, start: int, stop: int, source, count: int, now: int) -> None:
        """``lane`` starts a copy to bytes, whose landing is ``count`` of ``source``."""
        lanes = numpy.array([lane])
        self._tick(lanes, now)
        cluster, row = lane // self.clocks.lanes, lane % self.clocks.lanes
        grains = self._range(start, stop)
        known, fenced = self.clocks.known[cluster, row], self.clocks.fenced[cluster, row]
        self._beside_barriers(lane, grains, "a copy writes to")
        self._async_behind_write(lane, grains, known, fenced, "a copy overwrites", unwritten=True)
        if self._behind_reads(lanes[:, None], grains[None], self._known, "shared-race"):
            self._behind_reads(lanes[:, None], grains[None], self._fenced, "no-proxy-fence")
        self._behind_operands(lanes, grains[None])
        self._behind_bulk(lanes, numpy.array([start]), stop - start)
        self.writer[grains] = self.clocks.column(cluster, source)
        self.written[grains] = count
        self._weaken(grains)
        self._forget_reads(grains)

    # ---- comparisons

    def _grains(self, places: numpy.ndarray, size: int) -> numpy.ndarray:
        """Grains of ``size`` bytes at each place: (places, size / grain)."""
        count = max(size // self.grain, 1)
        return places[:, None] // self.grain + numpy.arange(count)

    def _range(self, start: int, stop: int) -> numpy.ndarray:
        return numpy.arange(start // self.grain, -(-stop // self.grain))

    def _tick(self, lanes: numpy.ndarray, now: int) -> None:
        known = self.clocks.known.reshape(-1, self.clocks.known.shape[2])
        known[lanes, lanes % self.clocks.lanes] = now

    def _known(self, lanes: numpy.ndarray, columns: numpy.ndarray) -> numpy.ndarray:
        return self.clocks.known.reshape(-1, self.clocks.known.shape[2])[lanes, columns]

    def _fenced(self, lanes: numpy.ndarray, columns: numpy.ndarray) -> numpy.ndarray:
        return self.clocks.fenced.reshape(-1, self.clocks.lanes)[lanes, columns]

    def _behind_write(
        self, rows: numpy.ndarray, grains: numpy.ndarray, does: str, *, strong: bool = False
    ) -> None:
        writer, written = self.writer[grains], self.written[grains]
        if does == "reads" and (unwritten := writer < 0).any():
            self.report(
                "shared-unwritten",
                "a thread reads shared memory that holds nothing yet",
                _first(rows, unwritten),
            )
        late = self._known(rows, writer) < written
        if strong:
            late &= ~self._strong[grains]
        if late.any():
            lane, column = _first(rows, late), int(writer[late][0])
            if column >= self.clocks.lanes:
                told = f"a thread {does} shared memory that a copy under way writes"
                self.report("copy-not-arrived", told, lane)
            else:
                told = f"a thread {does} what thread {column} wrote"
                self.report("shared-race", told, lane)

    def _async_behind_write(
        self,
        lane: int,
        grains: numpy.ndarray,
        known: numpy.ndarray,
        fenced: numpy.ndarray,
        does: str,
        *,
        unwritten: bool = False,
    ) -> None:
        writer, written = self.writer[grains], self.written[grains]
        if not unwritten and (writer < 0).any():
            self.report("shared-unwritten", f"{does} shared memory that holds nothing yet", lane)
        late = (known[writer] < written) & (writer >= 0)
        if late.any():
            column = int(writer[late][0])
            if column >= self.clocks.lanes:
                self.report("copy-not-arrived", f"{does} what a copy under way writes", lane)
            else:
                self.report("shared-race", f"{does} what thread {column} wrote", lane)
            return
        ordinary = (writer >= 0) & (writer < self.clocks.lanes)
        bare = ordinary & (fenced[numpy.where(ordinary, writer, 0)] < written)
        if bare.any():
            told = f"{does} what thread {int(writer[bare][0])} wrote by an ordinary store"
            self.report("no-proxy-fence", told, lane)

    def _behind_reads(self, rows, grains, knows, kind: str, *, strong: bool = False) -> bool:
        """Whether accesses come behind all reads; reported where they do not.

        ``strong``: accesses for which strong reads do not count.
        """
        if self._read_strongly and not strong:
            for lane, grain in zip(
                numpy.broadcast_to(rows, grains.shape).flat, grains.flat, strict=True
            ):
                for row, at in self._read_strongly.get(int(grain), {}).items():
                    if int(knows(numpy.array([lane]), numpy.array([row]))[0]) < at:
                        told = f"shared memory is overwritten that thread {row} reads"
                        self.report(kind, told, int(lane))
                        return False
        if not self._is_read[grains].any():
            return True
        for warp in range(self._warps):
            at = self._read_at[warp, grains]
            if not at.any():
                continue
            known = knows(rows, warp * WARP + _LANES)
            late = at > known.min(axis=1)[:, None]
            if not late.any():
                continue
            row, _ = which = late.nonzero()
            by = self._read_by[warp, grains][which][:, None] >> _LANES.astype(numpy.uint32) & 1
            late[which] = ((known[row] < at[which][:, None]) & (by > 0)).any(axis=1)
            if late.any():
                told = f"shared memory is overwritten that a thread of warp {warp} reads"
                self.report(kind, told, _first(rows, late))
                return False
        return not self._older or self._behind_older_reads(rows, grains, knows, kind)

    def _behind_older_reads(self, rows, grains, knows, kind: str) -> bool:
        wanted = set(grains.reshape(-1).tolist())
        for (warp, grain), readers in self._older.items():
            if grain not in wanted:
                continue
            lane = rows[numpy.argwhere(grains == grain)[0][0]]
            if any(int(knows(lane, numpy.array([r]))[0]) < at for r, at in readers.items()):
                told = f"shared memory is overwritten that a thread of warp {warp} reads"
                self.report(kind, told, int(lane[0]))
                return False
        return True

    def _weaken(self, grains: numpy.ndarray) -> None:
        """The last write to grains is a weak one, behind all strong accesses."""
        if self._any_strong:
            self._strong[grains] = False
        if self._read_strongly:
            for grain in grains.flat:
                self._read_strongly.pop(int(grain), None)

    def _forget_reads(self, grains: numpy.ndarray) -> None:
        if not self._is_read[grains].any():
            return
        self._read_at[:, grains] = 0
        self._is_read[grains] = False
        if self._older:
            gone = set(grains.reshape(-1).tolist())
            self._older = {at: readers for at, readers in self._older.items() if at[1] not in gone}

    def _beside_barriers(self, lane: int, grains: numpy.ndarray, does: str) -> None:
        if self.barriers[grains].any():
            told = f"{does} the 8 bytes of an mbarrier that is in use"
            self.report("barrier-overwritten", told, lane)

    def _behind_operands(self, lanes: numpy.ndarray, grains: numpy.ndarray) -> None:
        if self._operands is None:
            return
        chunks = grains * self.grain // CHUNK
        for group in range(len(self._operands)):
            count = self._operands[group, chunks]
            if not count.any():
                continue
            columns = self.clocks.warps(int(lanes[0]) // self.clocks.lanes, group)
            known = self._known(lanes[:, None], columns)
            all_of_it = known.min(axis=1)[:, None] < count
            if not all_of_it.any():
                continue
            late = known.max(axis=1)[:, None] < count
            told = f"shared memory is overwritten that a wgmma of warpgroup {group} may read"
            if late.any():
                self.report("operand-overwritten", told, _first(lanes[:, None], late))
            else:
                told += "; not all of its warps are known to have waited"
                self.report("one-warp-release", told, _first(lanes[:, None], all_of_it))

    def _behind_bulk(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int) -> None:
        for read in self._bulk:
            hit = (places < read.stop) & (places + size > read.start)
            if hit.any():
                late = hit & (self._known(lanes, read.column) < read.count)
                if late.any():
                    told = (
                        f"shared memory is overwritten that the store of PTX line {read.line} reads"
                    )
                    self.report("store-overwritten", told, _first(lanes[:, None], late[:, None]))


def _first(rows: numpy.ndarray, bad: numpy.ndarray) -> int:
    """The lane of the first bad entry of a (lanes, pieces) array."""
    return int(rows[int(numpy.argwhere(bad)[0][0]), 0])
