"""The barrier of a cluster: ``barrier.cluster.arrive`` and ``barrier.cluster.wait``.

PTX ISA, "barrier.cluster". Every thread of the cluster arrives and then waits, in turn; a thread
that has exited is not waited for. The barrier's phases need no initialisation.
"""

from __future__ import annotations

from functools import partial

import numpy

from hopper.emulator.clocks import Knowledge
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine, Wait
from hopper.emulator.ptx import Instruction

_NOWHERE = -1


class ClusterBarriers:
    """One barrier a cluster of the wave."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lanes = machine.block_lanes * machine.launch.cluster_size
        self.cluster = machine.lane // self.lanes
        clusters = machine.lane_count // self.lanes
        self.living = machine.alive.reshape(clusters, -1).sum(axis=1)
        self.arrived = numpy.zeros(clusters, numpy.int64)
        self.phase = numpy.zeros(clusters, numpy.int64)
        # Phase in which a thread has arrived and not yet waited.
        self.owes = numpy.full(machine.lane_count, _NOWHERE)
        # What the watch gathers of those that arrived, and what it gathered in the phase before.
        self._gathered: dict[int, Knowledge] = {}
        self._known: dict[int, Knowledge] = {}
        machine.on_exit(self._exited)

    def arrive(self, lanes: Lanes, relaxed: bool = False) -> None:
        """Threads arrive. Raises Fault for one that has not waited since it last arrived."""
        number = self.machine.lane[lanes]
        twice = self.owes[number] != _NOWHERE
        if twice.any():
            raise Fault(
                f"barrier.cluster.arrive by a thread that has arrived and not waited since "
                f"({self.machine.place(int(number[twice.argmax()]))}): each arrive is followed by "
                f"a wait of the same thread"
            )
        cluster = self.cluster[number]
        self.owes[number] = self.phase[cluster]
        if self.machine.watch:
            for one in dict.fromkeys(cluster.tolist()):
                self._gathered[one] = self.machine.watch.released(
                    number[cluster == one], self._gathered.get(one), relaxed=relaxed
                )
        self.arrived += numpy.bincount(cluster, minlength=self.arrived.size)
        self._complete()

    def wait(self, lanes: Lanes) -> None:
        """Threads wait for the phase in which they arrived. Raises Fault for one that did not."""
        number = self.machine.lane[lanes]
        owes = self.owes[number]
        missed = owes == _NOWHERE
        if missed.any():
            raise Fault(
                f"barrier.cluster.wait by a thread that has not arrived "
                f"({self.machine.place(int(number[missed.argmax()]))}); execute "
                f"barrier.cluster.arrive first"
            )
        cluster = self.cluster[number]
        done = owes < self.phase[cluster]
        self.owes[number[done]] = _NOWHERE
        if self.machine.watch:
            for one in dict.fromkeys(cluster[done].tolist()):
                self.machine.watch.acquired(number[done & (cluster == one)], self._known[one])
        for one in dict.fromkeys(cluster[~done].tolist()):
            wait = Wait(("cluster", one), partial(self._words, one))
            self.machine.park(number[~done & (cluster == one)], wait)

    def _complete(self) -> None:
        for one in numpy.flatnonzero((self.arrived == self.living) & (self.arrived > 0)).tolist():
            self.phase[one] += 1
            self.arrived[one] = 0
            key = ("cluster", one)
            waiting = self.machine.parked(key)
            self.owes[waiting] = _NOWHERE
            if self.machine.watch:
                self._known[one] = self._gathered.pop(one)
                if waiting.size:
                    self.machine.watch.acquired(waiting, self._known[one])
            self.machine.wake(key, advance=True)
            self.machine.event("cluster.phase", cluster=one, phase=int(self.phase[one]) - 1)

    def _exited(self, lanes: numpy.ndarray) -> None:
        cluster = self.cluster[lanes]
        here = self.owes[lanes] == self.phase[cluster]
        size = self.arrived.size
        self.living -= numpy.bincount(cluster, minlength=size)
        self.arrived -= numpy.bincount(cluster[here], minlength=size)
        self._complete()

    def _words(self, one: int) -> str:
        machine = self.machine
        span = numpy.arange(one * self.lanes, (one + 1) * self.lanes)
        absent = span[machine.alive[span] & (self.owes[span] != self.phase[one])]
        warps = dict.fromkeys((absent // WARP * WARP).tolist())
        names = [machine.place(lane).rsplit(",", 1)[0] for lane in warps]
        more = f" … and {len(names) - 4} warps more" if len(names) > 4 else ""
        return (
            f"cluster barrier: {int(self.arrived[one])} of {int(self.living[one])} threads have "
            f"arrived; not yet: {'; '.join(names[:4])}{more}"
        )


def _checked(x: Instruction, semantics: tuple[str, ...]) -> None:
    rest = [part for part in x.parts[3:] if part != "aligned"]
    if len(rest) > 1 or not set(rest) <= set(semantics) or x.operands:
        raise unsupported(x, f"{'.'.join(x.parts[:3])} has {', '.join(semantics)} and aligned")


@executes("barrier.cluster.arrive")
def arrive(machine: Machine, x: Instruction) -> Step:
    """``barrier.cluster.arrive``: each thread on its own."""
    _checked(x, ("release", "relaxed"))
    barriers, relaxed = machine.unit(ClusterBarriers), x.has("relaxed")
    return lambda lanes: barriers.arrive(lanes, relaxed)


@executes(
    "barrier.cluster.arrive.aligned",
    "barrier.cluster.arrive.release.aligned",
    "barrier.cluster.arrive.relaxed.aligned",
    together=WARP,
)
def arrive_aligned(machine: Machine, x: Instruction) -> Step:
    """``barrier.cluster.arrive.aligned``: all threads of a warp as one."""
    return arrive(machine, x)


@executes("barrier.cluster.wait", control=True)
def wait(machine: Machine, x: Instruction) -> Step:
    """``barrier.cluster.wait``: until every thread of the cluster has arrived."""
    _checked(x, ("acquire",))
    return machine.unit(ClusterBarriers).wait


@executes(
    "barrier.cluster.wait.aligned",
    "barrier.cluster.wait.acquire.aligned",
    control=True,
    together=WARP,
)
def wait_aligned(machine: Machine, x: Instruction) -> Step:
    """``barrier.cluster.wait.aligned``: all threads of a warp as one."""
    return wait(machine, x)
