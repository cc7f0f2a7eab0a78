"""Conversions against fractions rounded once, and against what PTX says of NaN and overflow."""

import math
from fractions import Fraction

import numpy
import pytest
import scalar_reference as ref
from scalar_reference import FORMATS
from scalar_runner import one, run

from hopper.conformance.scalar_inputs import operands
from hopper.emulator.errors import Unsupported

MODES = ["rn", "rz", "rm", "rp"]
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def inputs(kind, count=400):
    with numpy.errstate(all="ignore"):
        return operands([kind, "u32", "u32"], count)[0]


def ends(kind):
    bits = int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


@pytest.mark.parametrize("given", INTEGERS)
@pytest.mark.parametrize("to", FLOATS)
def test_integers_become_floats_rounded_once(given, to):
    register = given if int(given[1:]) > 8 else f"{given[0]}16"
    if to == "bf16" and given[1:] == "8":
        pytest.raises(
            Unsupported, run, f"cvt.rn.{to}.{given} %r0, %s0;", [to], ["u16"], inputs("u16")
        )
        return
    bits = inputs(register)
    low = bits.astype(f"{'i' if given[0] == 's' else 'u'}{int(given[1:]) // 8}").tolist()
    form = FORMATS[to]
    for mode in MODES:
        got = one(f"cvt.{mode}.{to}.{given}", to, [register], bits)
        wanted = [form.round(Fraction(value) if value else 0.0, mode) for value in low]
        assert got.tolist() == wanted, mode


@pytest.mark.parametrize("given", FLOATS)
@pytest.mark.parametrize("to", INTEGERS)
def test_floats_become_integers_that_stop_at_the_ends(given, to):
    bits, form = inputs(given), FORMATS[given]
    if given == "bf16" and to[1:] == "8":
        pytest.raises(Unsupported, run, f"cvt.rni.{to}.{given} %r0, %s0;", [to], [given], bits)
        return
    low, high = ends(to)
    width = max(int(to[1:]), 16)
    topmost = 1 << int(to[1:]) - 1 if given == "f64" or to[1:] == "64" else 0
    rounds = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for mode, function in rounds.items():
        got = one(f"cvt.{mode}.{to}.{given}", f"u{width}", [given], bits)
        for value, result in zip(bits.tolist(), got.tolist(), strict=True):
            number = form.number(value)
            if math.isnan(number):
                wanted = topmost - (1 << int(to[1:])) * (to[0] == "s") if topmost else 0
            elif math.isinf(number):
                wanted = high if number > 0 else low
            else:
                wanted = min(max(function(number), low), high)
            assert result == wanted & (1 << width) - 1, (mode, hex(value))


def test_a_subnormal_rounds_up_unless_it_is_flushed():
    tiny = numpy.array([1, 0x80000001], "u4")
    assert one("cvt.rpi.s32.f32", "s32", ["f32"], tiny).tolist() == [1, 0]
    assert one("cvt.rpi.ftz.s32.f32", "s32", ["f32"], tiny).tolist() == [0, 0]
    assert one("cvt.rmi.s32.f32", "s32", ["f32"], tiny).view("i4").tolist() == [0, -1]


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_become_whole(kind):
    bits, form = inputs(kind), FORMATS[kind]
    rounds = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for mode, function in rounds.items():
        got = one(f"cvt.{mode}.{kind}.{kind}", kind, [kind], bits)
        for value, result in zip(bits.tolist(), got.tolist(), strict=True):
            number = form.number(value)
            if isinstance(number, Fraction):
                whole = function(number)
                wanted = form.round(Fraction(whole)) if whole else value & form.sign
            elif math.isnan(number):
                assert math.isnan(form.number(result))
                continue
            else:
                wanted = value
            assert result == wanted, (mode, hex(value))


NARROWER = [("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16")]


@pytest.mark.parametrize("given, to", [*NARROWER, ("f16", "bf16"), ("bf16", "f16")])
def test_narrower_floats_are_rounded_once(given, to):
    bits, form = inputs(given, 600), FORMATS[to]
    numbers = [FORMATS[given].number(value) for value in bits]
    for mode in MODES:
        got = one(f"cvt.{mode}.{to}.{given}", to, [given], bits)
        for number, result in zip(numbers, got.tolist(), strict=True):
            payload = given == "f64" and math.isnan(number)
            assert payload or result == form.round(number, mode), (mode, number)
    if to != "bf16" and given != "bf16":
        got = one(f"cvt.rz.sat.{to}.{given}", to, [given], bits)
        assert got.tolist() == [form.saturate(form.round(n, "rz")) for n in numbers]


