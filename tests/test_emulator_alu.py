"""Integer instructions against Python's integers, at edges and at random."""

import operator
import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scalar_runner import one, run

from hopper.emulator.errors import Unsupported

INTEGERS = [f"{sign}{bits}" for bits in (16, 32, 64) for sign in "us"]


def bits_of(kind):
    return int(re.sub(r"\D", "", kind))


def inputs(kind, seed, count=300):
    """Edges first, in every combination for two seeds, then random numbers."""
    bits = bits_of(kind)
    rng = numpy.random.default_rng(seed)
    top = 1 << bits - 1
    edges = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0xFFFF, 0x8000]
    edges = numpy.array([e % (2 * top) for e in edges], f"u{bits // 8}")
    fill = numpy.repeat if seed == 0 else numpy.tile
    crossed = fill(edges, edges.size)
    wild = rng.integers(0, 2 * top, count, dtype=f"u{bits // 8}")
    small = rng.integers(0, 80, count, dtype="u1").astype(f"u{bits // 8}")
    return numpy.concatenate([crossed, wild, small])


def signed(value, kind):
    """Bits as the number of an integer type."""
    bits = bits_of(kind)
    value = int(value) & (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> bits - 1 else value


def check(opcode, result, sources, function, seed=0):
    """``function`` of Python integers gives the bits of every result."""
    arrays = [inputs(kind, seed + place) for place, kind in enumerate(sources)]
    got = one(opcode, result, sources, *arrays)
    for at, values in enumerate(zip(*arrays, strict=True)):
        numbers = [signed(value, kind) for value, kind in zip(values, sources, strict=True)]
        wanted = function(*numbers) & (1 << bits_of(result)) - 1
        assert int(got[at]) == wanted, (opcode, numbers, hex(int(got[at])), hex(wanted))


def clamp(value, kind):
    bits = bits_of(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def quotient(a, b):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    return -1 if b == 0 else a - b * quotient(a, b)


@pytest.mark.parametrize("kind", INTEGERS)
def test_arithmetic_of_every_type(kind):
    bits = bits_of(kind)
    two = [kind, kind]
    check(f"add.{kind}", kind, two, lambda a, b: a + b)
    check(f"sub.{kind}", kind, two, lambda a, b: a - b)
    check(f"mul.lo.{kind}", kind, two, lambda a, b: a * b)
    check(f"mul.hi.{kind}", kind, two, lambda a, b: a * b >> bits)
    check(f"min.{kind}", kind, two, min)
    check(f"max.{kind}", kind, two, max)
    check(f"div.{kind}", kind, two, quotient)
    check(f"mad.lo.{kind}", kind, [kind] * 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{kind}", kind, [kind] * 3, lambda a, b, c: (a * b >> bits) + c)
    check(f"sad.{kind}", kind, [kind] * 3, lambda a, b, c: c + abs(a - b))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64", "s16"])
def test_a_remainder_has_the_sign_of_what_is_divided(kind):
    check(f"rem.{kind}", kind, [kind, kind], remainder)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind):
    wide = f"{kind[0]}{2 * bits_of(kind)}"
    check(f"mul.wide.{kind}", wide, [kind, kind], lambda a, b: a * b)
    check(f"mad.wide.{kind}", wide, [kind, kind, wide], lambda a, b, c: a * b + c)


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_signs(kind):
    check(f"neg.{kind}", kind, [kind], lambda a: -a)
    check(f"abs.{kind}", kind, [kind], abs)


def test_saturation():
    check("add.sat.s32", "s32", ["s32"] * 2, lambda a, b: clamp(a + b, "s32"))
    check("sub.sat.s32", "s32", ["s32"] * 2, lambda a, b: clamp(a - b, "s32"))
    high = lambda a, b: a * b >> 32  # noqa: E731
    check("mad.hi.sat.s32", "s32", ["s32"] * 3, lambda a, b, c: clamp(high(a, b) + c, "s32"))
    check("min.relu.s32", "s32", ["s32"] * 2, lambda a, b: max(min(a, b), 0))
    check("max.relu.s32", "s32", ["s32"] * 2, lambda a, b: max(a, b, 0))


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_24_bit_products_ignore_the_upper_byte(kind):
    def low(a):
        return signed(a << 8, kind) >> 8 if kind == "s32" else a & 0xFFFFFF

    two, three = [kind] * 2, [kind] * 3
    check(f"mul24.lo.{kind}", kind, two, lambda a, b: low(a) * low(b))
    check(f"mul24.hi.{kind}", kind, two, lambda a, b: low(a) * low(b) >> 16)
    check(f"mad24.lo.{kind}", kind, three, lambda a, b, c: low(a) * low(b) + c)
    check(f"mad24.hi.{kind}", kind, three, lambda a, b, c: (low(a) * low(b) >> 16) + c)


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic(kind):
    check(f"and.{kind}", kind, [kind] * 2, lambda a, b: a & b)
    check(f"or.{kind}", kind, [kind] * 2, lambda a, b: a | b)
    check(f"xor.{kind}", kind, [kind] * 2, lambda a, b: a ^ b)
    check(f"not.{kind}", kind, [kind], lambda a: ~a)
    check(f"cnot.{kind}", kind, [kind], lambda a: int(a == 0))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
def test_shift_counts_above_the_width_clamp(kind):
    bits = bits_of(kind)
    if kind[0] == "b":
        check(f"shl.{kind}", kind, [kind, "u32"], lambda a, n: a << min(n, bits))
    check(f"shr.{kind}", kind, [kind, "u32"], lambda a, n: a >> min(n, bits))
    values = inputs(kind, 0)
    for count in (0, 3, bits - 1, bits, bits + 1, 0xFFFFFFFF):
        (got,) = run(f"shr.{kind} %r0, %s0, {count};", [kind], [kind], values)
        wanted = [signed(a, kind) >> min(count, bits) & (1 << bits) - 1 for a in values]
        assert got.tolist() == wanted, (kind, count)


@pytest.mark.parametrize("side", "lr")
def test_funnel_shifts(side):
    def shifted(a, b, n):
        both = b << 32 | a
        return both << n >> 32 if side == "l" else both >> n

    sources = ["b32", "b32", "u32"]
    check(f"shf.{side}.clamp.b32", "b32", sources, lambda a, b, n: shifted(a, b, min(n, 32)))
    check(f"shf.{side}.wrap.b32", "b32", sources, lambda a, b, n: shifted(a, b, n & 31))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_extracted_fields(kind):
    top = bits_of(kind) - 1

    def extract(a, position, length):
        if top == 31:
            position, length = position & 255, length & 255
        # Of 64 bits ptxas makes shifts; their sign is the register's where the field is longer.
        length = min(length, top + 2)
        bits = a & (1 << top + 1) - 1
        sign = kind[0] == "s" and length and bits >> min(position + length - 1, top) & 1
        return sum(
            (bits >> position + i & 1 if i < length and position + i <= top else sign) << i
            for i in range(top + 1)
        )

    check(f"bfe.{kind}", kind, [kind, "u32", "u32"], extract)


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_inserted_fields(kind):
    bits = bits_of(kind)

    def insert(a, b, position, length):
        if bits == 32:
            position, length = position & 255, length & 255
        for i in range(min(length, bits)):
            if position + i < bits:
                b = b & ~(1 << position + i) | (a >> i & 1) << position + i
        return b

    check(f"bfi.{kind}", kind, [kind, kind, "u32", "u32"], insert)


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_extension_from_a_bit(kind):
    def extend(a, count):
        bits = a & (1 << count) - 1
        return signed(bits << 32 - count, "s32") >> 32 - count if kind == "s32" and count else bits

    def clamped(a, n):
        return a if n >= 32 else extend(a, n)

    check(f"szext.clamp.{kind}", kind, ["b32", "u32"], clamped)
    check(f"szext.wrap.{kind}", kind, ["b32", "u32"], lambda a, n: extend(a, n & 31))


def test_masks():
    two = ["u32", "u32"]
    check("bmsk.wrap.b32", "b32", two, lambda a, b: ((1 << (b & 31)) - 1) << (a & 31))
    check("bmsk.clamp.b32", "b32", two, lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32))


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_counts(kind):
    bits = bits_of(kind)
    check(f"popc.{kind}", "u32", [kind], lambda a: a.bit_count())
    check(f"clz.{kind}", "u32", [kind], lambda a: bits - a.bit_length())
    check(f"brev.{kind}", kind, [kind], lambda a: int(f"{a:0{bits}b}"[::-1], 2))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_topmost_bit(kind):
    top = bits_of(kind) - 1

    def place(a):
        return (~a if a < 0 else a).bit_length() - 1

    def from_top(a):
        return top - place(a) if place(a) >= 0 else -1

    check(f"bfind.{kind}", "u32", [kind], place)
    check(
        f"bfind.shiftamt.{kind}", "u32", [kind], lambda a: top - place(a) if place(a) >= 0 else -1
    )


def test_nth_set_bit():
    rng = numpy.random.default_rng(3)
    masks = rng.integers(0, 2**32, 600, dtype="u4") & rng.integers(0, 2**32, 600, dtype="u4")
    bases = rng.integers(0, 32, 600, dtype="u4")
    counts = rng.integers(-6, 7, 600).astype("i4")
    got = one("fns.b32", "b32", ["b32", "u32", "s32"], masks, bases, counts)

    def find(mask, base, n):
        if n == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        step, left, place = (1 if n > 0 else -1), abs(n), base
        while 0 <= place < 32:
            left -= mask >> place & 1
            if left == 0:
                return place
            place += step
        return 0xFFFFFFFF

    wanted = [find(*map(int, each)) for each in zip(masks, bases, counts, strict=True)]
    assert got.tolist() == wanted
    assert 0xFFFFFFFF in wanted and len(set(wanted)) > 20


@pytest.mark.parametrize(
    "mode, selectors",
    [
        ("", None),
        (".f4e", (0x3210, 0x4321, 0x5432, 0x6543)),
        (".b4e", (0x5670, 0x6701, 0x7012, 0x0123)),
        (".rc8", (0x0000, 0x1111, 0x2222, 0x3333)),
        (".ecl", (0x3210, 0x3211, 0x3222, 0x3333)),
        (".ecr", (0x0000, 0x1110, 0x2210, 0x3210)),
        (".rc16", (0x1010, 0x3232, 0x1010, 0x3232)),
    ],
)
def test_byte_permutations(mode, selectors):
    def permute(a, b, c):
        eight = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        selector = c if selectors is None else selectors[c & 3]
        chosen = []
        for place in range(4):
            nibble = selector >> 4 * place & 15
            byte = eight[nibble & 7]
            chosen.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(chosen), "little")

    check(f"prmt.b32{mode}", "b32", ["b32"] * 3, permute)
    a, b = inputs("b32", 0), inputs("b32", 1)
    for constant in (0x5410, 0x7632, 0x3210, 0x0123, 0x4567, 0x0000, 0x6420, 0x98A1, 2):
        (got,) = run(f"prmt.b32{mode} %r0, %s0, %s1, {constant};", ["b32"], ["b32"] * 2, a, b)
        wanted = [permute(int(x), int(y), constant) for x, y in zip(a, b, strict=True)]
        assert got.tolist() == wanted, hex(constant)


