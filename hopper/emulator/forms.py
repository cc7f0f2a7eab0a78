"""Written forms of instructions: a pattern states what is legal, and names what varies.

The PTX ISA writes ``add{.rnd}{.ftz}{.sat}.f32``; a builder states the same as a regular expression
of the opcode, and gets the groups that matched::

    @form(r"add(?P<sat>\\.sat)?\\.(?P<type>s32)")
    def add(machine: Machine, x: Instruction, how: Form) -> Step: ...

An opcode that no pattern of its mnemonic matches is refused: ptxas refuses it too, or the emulator
does not execute it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.ptx import Instruction

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

#: The groups of the pattern that matched: "" for an optional part that is absent.
Form = dict[str, str]
FormBuilder = Callable[["Machine", Instruction, Form], Step]

_FORMS: dict[str, list[tuple[re.Pattern[str], FormBuilder]]] = {}


def form(*patterns: str) -> Callable[[FormBuilder], FormBuilder]:
    """Enter a builder for the opcodes that one of these regular expressions matches whole.

    A pattern starts with the mnemonic, in plain letters: "mul" of ``mul.wide.s32``.
    """

    def enter(build: FormBuilder) -> FormBuilder:
        for pattern in patterns:
            mnemonic = re.match(r"\w+", pattern)[0]
            if mnemonic not in _FORMS:
                _FORMS[mnemonic] = []
                executes(mnemonic)(by_form)
            _FORMS[mnemonic].append((re.compile(pattern), build))
        return build

    return enter


def form_builders() -> list[tuple[FormBuilder, list[str]]]:
    """Every builder of written forms with its mnemonics, sorted by the first of them."""
    by_builder: dict[FormBuilder, list[str]] = {}
    for mnemonic in sorted(_FORMS):
        for _, build in _FORMS[mnemonic]:
            if mnemonic not in by_builder.setdefault(build, []):
                by_builder[build].append(mnemonic)
    return list(by_builder.items())


@cache
def _find(opcode: str) -> tuple[FormBuilder, Form] | None:
    for pattern, build in _FORMS[opcode.partition(".")[0]]:
        found = pattern.fullmatch(opcode)
        if found:
            return build, {name: text or "" for name, text in found.groupdict().items()}
    return None


def by_form(machine: Machine, x: Instruction) -> Step:
    """An instruction whose written form says what it does."""
    found = _find(x.opcode)
    if found is None:
        raise unsupported(
            x,
            f"{x.opcode} is no form of {x.parts[0]} that the emulator executes: ptxas refuses it "
            f"for sm_90a, or hopper.emulator leaves it out",
        )
    build, how = found
    return build(machine, x, how)


def expect(x: Instruction, *counts: int) -> None:
    """Raise Unsupported unless the instruction has one of these numbers of operands."""
    if len(x.operands) not in counts:
        wanted = " or ".join(str(count) for count in counts)
        raise unsupported(x, f"{x.opcode} takes {wanted} operands and has {len(x.operands)}")


def elementwise(
    machine: Machine,
    x: Instruction,
    function: Callable[..., numpy.ndarray],
    result: str,
    sources: Sequence[str],
) -> Step:
    """A step that computes ``function`` of the sources, lane by lane.

    ``result``, ``sources``: PTX types of the first operand and of those behind it. The function
    gets one NumPy array (or scalar, for a constant) a source and returns values of ``result``, or
    wider integers, of which the low bits are kept.
    """
    expect(x, 1 + len(sources))
    put = machine.write(x.operands[0], result)
    reads = [
        machine.read(operand, kind) for operand, kind in zip(x.operands[1:], sources, strict=True)
    ]
    return apply(put, function, reads)


def apply(put, function: Callable[..., numpy.ndarray], reads: Sequence) -> Step:
    """``put(lanes, function(read(lanes), …))`` without a loop over the operands."""
    if len(reads) == 1:
        (a,) = reads

        def one(lanes: Lanes) -> None:
            put(lanes, function(a(lanes)))

        return one
    if len(reads) == 2:
        a, b = reads

        def two(lanes: Lanes) -> None:
            put(lanes, function(a(lanes), b(lanes)))

        return two
    if len(reads) == 3:
        a, b, c = reads

        def three(lanes: Lanes) -> None:
            put(lanes, function(a(lanes), b(lanes), c(lanes)))

        return three

    def many(lanes: Lanes) -> None:
        put(lanes, function(*[read(lanes) for read in reads]))

    return many
