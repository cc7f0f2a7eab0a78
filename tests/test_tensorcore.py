"""The tensor core's arithmetic against an H200's answers, a reference in whole numbers, and laws.

``vectors/tensorcore.npz`` holds operands of the conformance cases and what an H200 returned for
them. They were chosen so that each wrong model below differs from the hardware on some of them.
"""

from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from hopper.conformance.tensorcore import CASES, QUESTIONS
from hopper.conformance.tensorcore_operands import THEMES, operands
from hopper.emulator import numbers, tensorcore
from hopper.emulator.errors import Unsupported
from hopper.emulator.numbers import FORMATS
from hopper.emulator.tensorcore import multiply_add

VECTORS = Path(__file__).parent / "vectors" / "tensorcore.npz"
FLOATS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32")]
FLOATS += [(name, d) for name in ("e4m3", "e5m2") for d in ("f32", "f16")]
INTEGERS = {"s8": numpy.int8, "u8": numpy.uint8}
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
seeds = some.integers(0, 2**32)
float_themes = some.sampled_from([t for t in THEMES if t not in ("tiny", "integers")])


def _groups() -> dict[str, dict[str, numpy.ndarray]]:
    groups = defaultdict(dict)
    with numpy.load(VECTORS) as file:
        for key in file.files:
            name, _, operand = key.rpartition("|")
            groups[name][operand] = file[key]
    return groups


GROUPS = _groups()
DOTS = sorted(name for name in GROUPS if not name.startswith("tile"))
TILES = sorted(name for name in GROUPS if name.startswith("tile"))


def _computed(name: str) -> numpy.ndarray:
    instruction, d_type, a_type, b_type, *_ = name.removeprefix("tile|").split("|")
    a, b, c = (GROUPS[name][operand] for operand in "abc")
    if name in DOTS:
        a, b, c = a[:, None], b[:, None], c[:, None, None]
    d = multiply_add(
        a,
        b,
        c,
        a_type=a_type,
        b_type=b_type,
        d_type=d_type,
        instruction=instruction,
        satfinite="satfinite" in name,
    )
    return d if name in TILES else d[:, 0, 0]


# ---- What an H200 returned ----------------------------------------------------------------------


@pytest.mark.parametrize("name", DOTS + TILES)
def test_every_bit_is_the_h200s(name):
    there = GROUPS[name]["d"]
    differ = numpy.flatnonzero(_computed(name) != there)
    assert not differ.size, f"{differ.size} of {there.size}, first at {differ[0]}"


def test_the_vectors_cover_every_instruction():
    kinds = {(q.instruction, q.d_type, q.a_type, q.b_type, q.k, q.satfinite) for q in _plain()}
    found = set()
    for name in DOTS:
        instruction, d_type, a_type, b_type, k, *rest = name.split("|")
        found.add((instruction, d_type, a_type, b_type, int(k), bool(rest)))
    assert found == kinds


def _plain():
    return [q for q in QUESTIONS.values() if q.scale_d and not (q.negate_a or q.negate_b)]


def _sum_with(whole):
    def summed(a, b, scale):
        a, b = a.astype(float), b.astype(float)
        return sum(whole(one * other * scale) for one, other in zip(a, b, strict=True))

    return summed


def _rounded_to_f32(total, kept, small):
    quantum = numpy.ldexp(1.0, numpy.frexp(total)[1] - 1 - kept)
    with numpy.errstate(all="ignore"):
        rounded = numpy.where(total == 0, 0, numpy.rint(total / quantum) * quantum)
        return rounded.astype(numpy.float32).view(numpy.uint32)


def _cut_to_f16(total):
    low = numpy.uint64((1 << 64) - (1 << 42))
    return (total.view(numpy.uint64) & low).view(float).astype(numpy.float16).view(numpy.uint16)


def _f16_through_f32(total):
    f32 = tensorcore._cut_to_f32(total, 23, small=True).view(numpy.float32)
    return f32.astype(numpy.float16).view(numpy.uint16)


def _signed_zero(total):
    return total.astype(numpy.float16).view(numpy.uint16)