@given(st.integers(0, 255))
@settings(max_examples=40, deadline=None)
def test_any_function_of_three_bits(table):
    a, b, c = (inputs("b32", seed, 20) for seed in range(3))
    (got,) = run(f"lop3.b32 %r0, %s0, %s1, %s2, {table};", ["b32"], ["b32"] * 3, a, b, c)
    for place in (0, 7, 31):
        index = (a >> place & 1) * 4 + (b >> place & 1) * 2 + (c >> place & 1)
        assert ((got >> place & 1) == (table >> index & 1)).all()


def test_lop3_with_a_predicate():
    a, b, c = (inputs("b32", seed) for seed in range(3))
    q = (a & 1).astype("u1")
    for word, join in (("and", numpy.logical_and), ("or", numpy.logical_or)):
        value, holds = run(
            f"lop3.{word}.b32 %r0|%r1, %s0, %s1, %s2, 0x80, !%s3;",
            ["b32", "pred"],
            ["b32", "b32", "b32", "pred"],
            *(a, b, c, q),
        )
        assert (value == a & b & c).all()
        assert (holds == join((a & b & c) != 0, q == 0)).all()


def test_pairs_do_not_carry_into_each_other():
    def halves(function, kind):
        def both(a, b):
            low = function(signed(a, kind), signed(b, kind)) & 0xFFFF
            high = function(signed(a >> 16, kind), signed(b >> 16, kind)) & 0xFFFF
            return high << 16 | low

        return both

    two = ["b32", "b32"]
    for kind in ("u16", "s16"):
        check(f"add.{kind}x2", "b32", two, halves(lambda a, b: a + b, kind))
        check(f"min.{kind}x2", "b32", two, halves(min, kind))
        check(f"max.{kind}x2", "b32", two, halves(max, kind))
    check("min.relu.s16x2", "b32", two, halves(lambda a, b: max(min(a, b), 0), "s16"))
    check("max.relu.s16x2", "b32", two, halves(lambda a, b: max(a, b, 0), "s16"))


