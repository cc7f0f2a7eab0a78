"""Who knows of whose past: vector clocks of a wave's threads.

Time is the machine's count of steps. ``known[t, s]`` is the latest time up to which everything that
``s`` did happens before what thread ``t`` does now. A thread releases what it knows at a barrier or
an mbarrier, and acquires what others released there; so knowledge travels as it does on the GPU.

Besides the threads there are asynchronous sources: a warp's wgmmas, the phases of an mbarrier
that bytes are reported to, the bulk groups of a thread. Their time is a count of their own (retired
groups, completed phases), and a column tells up to which one a thread knows that they are done.

Across proxies knowledge alone is not enough: ``fenced[t, s]`` is up to what time ``s``'s ordinary
accesses come before asynchronous ones of ``t``, because a ``fence.proxy.async`` stood in between.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy

_SPARE = 32  # columns added at a time


@dataclass(slots=True)
class Knowledge:
    """What was released somewhere: a row of ``known``, one of ``fenced``; empty at first."""

    known: numpy.ndarray
    fenced: numpy.ndarray

    def add(self, known: numpy.ndarray, fenced: numpy.ndarray) -> None:
        """Join with rows of the same cluster."""
        if known.size > self.known.size:
            self.known = _widened(self.known, known.size)
        numpy.maximum(self.known[: known.size], known, out=self.known[: known.size])
        numpy.maximum(self.fenced, fenced, out=self.fenced)


class Clocks:
    """Clocks of all clusters of a wave. ``lanes``: threads of a cluster, padding included."""

    def __init__(self, clusters: int, lanes: int) -> None:
        self.lanes = lanes
        self.known = numpy.zeros((clusters, lanes, lanes + _SPARE), numpy.int32)
        self.fenced = numpy.zeros((clusters, lanes, lanes), numpy.int32)
        self._columns: list[dict[Hashable, int]] = [{} for _ in range(clusters)]

    def column(self, cluster: int, source: Hashable) -> int:
        """The column of an asynchronous source, made when first asked for."""
        columns = self._columns[cluster]
        if source not in columns:
            columns[source] = self.lanes + len(columns)
            if columns[source] >= self.known.shape[2]:
                self.known = _widened(self.known, self.known.shape[2] + _SPARE)
        return columns[source]

    @staticmethod
    def initialises(row: int) -> Hashable:
        """The source that a thread's fenced initialisations of mbarriers are; counts are times."""
        return ("mbarrier.init", row)

    def place(self, lanes: numpy.ndarray) -> tuple[int, numpy.ndarray]:
        """Cluster of lanes that all lie in one, and their rows in it."""
        cluster = int(lanes[0]) // self.lanes
        return cluster, lanes - cluster * self.lanes

    def nothing(self) -> Knowledge:
        """Knowledge of nothing, to which releases are added."""
        return Knowledge(
            numpy.zeros(self.known.shape[2], numpy.int32), numpy.zeros(self.lanes, numpy.int32)
        )

    def tick(self, lanes: numpy.ndarray, now: int) -> None:
        """Lanes know of their own past up to ``now``."""
        cluster, rows = self.place(lanes)
        self.known[cluster, rows, rows] = now

    def release(self, lanes: numpy.ndarray, now: int, into: Knowledge) -> None:
        """Add what lanes of one cluster know at ``now``, their own past included."""
        self.tick(lanes, now)
        cluster, rows = self.place(lanes)
        into.add(self.known[cluster, rows].max(axis=0), self.fenced[cluster, rows].max(axis=0))

    def release_done(self, lanes: numpy.ndarray, into: Knowledge) -> None:
        """Add only which asynchronous sources lanes know to be done."""
        cluster, rows = self.place(lanes)
        known = self.known[cluster, rows].max(axis=0)
        known[: self.lanes] = 0
        into.add(known, numpy.zeros(self.lanes, numpy.int32))

    def acquire(self, lanes: numpy.ndarray, what: Knowledge) -> None:
        """Lanes of one cluster come to know what was released."""
        cluster, rows = self.place(lanes)
        width = what.known.size
        if width > self.known.shape[2]:
            self.known = _widened(self.known, width)
        known = self.known[cluster, rows]
        numpy.maximum(known[:, :width], what.known, out=known[:, :width])
        self.known[cluster, rows] = known
        self.fenced[cluster, rows] = numpy.maximum(self.fenced[cluster, rows], what.fenced)

    def fence_proxy(self, lanes: numpy.ndarray, now: int) -> None:
        """What each lane knows, its own past included, comes before asynchronous accesses."""
        self.tick(lanes, now)
        cluster, rows = self.place(lanes)
        self.fenced[cluster, rows] = numpy.maximum(
            self.fenced[cluster, rows], self.known[cluster, rows, : self.lanes]
        )

    def learn(self, lanes: numpy.ndarray, source: Hashable, count: int) -> None:
        """Lanes of one cluster know that an asynchronous source has done ``count``."""
        self.learn_columns(lanes, self.column(int(lanes[0]) // self.lanes, source), count)

    def learn_columns(self, lanes: numpy.ndarray, columns: int | numpy.ndarray, count: int) -> None:
        """The same by columns: one for all lanes, or one a lane."""
        cluster, rows = self.place(lanes)
        known = self.known[cluster]
        known[rows, columns] = numpy.maximum(known[rows, columns], count)

    def warps(self, cluster: int, warpgroup: int) -> numpy.ndarray:
        """Columns of the four warps of a warpgroup: each knows of its own wgmmas that they retired.

        ``warpgroup``: in the cluster.
        """
        return numpy.array([self.column(cluster, ("wgmma", warpgroup, warp)) for warp in range(4)])


def _widened(array: numpy.ndarray, width: int) -> numpy.ndarray:
    wider = numpy.zeros((*array.shape[:-1], width), array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