WRONG = {
    "one bit fewer of each term": ("_ALIGNED", 24),
    "one bit more of each term": ("_ALIGNED", 26),
    "fp8: one bit fewer of each term": ("_ALIGNED_FP8", 12),
    "fp8: one bit more of each term": ("_ALIGNED_FP8", 14),
    "one bit fewer of the result": ("_KEPT", 22),
    "fp8: one bit fewer of the result": ("_KEPT_FP8", 12),
    "fp8: one bit more of the result": ("_KEPT_FP8", 14),
    "aligned one binade further up": ("_BELOW_SMALLEST", 6),
    "aligned one binade further down": ("_BELOW_SMALLEST", 8),
    "terms rounded to nearest": ("_sum_of_products", _sum_with(numpy.rint)),
    "terms rounded down": ("_sum_of_products", _sum_with(numpy.floor)),
    "f32 rounded to nearest": ("_cut_to_f32", _rounded_to_f32),
    "f16 cut": ("_rounded_to_f16", _cut_to_f16),
    "f16 rounded after a cut to f32": ("_rounded_to_f16", _f16_through_f32),
    "f16 with a negative zero": ("_rounded_to_f16", _signed_zero),
    "infinity and NaN not noticed": ("_set_specials", lambda *every: None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_slightly_wrong_model_is_not_the_h200s(monkeypatch, wrong):
    monkeypatch.setattr(tensorcore, *WRONG[wrong])
    assert _a_vector_differs()


def test_zero_has_no_exponent(monkeypatch):
    smallest = property(lambda form: form.smallest_exponent)
    monkeypatch.setattr(numbers.Format, "no_exponent", smallest)
    numbers._tables.cache_clear()
    try:
        assert _a_vector_differs()
    finally:
        numbers._tables.cache_clear()


def test_a_subnormal_number_has_the_smallest_normal_exponent(monkeypatch):
    decode = numbers.Format.decode

    def normalised(form, bits):
        values, exponents = decode(form, bits)
        found = (numpy.frexp(values)[1] - 1).astype(exponents.dtype)
        return values, numpy.where(values == 0, exponents, found)

    monkeypatch.setattr(numbers.Format, "decode", normalised)
    assert _a_vector_differs()


def _a_vector_differs() -> bool:
    floats = (name for name in DOTS if "|s32|" not in name)
    with numpy.errstate(all="ignore"):
        return any((_computed(name) != GROUPS[name]["d"]).any() for name in floats)


# ---- A reference in whole numbers ---------------------------------------------------------------


def _number(bits: int, form) -> tuple[int, int]:
    """Signed significand s and exponent e: the value is s · 2^(e - fraction)."""
    bits >>= form.ignored
    field = bits >> form.fraction & (1 << form.bits - 1 - form.fraction - form.ignored) - 1
    significand = bits & (1 << form.fraction) - 1 | (field > 0) << form.fraction
    negative = bits >> form.bits - 1 - form.ignored
    return -significand if negative else significand, max(field, 1) - form.bias


def _toward_zero(number: int, shift: int) -> int:
    """number · 2^shift without its fraction."""
    if shift >= 0:
        return number << shift
    return -(-number >> -shift) if number < 0 else number >> -shift


def _reference(a, b, c, form, d_form, normalise: bool = False) -> float:
    """The model on finite numbers, in Python's integers: an f32 or f16 result, as float.

    ``normalise``: a wrong model, in which a product of two or more counts with a higher exponent.
    """
    aligned, kept = (13, 13) if form.bits == 8 else (25, 23)
    terms, exponents = [], []
    for one, other in zip(a, b, strict=True):
        (x, x_exponent), (y, y_exponent) = _number(int(one), form), _number(int(other), form)
        carry = normalise and abs(x * y) >> 2 * form.fraction + 1
        terms.append((x * y, x_exponent + y_exponent, 2 * form.fraction))
        exponents += [x_exponent + y_exponent + bool(carry)] if x * y else []
    significand, exponent = _number(int(c), d_form)
    terms.append((significand, exponent, d_form.fraction))
    exponents += [exponent] if significand else []
    top = max([d_form.smallest_exponent - 7, *exponents])
    total = sum(_toward_zero(s, aligned - top + e - fraction) for s, e, fraction in terms)
    lowest = top - aligned
    if d_form.bits == 32:
        exponent = max(total.bit_length() - 1 + lowest, d_form.smallest_exponent)
        quantum = exponent - kept
        total, lowest = _toward_zero(total, lowest - quantum), quantum
    else:
        exponent = max(total.bit_length() - 1 + lowest, d_form.smallest_exponent)
        drop = exponent - d_form.fraction - lowest
        if drop > 0:
            half, low = 1 << drop - 1, total & (1 << drop) - 1
            total >>= drop
            total += low > half or low == half and total & 1
            lowest += drop
    largest = 2.0 ** (d_form.bias + 1)
    value = float(total) * 2.0**lowest
    return value if abs(value) < largest else numpy.copysign(numpy.inf, value)


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
@settings(max_examples=12, deadline=None)
@given(seed=seeds, theme=some.sampled_from(["ordinary", "wide", "cancel", "edges", "tiny"]))
def test_finite_results_are_the_references(name, d_type, seed, theme):
    theme = "edges" if theme == "tiny" and name in ("e4m3", "e5m2") else theme
    form, d_form = FORMATS[name], FORMATS[d_type]
    a, b, c = operands(seed, theme, 1, name, name, d_type, m=4, n=8)
    d = _multiply(a, b, c, name, d_type)[0].view(numpy.float32 if d_form.bits == 32 else "f2")
    for row, column in product(range(4), range(8)):
        expected = _reference(a[0, row], b[0, column], c[0, row, column], form, d_form)
        assert d[row, column] == expected
        assert not numpy.signbit(d[row, column]) or expected < 0


def _multiply(a, b, c, name, d_type, **more):
    return multiply_add(a, b, c, a_type=name, b_type=name, d_type=d_type, **more)


@pytest.mark.parametrize("name", ["wgmma|f32|f16|f16|16", "wgmma|f32|e4m3|e4m3|32"])
def test_the_product_of_two_significands_is_not_normalised(name):
    form = FORMATS[name.split("|")[2]]
    a, b, c, d = (GROUPS[name][operand] for operand in "abcd")
    special = form.is_nan(a) | form.is_nan(b) | form.is_infinite(a) | form.is_infinite(b)
    finite = ~special.any(axis=1) & (c & 0x7FFFFFFF < numbers.F32.first_special)
    found = {False: 0, True: 0}
    for i in numpy.flatnonzero(finite):
        for normalise in found:
            value = _reference(a[i], b[i], c[i], form, numbers.F32, normalise)
            found[normalise] += value != d[i : i + 1].view(numpy.float32)[0]
    assert found[False] == 0
    assert found[True] > 3


# ---- Laws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_small_whole_numbers_are_summed_exactly(name, d_type, seed):
    random = numpy.random.default_rng(seed)
    form, d_form = FORMATS[name], FORMATS[d_type]
    every = numpy.arange(1 << form.bits).astype(form.dtype) if form.bits < 32 else None
    numbers_of = {}
    for value in range(-4, 5):
        numbers_of[value] = (
            numpy.float32(value).view(numpy.uint32)
            if every is None
            else every[form.decode(every)[0] == value][0]
        )
    a, b = (random.integers(-4, 5, (rows, K[name])) for rows in (16, 40))
    c = random.integers(-99, 100, (16, 40))
    a_bits, b_bits = (
        numpy.vectorize(numbers_of.get, otypes=[form.dtype])(operand) for operand in (a, b)
    )
    kind = numpy.float32 if d_form.bits == 32 else numpy.float16
    d = _multiply(a_bits, b_bits, c.astype(kind).view(d_form.dtype), name, d_type)
    assert (d.view(kind) == a @ b.T + c).all()


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
@settings(max_examples=6, deadline=None)
@given(seed=seeds, theme=float_themes)
def test_the_order_along_k_does_not_matter(name, d_type, seed, theme):
    a, b, c = operands(seed, theme, 1, name, name, d_type, m=16, n=40)
    order = numpy.random.default_rng(seed).permutation(K[name])
    d = _multiply(a, b, c, name, d_type)
    assert (_multiply(a[..., order], b[..., order], c, name, d_type) == d).all()


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
@settings(max_examples=6, deadline=None)
@given(seed=seeds, theme=float_themes)
def test_negation_negates(name, d_type, seed, theme):
    a, b, c = operands(seed, theme, 1, name, name, d_type, m=16, n=40)
    sign, d_sign = FORMATS[name].sign, FORMATS[d_type].sign
    d = _multiply(a, b, c, name, d_type)
    flipped = _multiply(a ^ a.dtype.type(sign), b, c, name, d_type)
    assert (_multiply(a, b, c, name, d_type, negate_a=True) == flipped).all()
    assert (_multiply(a, b, c, name, d_type, negate_b=True) == flipped).all()
    assert (_multiply(a, b, c, name, d_type, negate_a=True, negate_b=True) == d).all()
    opposite = _multiply(a, b, c ^ c.dtype.type(d_sign), name, d_type, negate_a=True)
    plain = (d == 0) | (d == d_sign - 1)
    assert (opposite == numpy.where(plain, d, d ^ d.dtype.type(d_sign))).all()


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
@settings(max_examples=6, deadline=None)
@given(seed=seeds, theme=float_themes)
def test_instructions_are_independent_however_they_are_grouped(name, d_type, seed, theme):
    a, b, c = operands(seed, theme, 3, name, name, d_type, m=16, n=40)
    together = _multiply(a[None], b[None], c[None], name, d_type)
    assert together.shape == (1, 3, 16, 40)
    for i in range(3):
        assert (_multiply(a[i], b[i], c[i], name, d_type) == together[0, i]).all()
        few = _multiply(a[i], b[i, :8], c[i, :, :8], name, d_type)
        assert (few == together[0, i, :, :8]).all()


@pytest.mark.parametrize(("name", "d_type"), FLOATS)
def test_without_c_it_is_added_to_nothing(name, d_type):
    a, b, c = operands(1, "edges", 1, name, name, d_type, m=16, n=40)
    d = _multiply(a, b, None, name, d_type)
    for zero in (0, FORMATS[d_type].sign):
        assert (_multiply(a, b, numpy.full_like(c, zero), name, d_type) == d).all()


@pytest.mark.parametrize("a_type", INTEGERS)
@pytest.mark.parametrize("b_type", INTEGERS)
@pytest.mark.parametrize("saturate", [False, True])
def test_integers_are_exact_and_then_wrap_or_saturate(a_type, b_type, saturate):
    a, b, c = operands(3, "integers", 2, a_type, b_type, "s32")
    types = {"a_type": a_type, "b_type": b_type, "d_type": "s32"}
    d = multiply_add(a, b, c, **types, satfinite=saturate).view(numpy.int32)
    a, b = a.view(INTEGERS[a_type]).astype(int), b.view(INTEGERS[b_type]).astype(int)
    exact = a @ b.swapaxes(1, 2) + c.view(numpy.int32)
    beyond = exact != exact.astype(numpy.int32)
    assert beyond.any()
    ends = exact.clip(-(2**31), 2**31 - 1)
    assert (d == (ends if saturate else exact.astype(numpy.int32))).all()


# ---- What is refused ----------------------------------------------------------------------------

ROW = {"f16": numpy.zeros((8, 16), numpy.uint16), "s8": numpy.zeros((8, 32), numpy.uint8)}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"d_type": "s32"}, "s32.f16.f16"),
        ({"b_type": "bf16"}, "f32.f16.bf16"),
        ({"a_type": "f64", "b_type": "f64"}, "f32.f64.f64"),
        ({"instruction": "wmma"}, "wmma f32.f16.f16"),
        ({"satfinite": True}, "satfinite"),
        ({"a_type": "bf16", "b_type": "bf16", "d_type": "f16"}, "f16.bf16.bf16"),
    ],
)
def test_what_is_unknown_is_refused_by_name(changes, named):
    known = {"a_type": "f16", "b_type": "f16", "d_type": "f32"}
    with pytest.raises(Unsupported, match=named):
        multiply_add(ROW["f16"], ROW["f16"], None, **(known | changes))


