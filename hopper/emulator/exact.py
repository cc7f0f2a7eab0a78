"""f64 results from whole numbers, where f64 itself cannot tell what it lost: slow, one at a time.

A number is ``significand * 2**exponent`` with Python's integers; a result is rounded once.
"""

from __future__ import annotations

import math
import struct

_FRACTION, _LEAST, _INFINITY = 52, -1074, 0x7FF << 52
_SIGN = 1 << 63


def fma(a: float, b: float, c: float, mode: str) -> float:
    """``a * b + c`` of finite numbers."""
    m, e = _parts(a)
    n, f = _parts(b)
    p, g = _parts(c)
    product, at = m * n, e + f
    low = min(at, g)
    total = (product << at - low) + (p << g - low)
    if total == 0:
        signs = math.copysign(1, a) * math.copysign(1, b), math.copysign(1, c)
        if signs[0] == signs[1]:
            return math.copysign(0.0, signs[0])
        return -0.0 if mode == "rm" else 0.0
    return rounded(total < 0, abs(total), low, mode)


def mul(a: float, b: float, mode: str) -> float:
    """``a * b`` of finite numbers."""
    m, e = _parts(a)
    n, f = _parts(b)
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    return rounded(negative, abs(m * n), e + f, mode)


def div(a: float, b: float, mode: str) -> float:
    """``a / b`` of finite numbers."""
    m, e = _parts(a)
    n, f = _parts(b)
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    if n == 0:
        return math.copysign(math.inf, -1 if negative else 1) if m else math.nan
    # Far more bits than f64 keeps; the last one says whether anything follows.
    quotient, rest = divmod(abs(m) << 120, abs(n))
    return rounded(negative, quotient | (rest != 0), e - f - 120, mode)


def sqrt(a: float, mode: str) -> float:
    """The root of a finite number, at least 0."""
    m, e = _parts(a)
    wide = 120 + (e & 1)
    root = math.isqrt(m << wide)
    return rounded(False, root | (root * root != m << wide), (e - wide) // 2, mode)


def rounded(negative: bool, significand: int, exponent: int, mode: str) -> float:
    """``significand * 2**exponent``, rounded to f64."""
    if significand == 0:
        return -0.0 if negative else 0.0
    unit = max(significand.bit_length() + exponent - 1 - _FRACTION, _LEAST)
    drop = unit - exponent
    if drop <= 0:
        whole, rest, half = significand << -drop, 0, 1
    else:
        whole, rest, half = significand >> drop, significand & (1 << drop) - 1, 1 << drop - 1
    away = mode == ("rm" if negative else "rp")
    if mode == "rn":
        up = rest > half or rest == half and whole & 1
    else:
        up = away and rest > 0
    bits = whole + bool(up) + (unit - _LEAST << _FRACTION)
    if bits >= _INFINITY:
        bits = _INFINITY - (mode != "rn" and not away)
    return struct.unpack("<d", struct.pack("<Q", bits | (_SIGN if negative else 0)))[0]


def _parts(value: float) -> tuple[int, int]:
    """Whole significand, with the sign, and exponent."""
    fraction, exponent = math.frexp(value)
    return int(math.ldexp(fraction, 53)), exponent - 53
