"""Comparisons: ``setp`` and ``set`` (PTX ISA, "Comparison and Selection Instructions").

An ordered comparison with NaN is false; one whose name ends in ``u`` is true. ``lo``, ``ls``,
``hi`` and ``hs`` are unsigned names of ``lt``, ``le``, ``gt`` and ``ge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, apply, expect, form
from hopper.emulator.instructions import Lanes, Step
from hopper.emulator.ptx import Instruction, Pair

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

BOOL = r"(?:\.(?P<bool>and|or|xor))?"
_ORDERED = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
    "lo": numpy.less,
    "ls": numpy.less_equal,
    "hi": numpy.greater,
    "hs": numpy.greater_equal,
}
_COMBINE = {"and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}
_INTEGER = (
    r"(?P<compare>eq|ne)" + BOOL + r"\.(?P<type>[bus](?:16|32|64))",
    r"(?P<compare>lt|le|gt|ge)" + BOOL + r"\.(?P<type>[us](?:16|32|64))",
    r"(?P<compare>lo|ls|hi|hs)" + BOOL + r"\.(?P<type>u(?:16|32|64))",
)


@form(*(r"setp\." + pattern for pattern in _INTEGER))
def setp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``p = (a ? b) op c``, and ``q = !(a ? b) op c``."""
    return predicates(machine, x, _ORDERED[how["compare"]], how["type"], how["bool"])


def predicates(machine: Machine, x: Instruction, compare, kind: str, combine: str) -> Step:
    """The step of a ``setp`` whose comparison is ``compare`` of two values of ``kind``."""
    expect(x, 4 if combine else 3)
    to, *sources = x.operands
    reads = [machine.read(operand, kind) for operand in sources[:2]]
    if combine:
        reads.append(machine.read(sources[2], "pred"))
        join = _COMBINE[combine]
    if not isinstance(to, Pair):
        put = machine.write(to, "pred")
        if not combine:
            return apply(put, compare, reads)
        return apply(put, lambda a, b, c: join(compare(a, b), c), reads)
    puts = machine.write(to.first, "pred"), machine.write(to.second, "pred")

    def both(lanes: Lanes) -> None:
        holds = compare(reads[0](lanes), reads[1](lanes))
        fails = ~holds
        if combine:
            c = reads[2](lanes)
            holds, fails = join(holds, c), join(fails, c)
        puts[0](lanes, holds)
        puts[1](lanes, fails)

    return both
