"""The compiler's messages about ``wgmma``, each provoked by a change to one small clean kernel.

What a change provokes is not stated here: it is compiled, and its log is read.
"""

from __future__ import annotations

import difflib
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hopper.compile import Program, advisories, compile_cuda, nvrtc_version
from hopper.errors import HopperError

CLEAN = """\
#include "wgmma.cuh"
extern "C" __global__ void __launch_bounds__(256)
loop(float* out, unsigned long long a, unsigned long long b, int steps) {
  float d[8];
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    wgmma_fence();
    wgmma_f32_f16_f16<16>::ss(d, a, b, step > 0);
    wgmma_f32_f16_f16<16>::ss(d, a + 2, b + 2, true);
    wgmma_commit_group();
    wgmma_wait_group<1>();
  }
  wgmma_wait_group<0>();
  for (int i = 0; i < 8; ++i) out[i * 128 + threadIdx.x] = d[i];
}
"""

_FENCE, _COMMIT = "    wgmma_fence();\n", "    wgmma_commit_group();\n"
_WAIT_1, _WAIT_0 = "    wgmma_wait_group<1>();\n", "  wgmma_wait_group<0>();\n"
_FIRST = "    wgmma_f32_f16_f16<16>::ss(d, a, b, step > 0);\n"
_SECOND = "    wgmma_f32_f16_f16<16>::ss(d, a + 2, b + 2, true);\n"
_LOOP = "#pragma unroll 1\n"
_STORE = "  for (int i = 0; i < 8; ++i) out[i * 128 + threadIdx.x] = d[i];\n"
_SUMS = "  float d[8];\n"
# A role whose threads the compiler cannot know to be whole warps.
_ROLE = (_SUMS, "  if (threadIdx.x >= 128) {\n    out[0] = 1;\n    return;\n  }\n" + _SUMS)
# The same role, told to the compiler as a property of the warp.
_UNIFORM = (
    _SUMS,
    "  if (__shfl_sync(~0u, threadIdx.x / 128, 0)) {\n    out[0] = 1;\n    return;\n  }\n" + _SUMS,
)


def _wide(n: int) -> tuple[tuple[str, str], ...]:
    """Two tiles of 64 × n in each thread of a warpgroup."""
    half = n // 2
    return (
        (_SUMS, f"  float d[{half}], e[{half}];\n"),
        (_FIRST, _FIRST.replace("<16>", f"<{n}>")),
        (
            _SECOND,
            _SECOND.replace("<16>", f"<{n}>").replace("(d,", "(e,").replace("true", "step > 0"),
        ),
        (_STORE, f"  for (int i = 0; i < {half}; ++i) out[i * 128 + threadIdx.x] = d[i] + e[i];\n"),
    )


# Of changed lines: how many are shown, and how many characters of each.
_LINES, _LONGEST = 5, 36


@dataclass(frozen=True)
class Provoked:
    """A change to CLEAN, why the compiler minds it, and what to do instead."""

    changes: tuple[tuple[str, str], ...]
    cause: str
    help: str

    @property
    def source(self) -> str:
        """The changed kernel. Raises HopperError where a piece does not stand in CLEAN once."""
        source = CLEAN
        for old, new in self.changes:
            if source.count(old) != 1:
                raise HopperError(
                    f"{old.strip()!r} stands {source.count(old)} times in the kernel of the "
                    f"messages, it must stand once; correct the change"
                )
            source = source.replace(old, new)
        return source

    def compile(self) -> Program:
        """The changed kernel, compiled."""
        return compile_cuda(self.source, "loop")

    @property
    def messages(self) -> dict[str, list[str]]:
        """What the compiler says, by code."""
        return advisories(self.compile().log)

    @property
    def difference(self) -> str:
        """The changed lines in short: "− wgmma_fence(); + …"."""
        before, after = (text.splitlines() for text in (CLEAN, self.source))
        changed = [line for line in difflib.ndiff(before, after) if line[0] in "-+"]
        shown = [f"{'−' if line[0] == '-' else '+'} {_short(line[2:])}" for line in changed]
        return " ".join(shown[:_LINES] + ["…"] * (len(shown) > _LINES))


def _short(line: str) -> str:
    text = line.strip().replace("wgmma_f32_f16_f16<", "wgmma<")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


