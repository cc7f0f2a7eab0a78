"""mma.sync: a warp multiplies A (16 × K) and B (K × 8) that lie in its registers.

PTX ISA, "Warp-level matrix multiply-accumulate instructions: mma". ``hopper.fragment`` says which
thread holds which element, ``tensorcore`` what is computed. Left out, with an error that says so:
m8n8k4 of f16 (Volta's), 4-bit and single-bit integers, and sparse A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.emulator.fragments import RegisterMatrix, a_words, b_words, d_words, first_lanes
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine
from hopper.emulator.ptx import Instruction
from hopper.emulator.tensorcore import multiply_add

ROWS, COLUMNS = 16, 8
_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")
#: Types of A and B -> bytes of an element, K of each shape, accumulator types.
FORMS: dict[tuple[str, str], tuple[int, tuple[int, ...], tuple[str, ...]]] = {
    ("f16", "f16"): (2, (8, 16), ("f16", "f32")),
    ("bf16", "bf16"): (2, (8, 16), ("f32",)),
    ("tf32", "tf32"): (4, (4, 8), ("f32",)),
    **{(a, b): (1, (16, 32), ("f16", "f32")) for a in _FP8 for b in _FP8},
    **{(a, b): (1, (16, 32), ("s32",)) for a in _INT8 for b in _INT8},
}


@dataclass(frozen=True)
class Form:
    """What an opcode says. ``words``: 32-bit words of K in a row."""

    a: str
    b: str
    d: str
    item_bytes: int
    words: int
    satfinite: bool


@executes("mma", together=WARP)
def mma(machine: Machine, x: Instruction) -> Step:
    """D = A · B + C."""
    it = _form(x)
    if len(x.operands) != 4:
        raise unsupported(x, "it takes D, A, B and C")
    accumulators = d_words(ROWS, COLUMNS, it.d == "f16")
    d, a, b, c = (
        RegisterMatrix(machine, x, operand, holders)
        for operand, holders in zip(
            x.operands,
            (accumulators, a_words(ROWS, it.words), b_words(it.words), accumulators),
            strict=True,
        )
    )
    kind = numpy.dtype(f"u{it.item_bytes}")
    halves = it.d == "f16"

    def step(lanes: Lanes) -> None:
        first = first_lanes(machine, lanes, WARP)
        added = c.read(lanes, first)
        result = multiply_add(
            a.read(lanes, first).view(kind),
            b.read(lanes, first).view(kind),
            added.view("u2") if halves else added,
            a_type=it.a,
            b_type=it.b,
            d_type=it.d,
            instruction="mma.sync",
            satfinite=it.satfinite,
        )
        d.write(first, numpy.ascontiguousarray(result).view("u4"))

    return step


def _form(x: Instruction) -> Form:
    """Raises Unsupported for what ptxas refuses, and for what is left out."""
    parts = [part for part in x.parts if part != "satfinite"]
    if parts[:3] != ["mma", "sync", "aligned"]:
        raise unsupported(x, "the emulator executes dense mma.sync.aligned only")
    if len(parts) != 10 or parts[4:6] != ["row", "col"]:
        raise unsupported(x, "the emulator executes m16n8 shapes with .row.col and four types")
    shape, (d, a, b, c) = parts[3], parts[6:]
    if (a, b) not in FORMS:
        raise unsupported(x, f"the emulator has no mma.sync of .{a} and .{b}")
    item_bytes, depths, accumulators = FORMS[a, b]
    shapes = [f"m16n8k{k}" for k in depths]
    if shape not in shapes:
        raise unsupported(x, f"shapes of .{a} and .{b} are {', '.join(shapes)}")
    if d not in accumulators or c != d:
        raise unsupported(x, f"C and D of .{a} and .{b} are {' or '.join(accumulators)}, both")
    satfinite = x.has("satfinite")
    if satfinite and d != "s32":
        raise unsupported(x, ".satfinite belongs to integers")
    k = int(shape[len("m16n8k") :])
    return Form(a, b, d, item_bytes, k * item_bytes // 4, satfinite)