@pytest.mark.parametrize("a_kind", ["u32", "s32"])
@pytest.mark.parametrize("b_kind", ["u32", "s32"])
def test_dot_products(a_kind, b_kind):
    def parts(value, kind, bits):
        return [signed(value >> at, f"{kind[0]}{bits}") for at in range(0, 32, bits)]

    def dot4(a, b, c):
        return c + sum(p * q for p, q in zip(parts(a, a_kind, 8), parts(b, b_kind, 8), strict=True))

    def dot2(first):
        def dot(a, b, c):
            two = parts(b, b_kind, 8)[first : first + 2]
            return c + sum(p * q for p, q in zip(parts(a, a_kind, 16), two, strict=True))

        return dot

    three = ["b32"] * 3
    check(f"dp4a.{a_kind}.{b_kind}", "b32", three, dot4)
    check(f"dp2a.lo.{a_kind}.{b_kind}", "b32", three, dot2(0))
    check(f"dp2a.hi.{a_kind}.{b_kind}", "b32", three, dot2(2))


@pytest.mark.parametrize("bits", [32, 64])
def test_carries_make_longer_integers(bits):
    kind = f"u{bits}"
    low_a, low_b, high_a, high_b = (inputs(kind, seed % 2 + seed) for seed in range(4))
    for name, sign in (("add", 1), ("sub", -1)):
        low, high, more = run(
            f"{name}.cc.{kind} %r0, %s0, %s1; {name}c.cc.{kind} %r1, %s2, %s3;"
            f"{name}c.{kind} %r2, %s0, %s2;",
            [kind] * 3,
            [kind] * 4,
            *(low_a, low_b, high_a, high_b),
        )
        for at in range(low.size):
            a = int(low_a[at]) | int(high_a[at]) << bits | int(low_a[at]) << 2 * bits
            b = int(low_b[at]) | int(high_b[at]) << bits | int(high_a[at]) << 2 * bits
            whole = int(low[at]) | int(high[at]) << bits | int(more[at]) << 2 * bits
            assert whole == (a + sign * b) % (1 << 3 * bits)


