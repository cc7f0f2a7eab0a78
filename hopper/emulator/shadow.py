"""Shared memory remembered: who accessed each piece last, and whether an access comes behind it.

For every grain (the smallest piece that an instruction of the kernel stores) the shadow keeps its
last writer and the readers since. An access is a hazard unless all it conflicts with is known to
the accessing thread (``clocks``): so a race is found on schedules too on which it does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.emulator.clocks import Clocks

CHUNK = 16  # bytes that the asynchronous units move at least
WARP, WARPGROUP = 32, 128
_SEVERAL = WARP  # instead of a lane: more than one of the warp has read

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
        self._read_at: numpy.ndarray | None = None
        self._read_by: numpy.ndarray | None = None
        self._operands: numpy.ndarray | None = None
        self._bulk: list[BulkRead] = []

    # ---- ordinary accesses

    def read(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int) -> None:
        """Threads read ``size`` bytes each, at ``places`` (one a lane)."""
        grains = self._grains(places, size)
        rows = lanes[:, None]
        self._tick(lanes, now)
        self._behind_write(rows, grains, "reads")
        if self._read_at is None:
            shape = (self._warps, self.writer.size)
            self._read_at = numpy.zeros(shape, numpy.int32)
            self._read_by = numpy.zeros(shape, numpy.int8)
        warp, lane = rows % self.clocks.lanes // WARP, (rows % WARP).astype(numpy.int8)
        before, by = self._read_at[warp, grains], self._read_by[warp, grains]
        mine = numpy.where((before == 0) | (by == lane), lane, numpy.int8(_SEVERAL))
        self._read_by[warp, grains] = mine
        # Two lanes of one instruction may read the same grain.
        self._read_by[warp, grains] = numpy.where(
            self._read_by[warp, grains] == mine, mine, numpy.int8(_SEVERAL)
        )
        self._read_at[warp, grains] = now

    def write(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int) -> None:
        """Threads write ``size`` bytes each."""
        grains = self._grains(places, size)
        rows = lanes[:, None]
        self._tick(lanes, now)
        self._behind_write(rows, grains, "writes")
        self._behind_reads(rows, grains, self._known, "shared-race")
        self._behind_operands(lanes, grains)
        self._behind_bulk(lanes, places, size)
        self.writer[grains] = rows % self.clocks.lanes
        self.written[grains] = now
        if self._read_at is not None:
            self._read_at[:, grains] = 0

    def mark(self, lanes: numpy.ndarray, places: numpy.ndarray, size: int, now: int) -> None:
        """Threads wrote ``size`` bytes each, in a way that raced with nobody."""
        grains = self._grains(places, size)
        self.writer[grains] = lanes[:, None] % self.clocks.lanes
        self.written[grains] = now

    def visible(self, lanes: numpy.ndarray, places: numpy.ndarray, now: int) -> None:
        """Threads use mbarriers: what was written there last, their initialisation, is known."""
        grains = self._grains(places, 8)
        self._tick(lanes, now)
        writer, written = self.writer[grains], self.written[grains]
        late = self._known(lanes[:, None], writer) < written
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

    def remote_write(self, lane: int, start: int, stop: int, source, count: int, now: int) -> None:
        """``lane`` starts a store to bytes (st.async) that lands as ``count`` of ``source``.

        It goes by the generic proxy. Several may go to one grain: who orders them is not looked at.
        """
        self._tick(numpy.array([lane]), now)
        grains = self._range(start, stop)
        self._behind_reads(numpy.array([[lane]]), grains[None], self._known, "shared-race")
        self.writer[grains] = self.clocks.column(lane // self.clocks.lanes, source)
        self.written[grains] = count

    def async_write(self, lane: int, start: int, stop: int, source, count: int, now: int) -> None:
        """``lane`` starts a copy to bytes, whose landing is ``count`` of ``source``."""
        lanes = numpy.array([lane])
        self._tick(lanes, now)
        cluster, row = lane // self.clocks.lanes, lane % self.clocks.lanes
        grains = self._range(start, stop)
        known, fenced = self.clocks.known[cluster, row], self.clocks.fenced[cluster, row]
        self._async_behind_write(lane, grains, known, fenced, "a copy overwrites", unwritten=True)
        self._behind_reads(lanes[:, None], grains[None], self._known, "shared-race")
        self._behind_reads(lanes[:, None], grains[None], self._fenced, "no-proxy-fence")
        self._behind_operands(lanes, grains[None])
        self._behind_bulk(lanes, numpy.array([start]), stop - start)
        self.writer[grains] = self.clocks.column(cluster, source)
        self.written[grains] = count
        if self._read_at is not None:
            self._read_at[:, grains] = 0

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

    def _behind_write(self, rows: numpy.ndarray, grains: numpy.ndarray, does: str) -> None:
        writer, written = self.writer[grains], self.written[grains]
        if does == "reads" and (unwritten := writer < 0).any():
            self.report(
                "shared-unwritten",
                "a thread reads shared memory that holds nothing yet",
                _first(rows, unwritten),
            )
        late = self._known(rows, writer) < written
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

    def _behind_reads(self, rows, grains, knows, kind: str) -> None:
        if self._read_at is None:
            return
        for warp in range(self._warps):
            at = self._read_at[warp, grains]
            if not at.any():
                continue
            by = self._read_by[warp, grains].astype(numpy.int64)
            first = warp * WARP
            exact = knows(rows, first + numpy.minimum(by, WARP - 1))
            all_of_it = knows(rows, first + numpy.arange(WARP)).min(axis=1)[:, None]
            late = (at > 0) & (numpy.where(by == _SEVERAL, all_of_it, exact) < at)
            if late.any():
                told = f"shared memory is overwritten that a thread of warp {warp} reads"
                self.report(kind, told, _first(rows, late))
                return

    def _behind_operands(self, lanes: numpy.ndarray, grains: numpy.ndarray) -> None:
        if self._operands is None:
            return
        chunks = grains * self.grain // CHUNK
        for group in range(len(self._operands)):
            count = self._operands[group, chunks]
            if not count.any():
                continue
            cluster = int(lanes[0]) // self.clocks.lanes
            column = self.clocks.column(cluster, ("wgmma", group))
            late = self._known(lanes[:, None], column) < count
            if late.any():
                told = f"shared memory is overwritten that a wgmma of warpgroup {group} may read"
                self.report("operand-overwritten", told, _first(lanes[:, None], late))

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