def test_wrong_depth_width_and_negation_are_refused():
    half = {"a_type": "f16", "b_type": "f16", "d_type": "f32"}
    with pytest.raises(Unsupported, match="K=8"):
        multiply_add(ROW["f16"][:, :8], ROW["f16"][:, :8], None, **half)
    multiply_add(ROW["f16"][:, :8], ROW["f16"][:, :8], None, **half, instruction="mma.sync")
    with pytest.raises(Unsupported, match="uint16"):
        multiply_add(ROW["f16"].view(numpy.float16), ROW["f16"], None, **half)
    byte = {"a_type": "s8", "b_type": "s8", "d_type": "s32"}
    with pytest.raises(Unsupported, match="negate"):
        multiply_add(ROW["s8"], ROW["s8"], None, **byte, negate_a=True)


# ---- The cases ----------------------------------------------------------------------------------


def test_cases_ask_ten_million_outputs_of_every_wgmma():
    asked = defaultdict(int)
    for question in _plain():
        if question.instruction == "wgmma" and not question.a_in_registers:
            asked[question.d_type, question.a_type, question.b_type] += question.count * 64 * 256
    assert len(asked) == 16
    assert min(asked.values()) > 10_000_000
    assert len({case.name for case in CASES}) == len(CASES)


def test_operands_come_from_the_seed_alone():
    one, again = (operands(5, "cancel", 2, "f16", "f16", "f32") for _ in range(2))
    for first, second in zip(one, again, strict=True):
        assert (first == second).all()
    assert (operands(6, "cancel", 2, "f16", "f16", "f32")[0] != one[0]).any()
