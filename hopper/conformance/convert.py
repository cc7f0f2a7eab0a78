"""Conversions: every form of ``cvt`` that has a float on one side, and tf32 and 8-bit floats."""

from hopper.conformance import Case
from hopper.conformance.alu import INTEGERS, one, two
from hopper.conformance.floats import MODES, spelled
from hopper.conformance.scalar_inputs import EVERY, scalar_case

_WHOLE = ("rni", "rzi", "rmi", "rpi")
_ANY_MODE = ("", *MODES)
_ALL_INTEGERS = ("u8", "s8", *INTEGERS)
_FTZ, _SAT = ("", "ftz"), ("", "sat")
_RELU = ("", "relu", "satfinite", "satfinite.relu")


def _from_integer(to: str) -> Case:
    """From every integer type, cut out of 64 bits."""
    ftz, sat = {"f32": (_FTZ, _SAT), "bf16": (("",), ("",))}.get(to, (("",), _SAT))
    given = INTEGERS if to == "bf16" else _ALL_INTEGERS
    forms = []
    for kind in given:
        for opcode in spelled(["cvt"], MODES, ftz, sat, [to], [kind]):
            if "rn" not in opcode and ("ftz" in opcode or "sat" in opcode):
                continue
            bits = max(int(kind[1:]), 16)
            if bits == 64:
                forms.append(f"{opcode} %0, %1;")
            else:
                forms.append(f"{{.reg .b{bits} x; cvt.u{bits}.u64 x, %1; {opcode} %0, x;}}")
    return scalar_case(f"convert.{to}.from_integer", forms, to, ["u64"])


def _to_integer(given: str, flush: str = "") -> Case:
    """To every integer type, extended to 64 bits: 8 bits lie in registers of 16."""
    forms = []
    for to in INTEGERS if given == "bf16" else _ALL_INTEGERS:
        register, wide = f"{to[0]}{max(int(to[1:]), 16)}", f"{to[0]}64"
        for opcode in spelled(["cvt"], _WHOLE, [flush], [to], [given]):
            extend = f"cvt.{wide}.{register} %0, x;" if register != wide else "mov.b64 %0, x;"
            forms.append(f"{{.reg .b{register[1:]} x; {opcode} x, %1; {extend}}}")
    if given != "bf16":
        forms += one(*spelled(["cvt"], ["rzi"], [flush], ["sat"], ("u64", "s64"), [given]))
    name = f"convert.{given}.to_integer" + (".ftz" if flush else "")
    return scalar_case(name, forms, "u64", [given])


def _same(kind: str) -> Case:
    ftz, sat = {"f32": (_FTZ, _SAT), "bf16": (("",), ("",))}.get(kind, (("",), _SAT))
    forms = one(*spelled(["cvt"], ("", *_WHOLE), ftz, sat, [kind], [kind]))
    return scalar_case(f"convert.{kind}.same", forms, kind, [kind])


_TO_F32 = scalar_case(
    "convert.f32.from_half",
    one("cvt.f32.f16", "cvt.sat.f32.f16", "cvt.f32.bf16", "cvt.ftz.f32.bf16"),
    "f32",
    [EVERY],
    65536,
)
_TO_F64 = (
    scalar_case("convert.f64.from_half", one("cvt.f64.f16", "cvt.f64.bf16"), "f64", [EVERY], 65536),
    scalar_case(
        "convert.f64.from_f32",
        one("cvt.f64.f32", "cvt.ftz.f64.f32", "cvt.sat.f64.f32"),
        "f64",
        ["f32"],
        4096,
    ),
)
_BETWEEN_HALVES = tuple(
    scalar_case(f"convert.{name}", one(*spelled(["cvt"], _ANY_MODE, [name])), "f16", [EVERY], 65536)
    for name in ("f16.bf16", "bf16.f16")
)
_FROM_F64 = (
    scalar_case(
        "convert.f32.from_f64",
        one(*spelled(["cvt"], MODES, _FTZ, _SAT, ["f32.f64"])),
        "f32",
        ["f64"],
        4096,
    ),
    scalar_case(
        "convert.halves.from_f64",
        one(*spelled(["cvt"], MODES, _SAT, ["f16.f64"]), *spelled(["cvt"], MODES, ["bf16.f64"])),
        "f16",
        ["f64"],
        4096,
    ),
)
_FROM_F32 = scalar_case(
    "convert.halves.from_f32",
    one(
        *spelled(["cvt"], MODES, _FTZ, _SAT, ["f16.f32"]),
        *spelled(["cvt"], MODES, _FTZ, ["bf16.f32"]),
        *spelled(["cvt"], ("rn", "rz"), _RELU[1:], ("f16.f32", "bf16.f32")),
    ),
    "f16",
    ["f32"],
    8192,
)
_PAIRS = scalar_case(
    "convert.pairs.from_f32",
    two(*spelled(["cvt"], ("rn", "rz"), _RELU, ("f16x2.f32", "bf16x2.f32"))),
    "f16x2",
    ["f32", "f32"],
    8192,
)
_TF32 = scalar_case(
    "convert.tf32",
    one(
        *spelled(["cvt"], ("rn", "rz"), ("", "relu"), ["tf32.f32"]),
        "cvt.rna.tf32.f32",
        "cvt.rna.satfinite.tf32.f32",
    ),
    "f32",
    ["f32"],
    8192,
)
_FP8 = (
    scalar_case(
        "convert.fp8.from_f32",
        two(*spelled(["cvt.rn.satfinite"], ("", "relu"), ("e4m3x2.f32", "e5m2x2.f32"))),
        "u16",
        ["f32", "f32"],
        16384,
    ),
    # Every f16 as the low half, and in another order as the high half.
    scalar_case(
        "convert.fp8.from_f16",
        [
            f"{{.reg .b16 h; .reg .b32 x; mul.lo.u16 h, %1, 40503; mov.b32 x, {{%1, h}}; "
            f"{opcode} %0, x;}}"
            for opcode in spelled(
                ["cvt.rn.satfinite"], ("", "relu"), ("e4m3x2.f16x2", "e5m2x2.f16x2")
            )
        ],
        "u16",
        [EVERY],
        65536,
    ),
    scalar_case(
        "convert.fp8.to_f16",
        one(*spelled(["cvt.rn"], ("", "relu"), ("f16x2.e4m3x2", "f16x2.e5m2x2"))),
        "f16x2",
        [EVERY],
        65536,
    ),
)

CASES = (
    *(_from_integer(to) for to in ("f16", "bf16", "f32", "f64")),
    *(_to_integer(given) for given in ("f16", "bf16", "f32", "f64")),
    _to_integer("f32", "ftz"),
    *(_same(kind) for kind in ("f16", "bf16", "f32", "f64")),
    _TO_F32,
    *_TO_F64,
    *_BETWEEN_HALVES,
    *_FROM_F64,
    _FROM_F32,
    _PAIRS,
    _TF32,
    *_FP8,
)
