"""Operands for single scalar instructions: edges against edges, then numbers hard to round.

``operands`` makes arrays of raw bits, one for each source; ``scalar_case`` makes the case that
applies a list of forms to them (``kernels/probes/scalar.cu``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy

from hopper.conformance import Case, blank
from hopper.emulator.numbers import BF16, F16, F32, Format
from hopper.emulator.rounding import F64

BLOCK = 128
_LETTERS = {16: "h", 32: "r", 64: "l"}
_FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
#: A source that takes every value of 16 bits in turn.
EVERY = "every 16"
_REGISTER = {EVERY: 16, "f16x2": 32, "bf16x2": 32, "u8": 16, "s8": 16}
#: Odd numbers whose product is 2**(fraction + 2) - 1, of the formats with .ftz: of the smallest
#: normal number that is a tie, between it and the number below it if exponents had no lower end.
_TIE = {"f32": (31, 1082401), "f16": (63, 65)}
#: Values at which conversions change their mind: ends of integer types, ties, ends of f16 and fp8.
_TURNS = (
    *(0.5, 1.5, 2.5, 0.49999997, 0.50000006, 127.0, 127.5, 128.0, 128.5, 255.0, 255.5, 256.0),
    *(32767.0, 32767.5, 32768.0, 65535.0, 65535.5, 65536.0, 2147483520.0, 2147483648.0),
    *(2147483647.5, 4294967040.0, 4294967295.5, 4294967296.0, 9.223371487098962e18, 2.0**63),
    *(1.8446742974197924e19, 2.0**64, 65504.0, 65519.0, 65520.0, 65536.0, 448.0, 464.0, 480.0),
    *(57344.0, 61440.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 2.0**-14, 2.0**-15, 1023.5 * 2.0**-24),
    *(2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-16, 2.0**-17, 3.3895314e38, 3.4e38, 3.396e38),
    *(2.0**-126 * (1 - 2.0**-k) for k in (23, 24, 25, 26, 30)),
)


def width(kind: str) -> int:
    """Bits of the register that holds a value of a PTX type."""
    return _REGISTER.get(kind) or int(kind.lstrip("bfsu"))


def scalar_case(
    name: str, forms: Sequence[str], result: str, sources: Sequence[str], count: int = 2048
) -> Case:
    """A case that executes each of ``forms`` on ``count`` elements.

    A form is PTX text with %0 for the result and %1, %2, %3 for the sources; ``result`` and
    ``sources`` are their PTX types, which choose the registers and the operands.
    """
    kinds = [*sources, *["u32"] * (3 - len(sources))]
    letters = [_LETTERS[width(kind)] for kind in (result, *kinds)]
    return Case(
        name,
        "probes/scalar.cu",
        "scalar",
        partial(_arguments, len(forms), result, tuple(kinds), count),
        (3,),
        grid=(count // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
        defines={
            "FORMS": " ".join(f'FORM("{form}")' for form in forms),
            **dict(zip("DABC", letters, strict=True)),
        },
    )


def _arguments(forms: int, result: str, kinds: tuple[str, ...], count: int) -> list:
    made = operands(kinds, count)
    return [*made, blank((forms, count), f"u{width(result) // 8}")]


def operands(kinds: Sequence[str], count: int) -> list[numpy.ndarray]:
    """Raw bits for sources of these types, ``count`` elements each."""
    rng = numpy.random.default_rng([count, *(ord(letter) for letter in "".join(kinds))])
    made = [_number(rng, kind, place, count) for place, kind in enumerate(kinds[:2])]
    if kinds[0] in _FLOATS and kinds[0] == kinds[1]:
        _put_nearly_normal(kinds[0], *made)
    if kinds[0] in _FLOATS and kinds[0] == kinds[2]:
        return [*made, _addend(rng, kinds[0], *made)]
    return [*made, _number(rng, kinds[2], 2, count)]


def _number(rng, kind: str, place: int, count: int) -> numpy.ndarray:
    """Source number ``place``. Edges of sources 0 and 1 meet in every combination."""
    single = kind.removesuffix("x2")
    if single != kind:
        both = [_number(rng, single, place, 2 * count) for _ in range(2)]
        low, high = both[0][:count], numpy.roll(both[1], 41)[:count]
        return high.astype(numpy.uint32) << numpy.uint32(16) | low
    if kind == EVERY:
        return numpy.arange(count).astype(numpy.uint16)
    edges = _float_edges(single) if single in _FLOATS else _integer_edges(kind)
    wild = _wild_floats if single in _FLOATS else _wild_integers
    crossed = edges.size**2
    if place > 1:
        chosen = rng.choice(edges, count)
        return numpy.where(rng.random(count) < 0.5, chosen, wild(rng, kind, count))
    if crossed > count // 2:
        # Too many to meet all: at random, but each at least once.
        first = numpy.concatenate([edges, rng.choice(edges, count)])[: count // 2]
        first = first if place == 0 else rng.permutation(first)
    else:
        first = numpy.repeat(edges, edges.size) if place == 0 else numpy.tile(edges, edges.size)
    return numpy.concatenate([first, wild(rng, kind, count - first.size)])


def _integer_edges(kind: str) -> numpy.ndarray:
    bits = width(kind)
    top = 1 << bits - 1
    values = [0, 1, 2, 3, 5, 10, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF]
    values += [top - 1, top, top + 1, -1, -2, -3, -127, -128, -129, -32768, -32769, 0x7FFFFF]
    values += [0x800000, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, -0x80000000]
    kept = dict.fromkeys(value % (1 << bits) for value in values)
    return numpy.array(list(kept), f"u{bits // 8}")


def _wild_integers(rng, kind: str, count: int) -> numpy.ndarray:
    """Of every length in bits, some of them small counts."""
    bits = width(kind)
    wild = rng.integers(0, 1 << bits, count, dtype=f"u{bits // 8}")
    wild = wild >> rng.integers(0, bits, count).astype(wild.dtype)
    small = rng.integers(0, 2 * bits, count).astype(wild.dtype)
    signs = rng.integers(0, 2, count).astype(wild.dtype)
    return numpy.where(rng.random(count) < 0.25, small, numpy.where(signs, ~wild, wild))


def _float_edges(kind: str) -> numpy.ndarray:
    """Zeros, subnormals, the neighbours of 1, the largest, infinities, NaNs, of both signs."""
    form = _FLOATS[kind]
    one = form.bias << form.fraction
    first = 1 << form.fraction
    quiet = form.first_special | first >> 1
    magnitudes = [0, 1, 2, first - 1, first, first + 1, first | first >> 1, 2 * first]
    magnitudes += [one - 1, one, one + 1, one + (first >> 1), one + first, one - first]
    magnitudes += [form.first_special - 1, form.first_special - 2, form.first_special]
    magnitudes += [form.first_special + 1, quiet, quiet + 5, form.sign - 1]
    return numpy.array([m | s for m in magnitudes for s in (0, form.sign)], form.dtype)


def _turns(form: Format, kind: str) -> numpy.ndarray:
    """Where conversions turn, each with its neighbours, of both signs."""
    values = numpy.array(_TURNS)
    if kind == "f64":
        bits = values.view(numpy.uint64)
    else:
        bits = values.astype(numpy.float32).view(numpy.uint32)
        bits = {
            "f32": lambda: bits,
            "bf16": lambda: bits >> 16,
            "f16": lambda: numpy.clip(values, 0, 65504).astype(numpy.float16).view(numpy.uint16),
        }[kind]()
    near = numpy.concatenate([bits - bits.dtype.type(1), bits, bits + bits.dtype.type(1)])
    return numpy.concatenate([near, near | near.dtype.type(form.sign)]).astype(form.dtype)


def _wild_floats(rng, kind: str, count: int) -> numpy.ndarray:
    """Any bits, close exponents, short significands (their products tie), ends, turns."""
    form = _FLOATS[kind]
    dtype, fraction = form.dtype, form.fraction
    largest = (form.first_special >> fraction) - 1
    any_bits = rng.integers(0, 1 << form.bits, count, dtype=dtype)
    significand = any_bits & dtype.type((1 << fraction) - 1)
    sign = any_bits & dtype.type(form.sign)
    close = form.bias + rng.integers(-4, 5, count)
    far = form.bias + rng.integers(-fraction - 3, fraction + 4, count)
    ends = numpy.where(rng.random(count) < 0.5, rng.integers(0, 4, count), largest - 1)
    # The product of two such has half the range's exponent: near the subnormal numbers.
    halves = (form.bias // 2) + rng.integers(-3, 4, count)
    short = significand & dtype.type((1 << fraction) - (1 << fraction // 2))
    edge = dtype.type(1 << fraction // 2) * (any_bits & dtype.type(1))
    kinds = [
        any_bits,
        sign | _field(close, form) | significand,
        sign | _field(far, form) | short | edge,
        sign | _field(numpy.minimum(ends, largest), form) | significand,
        sign | _field(halves, form) | _beside_one(rng, form, count),
        rng.choice(_turns(form, kind), count),
    ]
    return numpy.choose(rng.integers(0, len(kinds), count), kinds).astype(dtype)


def _field(exponent: numpy.ndarray, form: Format) -> numpy.ndarray:
    return exponent.astype(form.dtype) << form.dtype.type(form.fraction)


def _beside_one(rng, form: Format, count: int) -> numpy.ndarray:
    """Significands 1 + 2^-k and 2 - 2^-k: a product of two may round up to the next power of 2."""
    power = form.dtype.type(1) << rng.integers(0, form.fraction, count).astype(form.dtype)
    every = form.dtype.type((1 << form.fraction) - 1)
    return numpy.where(rng.random(count) < 0.5, power, every & ~power + form.dtype.type(1))


def _put_nearly_normal(kind: str, a: numpy.ndarray, b: numpy.ndarray) -> None:
    """Put pairs at the end whose product is (1 + 2^-k)(1 - 2^-k) of the smallest normal number.

    All are subnormal; for large k they round up to the smallest normal number. One more is a tie.
    """
    form = _FLOATS[kind]
    k = numpy.arange(1, form.fraction + 1).astype(form.dtype)
    power = form.dtype.type(1) << form.dtype.type(form.fraction) - k
    every = form.dtype.type((1 << form.fraction) - 1)
    low = form.bias // 2
    above = _field(numpy.full(k.size, low), form) | power
    # 2 - 2 * 2^-k, and an exponent that brings the product's to the smallest.
    below = _field(numpy.full(k.size, form.bias - low), form) | every - (power << 1) + 1
    signs = (k & form.dtype.type(1)) << form.dtype.type(form.bits - 1)
    a[-k.size :], b[-k.size :] = above, below | signs
    if kind in _TIE:
        tie = [odd << form.fraction + 1 - odd.bit_length() for odd in _TIE[kind]]
        exponents = _field(numpy.array([low, form.bias - low]), form)
        a[-k.size - 1], b[-k.size - 1] = exponents | numpy.array(tie, form.dtype) & every


def _addend(rng, kind: str, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """For ``a * b + c``: any number, one that nearly cancels the product, or one far below it."""
    form = _FLOATS[kind]
    count = a.size
    free = _number(rng, kind, 2, count)
    with numpy.errstate(all="ignore"):
        product = _rounded_product(kind, a, b)
    step = rng.integers(-2, 3, count).astype(form.dtype)
    cancels = (product ^ form.dtype.type(form.sign)) + step
    tiny = (free & form.dtype.type(form.sign)) | rng.integers(0, 3, count).astype(form.dtype)
    return numpy.choose(rng.integers(0, 3, count), [free, cancels, tiny])


def _rounded_product(kind: str, a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """Bits of ``a * b``; the same NaN on every machine that makes the inputs."""
    form = _FLOATS[kind]
    if kind == "bf16":
        wide = [(bits.astype(numpy.uint32) << numpy.uint32(16)).view("f4") for bits in (a, b)]
        bits = ((wide[0] * wide[1]).view(numpy.uint32) >> numpy.uint32(16)).astype(numpy.uint16)
    else:
        bits = (a.view(f"f{a.itemsize}") * b.view(f"f{a.itemsize}")).view(a.dtype)
    nan = bits & form.dtype.type(form.sign - 1) > form.first_special
    return numpy.where(nan, form.dtype.type(form.sign - 1), bits)
