"""Floating-point instructions against fractions, rounded once, and against what PTX says of NaN."""

import itertools
import math
from fractions import Fraction

import numpy
import pytest
import scalar_reference as ref
from hypothesis import given, settings
from hypothesis import strategies as st
from scalar_reference import FORMATS
from scalar_runner import one, run

from hopper.conformance.scalar_inputs import operands
from hopper.emulator.errors import Unsupported

MODES = ["rn", "rz", "rm", "rp"]
SCALARS = ["f16", "bf16", "f32", "f64"]


def inputs(kind, count=500):
    with numpy.errstate(all="ignore"):
        return operands([kind] * 3, count)


def expected(form, value, mode="rn", ftz=False, sat=False):
    bits = form.round(value, mode)
    if ftz and form.tiny(value, mode):
        bits &= form.sign
    return form.saturate(bits) if sat else bits


def compare(got, wanted, sources, form):
    """Every bit; NaN of f64 has a payload, which is tested on its own."""
    for at, (g, w) in enumerate(zip(got.tolist(), wanted, strict=True)):
        if form is ref.F64 and w == form.nan:
            assert math.isnan(form.number(g))
            continue
        given_ = [hex(int(source[at])) for source in sources]
        assert g == w, f"{given_} gives {g:#x} instead of {w:#x}"


def numbers(form, arrays, ftz):
    for values in zip(*arrays, strict=True):
        yield [form.number(form.flush(v) if ftz else v) for v in values]


def forms(kind):
    """Rounding modes, .ftz and .sat that a type has."""
    modes = MODES if kind in ("f32", "f64") else ["rn"]
    ftz = [False, True] if kind in ("f32", "f16") else [False]
    return [
        (mode, f, s) for mode in modes for f in ftz for s in ftz if kind == "f32" or not (f and s)
    ]


@pytest.mark.parametrize("kind", SCALARS)
def test_sums_and_products_are_rounded_once(kind):
    form = FORMATS[kind]
    arrays = inputs(kind)[:2]
    for mode, ftz, sat in forms(kind):
        tail = f"{'.ftz' * ftz}{'.sat' * sat}.{kind}"
        values = list(numbers(form, arrays, ftz))
        for name, exact in (
            ("add", lambda a, b, m=mode: ref.add(a, b, m)),
            ("sub", lambda a, b, m=mode: ref.add(a, -b, m)),
            ("mul", ref.mul),
        ):
            got = one(f"{name}.{mode}{tail}", kind, [kind] * 2, *arrays)
            wanted = [expected(form, exact(*pair), mode, ftz, sat) for pair in values]
            compare(got, wanted, arrays, form)


@pytest.mark.parametrize("kind", SCALARS)
def test_fma_is_rounded_once(kind):
    form = FORMATS[kind]
    arrays = inputs(kind, 800)
    for mode, ftz, sat in forms(kind):
        got = one(f"fma.{mode}{'.ftz' * ftz}{'.sat' * sat}.{kind}", kind, [kind] * 3, *arrays)
        wanted = [
            expected(form, ref.add(ref.mul(a, b), c, mode), mode, ftz, sat)
            for a, b, c in numbers(form, arrays, ftz)
        ]
        compare(got, wanted, arrays, form)


def fma_of(*values):
    """One f32 fma, alone in its block, and its exact value, rounded."""
    arrays = [numpy.full(128, value, "f4") for value in values]
    got = one("fma.rn.f32", "f32", ["f32"] * 3, *(array.view("u4") for array in arrays))
    a, b, c = (Fraction(float(array[0])) for array in arrays)
    return int(got[0]), ref.F32.round(a * b + c)


