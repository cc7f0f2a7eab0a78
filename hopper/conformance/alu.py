"""Integer instructions: every form of ``hopper.emulator``'s alu, bits, fields, packed and carry."""

from hopper.conformance import Case
from hopper.conformance.scalar_inputs import scalar_case

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_ORDER = ("eq", "ne", "lt", "le", "gt", "ge")
_UNSIGNED = ("lo", "ls", "hi", "hs")


def two(*opcodes: str, kind: str = "") -> list[str]:
    """Forms with two sources."""
    return [f"{opcode}{kind} %0, %1, %2;" for opcode in opcodes]


def three(*opcodes: str, kind: str = "") -> list[str]:
    """Forms with three sources."""
    return [f"{opcode}{kind} %0, %1, %2, %3;" for opcode in opcodes]


def one(*opcodes: str, kind: str = "") -> list[str]:
    """Forms with one source."""
    return [f"{opcode}{kind} %0, %1;" for opcode in opcodes]


def predicates(*opcodes: str, third: str = "") -> list[str]:
    """Forms ``setp p|q``: the result is p + 2q. ``third``: "c" or "!c", which is %3 being odd."""
    operands = f"%1, %2, {third}" if third else "%1, %2"
    return [
        "{.reg .pred p, q, c; .reg .b32 x, y; and.b32 x, %3, 1; setp.ne.u32 c, x, 0; "
        f"{opcode} p|q, {operands}; selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; or.b32 %0, x, y;}}"
        for opcode in opcodes
    ]


def _arithmetic(kind: str) -> Case:
    forms = two("add", "sub", "mul.lo", "mul.hi", "min", "max", kind=f".{kind}")
    forms += three("mad.lo", "mad.hi", "sad", kind=f".{kind}")
    if kind[0] == "s":
        forms += one("neg", "abs", kind=f".{kind}")
    return scalar_case(f"alu.arithmetic.{kind}", forms, kind, [kind] * 3)


def _division(kind: str) -> Case:
    """With division by zero, whose result the PTX ISA leaves to the machine."""
    return scalar_case(
        f"alu.division.{kind}", two("div", "rem", kind=f".{kind}"), kind, [kind, kind]
    )


def _wide(kind: str) -> Case:
    to = f"{kind[0]}{2 * int(kind[1:])}"
    forms = two("mul.wide", kind=f".{kind}") + three("mad.wide", kind=f".{kind}")
    return scalar_case(f"alu.wide.{kind}", forms, to, [kind, kind, to])


_SPECIAL = scalar_case(
    "alu.special.32",
    [
        *two("add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"),
        *two("mul24.lo.u32", "mul24.lo.s32", "mul24.hi.u32", "mul24.hi.s32"),
        *two("add.u16x2", "add.s16x2", "min.u16x2", "min.s16x2", "max.u16x2", "max.s16x2"),
        *two("min.relu.s16x2", "max.relu.s16x2"),
        *two("szext.clamp.u32", "szext.clamp.s32", "szext.wrap.u32", "szext.wrap.s32"),
        *two("bmsk.clamp.b32", "bmsk.wrap.b32", "cvt.pack.sat.u16.s32", "cvt.pack.sat.s16.s32"),
        *three("mad.hi.sat.s32", "mad24.lo.u32", "mad24.lo.s32", "mad24.hi.u32", "mad24.hi.s32"),
        *three("mad24.hi.sat.s32"),
        *three(*(f"dp4a.{a}.{b}" for a in ("u32", "s32") for b in ("u32", "s32"))),
        *three(*(f"dp2a.lo.{a}.{b}" for a in ("u32", "s32") for b in ("u32", "s32"))),
        *three(*(f"dp2a.hi.{a}.{b}" for a in ("u32", "s32") for b in ("u32", "s32"))),
        *three(*(f"cvt.pack.sat.{kind}.s32.b32" for kind in ("u8", "s8", "u4", "s4", "u2", "s2"))),
    ],
    "u32",
    ["u32"] * 3,
)

