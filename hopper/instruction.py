"""Which wgmma instructions there are: types, shapes, operands, registers.

``KINDS`` are the dense instructions on more than one bit. Every cell of the reference tables is
computed from here, from ``hopper.descriptor`` and from ``hopper.swizzle``; the tests ask ptxas and
the emulator about each. The PTX ISA has single-bit (b1) and sparse forms as well, which this book
leaves out.

Sources: PTX ISA, "Asynchronous Warpgroup Level Matrix Shape", "Matrix Data-types",
"wgmma.mma_async" (operands, signs, transposition) and "Register Fragments". What ptxas 13.0 refuses
was tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hopper.architecture import constant
from hopper.descriptor import STEP_BYTES, Major
from hopper.errors import ProblemError

Place = Literal["shared", "registers"]

M = int(constant("wgmma_m").value)
THREADS = int(constant("warpgroup_threads").value)
REGISTER_BYTES = 4
#: 32-bit registers of a thread that hold A, where A is in registers: 64 rows of 32 bytes.
A_REGISTERS = M * STEP_BYTES // (THREADS * REGISTER_BYTES)
#: Every N; of floating-point types.
FLOAT_N = tuple(
    range(8, int(constant("wgmma_n_max").value) + 1, int(constant("wgmma_n_step").value))
)
#: N of 8-bit integers.
INTEGER_N = tuple(n for n in FLOAT_N if n in (8, 24) or n % 16 == 0)
ITEM_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
ACCUMULATOR_BYTES = {"f16": 2, "f32": 4, "s32": 4}
_FP8, _INTEGERS = ("e4m3", "e5m2"), ("s8", "u8")


@dataclass(frozen=True)
class Kind:
    """Instructions that differ in N only. ``a``, ``b``, ``d``: PTX names of the types."""

    a: str
    b: str
    d: str

    @property
    def types(self) -> str:
        """As the opcode ends: D, A, B."""
        return f".{self.d}.{self.a}.{self.b}"

    @property
    def item_bytes(self) -> int:
        """Bytes of an element of A or B."""
        return ITEM_BYTES[self.a]

    @property
    def depth(self) -> int:
        """K of one instruction: 32 bytes, in elements."""
        return STEP_BYTES // self.item_bytes

    @property
    def integer(self) -> bool:
        """Whether it multiplies integers."""
        return self.d == "s32"

    @property
    def machine_name(self) -> str:
        """What it is called in machine code, as nvdisasm prints it."""
        return "IGMMA" if self.integer else "QGMMA" if self.item_bytes == 1 else "HGMMA"

    @property
    def every_n(self) -> tuple[int, ...]:
        """The N that it has."""
        return INTEGER_N if self.integer else FLOAT_N

    @property
    def majors(self) -> tuple[Major, ...]:
        """How an operand in shared memory may lie: only 16-bit ones are transposed."""
        return ("K", "MN") if self.item_bytes == 2 else ("K",)

    @property
    def signs(self) -> bool:
        """Whether A and B can be negated, by constants 1 or -1 behind scale-d."""
        return not self.integer

    @property
    def saturates(self) -> bool:
        """Whether it can be told to stop at the ends of the range, by .satfinite."""
        return self.integer

    def opcode(self, n: int) -> str:
        """Its PTX name, without .satfinite."""
        return f"wgmma.mma_async.sync.aligned.m{M}n{n}k{self.depth}{self.types}"

    def constants(self, place: Place) -> int:
        """Constants behind scale-d: two signs, then a transposition for each 16-bit operand that
        lies in shared memory.
        """
        transpositions = 0 if self.item_bytes != 2 else 1 if place == "registers" else 2
        return 2 * self.signs + transpositions

    def refusal(self, n: int, place: Place, a_major: Major, b_major: Major) -> str | None:
        """Why there is no such instruction; None if there is one.

        ``place``: where A is. Raises ProblemError for a place or a major that nothing has.
        """
        for name, value, known in (
            ("place", place, ("shared", "registers")),
            ("a_major", a_major, ("K", "MN")),
            ("b_major", b_major, ("K", "MN")),
        ):
            if value not in known:
                raise ProblemError(f"{name}={value!r}: choose {' or '.join(map(repr, known))}")
        if n not in self.every_n:
            allowed = "8, 16, 24, 32, then multiples of 16" if self.integer else "multiples of 8"
            return f"N={n}: {self.types} has {allowed}, up to {FLOAT_N[-1]}"
        if place == "registers" and a_major == "MN":
            return "A in registers is not transposed; its fragment has K along a register"
        if "MN" in (a_major, b_major) and "MN" not in self.majors:
            return (
                f"{self.types} has {8 * self.item_bytes}-bit operands; 16-bit ones are transposed"
            )
        return None


KINDS = (
    *(Kind("f16", "f16", d) for d in ("f32", "f16")),
    Kind("bf16", "bf16", "f32"),
    Kind("tf32", "tf32", "f32"),
    *(Kind(a, b, d) for d in ("f32", "f16") for a in _FP8 for b in _FP8),
    *(Kind(a, b, "s32") for a in _INTEGERS for b in _INTEGERS),
)


def kind(a: str, b: str, d: str) -> Kind:
    """The instructions on these types. Raises ProblemError, with those there are, for others."""
    found = Kind(a, b, d)
    if found not in KINDS:
        known = ", ".join(one.types for one in KINDS)
        raise ProblemError(f".{d}.{a}.{b}: wgmma has no such types (D, A, B); there are {known}")
    return found


def accumulator_registers(d: str, n: int) -> int:
    """32-bit registers of a thread that hold a 64 × ``n`` accumulator of type ``d``."""
    return M * n * ACCUMULATOR_BYTES[d] // (THREADS * REGISTER_BYTES)


def operand_bytes(rows: int) -> int:
    """Bytes of shared memory that an instruction reads of an operand of ``rows`` rows."""
    return rows * STEP_BYTES
