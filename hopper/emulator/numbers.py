"""The floating-point formats of the tensor core's operands: bits to values and exponents.

A number counts with the exponent of its format: a subnormal number has the smallest normal one,
and zero has none. Bits are unsigned integers of the format's width; tf32 stands in 32 bits, of
which the lower 13 are ignored (probe cases tensorcore.*.tf32.*: their operands have them set).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy


@dataclass(frozen=True)
class Format:
    """``bits`` wide, ``fraction`` bits after the point, and ``ignored`` bits below those."""

    name: str
    bits: int
    fraction: int
    infinities: bool = True
    ignored: int = 0

    @property
    def dtype(self) -> numpy.dtype:
        """The unsigned integer that holds one number."""
        return numpy.dtype(f"u{self.bits // 8}")

    @property
    def bias(self) -> int:
        """What the exponent's field is larger than the exponent."""
        return (1 << self.bits - 2 - self.fraction - self.ignored) - 1

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the smallest normal number, and of every subnormal one."""
        return 1 - self.bias

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.bits - 1

    @property
    def first_special(self) -> int:
        """The smallest magnitude, as bits, that is infinity or NaN."""
        every = self.sign - 1
        low = (1 << self.fraction + self.ignored) - 1
        return every - low if self.infinities else every

    @property
    def no_exponent(self) -> int:
        """Stands for zero's exponent: the sum of two is below that of any two numbers."""
        return -60 if self.bias < 16 else -4096

    @property
    def exponent_dtype(self) -> type:
        """Holds the sum of two exponents."""
        return numpy.int8 if self.bias < 16 else numpy.int16

    def magnitude(self, bits: numpy.ndarray) -> numpy.ndarray:
        """``bits`` without the sign and without the ignored bits."""
        return bits & bits.dtype.type(self.sign - (1 << self.ignored))

    def has_special(self, bits: numpy.ndarray) -> bool:
        """Whether an infinity or a NaN is among them."""
        return bool(bits.size) and int(self.magnitude(bits).max()) >= self.first_special

    def is_nan(self, bits: numpy.ndarray) -> numpy.ndarray:
        """Where the NaNs are."""
        magnitude = self.magnitude(bits)
        return magnitude >= self.first_special + (1 if self.infinities else 0)

    def is_infinite(self, bits: numpy.ndarray) -> numpy.ndarray:
        """Where the infinities are: nowhere in e4m3, which has none."""
        return (self.magnitude(bits) == self.first_special) & self.infinities

    def signs(self, bits: numpy.ndarray) -> numpy.ndarray:
        """float32: -1 or 1, and 0 for zero and NaN."""
        signs = numpy.where(bits & bits.dtype.type(self.sign), numpy.float32(-1), numpy.float32(1))
        signs[self.is_nan(bits) | (self.magnitude(bits) == 0)] = 0
        return signs

    def decode(self, bits: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Values (float32, exact) and exponents (``exponent_dtype``); infinity and NaN as zero."""
        if self.bits <= 16:
            values, exponents = _tables(self)
            return values.take(bits), exponents.take(bits)
        return _decoded(self, bits)


F16 = Format("f16", 16, 10)
BF16 = Format("bf16", 16, 7)
TF32 = Format("tf32", 32, 10, ignored=13)
F32 = Format("f32", 32, 23)
E4M3 = Format("e4m3", 8, 3, infinities=False)
E5M2 = Format("e5m2", 8, 2)
_LARGEST_F32 = float(numpy.finfo(numpy.float32).max)
FORMATS = {form.name: form for form in (F16, BF16, TF32, F32, E4M3, E5M2)}


@cache
def _tables(form: Format) -> tuple[numpy.ndarray, numpy.ndarray]:
    return _decoded(form, numpy.arange(1 << form.bits).astype(form.dtype))


def _decoded(form: Format, bits: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    magnitude = form.magnitude(bits)
    field = (magnitude >> form.fraction + form.ignored).astype(numpy.int16)
    exponents = field - numpy.int16(form.bias)
    if form.bits == 32:
        values = (bits & bits.dtype.type((1 << 32) - (1 << form.ignored))).view(numpy.float32)
    else:
        # Infinity and NaN overflow here, and go below.
        one = 1 << form.fraction
        significand = (magnitude & (one - 1)) + numpy.where(field > 0, one, 0.0)
        significand *= numpy.where(bits & form.sign, -1, 1)
        values = numpy.ldexp(significand, numpy.maximum(field, 1) - (form.bias + form.fraction))
        values = values.clip(-_LARGEST_F32, _LARGEST_F32).astype(numpy.float32)
    if not field.all():
        exponents[field == 0] = form.smallest_exponent
        exponents[magnitude == 0] = form.no_exponent
    if form.has_special(bits):
        special = magnitude >= form.first_special
        exponents[special] = form.no_exponent
        values[special] = 0
    return values, exponents.astype(form.exponent_dtype, copy=False)