_BITS_32 = scalar_case(
    "alu.bits.32",
    [
        *two("and.b32", "or.b32", "xor.b32", "shl.b32", "shr.b32", "shr.u32", "shr.s32"),
        *one("not.b32", "cnot.b32", "popc.b32", "clz.b32", "brev.b32"),
        *one("bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32"),
        *three("bfe.u32", "bfe.s32"),
        "bfi.b32 %0, %1, %2, %3, 7;",
        "bfi.b32 %0, %1, %2, 5, %3;",
        "bfi.b32 %0, %1, %2, %3, %2;",
        *three("shf.l.clamp.b32", "shf.l.wrap.b32", "shf.r.clamp.b32", "shf.r.wrap.b32"),
        *three("prmt.b32", "prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl"),
        *three("prmt.b32.ecr", "prmt.b32.rc16"),
        *(f"lop3.b32 %0, %1, %2, %3, {table};" for table in (0, 1, 0x96, 0xE8, 0xCA, 0x6D, 0xFF)),
        *(
            "{.reg .pred p, q; .reg .b32 x; and.b32 x, %3, 1; setp.ne.u32 q, x, 0; "
            f"lop3.{word}.b32 x|p, %1, %2, %3, 0x{table:x}, q; @p not.b32 x, x; mov.b32 %0, x;}}"
            for word in ("and", "or")
            for table in (0x80, 0x1D)
        ),
        "fns.b32 %0, %1, %2, %3;",
        # Defined only where the base lies in the mask's 32 bits.
        "{.reg .b32 x; and.b32 x, %2, 31; fns.b32 %0, %1, x, %3;}",
        "{.reg .b32 x, y; and.b32 x, %2, 31; bfe.s32 y, %3, 0, 4; fns.b32 %0, %1, x, y;}",
    ],
    "u32",
    ["u32"] * 3,
)

_BITS_64 = scalar_case(
    "alu.bits.64",
    [
        *two("and.b64", "or.b64", "xor.b64"),
        *one("not.b64", "cnot.b64", "brev.b64"),
        *("shl.b64 %0, %1, %3;", "shr.u64 %0, %1, %3;", "shr.s64 %0, %1, %3;"),
        *("bfe.u64 %0, %1, %3, 17;", "bfe.s64 %0, %1, %3, 17;", "bfe.s64 %0, %1, 9, %3;"),
        *("bfi.b64 %0, %1, %2, %3, 40;", "bfi.b64 %0, %1, %2, 3, %3;"),
        *(
            f"{{.reg .b32 x; cvt.u32.u64 x, %2; {form}}}"
            for form in (
                *("bfe.u64 %0, %1, x, %3;", "bfe.s64 %0, %1, x, %3;"),
                *("bfi.b64 %0, %1, %1, x, %3;", "bfi.b64 %0, %2, %1, x, %3;"),
                *("bfe.u64 %0, %1, 200, %3;", "bfe.u64 %0, %1, 3, 100;"),
                *("bfe.s64 %0, %1, 3, 100;", "bfi.b64 %0, %1, %2, 200, 4;"),
            )
        ),
        *(
            f"{{.reg .b32 x; {opcode} x, %1; cvt.u64.u32 %0, x;}}"
            for opcode in (
                *("popc.b64", "clz.b64", "bfind.u64", "bfind.s64"),
                *("bfind.shiftamt.u64", "bfind.shiftamt.s64"),
            )
        ),
        # The two halves, swapped; four quarters, reversed.
        "{.reg .b32 x, y; mov.b64 {x, y}, %1; mov.b64 %0, {y, x};}",
        "{.reg .b16 a, b, c, d; mov.b64 {a, b, c, d}, %1; mov.b64 %0, {d, c, b, a};}",
        "{.reg .b32 y; mov.b64 {_, y}, %1; mov.b64 %0, {y, 7};}",
    ],
    "u64",
    ["u64", "u64", "u32"],
)

_BITS_16 = scalar_case(
    "alu.bits.16",
    [
        *two("and.b16", "or.b16", "xor.b16"),
        *one("not.b16", "cnot.b16"),
        *("shl.b16 %0, %1, %3;", "shr.u16 %0, %1, %3;", "shr.s16 %0, %1, %3;"),
        "{.reg .b32 x; mov.b32 x, {%1, %2}; mov.b32 {_, %0}, x;}",
        "{.reg .b8 a, b; mov.b16 {a, b}, %1; mov.b16 %0, {b, a};}",
    ],
    "u16",
    ["u16", "u16", "u32"],
)