@pytest.mark.parametrize(
    "given, to", [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64")]
)
def test_wider_floats_are_exact(given, to):
    bits = inputs(given)
    got = one(f"cvt.{to}.{given}", to, [given], bits)
    for value, result in zip(bits.tolist(), got.tolist(), strict=True):
        before, after = FORMATS[given].number(value), FORMATS[to].number(result)
        assert before == after or math.isnan(before) and math.isnan(after)
        assert math.isnan(before) or math.copysign(1, before) == math.copysign(1, after)


def test_flushing_before_and_behind():
    tiny = numpy.array([1, 0x807FFFFF, 0x00800000], "u4")
    assert one("cvt.ftz.f32.f32", "f32", ["f32"], tiny).tolist() == [0, 0x80000000, 0x00800000]
    assert (one("cvt.ftz.f64.f32", "f64", ["f32"], tiny) << numpy.uint64(1)).tolist()[:2] == [0, 0]
    small = numpy.array([1e-40, -1e-40, 1.0], "f8")
    assert one("cvt.rn.ftz.f32.f64", "f32", ["f64"], small).tolist() == [0, 1 << 31, 0x3F800000]
    assert one("cvt.rn.f32.f64", "f32", ["f64"], small)[0] > 0


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_pairs_of_halves_with_clamps(to, mode):
    upper, lower = inputs("f32", 600), inputs("f32", 600)[::-1]
    form = FORMATS[to]
    for options in ("", ".relu", ".satfinite", ".satfinite.relu", ".relu.satfinite"):
        got = one(f"cvt.{mode}{options}.{to}x2.f32", "b32", ["f32"] * 2, upper, lower)

        def wanted(value, options=options):
            bits = form.round(ref.F32.number(value), mode, finite="satfinite" in options)
            return 0 if "relu" in options and bits & form.sign and bits != form.nan else bits

        for high, low, result in zip(upper, lower, got.tolist(), strict=True):
            assert result == wanted(high) << 16 | wanted(low), (options, hex(high), hex(low))
        single = one(f"cvt.{mode}{options}.{to}.f32", to, ["f32"], upper)
        assert (single == got >> 16).all()


@pytest.mark.parametrize("small", ["e4m3", "e5m2"])
def test_8_bit_floats(small):
    form = FORMATS[small]
    upper, lower = inputs("f32", 600), inputs("f32", 600)[::-1]
    for relu in ("", ".relu"):

        def wanted(number, relu=relu):
            bits = form.round(number, "rn", finite=True)
            return 0 if relu and bits & form.sign else bits

        got = one(f"cvt.rn.satfinite{relu}.{small}x2.f32", "b16", ["f32"] * 2, upper, lower)
        for high, low, result in zip(upper, lower, got.tolist(), strict=True):
            pair = (wanted(ref.F32.number(value)) for value in (high, low))
            assert result == next(pair) << 8 | next(pair), (hex(high), hex(low))
        halves = inputs("f16", 1500)
        got = one(
            f"cvt.rn.satfinite{relu}.{small}x2.f16x2", "b16", ["b32"], halves.view("u4")
        ).view("u1")
        assert got.tolist() == [wanted(ref.F16.number(value)) for value in halves]
        every = numpy.arange(256).astype("u1")
        got = one(f"cvt.rn{relu}.f16x2.{small}x2", "b32", ["b16"], every.view("u2")).view("u2")
        for value, result in zip(every.tolist(), got.tolist(), strict=True):
            bits = ref.F16.round(form.number(value))
            assert result == (0 if relu and bits & 0x8000 else bits), hex(value)


def test_tf32_keeps_ten_bits():
    bits = inputs("f32", 600)
    for mode in ("rn", "rz", "rna"):
        got = one(f"cvt.{mode}.tf32.f32", "b32", ["f32"], bits)
        for value, result in zip(bits.tolist(), got.tolist(), strict=True):
            number = ref.F32.number(value)
            if not math.isnan(number):
                assert result == ref.TF32.round(number, mode) << 13, (mode, hex(value))
    got = one("cvt.rz.relu.tf32.f32", "b32", ["f32"], bits)
    plain = one("cvt.rz.tf32.f32", "b32", ["f32"], bits)
    negative = plain & 1 << 31 != 0
    assert (got[negative] == 0).all() and (got[~negative] == plain[~negative]).all()
    # ptxas makes .rna of an addition and a mask, which leave of NaN what they leave.
    nan = numpy.array([0x7FFFFFFF, 0xFF800001], "u4")
    assert one("cvt.rna.tf32.f32", "b32", ["f32"], nan).tolist() == [0x7FFFE000, 0xFF800000]
    largest = numpy.array([0x7F7FFFFF, 0xFF800000], "u4")
    got = one("cvt.rna.satfinite.tf32.f32", "b32", ["f32"], largest)
    assert got.tolist() == [0x7F7FE000, 0xFF7FE000]


def test_a_wider_register_is_filled():
    bits = numpy.array([300.0, -300.0, -1.0, 77.0], "f4").view("u4")
    (got,) = run("cvt.rzi.s8.f32 %r0, %s0;", ["b32"], ["f32"], bits)
    assert got.view("i4").tolist() == [127, -128, -1, 77]
    (got,) = run("cvt.rzi.u8.f32 %r0, %s0;", ["b32"], ["f32"], bits)
    assert got.tolist() == [255, 0, 0, 77]


@pytest.mark.parametrize(
    "text",
    [
        "cvt.f16.f32 %r0, %s0;",
        "cvt.rna.f16.f32 %r0, %s0;",
        "cvt.s32.f32 %r0, %s0;",
        "cvt.rn.e4m3x2.f32 %r0, %s0, %s0;",
        "cvt.rn.bf16x2.f32 %r0, %s0;",
        "cvt.rp.f16x2.f32 %r0, %s0, %s0;",
        "cvt.pack.sat.u8.s32 %r0, %s0, %s0;",
    ],
)
def test_what_ptxas_refuses_is_refused(text):
    with pytest.raises(Unsupported):
        run(text, ["b32"], ["b32"], inputs("f32"))


@pytest.mark.parametrize(
    ("opcode", "given", "answer"),
    [
        # NaN has no bits below those of tf32, and no sign.
        ("cvt.rn.tf32.f32", 0xFF800001, 0x7FFFE000),
        ("cvt.rz.relu.tf32.f32", 0xFFC00000, 0x7FFFE000),
        # To f16 .ftz does nothing; to bf16 it flushes what it reads.
        ("cvt.rm.ftz.f16.f32", 0x80000001, 0x8001),
        ("cvt.rp.ftz.f16.f32", 0x007FFFFF, 0x0001),
        ("cvt.rp.ftz.sat.f16.f32", 0x00000001, 0x0001),
        ("cvt.rp.ftz.bf16.f32", 0x00000001, 0x0000),
        # What rounds up to the smallest normal number with 24 bits is kept, a tie too.
        ("cvt.rn.ftz.f32.f64", 0x380FFFFFF0000000, 0x00800000),
        ("cvt.rn.ftz.f32.f64", 0xB80FFFFFEFFFFFFF, 0x80000000),
        ("cvt.rn.f32.f64", 0x380FFFFFEFFFFFFF, 0x00800000),
        ("cvt.rz.ftz.f32.f64", 0x380FFFFFFFFFFFFF, 0x00000000),
        ("cvt.rm.ftz.f32.f64", 0xB80FFFFFE0000000, 0x80000000),
        ("cvt.rm.ftz.f32.f64", 0xB80FFFFFE0000001, 0x80800000),
    ],
)
def test_what_an_h200_answered(opcode, given, answer):
    to, source = opcode.split(".")[-2:]
    array = numpy.array([given], f"u{int(source[1:]) // 8}")
    assert one(opcode, "b32" if to == "tf32" else to, [source], array).tolist() == [answer]


@pytest.mark.parametrize("to", ["f32", "f16", "bf16"])
def test_nan_of_f64_keeps_what_fits(to):
    form = FORMATS[to]
    nan = numpy.array([0x7FF0000000000001, 0xFFF5555555555555, 0x7FFFFFFFFFFFFFFF], "u8")
    got = one(f"cvt.rn.{to}.f64", to, ["f64"], nan).tolist()
    quiet = form.infinity | 1 << form.fraction - 1
    payload = 0x5555555555555 >> 52 - form.fraction
    assert got == [quiet, form.sign | quiet | payload, form.sign - 1]


def test_nan_of_wider_floats():
    half = numpy.array([0x7C01, 0xFE02], "u2")
    assert one("cvt.f64.f16", "f64", ["f16"], half).tolist() == [
        0x7FF8040000000000,
        0xFFF8080000000000,
    ]
    assert one("cvt.f32.bf16", "f32", ["bf16"], half).tolist() == [0x7C010000, 0xFE020000]
    nan = numpy.array([0xFF800001], "u4")
    assert one("cvt.f64.f32", "f64", ["f32"], nan).tolist() == [0xFFF8000020000000]
    assert one("cvt.ftz.f64.f32", "f64", ["f32"], nan).tolist() == [0x7FFFFFFFE0000000]
    assert one("cvt.f32.f16", "f32", ["f16"], half[:1] | 1).tolist() == [0x7FFFFFFF]
