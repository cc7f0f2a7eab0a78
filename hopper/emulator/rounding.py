"""Rounding: sums that lose nothing, directed modes, and numbers of narrower formats.

A result is computed in f64 "rounded to odd": exact, or with a last bit of 1. Such a value lies on
the same side of every number of a narrower format, and of every midpoint between two, as the exact
one, so that rounding it once more is as good as rounding once (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

import numpy

from hopper.emulator.numbers import Format

MODES = ("rn", "rz", "rm", "rp")
F64 = Format("f64", 64, 52)


def two_sum(a: numpy.ndarray, b: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """``a + b`` to nearest, and what that rounding lost: exact (Knuth).

    Where the sum overflows, the loss is infinite and points back to the finite numbers.
    """
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    overflow = numpy.isinf(total)
    if overflow.any():
        overflow = overflow & numpy.isfinite(a) & numpy.isfinite(b)
        error = numpy.where(overflow, -total, error)
    return total, error


def odd_sum(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """``a + b`` of f64 arrays, far from overflow, rounded to odd."""
    total, error = two_sum(a, b)
    inexact = error != 0
    if not inexact.any():
        return total
    # The neighbour on the side of the error has the other last bit.
    bits = numpy.asarray(total).view(numpy.int64)
    fix = inexact & (bits & 1 == 0) & numpy.isfinite(total)
    step = numpy.where((error > 0) == (total > 0), 1, -1)
    return numpy.where(fix, bits + step, bits).view(numpy.float64)


def directed(nearest: numpy.ndarray, error: numpy.ndarray, mode: str) -> numpy.ndarray:
    """The result in another rounding mode, from the nearest one and the sign of what it lost.

    ``nearest``: f32 or f64; ``error``: exact result less ``nearest``, of which the sign counts;
    ``mode``: rn, rz (toward zero), rm (down) or rp (up).
    """
    if mode == "rn":
        return nearest
    bits = numpy.asarray(nearest).view(f"i{nearest.dtype.itemsize}")
    negative = bits < 0
    if mode == "rz":
        change = -((error < 0) & ~negative | (error > 0) & negative).astype(bits.dtype)
    else:
        wrong = error > 0 if mode == "rp" else error < 0
        away = negative == (mode == "rm")
        change = wrong * numpy.where(away, 1, -1).astype(bits.dtype)
    return (bits + change).view(nearest.dtype)


def signed_zero(total: numpy.ndarray, a: numpy.ndarray, b: numpy.ndarray, mode: str):
    """A sum with the zero that its mode wants: terms that cancel give -0 rounding down, else +0."""
    if mode != "rm":
        return total
    cancels = (total == 0) & (a == -b) & (numpy.signbit(a) != numpy.signbit(b))
    return numpy.where(cancels, -numpy.abs(total), total)


def flush(values: numpy.ndarray, least: float = 2.0**-126) -> numpy.ndarray:
    """Subnormal numbers as zeros of their sign. ``least``: the smallest normal number."""
    small = numpy.abs(values) < values.dtype.type(least)
    return numpy.where(small, numpy.copysign(values.dtype.type(0), values), values)


def tiny(exact: numpy.ndarray, form: Format, mode: str) -> numpy.ndarray:
    """Where ``.ftz`` makes a zero of a result: what is subnormal if exponents had no lower end.

    ``exact``: results in f64, exact or rounded to odd. What rounds up to the smallest normal number
    with all its bits, 24 in f32, is kept; the coarser subnormal numbers play no part (probe cases
    floats.f32.mul and floats.f32.fma).
    """
    least = 2.0**form.smallest_exponent
    step = 2.0 ** -(form.fraction + 1)
    magnitude = numpy.abs(exact).astype(numpy.float64)
    if mode == "rn":
        return magnitude < least * (1 - step / 2)
    if mode == "rz":
        return magnitude < least
    away = numpy.signbit(exact) == (mode == "rm")
    return numpy.where(away, magnitude <= least * (1 - step), magnitude < least)


def saturate(values: numpy.ndarray) -> numpy.ndarray:
    """``.sat`` of floats: clamped to [0, 1], NaN as +0."""
    one, zero = values.dtype.type(1), values.dtype.type(0)
    return numpy.where(values > 0, numpy.minimum(values, one), zero)


def encode(values: numpy.ndarray, form: Format, mode: str, *, finite: bool = False):
    """Bits of ``form`` (unsigned) that f64 values are rounded to, once.

    Beyond the largest number lies infinity, or that number itself where the mode rounds toward zero
    there; with ``finite`` always that number. NaN has all bits but the sign set, and those ignored.
    """
    wide = numpy.asarray(values, numpy.float64)
    magnitude, negative = numpy.abs(wide), numpy.signbit(wide)
    exponent = numpy.maximum(numpy.frexp(magnitude)[1] - 1, form.smallest_exponent)
    exponent = numpy.where(magnitude > 0, exponent, form.smallest_exponent)
    scaled = numpy.ldexp(magnitude, form.fraction - exponent)
    whole = _whole(scaled, negative, mode)
    nan, special = numpy.isnan(wide), ~numpy.isfinite(wide)
    first_special = form.first_special >> form.ignored
    # The leading 1 of a normal significand adds itself to the exponent's field, as a carry does.
    bits = numpy.where(special, 0, whole).astype(numpy.int64)
    bits += (exponent - form.smallest_exponent).astype(numpy.int64) << form.fraction
    over = bits >= first_special
    if (over | special).any():
        infinite = magnitude == numpy.inf
        cut = (mode == "rz") | (mode == "rm") & ~negative | (mode == "rp") & negative
        largest = finite | cut & ~infinite
        bits = numpy.where(over | infinite, first_special - largest, bits)
        bits = numpy.where(nan, (form.sign >> form.ignored) - 1, bits)
    bits = bits << form.ignored | numpy.where(negative & ~nan, form.sign, 0)
    return bits.astype(form.dtype)


def _whole(scaled: numpy.ndarray, negative: numpy.ndarray, mode: str) -> numpy.ndarray:
    """Magnitudes rounded to whole numbers."""
    if mode == "rn":
        return numpy.rint(scaled)
    if mode == "rz":
        return numpy.floor(scaled)
    return numpy.where(negative == (mode == "rm"), numpy.ceil(scaled), numpy.floor(scaled))


def bf16_to_f32(bits: numpy.ndarray) -> numpy.ndarray:
    """bf16 bits (uint16) as f32, exact."""
    return (bits.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)


def f32_to_bf16(values: numpy.ndarray) -> numpy.ndarray:
    """f32 rounded to nearest even, as bf16 bits (uint16); NaN is 0x7FFF."""
    bits = values.view(numpy.uint32)
    sixteen = numpy.uint32(16)
    odd = bits >> sixteen & numpy.uint32(1)
    rounded = (bits + (odd + numpy.uint32(0x7FFF)) >> sixteen).astype(numpy.uint16)
    nan = numpy.isnan(values)
    return numpy.where(nan, numpy.uint16(0x7FFF), rounded) if nan.any() else rounded


def f16_bits(values: numpy.ndarray) -> numpy.ndarray:
    """f16, f32 or f64 values rounded to nearest even, as f16 bits (uint16); NaN is 0x7FFF."""
    bits = values.astype(numpy.float16).view(numpy.uint16)
    nan = numpy.isnan(values)
    return numpy.where(nan, numpy.uint16(0x7FFF), bits) if nan.any() else bits