@pytest.mark.parametrize("kind", ["u32", "u64"])
def test_a_double_length_product_with_carries(kind):
    bits = bits_of(kind)
    a, b, c, d = (inputs(kind, seed) for seed in range(4))
    low, high, over = run(
        f"mad.lo.cc.{kind} %r0, %s0, %s1, %s2; madc.hi.cc.{kind} %r1, %s0, %s1, %s3;"
        f"addc.{kind} %r2, 0, 0;",
        [kind] * 3,
        [kind] * 4,
        *(a, b, c, d),
    )
    for at in range(low.size):
        whole = int(a[at]) * int(b[at]) + (int(c[at]) | int(d[at]) << bits)
        assert int(low[at]) | int(high[at]) << bits | int(over[at]) << 2 * bits == whole


@pytest.mark.parametrize("kind", ["b32", "u32", "s64", "u16"])
def test_comparisons_and_their_opposites(kind):
    a, b = inputs(kind, 0), inputs(kind, 1)
    c = (a & 1).astype("u1")
    x, y = ([signed(value, kind) for value in values] for values in (a, b))
    tests = {"eq": operator.eq, "ne": operator.ne}
    order = (operator.lt, operator.le, operator.gt, operator.ge)
    if kind[0] != "b":
        tests |= dict(zip(("lt", "le", "gt", "ge"), order, strict=True))
    if kind[0] == "u":
        tests |= dict(zip(("lo", "ls", "hi", "hs"), order, strict=True))
    for name, compare in tests.items():
        holds = numpy.array([compare(p, q) for p, q in zip(x, y, strict=True)])
        p, q = run(f"setp.{name}.{kind} %r0|%r1, %s0, %s1;", ["pred"] * 2, [kind] * 2, a, b)
        assert (p == holds).all() and (q == ~holds).all(), name
        joins = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
        for word, join in joins.items():
            p, q = run(
                f"setp.{name}.{word}.{kind} %r0|%r1, %s0, %s1, !%s2;",
                ["pred"] * 2,
                [kind, kind, "pred"],
                *(a, b, c),
            )
            assert (p == join(holds, c == 0)).all(), (name, word)
            assert (q == join(~holds, c == 0)).all(), (name, word)


