"""Single instructions, put to ptxas and to the emulator: does each accept them?"""

import re

from hopper.compile import compile_cuda
from hopper.emulator import Emulator, Unsupported
from hopper.errors import CompileError

REGISTERS = (
    ".reg .b16 h<8>;",
    ".reg .b32 r<140>;",
    ".reg .f32 f<140>;",
    ".reg .b64 d<4>;",
    ".reg .f64 g<16>;",
    ".reg .pred p;",
)
_ERROR = re.compile(r"line (\d+); error\s*: (.*)")
# Refused for certain: its line in the log says where the others are.
_NO_INSTRUCTION, _EMPTY_LINE = "no_such_instruction;", ""


def vector(letter: str, count: int, first: int = 0) -> str:
    """``{r0, r1, …}`` of the registers above."""
    return "{" + ", ".join(f"{letter}{first + i}" for i in range(count)) + "}"


def refused_by_ptxas(instructions: list[str]) -> dict[str, str]:
    """Instructions that ptxas refuses for sm_90a, and why; it says all of them at once.

    Again and again, as it looks for some mistakes only where it found no others.
    """
    first = min(line for line, _ in _errors([_NO_INSTRUCTION]))
    refused: dict[str, str] = {}
    while True:
        left = [one for one in instructions if one not in refused]
        errors = _errors([_EMPTY_LINE, *left])
        if not errors:
            return refused
        refused |= {left[line - first - 1]: message for line, message in errors}


def _errors(instructions: list[str]) -> list[tuple[int, str]]:
    try:
        _compile(instructions)
    except CompileError as error:
        return [(int(line), message) for line, message in _ERROR.findall(str(error))]
    return []


def _compile(instructions: list[str]) -> None:
    lines = "\n".join(f'"{line}\\n"' for line in (*REGISTERS, *instructions))
    compile_cuda(f'extern "C" __global__ void k() {{ asm volatile("{{\\n"\n{lines}\n"}}"); }}')


def refused_by_the_emulator(instruction: str) -> str | None:
    """What the emulator says to a kernel that has the instruction, but never executes it."""
    ptx = "\n".join(
        [
            ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{",
            *REGISTERS,
            "ret;",
            instruction,
            "}",
        ]
    )
    try:
        Emulator().launch(ptx, "k", 1, 128)
    except Unsupported as error:
        return str(error)
    return None