@given(st.integers(1 << 10, (1 << 11) - 1), st.integers(1 << 11, (1 << 12) - 1), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_fma_of_f32_decides_ties_by_what_lies_below(a, b, shift):
    # A product of odd numbers of 12 and 13 bits often lies between two f32.
    for sign in (1.0, -1.0):
        got, wanted = fma_of(2 * a + 1, 2 * b + 1, sign * 2.0 ** (-20 - shift))
        assert got == wanted


def test_fma_of_f32_decides_ties_of_subnormal_numbers():
    # The product is just below half of the smallest number.
    ulp = 2.0**-23
    got, wanted = fma_of((1 + ulp) * 2.0**-75, (1 - ulp) * 2.0**-75, 2.0**-130 + 2.0**-149)
    assert got == wanted


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_of_ordinary_numbers(kind):
    rng, form = numpy.random.default_rng(5), FORMATS[kind]
    a, b, c = (rng.standard_normal(512).astype(f"f{form.bits // 8}") for _ in range(3))
    c[::3] = -(a * b)[::3]  # cancels all but what rounding lost
    c[1::5] *= 1e-18
    arrays = [value.view(f"u{form.bits // 8}") for value in (a, b, c)]
    got = one(f"fma.rn.{kind}", kind, [kind] * 3, *arrays)
    exact = [ref.add(ref.mul(*two), three) for *two, three in numbers(form, arrays, False)]
    assert got.tolist() == [form.round(value) for value in exact]


@given(st.integers(2**26, 2**27 - 1), st.integers(2**26, 2**27 - 1), st.integers(0, 120))
@settings(max_examples=40, deadline=None)
def test_fma_of_f64_decides_ties_by_what_lies_below(a, b, shift):
    # A product of odd numbers of 27 bits has 54 bits, or 53.
    values = a | 1, b | 1
    for sign in (1, -1):
        tiny = sign * 2.0 ** (-1 - shift)
        arrays = [numpy.full(128, value, "f8").view("u8") for value in (*values, tiny)]
        got = one("fma.rn.f64", "f64", ["f64"] * 3, *arrays)
        assert int(got[0]) == ref.F64.round(values[0] * values[1] + Fraction(tiny))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_quotients_reciprocals_and_roots_are_rounded_once(kind):
    form = FORMATS[kind]
    a, b, _ = inputs(kind)
    for mode, ftz in itertools.product(MODES, [False, True] if kind == "f32" else [False]):
        tail = f"{mode}{'.ftz' * ftz}.{kind}"
        pairs = list(numbers(form, (a, b), ftz))
        got = one(f"div.{tail}", kind, [kind] * 2, a, b)
        wanted = [expected(form, ref.div(x, y), mode, ftz) for x, y in pairs]
        compare(got, wanted, (a, b), form)
        got = one(f"rcp.{tail}", kind, [kind], a)
        wanted = [expected(form, ref.div(Fraction(1), x), mode, ftz) for x, _ in pairs]
        compare(got, wanted, (a,), form)
        got = one(f"sqrt.{tail}", kind, [kind], a)
        for at, (x, _) in enumerate(pairs):
            check_root(form, x, int(got[at]), mode)


def check_root(form, x, bits, mode):
    if math.isnan(x) or x < 0:
        assert math.isnan(form.number(bits))
    elif isinstance(x, float):
        assert bits == form.round(x)
    else:
        root = form.number(bits)
        above, below = form.number(bits + 1), form.number(bits - 1)
        if mode in ("rz", "rm"):
            assert root**2 <= x < above**2
        elif mode == "rp":
            assert below**2 < x <= root**2
        else:
            assert ((root + below) / 2) ** 2 <= x <= ((root + above) / 2) ** 2


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_a_pair_is_two_halves(kind):
    a, b, c = inputs(kind, 1024)
    pairs = [numpy.ascontiguousarray(v).view("u4") for v in (a, b, c)]
    options = ["", ".ftz", ".sat"] if kind == "f16" else [""]
    for option, name in itertools.product(options, ("add", "sub", "mul")):
        single = one(f"{name}{option}.{kind}", kind, [kind] * 2, a, b)
        both = one(f"{name}{option}.{kind}x2", "b32", ["b32"] * 2, *pairs[:2])
        assert (both.view("u2") == single).all()
    for name in ("fma.rn", "fma.rn.relu", "fma.rn.oob"):
        single = one(f"{name}.{kind}", kind, [kind] * 3, a, b, c)
        both = one(f"{name}.{kind}x2", "b32", ["b32"] * 3, *pairs)
        assert (both.view("u2") == single).all()
    for name in ("min", "max.NaN", "min.xorsign.abs"):
        single = one(f"{name}.{kind}", kind, [kind] * 2, a, b)
        both = one(f"{name}.{kind}x2", "b32", ["b32"] * 2, *pairs[:2])
        assert (both.view("u2") == single).all()
    constant = run(f"mul.{kind}x2 %r0, %s0, 0x3c003f80;", ["b32"], ["b32"], pairs[0])[0].view("u2")
    for half, factor in ((0, 0x3F80), (1, 0x3C00)):
        same = numpy.full_like(a[half::2], factor)
        assert (constant[half::2] == one(f"mul.{kind}", kind, [kind] * 2, a[half::2], same)).all()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_relu_leaves_nothing_negative(kind):
    form = FORMATS[kind]
    arrays = inputs(kind)
    got = one(f"fma.rn.relu.{kind}", kind, [kind] * 3, *arrays)
    plain = one(f"fma.rn.{kind}", kind, [kind] * 3, *arrays)
    assert (got == numpy.where(plain & form.sign, 0, plain)).all()
    assert (plain & form.sign).any() and (got == form.nan).any()


@pytest.mark.parametrize("kind", SCALARS)
def test_signs(kind):
    form = FORMATS[kind]
    a = inputs(kind)[0]
    for name, bits in (("neg", a ^ form.sign), ("abs", a & (form.sign - 1))):
        got = one(f"{name}.{kind}", kind, [kind], a)
        compare(got, [form.nan if math.isnan(form.number(b)) else int(b) for b in bits], (a,), form)


@pytest.mark.parametrize("kind", SCALARS)
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes(kind, name):
    form = FORMATS[kind]
    a, b, _ = inputs(kind)
    options = itertools.product([False, True], [False, True]) if kind != "f64" else [(False,) * 2]
    for nan, xorsign in options:
        opcode = f"{name}{'.NaN' * nan}{'.xorsign.abs' * xorsign}.{kind}"
        got = one(opcode, kind, [kind] * 2, a, b)
        for at, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            sign = (x ^ y) & form.sign if xorsign else 0
            if xorsign:
                x, y = x & form.sign - 1, y & form.sign - 1
            p, q = form.number(x), form.number(y)
            if math.isnan(p) and math.isnan(q) or nan and (math.isnan(p) or math.isnan(q)):
                assert math.isnan(form.number(got[at]))
                assert kind == "f64" or got[at] == form.nan
                continue
            if math.isnan(p) or math.isnan(q):
                chosen = y if math.isnan(p) else x
            else:
                # -0 is less than +0.
                order = [((n > 0) - (n < 0) or math.copysign(0.5, n)) for n in (p, q)]
                less = (p < q) if p != q else order[0] < order[1]
                chosen = x if less == (name == "min") else y
            assert got[at] == chosen | sign, (opcode, hex(x), hex(y))


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_what_rounds_up_to_the_smallest_normal_number_is_kept(kind):
    # (1 + 2^-k)(1 - 2^-k) of it: just below, and less than half a unit below for large k.
    form = FORMATS[kind]
    k = numpy.arange(1, form.fraction + 1)
    float_type = f"f{form.bits // 8}"
    low = 2.0 ** ((1 - form.bias) // 2)
    a, b = (1 + 2.0**-k) * low, (1 - 2.0**-k) * (2.0 ** (1 - form.bias) / low)
    arrays = [numpy.concatenate([v, -v]).astype(float_type) for v in (a, b)]
    bits = [v.view(f"u{form.bits // 8}") for v in arrays]
    for mode in MODES if kind == "f32" else ["rn"]:
        values = list(numbers(form, bits, True))
        got = one(f"mul.{mode}.ftz.{kind}", kind, [kind] * 2, *bits)
        wanted = [expected(form, ref.mul(*pair), mode, True) for pair in values]
        compare(got, wanted, bits, form)
    kept = one(f"mul.rn.ftz.{kind}", kind, [kind] * 2, *bits) & (form.sign - 1)
    assert 0 in kept and 1 << form.fraction in kept


@pytest.mark.parametrize(
    ("opcode", "kind", "sources", "answer"),
    [
        # (1 - 2^-24) of the smallest normal number is an f32 if exponents have no lower end.
        ("mul.rn.ftz", "f32", (0x00800000, 0x3F7FFFFF), 0x00000000),
        ("mul.rp.ftz", "f32", (0x80800000, 0xBF7FFFFF), 0x00000000),
        ("mul.rm.ftz", "f32", (0x80800000, 0x3F7FFFFF), 0x80000000),
        ("mul.rn", "f32", (0x00800000, 0x3F7FFFFF), 0x00800000),
        ("div.rm.ftz", "f32", (0x80800000, 0x3F800001), 0x80000000),
        ("div.rp.ftz", "f32", (0x00800000, 0x3F800001), 0x00000000),
        ("mul.ftz", "f16", (0x0400, 0xBBFF), 0x8000),
        ("fma.rn.ftz", "f16", (0x3800, 0x0401, 0x8600), 0x8000),
        # Far less below it rounds to it, and is kept, unless rounded toward zero.
        ("fma.rn.ftz", "f32", (0x80800000, 0x81000000, 0x80800000), 0x80800000),
        ("fma.rz.ftz", "f32", (0x80800000, 0x81000000, 0x80800000), 0x80000000),
        # So does a tie between it and the number below, (1 - 2^-25) of it; in f16 (1 - 2^-12).
        ("mul.rn.ftz", "f32", (0x1FF80000, 0x20042108), 0x00800000),
        ("mul.rp.ftz", "f32", (0x1FF80000, 0x20042108), 0x00800000),
        ("mul.rm.ftz", "f32", (0x1FF80000, 0x20042108), 0x00000000),
        ("mul.ftz", "f16", (0x1FE0, 0x2010), 0x0400),
        # ptxas takes .ftz of rcp.f64, and leaves it out.
        ("rcp.rn.ftz", "f64", (0x000FFFFFFFFFFFFF,), 0x7FD0000000000001),
        ("rcp.rm.ftz", "f64", (0x7FEFFFFFFFFFFFFF,), 0x0004000000000000),
        # One of two NaNs.
        ("mul.rn", "f64", (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000001), 0x7FF8000000000001),
        ("fma.rn", "f64", (0xFFF8 << 48, 0x18 << 48, 0x7FF8 << 48), 0x7FF8 << 48),
    ],
)
def test_what_an_h200_answered(opcode, kind, sources, answer):
    arrays = [numpy.array([value], f"u{FORMATS[kind].bits // 8}") for value in sources]
    got = one(f"{opcode}.{kind}", kind, [kind] * len(sources), *arrays)
    assert got.tolist() == [answer]


def test_f64_returns_the_nan_of_an_operand():
    quiet = 0x0008000000000000
    a, b, c = 0x7FF0000000000001, 0xFFF8000000000002, 0x7FF0000000000003
    one_ = numpy.float64(1).view("u8")
    for opcode, order in (("add.rn", "ba"), ("mul.rz", "ba"), ("div.rn", "ab"), ("fma.rn", "bca")):
        count = 3 if opcode == "fma.rn" else 2
        for given_ in itertools.product([False, True], repeat=count):
            values = [v if nan else one_ for v, nan in zip((a, b, c), given_, strict=False)]
            arrays = [numpy.array([value], "u8") for value in values]
            got = int(one(f"{opcode}.f64", "f64", ["f64"] * count, *arrays)[0])
            first = [n for n in order if n in "abc"[:count] and given_["abc".index(n)]]
            if first:
                assert got == {"a": a, "b": b, "c": c}[first[0]] | quiet, (opcode, given_)
    invalid = numpy.array([0x7FF0000000000000], "u8"), numpy.array([0xFFF0000000000000], "u8")
    assert int(one("add.f64", "f64", ["f64"] * 2, *invalid)[0]) == 0xFFF8000000000000
    both = numpy.array([a], "u8"), numpy.array([b], "u8")
    assert int(one("min.f64", "f64", ["f64"] * 2, *both)[0]) == b | quiet


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_what_lies_outside_a_tensor_makes_zero(kind):
    every = numpy.arange(65536).astype("u2")
    two = numpy.full_like(every, FORMATS[kind].round(Fraction(2)))
    plain = one(f"fma.rn.{kind}", kind, [kind] * 3, every, two, two)
    for operands_ in ((every, two), (two, every)):
        got = one(f"fma.rn.oob.{kind}", kind, [kind] * 3, *operands_, two)
        assert set(every[got != plain]) == {0x7FF7, 0xFFF7}
        assert (got[got != plain] == 0).all()


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_extremes_flush_subnormals(kind):
    form = FORMATS[kind]
    a, b, _ = inputs(kind)
    flushed = [numpy.array([form.flush(v) for v in values], values.dtype) for values in (a, b)]
    got = one(f"min.ftz.{kind}", kind, [kind] * 2, a, b)
    assert (got == one(f"min.{kind}", kind, [kind] * 2, *flushed)).all()


@pytest.mark.parametrize("kind", SCALARS)
def test_comparisons_ordered_and_unordered(kind):
    form = FORMATS[kind]
    a, b, c = inputs(kind)
    third = (c & 1).astype("u1")
    values = [(form.number(x), form.number(y)) for x, y in zip(a, b, strict=True)]
    nan = numpy.array([math.isnan(x) or math.isnan(y) for x, y in values])
    assert nan.any() and not nan.all()
    plain = {
        "eq": lambda x, y: x == y,
        "ne": lambda x, y: x != y and not (math.isnan(x) or math.isnan(y)),
        "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y,
        "gt": lambda x, y: x > y,
        "ge": lambda x, y: x >= y,
    }
    holds = {name: numpy.array([test(*v) for v in values]) for name, test in plain.items()}
    holds |= {f"{name}u": result | nan for name, result in holds.items()}
    holds |= {"num": ~nan, "nan": nan}
    for name, wanted in holds.items():
        got = one(f"setp.{name}.{kind}", "pred", [kind] * 2, a, b)
        assert (got == wanted).all(), name
        got = run(
            f"setp.{name}.xor.{kind} %r0, %s0, %s1, !%s2;",
            ["pred"],
            [kind, kind, "pred"],
            *(a, b, third),
        )[0]
        assert (got == (wanted ^ (third == 0))).all(), name
        got = one(f"set.{name}.u32.{kind}", "u32", [kind] * 2, a, b)
        assert (got == wanted * 0xFFFFFFFF).all()
    if kind in ("f32", "f64"):
        p, q = run(f"setp.ltu.{kind} %r0|%r1, %s0, %s1;", ["pred"] * 2, [kind] * 2, a, b)
        assert (p == holds["ltu"]).all() and (q == ~holds["ltu"]).all()
    else:
        pairs = [numpy.ascontiguousarray(v).view("u4") for v in (a, b)]
        p, q = run(f"setp.geu.{kind}x2 %r0|%r1, %s0, %s1;", ["pred"] * 2, ["b32"] * 2, *pairs)
        assert (p == holds["geu"][0::2]).all() and (q == holds["geu"][1::2]).all()
        both = one(f"set.geu.{kind}x2.{kind}x2", "b32", ["b32"] * 2, *pairs).view("u2")
        assert (both == holds["geu"] * form.round(Fraction(1))).all()


def test_comparisons_flush_subnormals():
    tiny = numpy.array([1, 0x80000001, 0x00800000], "u4")
    zero = numpy.zeros(3, "u4")
    assert one("setp.eq.f32", "pred", ["f32"] * 2, tiny, zero).tolist() == [False] * 3
    assert one("setp.eq.ftz.f32", "pred", ["f32"] * 2, tiny, zero).tolist() == [True, True, False]


def test_selection_by_the_sign_of_a_float():
    c = numpy.array([0.0, -0.0, 1, -1, math.nan, -1e-40, 1e-40, -math.inf], "f4")
    yes, no = numpy.ones(8, "u4"), numpy.zeros(8, "u4")
    got = one("slct.b32.f32", "b32", ["b32", "b32", "f32"], yes, no, c)
    assert got.tolist() == [1, 1, 1, 0, 0, 0, 1, 0]
    got = one("slct.ftz.b32.f32", "b32", ["b32", "b32", "f32"], yes, no, c)
    assert got.tolist() == [1, 1, 1, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_classes_of_numbers(kind):
    form = FORMATS[kind]
    a = inputs(kind)[0]
    first = 1 << form.fraction
    for at, bits in enumerate(a.tolist()):
        magnitude = bits & form.sign - 1
        wanted = {
            "finite": magnitude < form.infinity,
            "infinite": magnitude == form.infinity,
            "number": magnitude <= form.infinity,
            "notanumber": magnitude > form.infinity,
            "normal": first <= magnitude < form.infinity or magnitude == 0,
            "subnormal": 0 < magnitude < first,
        }
        if at == 0:
            got = {name: one(f"testp.{name}.{kind}", "pred", [kind], a) for name in wanted}
        assert {name: bool(got[name][at]) for name in wanted} == wanted, hex(bits)
    b = inputs(kind)[1]
    signs = one(f"copysign.{kind}", kind, [kind] * 2, a, b)
    assert (signs == (a & form.sign | b & form.sign - 1)).all()


@pytest.mark.parametrize(
    "text",
    [
        "ex2.approx.f32 %r0, %s0;",
        "rcp.approx.ftz.f32 %r0, %s0;",
        "div.full.f32 %r0, %s0, %s1;",
        "tanh.approx.f32 %r0, %s0;",
    ],
)
def test_approximations_are_refused_with_the_reason(text):
    a = inputs("f32")[0]
    with pytest.raises(Unsupported, match="does not publish"):
        run(text, ["b32"], ["b32"] * 2, a, a)


@pytest.mark.parametrize(
    "text",
    [
        "add.rz.f16 %r0, %s0, %s1;",
        "add.sat.f64 %r0, %s0, %s1;",
        "fma.f32 %r0, %s0, %s1, %s0;",
        "min.relu.f32 %r0, %s0, %s1;",
        "add.ftz.bf16x2 %r0, %s0, %s1;",
        "setp.lt.f16x2 %p, %s0, %s1;",
        "fma.rz.bf16x2 %r0, %s0, %s1, %s0;",
    ],
)
def test_what_does_not_exist_is_refused(text):
    a = inputs("f32")[0]
    with pytest.raises(Unsupported):
        run(f".reg .pred %p; {text}", ["b32"], ["b32"] * 2, a, a)
