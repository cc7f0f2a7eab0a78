"""The parts of an opcode, each sorted into the slot that it fills.

The PTX ISA lists the parts of ``ld.relaxed.gpu.global.v2.u32`` in one order; ptxas takes them in
any, and so does this.
"""

from __future__ import annotations

from hopper.emulator.instructions import unsupported
from hopper.emulator.ptx import Address, Instruction, Operand, Vector

SCOPES = ("cta", "cluster", "gpu", "sys")
CACHE_HINT = "L2::cache_hint"


def slots(x: Instruction, first: int, **words: tuple[str, ...]) -> dict[str, str]:
    """The word of each slot among the parts from ``first`` on, "" for a slot left empty.

    ``words``: what may fill each slot. Raises Unsupported for a part that fits none, or fills a
    slot again.
    """
    found = dict.fromkeys(words, "")
    for part in x.parts[first:]:
        slot = next((slot for slot, allowed in words.items() if part in allowed), None)
        if slot is None:
            raise unsupported(x, f"sm_90a knows no .{part} there")
        if found[slot]:
            raise unsupported(x, f".{part} beside .{found[slot]}: one of them at most")
        found[slot] = part
    return found


def expect(x: Instruction, count: int, hint: str = "") -> None:
    """Raise Unsupported unless there are ``count`` operands, one more under .L2::cache_hint."""
    count += bool(hint)
    if len(x.operands) != count:
        raise unsupported(
            x,
            f"it takes {count} operands and has {len(x.operands)}; a cache policy comes with "
            f".{CACHE_HINT}, and only with it",
        )


def address_at(x: Instruction, position: int) -> Address:
    """The operand ``[…]`` at a position; raises Unsupported where something else stands."""
    operand = x.operands[position]
    if not isinstance(operand, Address) or operand.coordinates is not None:
        raise unsupported(x, f"operand {position + 1} is no address")
    return operand


def elements(x: Instruction, operand: Operand, vector: str) -> tuple[Operand, ...]:
    """The operands of a vector ("v2", "v4", "v8"), or the one of a scalar ("")."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != int(vector[1:] or 1) or isinstance(operand, Vector) != bool(vector):
        raise unsupported(x, f"{len(items)} registers for {vector or 'a scalar'}")
    return items
