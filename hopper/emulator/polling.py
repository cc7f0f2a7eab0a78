"""Loops that wait by looking: they change nothing, and end when somebody else changes memory."""

from collections.abc import Sequence

from hopper.emulator.ptx import Immediate, Instruction, Not, Register
from hopper.emulator.register_watch import registers_in


def only_looks(body: Sequence[Instruction]) -> bool:
    """Whether a lap of a loop can be repeated, and does the same until memory changes.

    ``body``: its instructions, less the jump that closes it. They are loads and comparisons, and
    none of them depends on the lap before: what one reads of a register that the body writes was
    written earlier in the same lap. So a loop that counts, follows pointers or reads a clock is
    none, and neither is one with a guard or a jump inside.
    """
    if any(x.parts[0] not in ("ld", "setp") or x.guard for x in body):
        return False
    written = {one for x in body for one in registers_in(x.operands[0])}
    known: set[Register] = set()
    for x in body:
        for operand in x.operands[1:]:
            if x.parts[0] == "setp" and not isinstance(operand, Register | Immediate | Not):
                return False  # a special register may be a clock
            if any(one in written and one not in known for one in registers_in(operand)):
                return False
        known.update(registers_in(x.operands[0]))
    return True
