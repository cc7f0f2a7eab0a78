"""wgmma: what a chain of instructions computes, and every N."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy

from hopper.conformance import Case, blank
from hopper.conformance.wgmma_numbers import (
    ACCUMULATORS,
    DTYPES,
    codes,
    defines_of,
    item_bytes,
    registers,
)
from hopper.descriptor import Descriptor, Major

IMAGE = 32768


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
        defines = defines_of(self.d_type, self.a_type, self.b_type, self.n)
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
            shared_bytes=1024 + IMAGE,
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
            [_values(random, kind, IMAGE // 2) for kind in (self.a_type, self.b_type)]
        )
        return [
            image,
            numpy.array(a, numpy.uint64),
            numpy.array(b, numpy.uint64),
            _values(random, self.a_type, 2 * 4 * 128 * 16).view(numpy.uint32),
            # A later D = A · B would wipe out what saturated before: integers begin with one.
            numpy.array([0, 1, 1, 1, 1, 1, int(self.d_type == "s32"), 1], numpy.int32),
            c,
            blank(shape, DTYPES[self.d_type]),
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


# ---- every N ------------------------------------------------------------------------------------

INTEGER_N = (8, 24, *range(16, 257, 16))
EVERY_N = tuple(range(8, 257, 8))


@dataclass(frozen=True)
class EveryN:
    """One instruction of every legal N, on the same operands."""

    d_type: str
    a_type: str
    b_type: str

    @property
    def name(self) -> str:
        """Such as wgmma.every_n.f32.f16.f16."""
        return f"wgmma.every_n.{self.d_type}.{self.a_type}.{self.b_type}"

    @property
    def every_n(self) -> tuple[int, ...]:
        """The N of each block."""
        return INTEGER_N if self.d_type == "s32" else EVERY_N

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        return Case(
            self.name,
            "probes/wgmma_every_n.cu",
            "wgmma_every_n",
            self._arguments,
            outputs=(3,),
            grid=(len(self.every_n), 1, 1),
            defines={
                "INSTRUCTION": f"wgmma_{self.d_type}_{self.a_type}_{self.b_type}",
                "ACCUMULATOR": ACCUMULATORS[self.d_type],
                "PAIRS": int(self.d_type == "f16"),
                "EACH_N": f"WGMMA_EACH{'_INTEGER' if self.d_type == 's32' else ''}_N",
            },
        )

    def _arguments(self) -> list:
        random = numpy.random.default_rng(crc32(self.name.encode()))
        a, b = _values(random, self.a_type, 64 * 32), _values(random, self.b_type, 256 * 32)
        held = blank((len(self.every_n), 128, 128), DTYPES[self.d_type])
        return [a, b, numpy.array(self.every_n, numpy.int32), held]


# ---- the cases ----------------------------------------------------------------------------------


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


EVERY = {
    it.name: it
    for it in (
        EveryN("f32", "f16", "f16"),
        EveryN("f16", "f16", "f16"),
        EveryN("f32", "tf32", "tf32"),
        EveryN("f32", "e4m3", "e5m2"),
        EveryN("s32", "u8", "s8"),
    )
}
CHAINS = {it.name: it for it in _chains()}
CASES = (
    *(it.case() for it in (*CHAINS.values(), *EVERY.values())),
    Case("wgmma.forms", "probes/wgmma_forms.cu", "wgmma_forms", partial(_forms), (3,)),
)
