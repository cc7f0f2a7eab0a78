"""The parts of an opcode, read in the order in which the PTX ISA lists them."""

from __future__ import annotations

from hopper.emulator.instructions import unsupported
from hopper.emulator.ptx import Instruction

SCOPES = ("cta", "cluster", "gpu", "sys")


def slots(x: Instruction, first: int, *choices: tuple[str, ...]) -> list[str]:
    """Assign the parts of an opcode from ``first`` on to slots, each filled at most once.

    ``choices``: the words of each slot, in order. Returns a word a slot, "" for one left empty.
    Raises Unsupported naming the first part that fits none.
    """
    found, at = [], first
    for words in choices:
        if at < len(x.parts) and x.parts[at] in words:
            found.append(x.parts[at])
            at += 1
        else:
            found.append("")
    if at < len(x.parts):
        raise unsupported(x, f".{x.parts[at]} is unknown there, or stands in the wrong place")
    return found
