"""Operands that ask the tensor core hard questions: bits from a seed, of every type, by theme.

ordinary   every number within a factor of 16 of one
wide       exponents far apart, so that most terms are cut when they are aligned
cancel     neighbours along K cancel, and C cancels what is left
edges      zeros, subnormal numbers, the smallest and the largest; C near the sum's last bit
tiny       products around the smallest number of D, and bits far below it (f32 from bf16 and tf32,
           f16 from f16: others do not reach so far down)
special    infinities and NaNs among the rest
integers   8-bit integers, extremes among them, and C near the ends of s32
"""

from __future__ import annotations

import numpy

from hopper.emulator.numbers import FORMATS, Format

THEMES = ("ordinary", "wide", "cancel", "edges", "tiny", "special", "integers")
_BYTES = {"s8": 1, "u8": 1} | {name: form.bits // 8 for name, form in FORMATS.items()}


def themes(a_type: str, d_type: str) -> tuple[str, ...]:
    """The themes that an instruction has."""
    if d_type == "s32":
        return ("integers",)
    reaches = a_type in ("bf16", "tf32") or a_type == d_type == "f16"
    return tuple(theme for theme in THEMES[:-1] if theme != "tiny" or reaches)


def operands(
    seed: int,
    theme: str,
    count: int,
    a_type: str,
    b_type: str,
    d_type: str,
    row_bytes: int = 32,
    m: int = 64,
    n: int = 256,
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """A (count, m, K), B (count, n, K), C (count, m, n) as raw bits; K is ``row_bytes`` deep."""
    random = numpy.random.Generator(numpy.random.PCG64([seed, THEMES.index(theme)]))
    a_shape = (count, m, row_bytes // _BYTES[a_type])
    b_shape = (count, n, row_bytes // _BYTES[b_type])
    if theme == "integers":
        return (
            _integers(random, a_shape),
            _integers(random, b_shape),
            _integer_accumulators(random, (count, m, n)),
        )
    a_format, b_format, d_format = FORMATS[a_type], FORMATS[b_type], FORMATS[d_type]
    a = _rows(random, theme, a_shape, a_format, flip=True)
    b = _rows(random, theme, b_shape, b_format, flip=False)
    return a, b, _accumulators(random, theme, a, b, a_format, b_format, d_format)


def edge_magnitudes(form: Format) -> list[int]:
    """Zero, the first and last subnormal and normal numbers, and one, each with its neighbours."""
    low = form.ignored + form.fraction
    largest = form.first_special - (1 << form.ignored)
    unit, one = 1 << form.ignored, form.bias << low
    found = [0, 0, unit, 2 * unit, 3 * unit, (1 << low) - unit, 1 << low - 1, 1 << low]
    found += [(1 << low) + unit, (2 << low) - unit, largest, largest - unit, largest >> low << low]
    found += [one, one + unit, one - unit]
    # What tf32 ignores, alone and below something: would it round?
    half = unit >> 1
    return found + ([half, unit - 1, one + half, one + unit - 1] if half else [])


def special_magnitudes(form: Format) -> list[int]:
    """Infinity, often, and NaNs with several payloads; for tf32 also infinity with ignored bits."""
    if not form.infinities:
        return [form.first_special]
    infinity = form.first_special
    unit, last = 1 << form.ignored, form.sign - 1
    ignored = [infinity + unit - 1, infinity + (unit >> 1)] if form.ignored else []
    return [infinity] * 4 + [infinity + unit, (infinity + last + 1) // 2, last] + ignored


def _rows(random, theme: str, shape, form: Format, flip: bool) -> numpy.ndarray:
    """Rows along K; each has its own style of exponents, fractions, signs and zeros."""
    row = (*shape[:2], 1)
    low = form.ignored + form.fraction
    largest = (form.first_special >> low) - (1 if form.infinities else 0)

    def choice(values, where=row):
        return numpy.array(values)[random.integers(0, len(values), where)]

    sign = random.integers(0, 2, shape)
    sign = numpy.where(choice([0, 0, 0, 1]), choice([0, 1]), sign)
    fraction = random.integers(0, 1 << low, shape)
    style = random.integers(0, 6, row)
    single_bit = 1 << fraction % low
    fraction = numpy.select([style == 0, style == 1, style == 2], [0, -1, single_bit], fraction)
    fraction &= (1 << low) - 1
    spread = choice([0, 1, 2, 4, 8, 16, 64])
    centre = random.integers(0, largest + 1, row)
    if theme == "ordinary":
        spread, centre = 3, form.bias - 1
    elif theme == "tiny" and form.bias == 15:
        return _halfway(random, shape, form, a=flip)
    elif theme == "tiny":
        # Half of -149 each; a few powers of two, so that a single bit far below decides.
        spread, centre = choice([2, 4, 8, 16]), form.bias - 75 - random.integers(0, 8, row)
        fraction = numpy.where(style < 4, 0, fraction)
    elif theme != "edges" and form.bias > 15:
        near_one = form.bias + (centre - form.bias) // 8
        centre = numpy.where(random.integers(0, 3, row) > 0, near_one, centre)
    field = centre + random.integers(-64, 65, shape) % (2 * spread + 1) - spread
    magnitude = numpy.clip(field, 0, largest) << low | fraction
    magnitude = numpy.minimum(magnitude, form.first_special - 1)
    if theme != "ordinary":
        magnitude[choice([0, 0, 4, 12, 15]) > random.integers(0, 16, shape)] = 0
    if theme in ("edges", "special"):
        values, odds = edge_magnitudes(form), [0, 1, 8, 16]
        if theme == "special":
            values, odds = values + 2 * special_magnitudes(form), [0, 0, 0, 1]
        often = choice(odds) > random.integers(0, 16, shape)
        magnitude = numpy.where(often, choice(values, shape), magnitude)
    if theme == "cancel":
        twin = random.integers(0, 8, (*shape[:2], shape[2] // 2)) > 0
        magnitude[..., 1::2] = numpy.where(twin, magnitude[..., ::2], magnitude[..., 1::2])
        sign[..., 1::2] = numpy.where(twin, sign[..., ::2] ^ flip, sign[..., 1::2])
    return (sign * form.sign | magnitude).astype(form.dtype)


def _halfway(random, shape, form: Format, a: bool) -> numpy.ndarray:
    """f16 whose products lie in the middle between two subnormal numbers, but for 2^-48 or so.

    The first along K: 2^-14 in A, a small multiple of 2^-11 in B. The others: single bits.
    """
    bits = 1 << random.integers(0, 11, shape)
    bits[random.integers(0, 4, shape) > 0] = 0
    if a:
        bits[..., 0] = 1 << form.fraction
    else:
        multiple = random.integers(0, 64, shape[:2]) * 2.0**-11
        bits[..., 0] = multiple.astype(numpy.float16).view(numpy.uint16)
    sign = random.integers(0, 2, shape) * form.sign
    return (bits | sign).astype(form.dtype)


def _accumulators(random, theme, a, b, a_format, b_format, form: Format) -> numpy.ndarray:
    """C, element by element: near the products, against their sum, an edge, anything."""
    low = form.fraction
    last_field = (1 << form.bits - 1 - low) - 2
    a_value, b_value = a_format.decode(a)[0], b_format.decode(b)[0]
    out = numpy.empty((len(a), a.shape[1], b.shape[1]), form.dtype)
    edges, specials = edge_magnitudes(form), special_magnitudes(form)
    for one, a_one, b_one in zip(out, a_value.astype(float), b_value.astype(float), strict=True):
        # Sums in a fixed order: the same bits on every machine.
        total, largest = numpy.zeros(one.shape), numpy.zeros(one.shape)
        for a_column, b_column in zip(a_one.T, b_one.T, strict=True):
            product = a_column[:, None] * b_column
            total += product
            numpy.maximum(largest, abs(product), out=largest)
        word = random.integers(0, 1 << 64, one.shape, dtype=numpy.uint64)

        def draw(first, bits, word=word):
            return (word >> numpy.uint64(first)).astype(numpy.int64) & (1 << bits) - 1

        sign, mode, style = draw(0, 1), draw(1, 4), draw(5, 2)
        fraction = numpy.select([style == 0, style == 1], [0, (1 << low) - 1], draw(7, low))
        distance, pick = draw(30, 6) - 32, draw(36, 16)
        exponent = numpy.frexp(largest)[1] - 1 + form.bias
        near = numpy.clip(exponent + distance, 0, last_field) << low | fraction
        anything = numpy.minimum(pick, last_field) if last_field > 99 else pick % (last_field + 1)
        anything = anything % (last_field + 1) << low | fraction
        ordinary = form.bias - 1 + distance // 10 << low | fraction
        edge = numpy.array(edges)[pick % len(edges)]
        special = numpy.array(specials)[pick % len(specials)]
        against, opposite = _against(total, form)
        against = numpy.clip(against + distance % 5 - 2, 0, form.first_special - 1)
        if theme == "ordinary":
            magnitude = numpy.where(mode == 0, 0, ordinary)
        elif theme == "wide":
            magnitude = numpy.select([mode == 0, mode < 3], [0, anything], near)
        elif theme == "cancel":
            magnitude = numpy.select([mode < 3, mode < 6], [0, near], against)
            sign = numpy.where(mode < 6, sign, opposite)
        elif theme == "special":
            magnitude = numpy.select([mode < 3, mode < 8, mode == 8], [0, near, special], edge)
        else:
            magnitude = numpy.select([mode < 3, mode < 8, mode < 10], [0, near, against], edge)
            magnitude = numpy.where((theme == "tiny") & (mode < 12), 0, magnitude)
            sign = numpy.where((mode > 7) & (mode < 10), opposite, sign)
        one[:] = sign * form.sign | magnitude
    return out


def _against(total: numpy.ndarray, form: Format) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Magnitude and sign bit of -total, rounded to the format."""
    kind = numpy.float32 if form.bits == 32 else numpy.float16
    with numpy.errstate(all="ignore"):
        bits = (-total).astype(kind).view(form.dtype).astype(numpy.int64)
    return bits & form.sign - 1, bits >> form.bits - 1


def _integers(random, shape) -> numpy.ndarray:
    row = (*shape[:2], 1)
    style = random.integers(0, 4, row)
    extreme = numpy.array([0, 127, 128, 255])[random.integers(0, 4, shape)]
    same = numpy.array([127, 128, 255, 1])[random.integers(0, 4, row)]
    anything = random.integers(0, 256, shape)
    return numpy.select([style == 0, style == 1], [extreme, same], anything).astype(numpy.uint8)


def _integer_accumulators(random, shape) -> numpy.ndarray:
    mode = random.integers(0, 4, shape)
    anything = random.integers(0, 1 << 32, shape)
    near_the_ends = (1 << 31) + random.integers(-3_000_000, 3_000_000, shape)
    small = random.integers(-9, 9, shape)
    chosen = numpy.select([mode == 0, mode == 1], [anything, small], near_the_ends)
    return (chosen & 0xFFFFFFFF).astype(numpy.uint32)
