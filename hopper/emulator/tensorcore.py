"""The arithmetic of Hopper's tensor core: D = A·B + C of one instruction, every bit of it.

Found by probes on an H200. In brackets, the themes of the conformance cases (tensorcore.*.<theme>)
whose outputs contradict the next best guess:

- One fused sum over the instruction's whole K and the accumulator, in no order [cancel, wide].
- A product has the exponent that its operands' exponents add up to: its significand lies in [1, 4)
  and is not normalised [wide]. A subnormal number has its format's smallest exponent [edges]. A
  product with a zero has none and takes no part, however large the other operand [wide].
- Every term, C's too, is aligned to the largest exponent among them and cut toward zero after 25
  fraction bits, 13 in wgmma of 8-bit floats [ordinary]. The sum of what is left is exact.
- The exponent that terms are aligned to is never below 2^-7 of D's smallest normal number, so
  2^-133 for f32 and 2^-21 for f16 [tiny].
- The sum becomes f32 by cutting toward zero, after 23 fraction bits, 13 for 8-bit floats
  [ordinary], of the smallest normal number where it is smaller [edges]. It becomes f16 by rounding
  to nearest even, once [cancel, tiny]. What is too large becomes infinity, never the largest
  number [edges]. Zero is +0, always, also where a negative sum was too small [tiny].
- NaN comes from a NaN, from infinity times zero, and from infinities of both signs; it is
  0x7fffffff or 0x7fff, whatever came in [special].
- Integers are exact; the sum wraps, or with .satfinite stops at the ends of s32 [integers].
- A in registers, and negation, change nothing but the operand's place and sign bit; without
  scale-d, C is zero [cases that end in registers, negate_a, negate_b, fresh].

mma.sync is the same, except that for 8-bit floats it is no instruction of the machine: it is
converted to f16, and done in two instructions and an addition.
"""

from __future__ import annotations

import numpy

from hopper.emulator.errors import Unsupported
from hopper.emulator.numbers import E4M3, E5M2, F16, F32, FORMATS, Format

_INTEGERS = {"s8": numpy.int8, "u8": numpy.uint8}
_FP8 = (E4M3.name, E5M2.name)
_D_FORMATS = {"f32": F32, "f16": F16}
#: Accumulators of every pair of operands.
_ACCUMULATORS = {("f16", "f16"): ("f32", "f16"), ("bf16", "bf16"): ("f32",)}
_ACCUMULATORS |= {("tf32", "tf32"): ("f32",)}
_ACCUMULATORS |= {(a, b): ("f32", "f16") for a in _FP8 for b in _FP8}
_ACCUMULATORS |= {(a, b): ("s32",) for a in _INTEGERS for b in _INTEGERS}

#: Fraction bits that a term keeps when it is aligned to the largest exponent.
_ALIGNED, _ALIGNED_FP8 = 25, 13
#: Fraction bits of an f32 result.
_KEPT, _KEPT_FP8 = 23, 13
#: Terms are aligned at least to the exponent this far below D's smallest normal number: 2^-133 for
#: f32, 2^-21 for f16.
_BELOW_SMALLEST = 7
#: Where scaled terms stay normal numbers in float32; beyond it we compute in float64.
_FLOAT32_LOWEST, _FLOAT32_HIGHEST = -100, 120
#: Outputs, and terms, that are computed at once: they stay in a core's cache.
_BLOCK_OUTPUTS, _BLOCK_TERMS = 16384, 32768
#: Instructions with fewer columns are done many at a time.
_NARROW = 32


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
    """D (…, M, N) = A (…, M, K) · B (…, N, K)ᵀ + C (…, M, N), raw bits in unsigned integers.

    K is that of one instruction: 32 bytes, in mma.sync also 16. The leading axes are independent
    instructions. ``a_type``, ``b_type``: f16, bf16, tf32, e4m3, e5m2, s8, u8; ``d_type``: f32,
    f16, s32. ``c`` is None where scale-d is false. ``instruction``: "wgmma" or "mma.sync".
    Raises Unsupported for whatever else.
    """
    _require_known(a, b, c, a_type, b_type, d_type, instruction)
    if d_type == "s32":
        if negate_a or negate_b:
            raise Unsupported(f"{a_type} negated: an instruction on integers cannot negate")
        return _integers(a, b, c, a_type, b_type, satfinite)
    if satfinite:
        raise Unsupported(f"satfinite of {d_type}: only instructions on integers have it")
    a_format, b_format, d_format = FORMATS[a_type], FORMATS[b_type], _D_FORMATS[d_type]
    if negate_a != negate_b:
        a = a ^ a.dtype.type(a_format.sign)
    if instruction == "mma.sync" and a_type in _FP8:
        return _as_two_f16(a, b, c, a_format, b_format, d_format)
    return _floats(a, b, c, a_format, b_format, d_format)


