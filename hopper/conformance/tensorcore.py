"""What the tensor core computes: every type and accumulator, on operands of every theme.

The cases named after wgmma and mma.sync ask the same questions: they get the same operands where
the instructions are equally deep. ``tensorcore_operands`` says what each theme is after.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy

from hopper.conformance import Case, blank
from hopper.conformance.tensorcore_operands import operands, themes
from hopper.emulator.tensorcore import multiply_add

# An instruction has 64 × 256 outputs (mma.sync: as many in 128 instructions).
_MANY, _FEW = 128, 8
_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")


@dataclass(frozen=True)
class Question:
    """One case: an instruction, its types, the theme of its operands and their number."""

    instruction: str
    d_type: str
    a_type: str
    b_type: str
    theme: str
    count: int
    row_bytes: int = 32
    a_in_registers: bool = False
    negate_a: bool = False
    negate_b: bool = False
    scale_d: bool = True
    satfinite: bool = False

    @property
    def name(self) -> str:
        """Such as tensorcore.wgmma.f32.f16.f16.wide or tensorcore.mma.k16.s32.s8.u8.integers."""
        instruction = "wgmma" if self.instruction == "wgmma" else f"mma.k{self.k}"
        tags = {
            "registers": self.a_in_registers,
            "negate_a": self.negate_a,
            "negate_b": self.negate_b,
            "fresh": not self.scale_d,
            "satfinite": self.satfinite,
        }
        parts = ("tensorcore", instruction, self.d_type, self.a_type, self.b_type, self.theme)
        return ".".join((*parts, *(tag for tag, present in tags.items() if present)))

    @property
    def k(self) -> int:
        """The instruction's K, in elements."""
        return self.row_bytes // {"f16": 2, "bf16": 2, "tf32": 4}.get(self.a_type, 1)

    def operands(self) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
        """A (count, 64, K), B (count, 256, K) and C (count, 64, 256), raw bits."""
        types = (self.a_type, self.b_type, self.d_type)
        seed = crc32(f"{'.'.join(types)}.{self.row_bytes}".encode())
        return operands(seed, self.theme, self.count, *types, self.row_bytes)

    def expected(self) -> numpy.ndarray:
        """D (count, 64, 256), raw bits: what the emulator's arithmetic gives."""
        a, b, c = self.operands()
        return multiply_add(
            a,
            b,
            c if self.scale_d else None,
            a_type=self.a_type,
            b_type=self.b_type,
            d_type=self.d_type,
            instruction=self.instruction,
            negate_a=self.negate_a,
            negate_b=self.negate_b,
            satfinite=self.satfinite,
        )

    def case(self) -> Case:
        """The kernel that asks the hardware."""
        wgmma = self.instruction == "wgmma"
        return Case(
            self.name,
            f"probes/tensorcore_{'wgmma' if wgmma else 'mma'}.cu",
            f"tensorcore_{'wgmma' if wgmma else 'mma'}",
            self._arguments,
            outputs=(3,),
            grid=(self.count, 1, 1),
            defines=self._wgmma_defines() if wgmma else self._mma_defines(),
        )

    def _arguments(self) -> list:
        a, b, c = self.operands()
        return [a, b, c, blank(c.shape, c.dtype)]

    def _wgmma_defines(self) -> dict[str, int | str]:
        saturate = "_satfinite" if self.satfinite else ""
        defines: dict[str, int | str] = {
            "INSTRUCTION": f"wgmma_{self.d_type}_{self.a_type}_{self.b_type}{saturate}",
            "ACCUMULATOR": {"f32": "float", "f16": "unsigned", "s32": "int"}[self.d_type],
            "WORDS": 128 if self.d_type == "f16" else 256,
            "A_IN_REGISTERS": int(self.a_in_registers),
            "SCALE_D": int(self.scale_d),
        }
        if self.negate_a or self.negate_b:
            defines["SIGNS"] = f"<{-1 if self.negate_a else 1}, {-1 if self.negate_b else 1}>"
        return defines

    def _mma_defines(self) -> dict[str, int | str]:
        saturate = ".satfinite" if self.satfinite else ""
        types = f"{self.d_type}.{self.a_type}.{self.b_type}.{self.d_type}"
        return {
            "INSTRUCTION": f'"mma.sync.aligned.m16n8k{self.k}.row.col{saturate}.{types}"',
            "DEPTH": self.row_bytes,
            "WORDS": 128 if self.d_type == "f16" else 256,
        }


def _types() -> list[tuple[str, str, str]]:
    """D, A and B of every instruction."""
    same = [("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32")]
    found = [(d, a, a) for d, a in same]
    found += [(d, a, b) for a in _FP8 for b in _FP8 for d in ("f32", "f16")]
    return found + [("s32", a, b) for a in _INT8 for b in _INT8]


def _questions() -> list[Question]:
    found = []
    for d, a, b in _types():
        integers = a in _INT8
        for theme in themes(a, d):
            many = 5 * _MANY if integers else _MANY
            for saturate in (False, True) if integers else (False,):
                found.append(Question("wgmma", d, a, b, theme, many, satfinite=saturate))
                for row_bytes in (32, 16):
                    # One depth at full count: the other differs in K alone.
                    count = _MANY if row_bytes == 32 and a not in _FP8 else _FEW
                    found.append(
                        Question("mma.sync", d, a, b, theme, count, row_bytes, satfinite=saturate)
                    )
    for d, a in (("f32", "f16"), ("f16", "f16"), ("f32", "bf16"), ("f32", "tf32"), ("f32", "e4m3")):
        for theme in ("wide", "special"):
            one = ("wgmma", d, a, a, theme, _FEW)
            found.append(Question(*one, a_in_registers=True))
            found.append(Question(*one, negate_a=True))
            found.append(Question(*one, negate_b=True))
            found.append(Question(*one, negate_a=True, negate_b=True))
            found.append(Question(*one, scale_d=False))
    one = ("wgmma", "s32", "s8", "s8", "integers", _FEW)
    found.append(Question(*one, a_in_registers=True))
    found.append(Question(*one, scale_d=False))
    return found


QUESTIONS = {question.name: question for question in _questions()}
CASES = tuple(question.case() for question in QUESTIONS.values())


def expected(name: str) -> list[numpy.ndarray]:
    """The outputs of a case, by the emulator's arithmetic alone, without its PTX."""
    return [QUESTIONS[name].expected()]
