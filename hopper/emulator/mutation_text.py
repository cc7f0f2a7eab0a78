"""An instruction's text changed: other operands, another opcode, something computed before it."""

from __future__ import annotations

import re

from hopper.emulator.ptx import Immediate, Instruction, Pair


def rewritten(
    x: Instruction,
    operands: dict[int, str] | None = None,
    *,
    opcode: str | None = None,
    before: str = "",
) -> str:
    """The instruction with operands or opcode replaced. ``before``: statements that compute them.

    They stand in a scope of their own, so that its register ``mutant`` is nobody else's.
    """
    written = words(x)
    for place, text in (operands or {}).items():
        written[place] = text
    guard = x.text[: x.text.index(x.opcode)]
    new = f"{guard}{opcode or x.opcode} {', '.join(written)}"
    return f"{{ {before} {new}; }}" if before else new


def words(x: Instruction) -> list[str]:
    """The operands as they are written."""
    text = x.text[x.text.index(x.opcode) + len(x.opcode) :]
    found = re.findall(r"(?:\{[^{}]*\}|\[(?:[^\[\]{}]|\{[^{}]*\})*\]|[^,{}\[\]])+", text)
    return [word.strip() for word in found if word.strip()]


def computed(x: Instruction, place: int, kind: str, how: str) -> str:
    """The instruction with one operand replaced by ``how`` of it: "add.u32 {}, 1"."""
    statement = how.replace("{}", f"mutant, {words(x)[place]}", 1)
    return rewritten(x, {place: "mutant"}, before=f".reg .{kind} mutant; {statement};")


def added(x: Instruction, place: int, amount: int) -> str:
    """The instruction with a number added to one operand."""
    operand = x.operands[place]
    if isinstance(operand, Immediate):
        return rewritten(x, {place: str(operand.value + amount)})
    return computed(x, place, "b32", f"add.s32 {{}}, {amount}")


def moved(x: Instruction, place: int, amount: int) -> str:
    """The instruction with the address of one operand moved by bytes."""
    found = re.fullmatch(r"\[([^+\]]+)(?:\+\s*(-?\d+))?\]", words(x)[place])
    return rewritten(x, {place: f"[{found[1].strip()}+{int(found[2] or 0) + amount}]"})


def predicate(x: Instruction, place: int, holds: bool) -> str:
    """The instruction with a constant instead of a predicate."""
    before = f".reg .pred mutant; setp.{'eq' if holds else 'ne'}.u32 mutant, 0, 0;"
    return rewritten(x, {place: "mutant"}, before=before)


def answered(x: Instruction, place: int, holds: bool = True) -> str:
    """Instead of the instruction its predicate set to a constant."""
    guard = x.text[: x.text.index(x.opcode)]
    operand = x.operands[place]
    name = (operand.second if isinstance(operand, Pair) else operand).name
    return f"{guard}setp.{'eq' if holds else 'ne'}.u32 {name}, 0, 0"


def doubled(x: Instruction) -> str:
    """The instruction twice."""
    return f"{x.text}; {x.text}"