def test_set_writes_all_ones_or_one():
    a, b = inputs("s32", 0), inputs("s32", 1)
    holds = a.view("i4") < b.view("i4")
    assert (one("set.lt.u32.s32", "u32", ["s32"] * 2, a, b) == holds * 0xFFFFFFFF).all()
    assert (one("set.lt.f32.s32", "f32", ["s32"] * 2, a, b) == holds * 0x3F800000).all()


def test_selections():
    a, b, c = (inputs("s32", seed) for seed in range(3))
    p = (c & 1).astype("u1")
    got = one("selp.b32", "b32", ["b32", "b32", "pred"], a, b, p)
    assert (got == numpy.where(p, a, b)).all()
    got = one("slct.u32.s32", "b32", ["b32", "b32", "s32"], a, b, c)
    assert (got == numpy.where(c.view("i4") >= 0, a, b)).all()


def test_packing_puts_the_first_element_lowest():
    a, b = inputs("b16", 0), inputs("b16", 1)
    (both,) = run("mov.b32 %r0, {%s0, %s1};", ["b32"], ["b16"] * 2, a, b)
    assert (both == (b.astype("u4") << 16 | a)).all()
    low, high = run("mov.b32 {%r0, %r1}, %s0;", ["b16"] * 2, ["b32"], both)
    assert (low == a).all() and (high == b).all()
    (high,) = run("mov.b32 {_, %r0}, %s0;", ["b16"], ["b32"], both)
    assert (high == b).all()
    four = run("mov.b64 {%r0, %r1, %r2, %r3}, %s0;", ["b16"] * 4, ["b64"], inputs("b64", 0))
    assert [int(part[40]) for part in four] == [
        int(inputs("b64", 0)[40]) >> 16 * i & 0xFFFF for i in range(4)
    ]


def test_predicates_are_moved_and_negated():
    p = (inputs("b32", 0) & 1).astype("u1")
    copied, negated, constant = run(
        "mov.pred %r0, %s0; not.pred %r1, %s0; mov.pred %r2, 1;", ["pred"] * 3, ["pred"], p
    )
    assert (copied == p).all() and (negated == (p == 0)).all() and constant.all()


@pytest.mark.parametrize("to", ["u8", "s8", *INTEGERS])
@pytest.mark.parametrize("given_", ["u8", "s8", *INTEGERS])
def test_integer_conversions(to, given_):
    register = given_ if bits_of(given_) > 8 else f"{given_[0]}16"
    wide = f"{to[0]}64"
    values = inputs(register, 0)
    text = f"cvt.{to}.{given_} %r0, %s0;"
    (got,) = run(text, [wide], [register], values)
    # The register is wider than the type: the type's sign fills it.
    wanted = [signed(signed(value, given_), to) & 2**64 - 1 for value in values]
    assert got.tolist() == wanted
    try:
        (got,) = run(text.replace("cvt", "cvt.sat"), [wide], [register], values)
    except Unsupported:
        low, high = (clamp(end, given_) for end in (-(2**80), 2**80))
        assert clamp(low, to) == low and clamp(high, to) == high
    else:
        wanted = [clamp(signed(value, given_), to) & 2**64 - 1 for value in values]
        assert got.tolist() == wanted


@pytest.mark.parametrize("sign", "us")
@pytest.mark.parametrize("bits", [16, 8, 4, 2])
def test_clamped_and_packed(sign, bits):
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)

    def pack(a, b, c=0):
        a, b = (min(max(v, low), high) & (1 << bits) - 1 for v in (a, b))
        return c << 2 * bits | a << bits | b

    if bits == 16:
        check(f"cvt.pack.sat.{sign}16.s32", "b32", ["s32"] * 2, pack)
    else:
        check(f"cvt.pack.sat.{sign}{bits}.s32.b32", "b32", ["s32", "s32", "b32"], pack)


