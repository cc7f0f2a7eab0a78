"""PTX types as NumPy types, and views between them.

PTX ISA, "Fundamental Types": the letter says how a value is read, the number how many bits it has.
Registers hold bits; an instruction's type says how it reads them.
"""

import re
from functools import cache

import numpy

from hopper.emulator.errors import Unsupported

_SCALAR = re.compile(r"([busf])(8|16|32|64|128)")
# Held as bits: NumPy has no such number, or the type packs several into one register.
_BITS = {
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "u16x2": 32,
    "s16x2": 32,
}
_LETTER = {"b": "u", "u": "u", "s": "i", "f": "f"}


@cache
def numpy_type(ptx: str) -> numpy.dtype:
    """How NumPy reads a value of PTX type ``ptx`` ("u32", "f16", "pred" …).

    Types that NumPy does not know (bf16, packed pairs, fp8) are unsigned integers of their size.
    Raises Unsupported for anything else.
    """
    if ptx == "pred":
        return numpy.dtype(bool)
    if ptx in _BITS:
        return numpy.dtype(f"u{_BITS[ptx] // 8}")
    found = _SCALAR.fullmatch(ptx)
    if not found or (found[1] == "f" and found[2] == "8") or found[2] == "128":
        raise Unsupported(f"type .{ptx} is not one the emulator computes with")
    return numpy.dtype(f"{_LETTER[found[1]]}{int(found[2]) // 8}")


@cache
def bits_type(ptx: str) -> numpy.dtype:
    """The unsigned integer (or bool) that holds the bits of ``ptx``."""
    kind = numpy_type(ptx)
    return kind if kind.kind == "b" else numpy.dtype(f"u{kind.itemsize}")


def width(ptx: str) -> int:
    """Bits of a value; 1 for a predicate."""
    return 1 if ptx == "pred" else 8 * numpy_type(ptx).itemsize


def is_type(word: str) -> bool:
    """Whether a part of an opcode, such as "u32" in ``add.u32``, names a type."""
    return word == "pred" or word in _BITS or _SCALAR.fullmatch(word) is not None
