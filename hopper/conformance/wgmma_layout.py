"""Where wgmma reads its operands, and which register of which thread holds what.

``Layout`` cases identify every element that a descriptor leads to; those called "plain" are layouts
that programs use, "odd" ones anything that can be encoded, "crossing" ones start so late in
a swizzled row that they run over its end, and "base" ones have a base offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

import numpy

from hopper.conformance import Case, blank
from hopper.conformance.wgmma_numbers import (
    DTYPES,
    defines_of,
    identity,
    item_bytes,
    numbered,
    passes,
    registers,
)
from hopper.descriptor import Descriptor, Major
from hopper.swizzle import SPANS, atom_bytes

REGION = 32768


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
        defines = defines_of(self.d_type, self.a_type, self.b_type, self.n)
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
            blank(shape, DTYPES[self.d_type]),
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
        defines = defines_of(self.d_type, self.kind, self.kind, self.n)
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
            blank(shape, DTYPES[self.d_type]),
            numpy.int32(digits),
        ]


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


LAYOUTS = {it.name: it for it in _layouts()}
HELD = {it.name: it for it in _held()}
CASES = tuple(it.case() for it in (*LAYOUTS.values(), *HELD.values()))
