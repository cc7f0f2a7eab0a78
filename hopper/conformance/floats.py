"""Floating-point arithmetic of one thread: every type, rounding mode and modifier."""

from itertools import product

from hopper.conformance import Case
from hopper.conformance.alu import one, predicates, three, two
from hopper.conformance.scalar_inputs import EVERY, scalar_case

MODES = ("rn", "rz", "rm", "rp")
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_COMPARISONS = (*_ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_CLASSES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
_TWO, _EXTREMES = ("add", "sub", "mul"), ("min", "max")


def spelled(names, *choices) -> list[str]:
    """Opcodes: each name with each choice of modifiers, "" for none."""
    return [
        ".".join(part for part in (name, *modifiers) if part)
        for name in names
        for modifiers in product(*choices)
    ]


_F32 = ["f32"] * 3
_FTZ, _SAT = ("", "ftz"), ("", "sat")
_EXTREME_OPTIONS = (("", "NaN"), ("", "xorsign.abs"))

_F32_CASES = (
    *(
        scalar_case(
            f"floats.f32.{name}",
            two(*spelled([name], ("", *MODES), _FTZ, _SAT, ["f32"])),
            "f32",
            _F32,
            4096,
        )
        for name in _TWO
    ),
    scalar_case(
        "floats.f32.fma",
        three(*spelled(["fma"], MODES, _FTZ, _SAT, ["f32"]), "mad.rn.f32", "mad.rz.ftz.sat.f32"),
        "f32",
        _F32,
        8192,
    ),
    scalar_case(
        "floats.f32.division",
        [
            *two(*spelled(["div"], MODES, _FTZ, ["f32"])),
            *one(*spelled(["rcp", "sqrt"], MODES, _FTZ, ["f32"])),
        ],
        "f32",
        _F32,
        4096,
    ),
    scalar_case(
        "floats.f32.order",
        [
            *one(*spelled(["neg", "abs"], _FTZ, ["f32"])),
            *two(*spelled(_EXTREMES, _FTZ, *_EXTREME_OPTIONS, ["f32"]), "copysign.f32"),
        ],
        "f32",
        _F32,
        4096,
    ),
)

_F64 = ["f64"] * 3
_F64_CASES = (
    scalar_case(
        "floats.f64.arithmetic",
        two(*spelled(_TWO, ("", *MODES), ["f64"]), "min.f64", "max.f64", "copysign.f64")
        + one("neg.f64", "abs.f64"),
        "f64",
        _F64,
    ),
    scalar_case(
        "floats.f64.fma", three(*spelled(["fma"], MODES, ["f64"]), "mad.rn.f64"), "f64", _F64
    ),
    scalar_case(
        "floats.f64.division",
        two(*spelled(["div"], MODES, ["f64"]))
        + one(*spelled(["rcp"], MODES, _FTZ, ["f64"]), *spelled(["sqrt"], MODES, ["f64"])),
        "f64",
        _F64,
    ),
)


def _half(kind: str) -> Case:
    """Everything that two or three numbers of a half type, or pairs of them, can be put through."""
    ftz, sat = (_FTZ, _SAT) if kind[0] == "f" else (("",), ("",))
    forms = two(*spelled(_TWO, ("", "rn"), ftz, sat, [kind]))
    forms += one(*spelled(["neg", "abs"], ftz, [kind]))
    forms += two(*spelled(_EXTREMES, ftz, *_EXTREME_OPTIONS, [kind]))
    forms += three(*spelled(["fma.rn"], ftz, (*sat, "relu"), [kind]))
    forms += three(f"fma.rn.oob.{kind}", f"fma.rn.oob.relu.{kind}")
    return scalar_case(f"floats.{kind}.arithmetic", forms, kind, [kind] * 3, 4096)


def _outside(kind: str) -> Case:
    """``.oob``: which of all 65536 numbers counts as lying outside a tensor."""
    one_, two_ = {"f16": ("0x3C00", "0x4000"), "bf16": ("0x3F80", "0x4000")}[kind]
    start = f"{{.reg .b16 one, two; mov.b16 one, {one_}; mov.b16 two, {two_}; "
    forms = [
        f"{start}fma.rn.oob.{kind} %0, %1, one, two;}}",
        f"{start}fma.rn.oob.{kind} %0, one, %1, two;}}",
        f"{start}fma.rn.oob.{kind} %0, one, two, %1;}}",
        f"{start}fma.rn.oob.relu.{kind} %0, %1, one, two;}}",
    ]
    return scalar_case(f"floats.{kind}.oob", forms, kind, [EVERY], 65536)


def _compare(kind: str) -> Case:
    """A half is compared into one predicate: p; the others, and pairs, into p and q."""
    ftz = ("",) if kind in ("f64", "bf16", "bf16x2") else _FTZ
    names = [f"setp.{name}" for name in _COMPARISONS]
    forms = []
    for word, third in (("", ""), ("and", "c"), ("or", "!c"), ("xor", "c")):
        opcodes = spelled(names if not word else names[2:9:6], ftz, (word,), [kind])
        if kind in ("f16", "bf16"):
            forms += [_single(opcode, third) for opcode in opcodes]
        else:
            forms += predicates(*opcodes, third=third)
    for to in _set_types(kind):
        flushed = ("",) if to == "bf16" else ftz
        opcodes = spelled([f"set.{name}" for name in ("lt", "neu")], flushed, [to], [kind])
        forms += [_set(opcode, to) for opcode in opcodes]
    if kind in ("f32", "f64"):
        forms += [
            f"{{.reg .pred p; testp.{name}.{kind} p, %1; selp.u32 %0, 1, 0, p;}}"
            for name in _CLASSES
        ]
    return scalar_case(f"floats.{kind}.compare", forms, "u32", [kind, kind, "u32"])


def _set_types(kind: str) -> tuple[str, ...]:
    if kind.endswith("x2"):
        return ("u32", "s32", kind)
    return {
        "f16": ("u16", "s16", "u32", "f16", "bf16"),
        "bf16": ("u16", "s16", "u32", "bf16"),
    }.get(kind, ("u32", "s32", "f32", "f16", "bf16"))


def _set(opcode: str, to: str) -> str:
    if to[1:] == "16" or to == "bf16":
        # Not cvt.u32.u16: ptxas 13.0 takes the upper half for 0 behind set, where it is not.
        return (
            f"{{.reg .b16 h, zero; mov.b16 zero, 0; {opcode} h, %1, %2; mov.b32 %0, {{h, zero}};}}"
        )
    return f"{opcode} %0, %1, %2;"


def _single(opcode: str, third: str) -> str:
    operands = f"%1, %2, {third}" if third else "%1, %2"
    return (
        "{.reg .pred p, c; .reg .b32 x; and.b32 x, %3, 1; setp.ne.u32 c, x, 0; "
        f"{opcode} p, {operands}; selp.u32 %0, 1, 0, p;}}"
    )


HALVES = ("f16", "bf16", "f16x2", "bf16x2")
CASES = (
    *_F32_CASES,
    *_F64_CASES,
    *(_half(kind) for kind in HALVES),
    *(_outside(kind) for kind in HALVES[:2]),
    *(_compare(kind) for kind in ("f32", "f64", *HALVES)),
)
