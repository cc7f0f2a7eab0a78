"""f16 and bf16 arithmetic, one number or a pair in a register (PTX ISA, "Half Precision …").

f16 is computed in f32 and bf16 too where twice-and-two the bits make a second rounding harmless;
``fma`` goes through f64. Every NaN result is 0x7FFF. Left out: ``fma.rz``, ``.rm`` and ``.rp`` of
bf16, which ptxas 13.0 takes, and computes as if the operands were f16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.floats import FTZ, SAT
from hopper.emulator.forms import Form, apply, expect, form
from hopper.emulator.instructions import Lanes, Step
from hopper.emulator.numbers import BF16
from hopper.emulator.numbers import F16 as FORMAT_16
from hopper.emulator.ptx import Immediate, Instruction
from hopper.emulator.registers import Read, Write
from hopper.emulator.rounding import (
    bf16_to_f32,
    encode,
    f16_bits,
    f32_to_bf16,
    flush,
    odd_sum,
    saturate,
    tiny,
)

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

F16, BF16_TYPE = r"\.(?P<type>f16)(?P<pair>x2)?", r"\.(?P<type>bf16)(?P<pair>x2)?"
#: Smallest normal number of f16.
LEAST_F16 = 2.0**-14
#: What TMA writes where a box reaches past the tensor's edge and the map asks for NaN. With
#: ``.oob`` a factor that is it, or its negative, makes the result +0 (probe cases floats.*.oob).
OOB_NAN = 0x7FF7
_TWO = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply}


@form(
    *(rf"{name}(?:\.rn)?{FTZ}{SAT}{F16}" for name in _TWO),
    *(rf"{name}(?:\.rn)?{BF16_TYPE}" for name in _TWO),
)
def arithmetic(machine: Machine, x: Instruction, how: Form) -> Step:
    """Sum, difference, product, to nearest even."""
    return _half(machine, x, how, _TWO[x.parts[0]], 2)


@form(
    rf"fma\.rn{FTZ}(?:{SAT}|(?P<relu>\.relu)){F16}",
    rf"fma\.rn(?P<relu>\.relu)?{BF16_TYPE}",
    rf"fma\.rn(?P<oob>\.oob)(?P<relu>\.relu)?{F16}",
    rf"fma\.rn(?P<oob>\.oob)(?P<relu>\.relu)?{BF16_TYPE}",
)
def fma(machine: Machine, x: Instruction, how: Form) -> Step:
    """``a * b + c``, rounded once; ``.relu``: at least 0."""
    return _half(machine, x, how, _fused, 3)


@form(f"neg{FTZ}{F16}", f"abs{FTZ}{F16}", f"neg{BF16_TYPE}", f"abs{BF16_TYPE}")
def sign(machine: Machine, x: Instruction, how: Form) -> Step:
    """The number with its sign changed, or without."""
    return _half(machine, x, how, numpy.negative if x.parts[0] == "neg" else numpy.absolute, 1)


def read_halves(machine: Machine, operand, pair: bool) -> Read:
    """An operand as uint16, one or two (low half first) a lane."""
    if not pair:
        return machine.read(operand, "b16")
    read = machine.read(operand, "b32")
    if isinstance(operand, Immediate):
        return lambda lanes: numpy.ascontiguousarray(machine.each(read, lanes)).view(numpy.uint16)
    return lambda lanes: read(lanes).view(numpy.uint16)


def write_halves(machine: Machine, operand, pair: bool) -> Write:
    """A destination of uint16, one or two a lane."""
    if not pair:
        return machine.write(operand, "b16")
    put = machine.write(operand, "b32")

    def store(lanes: Lanes, values: numpy.ndarray) -> None:
        put(lanes, values.view(numpy.uint32))

    return store


def values_of(bits: numpy.ndarray, kind: str) -> numpy.ndarray:
    """f16 or bf16 bits as numbers: float16, or float32 for bf16."""
    return bits.view(numpy.float16) if kind == "f16" else bf16_to_f32(bits)


def _fused(a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray) -> numpy.ndarray:
    return odd_sum(numpy.multiply(a, b, dtype=numpy.float64), c.astype(numpy.float64))


def _half(
    machine: Machine, x: Instruction, how: Form, compute: Callable[..., numpy.ndarray], count: int
) -> Step:
    """A step of f16 or bf16 operands: widened, computed, and rounded back."""
    kind, pair = how["type"], bool(how["pair"])
    expect(x, 1 + count)
    reads = [read_halves(machine, operand, pair) for operand in x.operands[1:]]
    put = write_halves(machine, x.operands[0], pair)

    def function(*operands):
        values = [values_of(operand, kind) for operand in operands]
        if how.get("ftz"):
            # Exact in f64, or rounded to odd.
            values = [flush(value, LEAST_F16).astype(numpy.float64) for value in values]
            result = compute(*values)
            small = tiny(result, FORMAT_16, "rn")
            result = numpy.where(small, numpy.copysign(0.0, result), result)
        else:
            result = compute(*values)
        if how.get("sat"):
            result = saturate(result)
        if how.get("relu"):
            result = relu(result)
        bits = _rounded(result, kind)
        if how.get("oob"):
            outside = [operand & numpy.uint16(0x7FFF) == OOB_NAN for operand in operands[:2]]
            outside = outside[0] | outside[1]
            bits = numpy.where(outside, numpy.uint16(0), bits)
        return bits

    return apply(put, function, reads)


def relu(values: numpy.ndarray) -> numpy.ndarray:
    """``.relu``: negative numbers and -0 become +0, NaN stays."""
    return numpy.where(values <= 0, values.dtype.type(0), values)


def _rounded(values: numpy.ndarray, kind: str) -> numpy.ndarray:
    if kind == "f16":
        return f16_bits(values)
    if values.dtype == numpy.float64:
        return encode(values, BF16, "rn")
    return f32_to_bf16(values)
