"""The machine code in a cubin, by nvdisasm."""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from hopper.errors import HopperError

# "  /*0a10*/   @!P0 HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0 ;"
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+([^;]*?)\s*;", re.MULTILINE)
_GUARD = re.compile(r"^@!?U?P\w+\s+")


@dataclass(frozen=True)
class Sass:
    """A disassembly. ``text`` is nvdisasm's output, every function of the cubin."""

    text: str

    @cached_property
    def instructions(self) -> tuple[str, ...]:
        """Every instruction in order, guard predicates removed."""
        return tuple(_GUARD.sub("", line) for line in _INSTRUCTION.findall(self.text))

    @cached_property
    def mnemonics(self) -> Counter[str]:
        """How often each mnemonic, with its dotted modifiers, stands in the code."""
        return Counter(line.split()[0] for line in self.instructions)

    def count(self, mnemonic: str, operand: str = "") -> int:
        """Instructions whose mnemonic starts with ``mnemonic`` and that mention ``operand``.

        A static count: an unrolled loop counts once for each copy.
        """
        return sum(line.startswith(mnemonic) and operand in line for line in self.instructions)


def find_nvdisasm() -> Path:
    """nvdisasm of the installed wheel, else the one on PATH. Raises HopperError without either."""
    namespace = importlib.util.find_spec("nvidia")
    for folder in namespace.submodule_search_locations or () if namespace else ():
        # CUDA 13 wheels: nvidia/cu13/bin; CUDA 12 wheels: nvidia/cuda_nvdisasm/bin
        for found in sorted(Path(folder).glob("*/bin/nvdisasm")):
            return found
    on_path = shutil.which("nvdisasm")
    if on_path is None:
        raise HopperError(
            "nvdisasm was not found: disassembling a kernel needs it; "
            "pip install nvidia-cuda-nvdisasm, or put the CUDA toolkit's bin folder on PATH"
        )
    return Path(on_path)


@cache
def nvdisasm_version() -> str:
    """What nvdisasm says of its version. Raises HopperError without one."""
    command = [find_nvdisasm(), "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def disassemble(cubin: bytes) -> Sass:
    """The SASS of a cubin. Raises HopperError when nvdisasm is missing or rejects it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [find_nvdisasm(), "-c", file.name], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise HopperError(
            f"nvdisasm rejects a cubin of {len(cubin)} bytes: {done.stderr.strip()}; "
            f"its version must be at least the compiler's"
        )
    return Sass(done.stdout)
