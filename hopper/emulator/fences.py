"""Fences: they order memory accesses and change no value (PTX ISA, "membar / fence")."""

from __future__ import annotations

from hopper.emulator.instructions import Step, executes
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import Instruction


@executes("fence", "membar")
def fence(machine: Machine, x: Instruction) -> Step:
    """The emulator performs accesses in program order: nothing is left to order."""
    return lambda lanes: None