def _require_known(a, b, c, a_type, b_type, d_type, instruction) -> None:
    known = d_type in _ACCUMULATORS.get((a_type, b_type), ())
    if not known or instruction not in ("wgmma", "mma.sync"):
        raise Unsupported(
            f"{instruction} {d_type}.{a_type}.{b_type}: the tensor core's arithmetic is known for "
            f"wgmma and mma.sync of f16, bf16, tf32, e4m3, e5m2, s8 and u8 in PTX's combinations"
        )
    byte, word = numpy.dtype(numpy.uint8), numpy.dtype(numpy.uint32)
    a_dtype, b_dtype = (FORMATS[t].dtype if t in FORMATS else byte for t in (a_type, b_type))
    d_dtype = _D_FORMATS[d_type].dtype if d_type in _D_FORMATS else word
    for name, array, dtype in (("A", a, a_dtype), ("B", b, b_dtype), ("C", c, d_dtype)):
        if array is not None and array.dtype != dtype:
            raise Unsupported(f"{name} is {array.dtype}: pass its raw bits as {dtype}")
    deep = a.shape[-1] * a_dtype.itemsize
    if deep != 32 and not (instruction == "mma.sync" and deep == 16) or b.shape[-1] != a.shape[-1]:
        raise Unsupported(
            f"K={a.shape[-1]} of A and {b.shape[-1]} of B: one {instruction} is 32 bytes deep"
            f"{' or 16' if instruction == 'mma.sync' else ''}; loop over K outside"
        )


def _integers(a, b, c, a_type, b_type, satfinite) -> numpy.ndarray:
    # float32 is exact: 32 products of 8-bit integers stay below 2^24.
    a = a.view(_INTEGERS[a_type]).astype(numpy.float32)
    b = b.view(_INTEGERS[b_type]).astype(numpy.float32)
    total = (a @ b.swapaxes(-1, -2)).astype(numpy.int64)
    if c is not None:
        total += c.view(numpy.int32)
    if satfinite:
        total = total.clip(-(1 << 31), (1 << 31) - 1)
    return total.astype(numpy.uint32)


def _as_two_f16(a, b, c, a_format, b_format, d_format) -> numpy.ndarray:
    """mma.sync of 8-bit floats, which ptxas compiles for sm_90a to two instructions on f16.

    Of every four neighbours along K, the first two go into one that adds to nothing, the others
    into one that adds to its result. C comes last, by an ordinary addition: FADD or HADD2.
    """
    a, b = _to_f16(a, a_format), _to_f16(b, b_format)
    first = numpy.arange(a.shape[-1]) % 4 < 2
    total = _floats(a[..., first], b[..., first], None, F16, F16, d_format)
    total = _floats(a[..., ~first], b[..., ~first], total, F16, F16, d_format)
    if c is None:
        return total
    kind = numpy.float32 if d_format is F32 else numpy.float16
    with numpy.errstate(all="ignore"):
        added = total.view(kind) + c.view(kind)
    nan = d_format.dtype.type(d_format.sign - 1)
    return numpy.where(numpy.isnan(added), nan, added.view(d_format.dtype))


