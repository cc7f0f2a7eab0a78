"""The arithmetic of Hopper's tensor core: D = A·B + C of one instruction, all bits.

One fused sum over the instruction's K and the accumulator: every product has the exponent that
its operands' exponents add up to, every term is aligned to the largest exponent and cut off there,
the sum is exact, and the result is cut to the accumulator's precision. First version: finite
operands as probed on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from hopper.errors import ProblemError


@dataclass(frozen=True)
class _Float:
    bits: int
    fraction: int
    bias: int
    infinities: bool = True

    @property
    def dtype(self) -> type:
        return {8: numpy.uint8, 16: numpy.uint16, 32: numpy.uint32}[self.bits]


_FLOATS = {
    "f16": _Float(16, 10, 15),
    "bf16": _Float(16, 7, 127),
    "tf32": _Float(32, 23, 127),
    "f32": _Float(32, 23, 127),
    "e4m3": _Float(8, 3, 7, infinities=False),
    "e5m2": _Float(8, 2, 15),
}
_INTEGERS = {"s8": numpy.int8, "u8": numpy.uint8}
_FP8 = ("e4m3", "e5m2")
_PAIRS = {("f16", "f16"), ("bf16", "bf16"), ("tf32", "tf32")}
_PAIRS |= {(a, b) for a in _FP8 for b in _FP8} | {(a, b) for a in _INTEGERS for b in _INTEGERS}


def multiply_add(
    a: numpy.ndarray,
    b: numpy.ndarray,
    c: numpy.ndarray | None,
    *,
    a_type: str,
    b_type: str,
    d_type: str,
    instruction: str = "wgmma",
    negate_a: bool = False,
    negate_b: bool = False,
    satfinite: bool = False,
) -> numpy.ndarray:
    """A (…, M, K) · B (…, N, K)ᵀ + C (…, M, N) of one instruction, raw bits in and out.

    ``c`` None where scale-d is false. Raises ProblemError for a combination that is unknown.
    """
    if (a_type, b_type) not in _PAIRS or instruction not in ("wgmma", "mma.sync"):
        raise ProblemError(f"{instruction} of {a_type} and {b_type}: not an instruction we model")
    if (d_type == "s32") != (a_type in _INTEGERS) or d_type not in ("f32", "f16", "s32"):
        raise ProblemError(f"d_type={d_type}: not an accumulator of {a_type} and {b_type}")
    if d_type == "s32":
        return _integers(a, b, c, a_type, b_type, satfinite)
    fp8 = a_type in _FP8 and instruction == "wgmma"
    fraction = 13 if fp8 else 25
    if a_type == "tf32":
        a, b = a & numpy.uint32(0xFFFFE000), b & numpy.uint32(0xFFFFE000)
    a_value, a_exponent = _decode(a, a_type)
    b_value, b_exponent = _decode(b, b_type)
    if negate_a != negate_b:
        a_value = -a_value
    a_value, a_exponent = a_value[..., :, None, :], a_exponent[..., :, None, :]
    b_value, b_exponent = b_value[..., None, :, :], b_exponent[..., None, :, :]
    products = a_value * b_value
    exponents = a_exponent + b_exponent
    top = exponents.max(-1)
    if c is not None:
        c_value, c_exponent = _decode(c, d_type)
        top = numpy.maximum(top, c_exponent)
    with numpy.errstate(all="ignore"):
        scale = numpy.ldexp(1.0, fraction - top)
        total = numpy.trunc(products * scale[..., None]).sum(-1)
        if c is not None:
            total += numpy.trunc(c_value * scale)
        result = total / scale
        if d_type == "f16":
            return result.astype(numpy.float16).view(numpy.uint16)
        kept = 13 if fp8 else 23
        _, exponent = numpy.frexp(result)
        quantum = numpy.ldexp(1.0, numpy.maximum(exponent - 1, -126) - kept)
        return (numpy.trunc(result / quantum) * quantum).astype(numpy.float32).view(numpy.uint32)


def _decode(bits: numpy.ndarray, name: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Values as float64, and exponents: of a subnormal number or zero the smallest normal one."""
    kind = _FLOATS[name]
    bits = bits.astype(numpy.int64)
    magnitude = bits & (1 << kind.bits - 1) - 1
    field = magnitude >> kind.fraction
    exponent = numpy.maximum(field, 1) - kind.bias
    significand = (magnitude & (1 << kind.fraction) - 1) + (
        (field > 0).astype(int) << kind.fraction
    )
    value = numpy.ldexp(significand.astype(float), exponent - kind.fraction)
    largest = (1 << kind.bits - 1 - kind.fraction) - 1
    if kind.infinities:
        value[field == largest] = numpy.inf
        value[(field == largest) & (magnitude & (1 << kind.fraction) - 1 > 0)] = numpy.nan
    else:
        value[magnitude == (1 << kind.bits - 1) - 1] = numpy.nan
    return numpy.where(bits >> kind.bits - 1, -value, value), exponent


def _integers(a, b, c, a_type, b_type, satfinite):
    a = a.view(_INTEGERS[a_type]).astype(float)
    b = b.view(_INTEGERS[b_type]).astype(float)
    total = a @ b.swapaxes(-1, -2)
    if c is not None:
        total += c.view(numpy.int32)
    if satfinite:
        total = total.clip(-(2**31), 2**31 - 1)
    return total.astype(numpy.int64).astype(numpy.int32).view(numpy.uint32)