def _carry(kind: str) -> Case:
    """Results in two parts: the later part is what the carry changes."""
    signed = kind.replace("u", "s")
    forms = []
    for first, then in (("add", "addc"), ("sub", "subc"), ("sub", "addc"), ("add", "subc")):
        for k in (kind, signed):
            forms += [
                f"{{.reg .b{kind[1:]} x; {first}.cc.{k} x, %1, %2; {then}.{k} %0, %3, %2;}}",
                f"{{.reg .b{kind[1:]} x; {first}.cc.{k} x, %1, %2; {then}.cc.{k} x, %3, %1; "
                f"{then}.{k} %0, %2, %3;}}",
            ]
    for k in (kind, signed):
        for part in ("lo", "hi"):
            forms += [
                f"{{.reg .b{kind[1:]} x; mad.{part}.cc.{k} x, %1, %2, %3; addc.{k} %0, %1, 0;}}",
                f"{{.reg .b{kind[1:]} x; add.cc.{k} x, %1, %2; madc.{part}.{k} %0, %1, %2, %3;}}",
                f"{{.reg .b{kind[1:]} x; add.cc.{k} x, %1, %2; madc.{part}.cc.{k} x, %1, %2, %3; "
                f"addc.{k} %0, x, 0;}}",
            ]
    return scalar_case(f"alu.carry.{kind}", forms, kind, [kind] * 3)


def _compare(kind: str) -> Case:
    names = _ORDER[:2] if kind[0] == "b" else _ORDER
    names += _UNSIGNED if kind[0] == "u" else ()
    forms = predicates(*(f"setp.{name}.{kind}" for name in names))
    for word in ("and", "or", "xor"):
        forms += predicates(*(f"setp.{name}.{word}.{kind}" for name in names), third="c")
        forms += predicates(f"setp.{names[-1]}.{word}.{kind}", third="!c")
    forms += [f"set.{name}.{to}.{kind} %0, %1, %2;" for name in names for to in ("u32", "f32")]
    forms += [
        "{.reg .pred c; .reg .b32 x; and.b32 x, %3, 1; setp.ne.u32 c, x, 0; "
        f"set.{names[-1]}.{word}.s32.{kind} %0, %1, %2, !c;}}"
        for word in ("and", "or", "xor")
    ]
    return scalar_case(f"alu.compare.{kind}", forms, "u32", [kind, kind, "u32"])


def _select(bits: int) -> Case:
    prefix = "{.reg .pred p; .reg .b32 x; and.b32 x, %3, 1; setp.ne.u32 p, x, 0; "
    forms = [f"{prefix}selp.{kind}{bits} %0, %1, %2, p;}}" for kind in "bus"]
    forms += [f"slct.{kind}{bits}.s32 %0, %1, %2, %3;" for kind in "bus"]
    forms += [f"slct{ftz}.b{bits}.f32 %0, %1, %2, %3;" for ftz in ("", ".ftz")]
    return scalar_case(f"alu.select.{bits}", forms, f"u{bits}", [f"u{bits}", f"u{bits}", "f32"])


def _convert(to: str) -> Case:
    """To one integer type from every other, extended in a register of 64 bits."""
    forms = []
    for given in ("u8", "s8", *INTEGERS):
        register = max(int(given[1:]), 16)
        narrow = f"{{.reg .b{register} x; cvt.u{register}.u64 x, %1; "
        for sat in ("", ".sat"):
            if sat and _holds(to, given):
                continue
            source = "%1" if register == 64 else "x"
            start = "{" if register == 64 else narrow
            forms.append(f"{start}cvt{sat}.{to}.{given} %0, {source};}}")
    return scalar_case(f"alu.convert.{to}", forms, "u64", ["u64"])


def _holds(to: str, given: str) -> bool:
    """Whether every number of type ``given`` is one of type ``to``."""
    bits, room = int(given[1:]), int(to[1:])
    if given[0] == to[0]:
        return bits <= room
    return given[0] == "u" and bits < room


CASES = (
    *(_arithmetic(kind) for kind in INTEGERS),
    *(_division(kind) for kind in INTEGERS),
    *(_wide(kind) for kind in INTEGERS[:4]),
    _SPECIAL,
    _BITS_16,
    _BITS_32,
    _BITS_64,
    _carry("u32"),
    _carry("u64"),
    *(_compare(kind) for kind in ("b16", "b32", "b64", *INTEGERS)),
    *(_select(bits) for bits in (16, 32, 64)),
    *(_convert(kind) for kind in ("u8", "s8", *INTEGERS)),
)
