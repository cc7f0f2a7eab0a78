"""Matrices between shared memory and registers, and mma.sync: which lane holds what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy

from hopper.conformance import Case, blank
from hopper.emulator.mma import FORMS
from hopper.emulator.numbers import FORMATS

IMAGE_BYTES, THREADS = 4096, 128
MOVES = 12  # .x1, .x2, .x4, with and without .trans, shared and generic addresses
_ITEM_VALUES = {"s8": numpy.int8, "u8": numpy.uint8}


def _moves(seed: int) -> list:
    """Rows in an order of their own, none twice: stores of one row by two lanes have no order."""
    random = numpy.random.default_rng(seed)
    image = random.integers(0, 256, IMAGE_BYTES).astype(numpy.uint8)
    rows = 16 * random.permutation(IMAGE_BYTES // 16)[:THREADS].astype(numpy.int32)
    registers = random.integers(0, 1 << 32, (4, THREADS)).astype(numpy.uint32)
    return [
        image,
        rows,
        registers,
        blank((MOVES, 4, THREADS), numpy.uint32),
        blank((MOVES, IMAGE_BYTES), numpy.uint8),
        blank(THREADS, numpy.uint32),
    ]


@dataclass(frozen=True)
class Multiplication:
    """One mma.sync, on registers as they are. ``shape``: "m16n8k16"; types of D, A and B."""

    shape: str
    d_type: str
    a_type: str
    b_type: str
    satfinite: bool = False
    blocks: int = 4

    @property
    def name(self) -> str:
        """Such as matrix.mma.m16n8k32.s32.s8.u8.satfinite."""
        parts = ("matrix.mma", self.shape, self.d_type, self.a_type, self.b_type)
        return ".".join((*parts, *(("satfinite",) if self.satfinite else ())))

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers that a thread holds of A, of B, and of C and D."""
        m, k = (int(length) for length in self.shape[1:].split("n8k"))
        a = m * k * FORMS[self.a_type, self.b_type][0] // 128
        return a, max(a // 2, 1), m // (8 if self.d_type == "f16" else 4)

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        a, _, d = self.registers
        saturate = ".satfinite" if self.satfinite else ""
        types = f"{self.d_type}.{self.a_type}.{self.b_type}.{self.d_type}"
        return Case(
            self.name,
            "probes/matrix_mma.cu",
            "matrix_mma",
            self._arguments,
            outputs=(3,),
            grid=(self.blocks, 1, 1),
            defines={
                "INSTRUCTION": f'"mma.sync.aligned.{self.shape}.row.col{saturate}.{types}"',
                "A_REGISTERS": a,
                "D_REGISTERS": d,
            },
        )

    def _arguments(self) -> list:
        random = numpy.random.default_rng(crc32(self.name.encode()))
        threads = self.blocks * THREADS
        a, b, d = self.registers
        c = _words(random, self.d_type, d, threads)
        return [
            _words(random, self.a_type, a, threads),
            _words(random, self.b_type, b, threads),
            c,
            blank(c.shape, numpy.uint32),
        ]


def _words(
    random: numpy.random.Generator, kind: str, registers: int, threads: int
) -> numpy.ndarray:
    """(registers, threads) of 32 bits: any integers, half of C's at the ends, or finite floats."""
    shape = (registers, threads)
    words = random.integers(0, 1 << 32, shape).astype(numpy.uint32)
    if kind == "s32":
        end = random.random(shape) < 0.5
        words[end] = numpy.where(words[end] >> 31, (1 << 31) + 900, (1 << 31) - 900)
    elif kind not in _ITEM_VALUES:
        form = FORMATS[kind]
        bits = words.view(form.dtype)
        # Exponents around 1, so that products meet.
        spread = (form.bias + 2) << form.fraction
        low = (form.bias - 3) << form.fraction
        magnitude = low + (bits & form.sign - 1) % (spread - low)
        bits[...] = magnitude.astype(form.dtype) | bits & form.sign
    return words


def _multiplications():
    for (a, b), (_, shapes, accumulators) in FORMS.items():
        for shape in shapes:
            for d in accumulators:
                yield Multiplication(shape, d, a, b)
                if d == "s32":
                    yield Multiplication(shape, d, a, b, satfinite=True)


MULTIPLICATIONS = {it.name: it for it in _multiplications()}
CASES = (
    *(
        Case(
            f"matrix.moves.{seed}",
            "probes/matrix_moves.cu",
            "matrix_moves",
            partial(_moves, seed),
            (3, 4, 5),
        )
        for seed in range(2)
    ),
    *(it.case() for it in MULTIPLICATIONS.values()),
)
