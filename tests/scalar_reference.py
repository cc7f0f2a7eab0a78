"""Floating-point arithmetic with fractions: exact, then rounded once; to check the emulator."""

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Binary:
    """A format: exponent and fraction bits below a sign. Every NaN result is ``nan``."""

    exponent: int
    fraction: int
    nan: int
    infinite: bool = True

    @property
    def bits(self):
        return 1 + self.exponent + self.fraction

    @property
    def sign(self):
        return 1 << self.bits - 1

    @property
    def infinity(self):
        """Bits of +infinity, or of what stands behind the largest number where there is none."""
        every = self.sign - 1
        return every - (1 << self.fraction) + 1 if self.infinite else every

    @property
    def bias(self):
        return (1 << self.exponent - 1) - 1

    def number(self, bits):
        """A float for infinity, NaN and zero (with its sign); a Fraction for everything else."""
        bits = int(bits)
        negative, magnitude = bool(bits & self.sign), bits & self.sign - 1
        if magnitude >= self.infinity + (not self.infinite):
            if magnitude == self.infinity and self.infinite:
                return -math.inf if negative else math.inf
            return math.nan
        if not self.infinite and magnitude == self.infinity:
            return math.nan
        if magnitude == 0:
            return -0.0 if negative else 0.0
        field, rest = magnitude >> self.fraction, magnitude & (1 << self.fraction) - 1
        significand = rest + (1 << self.fraction if field else 0)
        value = significand * Fraction(2) ** (max(field, 1) - self.bias - self.fraction)
        return -value if negative else value

    def round(self, value, mode="rn", finite=False):
        """Bits that a number is rounded to. ``value`` as ``number`` returns it."""
        if isinstance(value, float):
            if math.isnan(value):
                return self.nan
            sign = self.sign if math.copysign(1, value) < 0 else 0
            if math.isinf(value):
                return sign | self.infinity - finite
            assert value == 0
            return sign
        negative, magnitude = value < 0, abs(value)
        sign = self.sign if negative else 0
        lowest, highest = 0, self.infinity  # neighbours of the value, by bisection over the bits
        while highest - lowest > 1:
            middle = (lowest + highest) // 2
            if self._value(middle) <= magnitude:
                lowest = middle
            else:
                highest = middle
        below, above = self._value(lowest), self._value(highest)
        if magnitude == below:
            return sign | lowest
        up = {
            "rz": False,
            "rm": negative,
            "rp": not negative,
            "rn": (magnitude - below, lowest % 2 == 0) > (above - magnitude, True)
            or magnitude - below == above - magnitude
            and lowest % 2 == 1,
            "rna": magnitude - below >= above - magnitude,
        }[mode]
        if up and highest == self.infinity and finite:
            up = False
        return sign | (highest if up else lowest)

    def _value(self, magnitude):
        """What the bits would stand for if the format's exponents went on."""
        if magnitude == 0:
            return Fraction(0)
        field, rest = magnitude >> self.fraction, magnitude & (1 << self.fraction) - 1
        significand = rest + (1 << self.fraction if field else 0)
        return significand * Fraction(2) ** (max(field, 1) - self.bias - self.fraction)

    def flush(self, bits):
        """Subnormal numbers as zeros."""
        bits = int(bits)
        return bits if bits & self.infinity >> self.fraction << self.fraction else bits & self.sign

    def tiny(self, value, mode):
        """Subnormal once rounded to all fraction bits, as if exponents had no lower end."""
        if not isinstance(value, Fraction):
            return False
        wide = Binary(self.exponent + 3, self.fraction, 0)
        rounded = wide.number(wide.round(value, mode))
        return abs(rounded) < self._value(1 << self.fraction)

    def saturate(self, bits):
        """``.sat``: within [0, 1], NaN as 0."""
        value = self.number(bits)
        if math.isnan(value) or value <= 0:
            return 0
        return min(bits, self.bias << self.fraction)


F16 = Binary(5, 10, 0x7FFF)
BF16 = Binary(8, 7, 0x7FFF)
F32 = Binary(8, 23, 0x7FFFFFFF)
F64 = Binary(11, 52, 0xFFF8000000000000)
TF32 = Binary(8, 10, 0x3FFFF)
E4M3 = Binary(4, 3, 0x7F, infinite=False)
E5M2 = Binary(5, 2, 0x7F)
FORMATS = {
    "f16": F16,
    "bf16": BF16,
    "f32": F32,
    "f64": F64,
    "tf32": TF32,
    "e4m3": E4M3,
    "e5m2": E5M2,
}


def add(a, b, mode="rn"):
    """``a + b``, exact; the sign of a zero as IEEE 754 wants it."""
    if isinstance(a, float) and a != 0 or isinstance(b, float) and b != 0:
        return (0.0 if isinstance(a, Fraction) else a) + (0.0 if isinstance(b, Fraction) else b)
    if a == 0 and b == 0:
        same = math.copysign(1, a) == math.copysign(1, b)
        return a if same else (-0.0 if mode == "rm" else 0.0)
    total = Fraction(a) + Fraction(b)
    return total if total else (-0.0 if mode == "rm" else 0.0)


def negate(a):
    return -a


def mul(a, b):
    """``a * b``, exact."""
    negative = _negative(a) != _negative(b)
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if a == 0 or b == 0:
        return math.nan if math.inf in (abs(a), abs(b)) else (-0.0 if negative else 0.0)
    return -math.inf if negative else math.inf


def div(a, b):
    """``a / b``, exact."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    negative = _negative(a) != _negative(b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a / b
    if b == 0 or abs(a) == math.inf:
        wrong = a == 0 if b == 0 else abs(b) == math.inf
        return math.nan if wrong else (-math.inf if negative else math.inf)
    return -0.0 if negative else 0.0


def _negative(value):
    return value < 0 or value == 0 and math.copysign(1, value) < 0