@pytest.mark.parametrize(
    ("text", "kind", "sources", "answer"),
    [
        # The carry of a subtraction is 1 where nothing is borrowed.
        ("sub.cc.u32 %r0, %s0, %s1; addc.u32 %r0, %s2, %s1;", "u32", (0, 0x100, 0xFFFF), 0x100FF),
        ("sub.cc.u32 %r0, %s0, %s1; addc.u32 %r0, %s2, %s1;", "u32", (0x2E, 0, 0x3F), 0x40),
        ("add.cc.u32 %r0, %s0, %s1; subc.u32 %r0, %s2, %s1;", "u32", (0x2E, 0, 0x3F), 0x3E),
        (
            "add.cc.u64 %r0, %s0, %s1; subc.u64 %r0, %s2, %s1;",
            "u64",
            (0xFFFFFFFFFFFFFDBC, 0xFFFFFFFFFE3C4530, 0xFFFFFFFFFFFFFF7F),
            0x1C3BA4F,
        ),
        # Of a 64-bit field's place and length all bits count.
        ("cvt.u32.u64 %c, %s2; bfe.u64 %r0, %s0, %c, 17;", "u64", (0xFFFF, 0, 0xFFFF8000), 0),
        (
            "cvt.u32.u64 %c, %s2; bfe.s64 %r0, %s0, 9, %c;",
            "u64",
            (0x7FFFFFFFFFFFFFFF, 0, 0x80000000),
            0x3FFFFFFFFFFFFF,
        ),
        (
            "cvt.u32.u64 %c, %s2; bfi.b64 %r0, %s0, %s1, 3, %c;",
            "u64",
            (0x7FFF, 0x40, 0x80000001),
            0x3FFF8,
        ),
        # The smallest n has no opposite.
        ("fns.b32 %r0, %s0, %s1, %s2;", "u32", (2, 3, 0x80000000), 0),
    ],
)
def test_what_an_h200_answered(text, kind, sources, answer):
    arrays = [numpy.array([value], f"u{bits_of(kind) // 8}") for value in sources]
    assert run(text, [kind], [kind] * 3, *arrays)[0].tolist() == [answer]


def test_no_bit_is_found_from_outside_the_mask():
    mask, base = numpy.full(4, 0xFFFFFFFF, "u4"), numpy.full(4, 32, "u4")
    n = numpy.array([1, 0, -1, -32], "i4")
    got = one("fns.b32", "b32", ["b32", "u32", "s32"], mask, base, n)
    assert got.tolist() == [0xFFFFFFFF] * 4


def test_immediates_stand_for_registers():
    a = inputs("s32", 0)
    for text, wanted in (
        ("add.s32 %r0, %s0, -7;", a - numpy.uint32(7)),
        ("sub.s32 %r0, 5, %s0;", numpy.uint32(5) - a),
        ("mul.wide.s32 %r0, %s0, -3;", a.view("i4").astype("i8") * -3),
        ("bfi.b32 %r0, 5, %s0, 8, 4;", a & ~numpy.uint32(0xF00) | numpy.uint32(0x500)),
        ("bfe.u32 %r0, %s0, 4, 8;", a >> 4 & 0xFF),
        ("bfe.u32 %r0, %s0, 30, 200;", a >> 30),
        ("bfe.u32 %r0, %s0, 32, 8;", a * 0),
        ("prmt.b32 %r0, %s0, 0, 0x4321;", a >> 8),
        ("selp.b32 %r0, 1, 0, 1;", numpy.ones_like(a)),
        ("add.s32 %r0, 3, 4;", numpy.full_like(a, 7)),
        ("dp4a.u32.u32 %r0, 0x01010101, %s0, 0;", a.view("u1").reshape(-1, 4).sum(1)),
    ):
        (got,) = run(text, ["b64" if "wide" in text else "b32"], ["s32"], a)
        assert (got == wanted.astype(f"i{got.itemsize}").view(got.dtype)).all(), text


@pytest.mark.parametrize(
    "text",
    [
        "add.sat.u32 %r0, %s0, %s1;",
        "add.b32 %r0, %s0, %s1;",
        "mul.u32 %r0, %s0, %s1;",
        "shl.u32 %r0, %s0, %s1;",
        "min.relu.u32 %r0, %s0, %s1;",
        "setp.lt.b32 %p, %s0, %s1;",
        "setp.lo.s32 %p, %s0, %s1;",
        "lop3.b32 %r0, %s0, %s1, %s0, %s1;",
        "lop3.b32 %r0, %s0, %s1, %s0, 256;",
        "add.s32 %r0, %s0;",
        "mov.b128 %r0, %s0;",
        "addc.u16 %r0, %s0, %s1;",
        "cvt.sat.s32.s32 %r0, %s0;",
        "bfe.u32 %r0, %s0, 256, 1;",
        "bfi.b32 %r0, %s0, %s1, 1, -1;",
    ],
)
def test_what_ptxas_refuses_is_refused(text):
    a = inputs("s32", 0)
    with pytest.raises(Unsupported, match=r"PTX line \d+"):
        run(f".reg .pred %p; {text}", ["b32"], ["b32"] * 2, a, a)
