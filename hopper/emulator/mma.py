"""mma.sync: a warp multiplies A (M × K) and B (K × 8) that lie in its registers.

PTX ISA, "Warp-level matrix multiply-accumulate instructions: mma". ``hopper.fragment`` says which
thread holds which element, ``tensorcore`` what is computed. Left out, with an error that says so:
f64, 4-bit and single-bit integers, m8n8k4 of f16 (Volta's), and sparse A.
"""

from __future__ import annotations

import re

import numpy

from hopper.emulator.fragments import (
    WORD_BYTES,
    RegisterMatrix,
    a_words,
    b_words,
    d_words,
    first_lanes,
)
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine
from hopper.emulator.ptx import Instruction
from hopper.emulator.tensorcore import multiply_add

COLUMNS = 8
_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")
#: Types of A and B -> bytes of an element, shapes, accumulator types: what ptxas accepts.
FORMS: dict[tuple[str, str], tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    ("f16", "f16"): (2, ("m16n8k8", "m16n8k16"), ("f16", "f32")),
    ("bf16", "bf16"): (2, ("m16n8k8", "m16n8k16"), ("f32",)),
    ("tf32", "tf32"): (4, ("m16n8k4", "m16n8k8"), ("f32",)),
    **{(a, b): (1, ("m16n8k16", "m16n8k32"), ("f16", "f32")) for a in _FP8 for b in _FP8},
    **{(a, b): (1, ("m8n8k16", "m16n8k16", "m16n8k32"), ("s32",)) for a in _INT8 for b in _INT8},
}
_SHAPE = re.compile(r"m(\d+)n8k(\d+)")


@executes("mma", together=WARP)
def mma(machine: Machine, x: Instruction) -> Step:
    """D = A · B + C."""
    a_type, b_type, d_type, shape, satfinite = _form(x)
    item_bytes = FORMS[a_type, b_type][0]
    rows, k = (int(length) for length in _SHAPE.fullmatch(shape).groups())
    words = k * item_bytes // WORD_BYTES
    accumulator = d_words(rows, COLUMNS, d_type == "f16")
    holders = (accumulator, a_words(rows, words), b_words(words), accumulator)
    if len(x.operands) != len(holders):
        raise unsupported(x, "it takes D, A, B and C")
    d, a, b, c = (
        RegisterMatrix(machine, x, operand, held)
        for operand, held in zip(x.operands, holders, strict=True)
    )
    kind = numpy.dtype(f"u{item_bytes}")
    c_kind = numpy.dtype("u2" if d_type == "f16" else "u4")

    def step(lanes: Lanes) -> None:
        first = first_lanes(machine, lanes, WARP)
        machine.keeps("mma", first)
        result = multiply_add(
            a.read(lanes, first).view(kind),
            b.read(lanes, first).view(kind),
            c.read(lanes, first).view(c_kind),
            a_type=a_type,
            b_type=b_type,
            d_type=d_type,
            instruction="mma.sync",
            satfinite=satfinite,
        )
        d.write(lanes, first, numpy.ascontiguousarray(result).view("u4"))

    return step


def _form(x: Instruction) -> tuple[str, str, str, str, bool]:
    """Types of A, B and D, shape, and whether it saturates.

    Raises Unsupported for what ptxas refuses, and for what is left out.
    """
    parts = [part for part in x.parts if part not in ("row", "col", "satfinite")]
    if parts[:3] != ["mma", "sync", "aligned"] or len(parts) != 8:
        raise unsupported(x, "the emulator executes dense mma.sync.aligned of four types")
    if not x.has("row") or not x.has("col"):
        raise unsupported(x, "A is .row and B is .col")
    shape, d, a, b, c = parts[3:]
    if (a, b) not in FORMS:
        raise unsupported(x, f"the emulator has no mma.sync of .{a} and .{b}")
    _, shapes, accumulators = FORMS[a, b]
    if shape not in shapes:
        raise unsupported(x, f"the emulator has .{a} and .{b} in {', '.join(shapes)}")
    if d not in accumulators or c != d:
        raise unsupported(x, f"C and D of .{a} and .{b} are {' or '.join(accumulators)}, both")
    if x.has("satfinite") and d != "s32":
        raise unsupported(x, ".satfinite belongs to integers")
    return a, b, d, shape, x.has("satfinite")