#: In the order of the page: registers touched, too many of them, calls, and the rest.
PROVOKED = (
    Provoked(
        ((_FENCE, ""),),
        "registers of D are used, and no wgmma.fence came since they were last touched; the "
        "compiler puts one in",
        "write the fence before the first wgmma of a group",
    ),
    Provoked(
        ((_FENCE, ""), _ROLE),
        "the same behind a branch that threads of a warp might take apart, as the compiler sees "
        "it: there a fence alone does not do, and it waits for each wgmma",
        "write the fence; tell roles apart by a value from __shfl_sync",
    ),
    Provoked(
        ((_FENCE, ""), _UNIFORM),
        "the same branch, on a value that __shfl_sync has made the same in the whole warp",
        "write the fence all the same",
    ),
    Provoked(
        ((_WAIT_0, ""),),
        "sums are read while their group may still run; the compiler puts a wait in",
        "wait_group before the sums are touched",
    ),
    Provoked(
        ((_WAIT_0, ""), _ROLE),
        "the same behind such a branch",
        "wait_group; roles from __shfl_sync",
    ),
    Provoked(
        ((_WAIT_1, _WAIT_1 + "    for (float& sum : d) sum *= 2;\n"),),
        "the loop reads, and changes, sums that the group left running by wait_group<1> adds to",
        "wait_group<0> before sums are touched, or sums of its own for each group in flight",
    ),
    Provoked(
        ((_WAIT_1, _WAIT_1 + "    d[0] = out[step];\n"),),
        "the same, but the loop only writes the sum",
        "wait_group<0> before, or scale_d = false",
    ),
    Provoked(
        (
            (_SUMS, f"  unsigned f[4] = {{1, 2, 3, 4}};\n{_SUMS}"),
            (_FIRST, _FIRST.replace("::ss(d, a,", "::rs(d, f,")),
            (_COMMIT, _COMMIT + "    for (unsigned& pair : f) pair += out[step] > 0;\n"),
        ),
        "an A fragment is written while a wgmma may still read it",
        "wait for the group first, or write to another fragment",
    ),
    Provoked(
        _wide(256),
        "the sums of the wgmmas between a fence and its wait do not fit a thread's registers",
        "a smaller tile for each warpgroup",
    ),
    Provoked(
        _wide(240),
        "the sums fit, and the kernel's other values do not fit beside them",
        "a smaller tile for each warpgroup, or less held beside it",
    ),
    Provoked(
        ((_SUMS, '  printf("go");\n' + _SUMS),),
        "the kernel calls a function that is not inlined, be it far from the wgmmas, as here",
        "no printf, no assert, no function that is not inlined in such a kernel",
    ),
    Provoked(
        ((_SUMS, '  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");\n' + _SUMS),),
        "the number of registers at the start is not fixed, so setmaxnreg is left out",
        "__launch_bounds__(threads, 1), with the 1",
    ),
)


def pipeline(program: Program) -> str:
    """Fences, products and waits of a compiled kernel, in the order of its machine code.

    "arrive, HGMMA ×3, HGMMA ·, wait ≤ 1": a dot marks a product that closes a group.
    """
    found: list[str] = []
    for line in program.sass().instructions:
        if line.startswith("WARPGROUP.ARRIVE"):
            found.append("arrive")
        elif line.startswith("HGMMA"):
            found.append("HGMMA ·" if "gsb0" in line else "HGMMA")
        elif waits := re.match(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\w+)", line):
            found.append(f"wait ≤ {int(waits[1], 16)}")
    return ", ".join(_counted(found))


def is_serialised(program: Program) -> bool:
    """Whether every product closes a group of its own and is waited for before the next."""
    found = pipeline(program).split(", ")
    products = [at for at, word in enumerate(found) if word.startswith("HGMMA")]
    return all(found[at : at + 2] == ["HGMMA ·", "wait ≤ 0"] for at in products)


def _counted(words: list[str]) -> Iterator[str]:
    """Equal neighbours as one, with their number."""
    at = 0
    while at < len(words):
        end = at
        while end < len(words) and words[end] == words[at]:
            end += 1
        yield words[at] + (f" ×{end - at}" if end - at > 1 else "")
        at = end


@cache
def known_texts() -> tuple[str, ...]:
    """Every text of the compiler that says why wgmmas are serialised, found in its library.

    Without "in the function …". Empty where the library in use cannot be found.
    """
    nvrtc_version()  # loads it
    maps = Path("/proc/self/maps").read_text().split()
    library = next((path for path in maps if "/libnvrtc.so" in path), None)
    if library is None:
        return ()
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as whole:
        pattern = rb"wgmma\.mma_async instructions are serialized due to ([ -~]*)"
        texts = [found[1].decode() for found in re.finditer(pattern, whole)]
    return tuple(dict.fromkeys(reason(text) for text in texts))


def reason(message: str) -> str:
    """Of a message: what wgmmas are serialised due to, or what it says, without the function."""
    text = message.rpartition("serialized due to ")[2].removeprefix("Potential Performance Loss: ")
    return re.sub(
        r"( in around line \d+ by compiler .*)?( (in|for)( the)? function '[^']*')?$", "", text
    )
