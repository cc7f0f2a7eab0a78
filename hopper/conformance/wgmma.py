"""wgmma: where operands are read, who holds what, and what a chain of instructions does.

``Layout`` cases identify every element that a descriptor leads to; those called "plain" are layouts
that programs use, "odd" ones anything that can be encoded, and "crossing" ones start so late in
a swizzled row that they run over its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy

from hopper.conformance import Case, blank
from hopper.conformance.wgmma_numbers import codes, identity, item_bytes, numbered, passes
from hopper.descriptor import Descriptor, Major
from hopper.swizzle import SPANS, atom_bytes

REGION = 32768
_DTYPES = {"f32": numpy.float32, "s32": numpy.int32, "f16": numpy.uint32}
_ACCUMULATORS = {"f32": "float", "s32": "int", "f16": "unsigned"}


def registers(d_type: str, n: int) -> int:
    """Accumulator registers of a thread."""
    return n // 4 if d_type == "f16" else n // 2


def _defines(d_type: str, a_type: str, b_type: str, n: int) -> dict[str, int | str]:
    return {
        "INSTRUCTION": f"wgmma_{d_type}_{a_type}_{b_type}",
        "ACCUMULATOR": _ACCUMULATORS[d_type],
        "TILE_N": n,
        "REGISTERS": registers(d_type, n),
    }


@dataclass(frozen=True)
class Layout:
    """Where operand ``tested`` ("A" or "B") is read, by each of some descriptors.

    Types are those of D, A and B. ``theme``: which descriptors; see ``descriptors``.
    """

    d_type: str
    a_type: str
    b_type: str
    n: int
    tested: str
    major: Major
    theme: str
    region: int = REGION

    @property
    def name(self) -> str:
        """Such as wgmma.layout.f32.f16.f16.B.MN.n256.plain."""
        types = f"{self.d_type}.{self.a_type}.{self.b_type}"
        return f"wgmma.layout.{types}.{self.tested}.{self.major}.n{self.n}.{self.theme}"

    @property
    def kind(self) -> str:
        """The type of the operand under test."""
        return self.a_type if self.tested == "A" else self.b_type

    @property
    def rows(self) -> int:
        """Rows of the operand under test."""
        return 64 if self.tested == "A" else self.n

    def descriptors(self) -> list[Descriptor]:
        """Descriptors, counted from the region's start, whose operand lies within it."""
        size = item_bytes(self.kind)
        r, k = numpy.indices((self.rows, 32 // size))
        themes = {"plain": _plain, "odd": _odd, "crossing": _crossing, "base": _based}
        found = []
        for one in dict.fromkeys(themes[self.theme](self)):
            if one.address(r, k, major=self.major, item_bytes=size).max() + size <= self.region:
                found.append(one)
        return found

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        defines = _defines(self.d_type, self.a_type, self.b_type, self.n)
        defines |= {"TEST_A": int(self.tested == "A"), "REGION_BYTES": self.region}
        if self.major == "MN":
            defines["FLAGS"] = "<1, 1, 1, 0>" if self.tested == "A" else "<1, 1, 0, 1>"
        return Case(
            self.name,
            "probes/wgmma_layout.cu",
            "wgmma_layout",
            self._arguments,
            outputs=(4,),
            grid=(len(self.descriptors()), 1, 1),
            shared_bytes=1024 + self.region + 8192,
            defines=defines,
        )

    def _arguments(self) -> list:
        count = self.region // item_bytes(self.kind)
        other = (self.b_type, self.n) if self.tested == "A" else (self.a_type, 64)
        encoded = numpy.array([one.encode() for one in self.descriptors()], numpy.uint64)
        digits = passes(self.kind, count)
        shape = (len(encoded), digits, 128, registers(self.d_type, self.n))
        return [
            numbered(self.kind, count),
            identity(*other),
            encoded,
            numpy.zeros(4, numpy.uint32),
            blank(shape, _DTYPES[self.d_type]),
            numpy.int32(digits),
        ]


# ---- descriptors --------------------------------------------------------------------------------


def _strides(it: Layout, span: int) -> list[tuple[int, int]]:
    """Leading and stride that programs use: pieces adjacent, in one order or the other."""
    atom = atom_bytes(span) or 128
    if it.major == "K":
        return [(16, atom)] if span else [(128, 256), (it.rows // 8 * 128, 128)]
    across = -(-it.rows // (span // 2 or 8))
    if span:
        return [(2 * atom, atom), (atom, across * atom)]
    return [(128, 256), (across * 128, 128)]


def _inside(it: Layout, span: int) -> list[int]:
    """Starts from which a row stays within its span: the steps along K, or later rows."""
    if not span:
        return [0, 48]
    if it.major == "K":
        return list(range(0, span, 32))
    used = min(it.rows, span // 2) * 2
    return [0] if it.rows > span // 2 else list(range(0, span - used + 1, used))


def _plain(it: Layout) -> Iterator[Descriptor]:
    for span in SPANS:
        for leading, stride in _strides(it, span):
            for inside in _inside(it, span):
                yield Descriptor(inside, leading, stride, swizzle=span)
            # Tiles that start on another multiple of 128 than their atom's: the open question.
            for start in (128, 640, 1024 + 384):
                yield Descriptor(start, leading, stride, swizzle=span)


def _odd(it: Layout) -> Iterator[Descriptor]:
    random = numpy.random.default_rng(crc32(it.name.encode()))
    for span in SPANS:
        groups = it.rows // 8
        largest = min(it.region // (2 * groups), 4096) // 16
        for _ in range(6):
            leading, stride = (16 * int(random.integers(0, largest)) for _ in range(2))
            inside = int(random.choice(_inside(it, span)))
            start = inside + (span or 16) * int(random.integers(0, 32))
            if it.major == "K" and span:
                leading = 16 * int(random.integers(0, 1 << 14))  # unused, they say
            yield Descriptor(start, leading, stride, swizzle=span)
        yield Descriptor(0, 0, 0, swizzle=span)


def _crossing(it: Layout) -> Iterator[Descriptor]:
    for span in SPANS[:3]:
        for leading, stride in _strides(it, span):
            for start in (16, span - 16, span + 16, 1024 + span - 16):
                yield Descriptor(start, leading, stride, swizzle=span)


def _based(it: Layout) -> Iterator[Descriptor]:
    for span in SPANS:
        leading, stride = _strides(it, span)[0]
        for base in range(1, 8):
            yield Descriptor(128 * base, leading, stride, base, span)
        for base, start in ((1, 0), (3, 0), (5, 1024), (2, 640), (7, 128 + 32)):
            yield Descriptor(start, leading, stride, base, span)


# ---- registers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Which register of which thread A's elements come from: D = A · identity."""

    d_type: str
    kind: str
    n: int = 32

    @property
    def name(self) -> str:
        """Such as wgmma.held.f32.f16."""
        return f"wgmma.held.{self.d_type}.{self.kind}"

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        defines = _defines(self.d_type, self.kind, self.kind, self.n)
        return Case(
            self.name,
            "probes/wgmma_layout.cu",
            "wgmma_layout",
            self._arguments,
            outputs=(4,),
            shared_bytes=1024 + 1024 + 8192,
            defines=defines | {"TEST_REGISTERS": 1, "REGION_BYTES": 1024},
        )

    def _arguments(self) -> list:
        count = 128 * 16 // item_bytes(self.kind)
        digits = passes(self.kind, count)
        shape = (1, digits, 128, registers(self.d_type, self.n))
        return [
            numpy.zeros(4, numpy.uint32),
            identity(self.kind, self.n),
            numpy.zeros(1, numpy.uint64),
            numbered(self.kind, count),
            blank(shape, _DTYPES[self.d_type]),
            numpy.int32(digits),
        ]


# ---- chains -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """Four instructions that add up, in two warpgroups. ``majors``: of A and B."""

    d_type: str
    a_type: str
    b_type: str
    n: int
    negate: tuple[bool, bool] = (False, False)
    majors: tuple[Major, Major] = ("K", "K")
    a_in_registers: bool = False
    satfinite: bool = False

    @property
    def name(self) -> str:
        """Such as wgmma.chain.f32.f16.f16.n64.K.MN.negate_b."""
        tags = {
            "negate_a": self.negate[0],
            "negate_b": self.negate[1],
            "registers": self.a_in_registers,
            "satfinite": self.satfinite,
        }
        parts = ("wgmma.chain", self.d_type, self.a_type, self.b_type, f"n{self.n}", *self.majors)
        return ".".join((*parts, *(tag for tag, present in tags.items() if present)))

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        defines = _defines(self.d_type, self.a_type, self.b_type, self.n)
        if self.satfinite:
            defines["INSTRUCTION"] += "_satfinite"
        defines["A_IN_REGISTERS"] = int(self.a_in_registers)
        signs = [-1 if negated else 1 for negated in self.negate]
        flags = [int(major == "MN") for major in self.majors]
        if item_bytes(self.a_type) != 2:
            flags = []
        elif self.a_in_registers:
            flags = flags[1:]
        if self.d_type != "s32":
            defines["FLAGS"] = f"<{', '.join(map(str, signs + flags))}>"
        return Case(
            self.name,
            "probes/wgmma_chain.cu",
            "wgmma_chain",
            self._arguments,
            outputs=(6,),
            block=(256, 1, 1),
            shared_bytes=1024 + REGION,
            defines=defines,
        )

    def _arguments(self) -> list:
        random = numpy.random.default_rng(crc32(self.name.encode()))
        a = [_descriptor(self.majors[0], 64, n, 0) for n in range(8)]
        b = [_descriptor(self.majors[1], self.n, n, 16384) for n in range(4)]
        shape = (256, registers(self.d_type, self.n))
        if self.d_type == "s32":
            c = random.integers(-(1 << 31), 1 << 31, shape).astype(numpy.int32)
            near = random.random(shape) < 0.5
            c[near] = numpy.where(c[near] < 0, -(1 << 31) + 5000, (1 << 31) - 5000)
        elif self.d_type == "f32":
            c = random.standard_normal(shape).astype(numpy.float32)
        else:
            pairs = random.standard_normal((*shape, 2)).astype(numpy.float16)
            c = pairs.view(numpy.uint32)[..., 0]
        image = numpy.concatenate(
            [_values(random, kind, REGION // 2) for kind in (self.a_type, self.b_type)]
        )
        return [
            image,
            numpy.array(a, numpy.uint64),
            numpy.array(b, numpy.uint64),
            _values(random, self.a_type, 2 * 4 * 128 * 16).view(numpy.uint32),
            numpy.array([0, 1, 1, 1, 1, 1, 0, 1], numpy.int32),
            c,
            blank(shape, _DTYPES[self.d_type]),
        ]


def _descriptor(major: Major, rows: int, number: int, start: int) -> int:
    """Tiles one after the other (they may overlap): 32 bytes of K each, 128-byte swizzle."""
    if major == "K":
        return Descriptor(
            start + 1024 * (number // 4) + 32 * (number % 4), 16, 1024, 0, 128
        ).encode()
    return Descriptor(start + 2048 * (number % 4), 4096, 1024, 0, 128).encode()


def _values(random: numpy.random.Generator, kind: str, size: int) -> numpy.ndarray:
    """``size`` bytes of finite elements: moderate numbers, or any integers."""
    if kind in ("s8", "u8"):
        return random.integers(0, 256, size).astype(numpy.uint8)
    count = size // item_bytes(kind)
    normal = random.standard_normal(count).astype(numpy.float32)
    if kind == "f16":
        return normal.astype(numpy.float16).view(numpy.uint8)
    if kind == "tf32":
        return normal.view(numpy.uint8)
    if kind == "bf16":
        return (normal.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
    sign = random.integers(0, 2, count).astype(numpy.uint8) << 7
    return codes(kind)[random.integers(0, len(codes(kind)), count)] | sign


# ---- the cases ----------------------------------------------------------------------------------


def _layouts() -> Iterator[Layout]:
    for theme in ("plain", "odd"):
        for major in ("K", "MN"):
            for n in (8, 40, 128, 136, 256):
                region = 65536 if n > 136 else REGION
                yield Layout("f32", "f16", "f16", n, "B", major, theme, region)
            yield Layout("f32", "f16", "f16", 32, "A", major, theme)
            yield Layout("f32", "bf16", "bf16", 64, "B", major, theme)
            yield Layout("f32", "bf16", "bf16", 16, "A", major, theme)
            yield Layout("f16", "f16", "f16", 48, "B", major, theme)
        for d, a, b in (
            ("f32", "tf32", "tf32"),
            ("f32", "e4m3", "e4m3"),
            ("f16", "e5m2", "e4m3"),
            ("s32", "s8", "u8"),
            ("s32", "u8", "s8"),
        ):
            yield Layout(d, a, b, 48, "B", "K", theme)
            yield Layout(d, a, b, 32, "A", "K", theme)
    for major in ("K", "MN"):
        for tested in ("A", "B"):
            yield Layout("f32", "f16", "f16", 64, tested, major, "crossing")
            yield Layout("f32", "f16", "f16", 64, tested, major, "base")
    yield Layout("s32", "s8", "s8", 64, "B", "K", "base")
    yield Layout("f32", "tf32", "tf32", 64, "B", "K", "base")


def _held() -> Iterator[Held]:
    for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2"):
        yield Held("f32", kind)
    for kind in ("f16", "e4m3"):
        yield Held("f16", kind)
    for kind in ("s8", "u8"):
        yield Held("s32", kind)


def _chains() -> Iterator[Chain]:
    for majors in (("K", "K"), ("K", "MN"), ("MN", "K"), ("MN", "MN")):
        yield Chain("f32", "f16", "f16", 64, majors=majors)
    for negate in ((True, False), (False, True), (True, True)):
        yield Chain("f32", "f16", "f16", 24, negate, ("MN", "MN"))
        yield Chain("f16", "f16", "f16", 32, negate)
        yield Chain("f32", "bf16", "bf16", 16, negate, ("K", "MN"), a_in_registers=True)
        yield Chain("f32", "tf32", "tf32", 64, negate)
        yield Chain("f32", "e4m3", "e5m2", 40, negate, a_in_registers=negate[0])
        yield Chain("f16", "e5m2", "e4m3", 64, negate, a_in_registers=negate[1])
    for satfinite in (False, True):
        for a, b in (("s8", "s8"), ("s8", "u8"), ("u8", "s8"), ("u8", "u8")):
            yield Chain("s32", a, b, 48, a_in_registers=a != b, satfinite=satfinite)


def _forms() -> list:
    random = numpy.random.default_rng(7)
    a, b = (random.standard_normal((rows, 16)).astype(numpy.float16) for rows in (64, 8))
    c = random.standard_normal((4, 128, 4)).astype(numpy.float32)
    return [a, b, c, blank(c.shape, numpy.float32), numpy.int32(1)]


LAYOUTS = {it.name: it for it in _layouts()}
HELD = {it.name: it for it in _held()}
CHAINS = {it.name: it for it in _chains()}
CASES = (
    *(it.case() for it in (*LAYOUTS.values(), *HELD.values(), *CHAINS.values())),
    Case("wgmma.forms", "probes/wgmma_forms.cu", "wgmma_forms", partial(_forms), (3,)),
)
