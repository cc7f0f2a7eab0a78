"""Which module executes which instruction: each unit enters its own here.

A builder turns an instruction into a step, once a launch; the step is called with the lanes that
execute it, many times::

    @executes("shl")
    def shl(machine: Machine, x: Instruction) -> Step:
        a, count = machine.read(x.operands[1], x.parts[-1]), machine.read(x.operands[2], "u32")
        put = machine.write(x.operands[0], x.parts[-1])

        def step(lanes: Lanes) -> None:
            put(lanes, …)

        return step
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.errors import Unsupported
from hopper.emulator.ptx import Instruction

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

#: Lanes (threads of the wave) as an index into an array with one entry a lane.
Lanes = slice | numpy.ndarray
Step = Callable[[Lanes], None]
Builder = Callable[["Machine", Instruction], Step]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one kind of instruction is executed.

    ``control``: the step may park lanes or set their program counters. ``together``: threads that
    execute it as one, 32 (a warp) or 128 (a warpgroup), 0 for each on its own; the step is called
    with whole groups only. ``mask``: operand that holds the mask of participating lanes, if any.
    """

    build: Builder
    control: bool = False
    together: int = 0
    mask: int | None = None


_RULES: dict[str, Rule] = {}


def executes(*opcodes: str, control: bool = False, together: int = 0, mask: int | None = None):
    """Enter a builder for opcodes that start with one of these dotted names."""

    def enter(build: Builder) -> Builder:
        for opcode in opcodes:
            if opcode in _RULES:
                raise ValueError(f"{opcode} has two builders")
            _RULES[opcode] = Rule(build, control, together, mask)
        return build

    return enter


def rule_of(x: Instruction) -> Rule:
    """The rule with the longest dotted name that the opcode starts with.

    Raises Unsupported, naming the line, where there is none.
    """
    for length in range(len(x.parts), 0, -1):
        found = _RULES.get(".".join(x.parts[:length]))
        if found:
            return found
    raise Unsupported(
        f"PTX line {x.line}: {x.text[:120]}: the emulator does not execute {x.opcode}; it never "
        f"guesses. Instructions it knows: docs/emulator"
    )


def unsupported(x: Instruction, why: str) -> Unsupported:
    """The error for a form of a known instruction that is not executed, or is illegal."""
    return Unsupported(f"PTX line {x.line}: {x.text[:120]}: {why}")


def builders() -> list[tuple[Builder, list[str]]]:
    """Every builder with the opcodes it was entered for, sorted by the first of them."""
    by_builder: dict[Builder, list[str]] = {}
    for opcode in sorted(_RULES):
        by_builder.setdefault(_RULES[opcode].build, []).append(opcode)
    return list(by_builder.items())
