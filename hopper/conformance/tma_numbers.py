"""Inputs of the copy engine's cases: random bits, and numbers that are hard to reduce."""

from __future__ import annotations

from math import prod

import numpy

_SPECIAL = {
    "float16": [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
    + [0xFE01, 0x7C01, 0xFFFF, 0x3C00, 0x3C01, 0x1000],
    "bfloat16": [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0]
    + [0xFFC1, 0x7F81, 0xFFFF, 0x3F80, 0x3F81, 0x3B80],
    "float32": [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF]
    + [0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF]
    + [0x3F800000, 0x3F800001, 0x33800000, 0x80800000],
    "float64": [0, 1 << 63, 1, (1 << 63) + (1 << 52) - 1, 1 << 52, (0x7FF << 52) - 1, 0x7FF << 52]
    + [0xFFF << 52, 0x7FF8 << 48, (0xFFF8 << 48) + 1, (0x7FF << 52) + 1, (1 << 64) - 1]
    + [0x3FF << 52, (0x3FF << 52) + 1, 0x3CA << 52],
}
#: The NumPy name of what a PTX type holds.
PTX_NUMPY = {
    "u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "b32": "uint32",
    "b64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


def random_bits(shape, dtype: str, seed: int) -> numpy.ndarray:
    """Random bits."""
    count = prod(shape) * numpy.dtype(dtype).itemsize
    random = numpy.random.default_rng(seed)
    return random.integers(0, 256, count, numpy.uint8).view(dtype).reshape(shape)


def held(kind: str) -> str:
    """The NumPy type that holds PTX type ``kind``."""
    return "uint16" if kind == "bf16" else PTX_NUMPY[kind]


def bytes_of_numbers(size: int, kind: str, seed: int) -> numpy.ndarray:
    """``numbers`` that fill ``size`` bytes, as uint8."""
    bits = int(kind.lstrip("subf"))
    return numbers(8 * size // bits, kind, seed).view(numpy.uint8)


def numbers(count: int, kind: str, seed: int) -> numpy.ndarray:
    """Bits of numbers of PTX type ``kind`` that a reduction could stumble over.

    A third each: random bits, special values, and values so near each other that sums round.
    """
    name = PTX_NUMPY[kind]
    itemsize = 2 if name == "bfloat16" else numpy.dtype(name).itemsize
    bits = random_bits((count,), f"u{itemsize}", seed)
    random = numpy.random.default_rng(seed + 1)
    which = random.integers(0, 3, count)
    if name in _SPECIAL:
        special = numpy.array(_SPECIAL[name], bits.dtype)
        fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
        bias = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}[kind]
        sign, low = bits >> (8 * itemsize - 1), bits & ((1 << fraction) - 1)
        exponent = (bias + random.integers(-fraction // 2, 4, count)).astype(bits.dtype)
        near = sign << (8 * itemsize - 1) | exponent << fraction | low
    else:
        top = 1 << 8 * itemsize
        edges = [0, 1, 2, 3, 4, top // 2 - 1, top // 2, top // 2 + 1, top - 2, top - 1]
        special, near = numpy.array(edges, bits.dtype), bits % bits.dtype.type(7)
    chosen = special[random.integers(0, special.size, count)]
    return numpy.where(which == 0, bits, numpy.where(which == 1, chosen, near))