def _to_f16(bits: numpy.ndarray, form: Format) -> numpy.ndarray:
    values, _ = form.decode(bits)
    special = numpy.where(form.is_nan(bits), F16.sign - 1, 0)
    infinity = F16.first_special | (bits & form.sign).astype(numpy.uint16) << 8
    special = numpy.where(form.is_infinite(bits), infinity, special).astype(numpy.uint16)
    return values.astype(numpy.float16).view(numpy.uint16) | special


def _floats(a, b, c, a_format, b_format, d_format) -> numpy.ndarray:
    """One fused multiply-add, over all leading axes."""
    lead, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-2]
    count = int(numpy.prod(lead, dtype=int))
    a, b = a.reshape(count, m, k), b.reshape(count, n, k)
    out = numpy.empty((count, m, n), d_format.dtype)
    c = None if c is None else c.reshape(count, m, n)
    if n < _NARROW:
        # Many small instructions lie along the last axis: NumPy is quick where that is long.
        step = max(1, _BLOCK_OUTPUTS // (m * n))
        for block in (slice(start, start + step) for start in range(0, count, step)):
            one_a, one_b = a[block].transpose(2, 1, 0), b[block].transpose(2, 1, 0)
            one_c = None if c is None else c[block].transpose(1, 2, 0)
            one = _block(one_a[:, :, None], one_b[:, None], one_c, a_format, b_format, d_format)
            out[block] = one.transpose(2, 0, 1)
    else:
        for i in range(count):
            one_c = None if c is None else c[i]
            one_a, one_b = a[i].T[:, :, None], b[i].T[:, None]
            out[i] = _block(one_a, one_b, one_c, a_format, b_format, d_format)
    return out.reshape(*lead, m, n)


def _block(a, b, c, a_format, b_format, d_format) -> numpy.ndarray:
    """A (K, M, 1, …), B (K, 1, N, …), C (M, N, …): the outputs of one block."""
    fp8 = a_format.name in _FP8
    aligned, kept = (_ALIGNED_FP8, _KEPT_FP8) if fp8 else (_ALIGNED, _KEPT)
    a, b = numpy.ascontiguousarray(a), numpy.ascontiguousarray(b)
    a_value, a_exponent = a_format.decode(a)
    b_value, b_exponent = b_format.decode(b)
    top = (a_exponent + b_exponent).max(axis=0).astype(numpy.int32)
    smallest = a_format.smallest_exponent + b_format.smallest_exponent
    lowest = d_format.smallest_exponent - _BELOW_SMALLEST
    zero = top < smallest
    top[zero] = lowest
    numpy.maximum(top, lowest, out=top)
    if c is not None:
        c_value, c_exponent = d_format.decode(c)
        numpy.maximum(top, c_exponent, out=top)
    kind = numpy.float64 if top.max() > _FLOAT32_HIGHEST else numpy.float32
    small = top.min() < _FLOAT32_LOWEST
    scaled_to = top
    if small:
        if c is not None:
            zero &= c_value == 0
        if (~zero & (top < _FLOAT32_LOWEST)).any():
            kind = numpy.float64
        elif kind is numpy.float32:
            scaled_to = numpy.maximum(top, _FLOAT32_LOWEST)
    scale = _power_of_two(aligned - scaled_to, kind)
    total = _sum_of_products(a_value, b_value, scale)
    if c is not None:
        total += numpy.trunc(c_value * scale).astype(numpy.float64)
    total *= _power_of_two(scaled_to - aligned, kind).astype(numpy.float64)
    with numpy.errstate(over="ignore"):
        out = _cut_to_f32(total, kept, small) if d_format is F32 else _rounded_to_f16(total)
    if (
        a_format.has_special(a)
        or b_format.has_special(b)
        or (c is not None and d_format.has_special(c))
    ):
        _set_specials(out, a, b, c, a_format, b_format, d_format)
    return out


def _step(k: int, outputs: int) -> int:
    """How many of K are multiplied at once: a divisor of it that keeps them in the cache."""
    while k > 1 and k * outputs > _BLOCK_TERMS:
        k //= 2
    return k


def _sum_of_products(a: numpy.ndarray, b: numpy.ndarray, scale: numpy.ndarray) -> numpy.ndarray:
    """float64: the sum over K of every a·b·scale, each cut to an integer; as precise as scale."""
    a, b = a.astype(scale.dtype, copy=False), b.astype(scale.dtype, copy=False)
    wide = scale.ndim == 2
    # A column times a row: BLAS is quicker at it than broadcasting.
    step = 1 if wide else _step(len(a), scale.size)
    products = numpy.empty(scale.shape if wide else (step, *scale.shape), scale.dtype)
    integers = numpy.empty(products.shape, numpy.int32)
    # int32 is enough: 16 products of 11-bit significands, each below 4·2^25, stay below 2^31.
    total = numpy.zeros(scale.shape, numpy.int32)
    for k in range(0, len(a), step):
        if wide:
            numpy.dot(a[k], b[k], out=products)
        else:
            numpy.multiply(a[k : k + step], b[k : k + step], out=products)
        numpy.multiply(products, scale, out=products)
        numpy.copyto(integers, products, casting="unsafe")
        total += integers if wide else integers.sum(axis=0, dtype=numpy.int32)
    return total.astype(numpy.float64)


def _power_of_two(exponent: numpy.ndarray, kind: type) -> numpy.ndarray:
    """2^exponent, for exponents of normal numbers."""
    if kind is numpy.float32:
        return ((exponent + 127) << 23).view(numpy.float32)
    return ((exponent.astype(numpy.int64) + 1023) << 52).view(numpy.float64)


def _cut_to_f32(total: numpy.ndarray, kept: int, small: bool) -> numpy.ndarray:
    """Cut toward zero after ``kept`` fraction bits, of the smallest normal number at least.

    ``small``: whether numbers below that one are possible.
    """
    smallest = 2.0**F32.smallest_exponent
    below = abs(total) < smallest if small else None
    if small and below.any():
        quantum = smallest / (1 << kept)
        # Adding 0 makes +0 of a negative number that was cut to nothing.
        total[below] = numpy.trunc(total[below] / quantum) * quantum + 0.0
    bits = total.view(numpy.uint64)
    bits &= numpy.uint64((1 << 64) - (1 << 52 - kept))
    return total.astype(numpy.float32).view(numpy.uint32)


def _rounded_to_f16(total: numpy.ndarray) -> numpy.ndarray:
    bits = total.astype(numpy.float16).view(numpy.uint16)
    bits[bits == F16.sign] = 0
    return bits


def _set_specials(out, a, b, c, a_format, b_format, d_format) -> None:
    """Overwrite the outputs that an infinity or a NaN reaches."""
    a_signs, b_signs = a_format.signs(a), b_format.signs(b)
    a_infinite = numpy.where(a_format.is_infinite(a), a_signs, 0)
    b_infinite = numpy.where(b_format.is_infinite(b), b_signs, 0)
    # A zero or a NaN times an infinity, and a NaN times anything.
    nan = a_format.is_nan(a).any(axis=0) | b_format.is_nan(b).any(axis=0)
    positive, negative = numpy.zeros(out.shape, bool), numpy.zeros(out.shape, bool)
    for k in range(len(a)):
        infinite = (a_infinite[k] != 0) | (b_infinite[k] != 0)
        sign = a_signs[k] * b_signs[k]
        nan = nan | (infinite & (sign == 0))
        positive |= infinite & (sign > 0)
        negative |= infinite & (sign < 0)
    if c is not None:
        nan = nan | d_format.is_nan(c)
        infinite = d_format.is_infinite(c)
        positive |= infinite & (c < d_format.sign)
        negative |= infinite & (c >= d_format.sign)
    nan = nan | (positive & negative)
    out[positive] = d_format.first_special
    out[negative] = d_format.first_special | d_format.sign
    out[nan] = d_format.sign - 1
