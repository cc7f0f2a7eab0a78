"""Comparisons: ``setp`` and ``set`` (PTX ISA, "Comparison and Selection Instructions").

An ordered comparison with NaN is false; one whose name ends in ``u`` is true. ``lo``, ``ls``,
``hi`` and ``hs`` are unsigned names of ``lt``, ``le``, ``gt`` and ``ge``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.forms import Form, apply, expect, form
from hopper.emulator.halves import LEAST_F16, read_halves, values_of, write_halves
from hopper.emulator.instructions import Lanes, Step, unsupported
from hopper.emulator.ptx import Instruction, Pair
from hopper.emulator.rounding import flush

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
_OPPOSITE = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}
_FLOATS = ("f16", "bf16", "f32", "f64")
_COMBINE = {"and": numpy.bitwise_and, "or": numpy.bitwise_or, "xor": numpy.bitwise_xor}
_INTEGER = (
    rf"(?P<compare>eq|ne){BOOL}%s\.(?P<type>[bus](?:16|32|64))",
    rf"(?P<compare>lt|le|gt|ge){BOOL}%s\.(?P<type>[us](?:16|32|64))",
    rf"(?P<compare>lo|ls|hi|hs){BOOL}%s\.(?P<type>u(?:16|32|64))",
)
_NAMES = r"(?P<compare>eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)"
_FLOAT = _NAMES + BOOL
_BF16 = r"\.(?P<to>bf16)"
# ptxas takes .ftz in front of the Boolean operator and behind it.
_FLUSHED = rf"{_NAMES}(?P<early>\.ftz)?{BOOL}(?P<ftz>\.ftz)?"


def _patterns(name: str, result: str, floats: tuple[str, ...]) -> list[str]:
    """Patterns of ``name``. ``result`` matches its own type; ``floats``: what it compares."""
    whole = [rf"{name}\." + pattern % result for pattern in _INTEGER]
    kinds = {"f32": _FLUSHED, "f64": _FLOAT, "f16": _FLUSHED, "bf16": _FLOAT}
    return whole + [rf"{name}\.{kinds[kind]}{result}\.(?P<type>{kind})" for kind in floats]


@form(*_patterns("setp", "", ("f32", "f64", "f16", "bf16")))
def setp(machine: Machine, x: Instruction, how: Form) -> Step:
    """``p = (a ? b) op c``, and ``q = !(a ? b) op c``."""
    combine = how["bool"]
    expect(x, 4 if combine else 3)
    to, *sources = x.operands
    reads = _reads(machine, sources, how)
    compare = comparison(how)
    join = _COMBINE.get(combine)
    if not isinstance(to, Pair):
        put = machine.write(to, "pred")
        if not combine:
            return apply(put, compare, reads)
        return apply(put, lambda a, b, c: join(compare(a, b), c), reads)
    if how["type"] in ("f16", "bf16"):
        raise unsupported(x, "a half is compared into one predicate")
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


@form(
    rf"setp\.{_FLUSHED}\.(?P<type>f16)(?P<pair>x2)", rf"setp\.{_FLOAT}\.(?P<type>bf16)(?P<pair>x2)"
)
def setp_pair(machine: Machine, x: Instruction, how: Form) -> Step:
    """``p``: the low halves compared, ``q``: the high ones; each combined with ``c``."""
    combine = how["bool"]
    expect(x, 4 if combine else 3)
    to, *sources = x.operands
    if not isinstance(to, Pair):
        raise unsupported(x, "a pair is compared into two predicates, p|q")
    reads = _reads(machine, sources, how)
    compare, join = comparison(how), _COMBINE.get(combine)
    puts = machine.write(to.first, "pred"), machine.write(to.second, "pred")

    def step(lanes: Lanes) -> None:
        holds = compare(reads[0](lanes), reads[1](lanes))
        halves = holds[0::2], holds[1::2]
        if combine:
            c = reads[2](lanes)
            halves = join(halves[0], c), join(halves[1], c)
        puts[0](lanes, halves[0])
        puts[1](lanes, halves[1])

    return step


@form(
    *_patterns("set", r"\.(?P<to>u32|s32)", ("f32", "f64", "f16", "bf16")),
    *_patterns("set", r"\.(?P<to>f32)", ("f32", "f64")),
    *_patterns("set", r"\.(?P<to>f16)", ("f32", "f64", "f16")),
    *(rf"set\.{pattern % _BF16}" for pattern in _INTEGER),
    rf"set\.{_FLOAT}{_BF16}\.(?P<type>f32|f64|f16|bf16)",
    rf"set\.{_FLUSHED}\.(?P<to>u16|s16)\.(?P<type>f16)",
    rf"set\.{_FLOAT}\.(?P<to>u16|s16)\.(?P<type>bf16)",
    rf"set\.{_FLUSHED}\.(?P<to>u32|s32|f16x2)\.(?P<type>f16)(?P<pair>x2)",
    rf"set\.{_FLOAT}\.(?P<to>u32|s32|bf16x2)\.(?P<type>bf16)(?P<pair>x2)",
)
def set_(machine: Machine, x: Instruction, how: Form) -> Step:
    """All ones (or 1.0, for a float) where the comparison holds, else 0; halves each their own."""
    combine, pair, to = how["bool"], bool(how.get("pair")), how["to"]
    expect(x, 4 if combine else 3)
    reads = _reads(machine, x.operands[1:], how)
    compare, join = comparison(how), _COMBINE.get(combine)
    width = 16 if pair else int(to.lstrip("bfsu"))
    unsigned = numpy.dtype(f"u{width // 8}").type
    yes, no = unsigned(_TRUE.get(to.removesuffix("x2"), (1 << width) - 1)), unsigned(0)

    def compute(a, b, *c):
        holds = compare(a, b)
        if combine:
            holds = join(holds, numpy.repeat(c[0], 2) if pair else c[0])
        return numpy.where(holds, yes, no)

    put = (
        write_halves(machine, x.operands[0], True)
        if pair
        else machine.write(x.operands[0], f"b{width}")
    )
    return apply(put, compute, reads)


#: 1.0 of the float types that ``set`` writes.
_TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def comparison(how: Form):
    """The function of two arrays of the form's type: bits (uint16) of f16 and bf16."""
    name, kind = how["compare"], how["type"]
    if name == "num":
        compare = _both_numbers
    elif name == "nan":
        compare = _any_nan
    elif name in _OPPOSITE:
        opposite = _ORDERED[_OPPOSITE[name]]

        def compare(a, b):
            return ~opposite(a, b) | _any_nan(a, b) if name == "equ" else ~opposite(a, b)

    elif name == "ne" and kind in _FLOATS:

        def compare(a, b):
            return (a != b) & _both_numbers(a, b)

    else:
        compare = _ORDERED[name]
    ftz = how.get("ftz") or how.get("early")
    least = LEAST_F16 if kind == "f16" else 2.0**-126

    def prepared(a, b):
        if kind in ("f16", "bf16"):
            a, b = values_of(a, kind), values_of(b, kind)
        if ftz:
            a, b = flush(a, least), flush(b, least)
        return compare(a, b)

    return prepared if ftz or kind in ("f16", "bf16") else compare


def _both_numbers(a, b):
    return ~(numpy.isnan(a) | numpy.isnan(b))


def _any_nan(a, b):
    return numpy.isnan(a) | numpy.isnan(b)


def _reads(machine: Machine, operands, how: Form) -> list:
    """Two values to compare, and the predicate to combine with, if there is one."""
    kind, pair = how["type"], bool(how.get("pair"))
    if kind in ("f16", "bf16"):
        reads = [read_halves(machine, operand, pair) for operand in operands[:2]]
    else:
        reads = [machine.read(operand, kind) for operand in operands[:2]]
    return reads + [machine.read(operand, "pred") for operand in operands[2:]]
