"""The watch over launches that overlap: who touches global memory while the launch before may run.

CUDA C++ Programming Guide, programmatic dependent launch, and PTX ISA, griddepcontrol: a kernel so
launched may begin before the one in front of it in the stream has ended. What that one wrote is
there behind ``griddepcontrol.wait``: of the thread itself, or of one of its cluster whose wait
comes before (``clocks``). What it reads must not be overwritten earlier either.

One launch is run, and nothing is known of those before it, so every access is reported that is in
front of a wait, also to memory that no other launch writes. Looked at are instructions that name
``.global``: not generic addresses, and not ``discard``. A wait in another cluster does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.clocks import Clocks
from hopper.emulator.instructions import Lanes, Step
from hopper.emulator.ptx import Instruction, Kernel

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

_ACCESSES = ("ld", "ldu", "st", "atom", "red", "cp")
_NEVER = numpy.iinfo(numpy.int32).max

Report = Callable[[str, str, int], None]


class LaunchWatch:
    """Of each thread: when it waited for the launch before. ``report(kind, told, lane)``."""

    def __init__(self, machine: Machine, clocks: Clocks, report: Report) -> None:
        self.machine, self.clocks, self.report = machine, clocks, report
        clusters = machine.lane_count // clocks.lanes
        self._overlaps = overlaps(machine.kernel)
        self._waited = numpy.full((clusters, clocks.lanes), _NEVER, numpy.int32)

    def around(self, x: Instruction, step: Step) -> Step:
        """The step of an instruction, looked at if it accesses global memory."""
        if not self._overlaps or not accesses_global(x):
            return step

        def access(lanes: Lanes) -> None:
            self._accessed(self.machine.lane[lanes])
            step(lanes)

        return access

    def waited(self, lanes: Lanes) -> None:
        """``griddepcontrol.wait``."""
        cluster, row = numpy.divmod(self.machine.lane[lanes], self.clocks.lanes)
        self._waited[cluster, row] = numpy.minimum(self._waited[cluster, row], self.machine.steps)

    def _accessed(self, lanes: numpy.ndarray) -> None:
        cluster, row = numpy.divmod(lanes, self.clocks.lanes)
        waited = self._waited[cluster]
        known = self.clocks.known[cluster, row, : self.clocks.lanes]
        behind = (known >= waited).any(axis=1) | (self._waited[cluster, row] < _NEVER)
        if not behind.all():
            told = "global memory is accessed while the launch before this one may still run"
            self.report("launch-not-waited", told, int(lanes[~behind][0]))


def overlaps(kernel: Kernel) -> bool:
    """Whether a launch of the kernel may begin before the last one has ended: it says so."""
    return any(x.parts[0] == "griddepcontrol" for x in kernel.code)


def accesses_global(x: Instruction) -> bool:
    """Whether an instruction reads or writes global memory, and names it."""
    return x.parts[0] in _ACCESSES and x.has("global") and not x.has("prefetch")
