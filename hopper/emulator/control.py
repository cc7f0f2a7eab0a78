"""Ending a thread, and instructions without an effect on results."""

from __future__ import annotations

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import Instruction


@executes("ret", "exit", control=True)
def leave(machine: Machine, x: Instruction) -> Step:
    """The thread ends. Kernels have no caller to return to."""
    return machine.exit


@executes("trap", "brkpt", control=True)
def trap(machine: Machine, x: Instruction) -> Step:
    """The kernel stops with an error, as on the GPU."""

    def step(lanes: Lanes) -> None:
        raise Fault(
            f"{x.opcode}: the kernel stopped itself ({machine.place(int(machine.lanes(lanes)[0]))})"
        )

    return step


@executes("pragma", "prefetch", "prefetchu", "applypriority", "discard", "createpolicy")
def hint(machine: Machine, x: Instruction) -> Step:
    """A hint to caches: nothing to compute."""
    return lambda lanes: None


@executes("nanosleep", control=True)
def sleep(machine: Machine, x: Instruction) -> Step:
    """Let others run."""
    return lambda lanes: None
