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
_HEADER = '#include "wgmma.cuh"\n'
# Functions that are not inlined: plain, with a printf in it, recursive, with the wgmmas in it.
_FAR = (
    "__device__ __noinline__ float far(float x) {\n"
    "  for (int i = 0; i < 5; ++i) x = x * x + 1;\n  return x;\n}\n"
)
_PRINTS = '__device__ __noinline__ float far(float x) {\n  printf("go");\n  return x * x;\n}\n'
_OTHER = "__device__ __noinline__ float near(float x) { return 7 * x; }\n"
_POINTERS = "__device__ float (*either[2])(float) = {far, near};\n"
_RECURSIVE = (
    "__device__ __noinline__ int rec(int n) {\n  return n < 2 ? 1 : rec(n - 1) + rec(n - 2);\n}\n"
)
_MULTIPLY = (
    "__device__ __noinline__ void multiply(float (&d)[8], unsigned long long a,\n"
    "                                      unsigned long long b, bool add) {\n"
    "  wgmma_f32_f16_f16<16>::ss(d, a, b, add);\n}\n"
)
_CALL = "out[0] = far(out[1]);\n"
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


def _with(function: str) -> tuple[str, str]:
    """The change that defines a function in front of the kernel."""
    return _HEADER, _HEADER + function


@dataclass(frozen=True)
class Provoked:
    """A change to CLEAN, why the compiler minds it, and what to do instead."""

    changes: tuple[tuple[str, str], ...]
    cause: str = ""
    help: str = ""

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
        """The changed lines with one more on either side: "− " or "+ " or neither, in front."""
        before, after = (text.splitlines() for text in (CLEAN, self.source))
        lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
        marks = {"-": "− ", "+": "+ ", " ": "  "}
        shown = ["…" if line[0] == "@" else marks[line[0]] + _short(line[1:]) for line in lines]
        return "\n".join(shown[1:])

    @property
    def calls(self) -> bool:
        """Whether a call is left in the machine code."""
        return any("CALL" in line for line in self.compile().sass().instructions)


def _short(line: str) -> str:
    return line.replace("wgmma_f32_f16_f16<", "wgmma<")


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
        "it: it does not trust a fence of its own there, and waits for each wgmma as well",
        "write the fence in front of the wgmmas; that is enough",
    ),
    Provoked(
        ((_FENCE, ""), _UNIFORM),
        "the same branch, on a value that __shfl_sync has made the same in the whole warp",
        "write the fence all the same",
    ),
    Provoked(
        ((_FENCE, ""), (_LOOP, "  wgmma_fence();\n" + _LOOP), _ROLE),
        "the plain branch again, and a fence once, before the loop: the compiler puts one into the "
        "loop, and serialises nothing",
        "write the fence where the wgmmas are, in the loop",
    ),
    Provoked(
        ((_WAIT_0, ""),),
        "sums are read while their group may still run; the compiler puts a wait in",
        "wait_group before the sums are touched",
    ),
    Provoked(
        ((_WAIT_0, ""), _ROLE),
        "the same behind such a branch: it does not trust a wait of its own there either",
        "wait_group before the sums are touched; that is enough",
    ),
    Provoked(
        ((_WAIT_1, _WAIT_1 + "    for (float& sum : d) sum *= 2;\n"),),
        "the loop reads, and changes, sums that the group left running by wait_group<1> adds to",
        "wait_group<0> before sums are touched, or sums of its own for each group in flight",
    ),
    Provoked(
        ((_WAIT_1, _WAIT_1 + "    d[0] = out[step];\n"),),
        "the same, but the loop only writes the sum",
        "wait_group<0> before; or, if you only want zeros, take the write away, and have "
        "scale_d = false",
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
        "the kernel calls what the compiler cannot see into, be it far from the wgmmas, as here: "
        "printf, assert, malloc",
        "no printf, no assert, no malloc in such a kernel; take them out again when you measure",
    ),
    Provoked(
        (
            _with(_FAR + _OTHER + _POINTERS),
            (_SUMS, "  out[0] = either[steps & 1](out[1]);\n" + _SUMS),
        ),
        "the same: which function is called is known at run time only",
        "a switch over the functions in place of the pointer",
    ),
    Provoked(
        (_with(_PRINTS), (_SUMS, f"  {_CALL}" + _SUMS)),
        "the same, one function further down",
        "the same as for a printf in the kernel",
    ),
    Provoked(
        (_with(_RECURSIVE), (_SUMS, "  out[0] = rec(steps);\n" + _SUMS)),
        "a function that calls itself: it is not external, and the compiler's text says so all the "
        "same; it names that function, not the kernel",
        "a loop in place of the recursion",
    ),
    Provoked(
        ((_SUMS, '  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");\n' + _SUMS),),
        "the number of registers at the start is not fixed, so setmaxnreg is left out",
        "__launch_bounds__(threads, 1), with the 1",
    ),
)

#: What other calls come to, by what is called and where.
CALLS: dict[str, Provoked] = {
    "a function that is not inlined, before the loop": Provoked(
        (_with(_FAR), (_SUMS, f"  {_CALL}" + _SUMS))
    ),
    "the same in the loop, before wgmma.fence": Provoked(
        (_with(_FAR), (_FENCE, f"    {_CALL}" + _FENCE))
    ),
    "behind wait_group<1>, with a group in flight": Provoked(
        (_with(_FAR), (_WAIT_1, f"{_WAIT_1}    {_CALL}"))
    ),
    "behind the loop": Provoked((_with(_FAR), (_STORE, f"{_STORE}  {_CALL}"))),
    "a division of floats behind the loop": Provoked(
        ((_STORE, f"{_STORE}  out[0] = out[1] / out[2];\n"),)
    ),
    "the function between the wgmmas and commit_group": Provoked(
        (_with(_FAR), (_COMMIT, f"    {_CALL}" + _COMMIT))
    ),
    "a function that is not inlined, with the first wgmma in it": Provoked(
        (_with(_MULTIPLY), (_FIRST, "    multiply(d, a, b, step > 0);\n"))
    ),
}


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


def codes(program: Program) -> str:
    """What the compiler had to say, in short: "C7520, serialised", or "nothing"."""
    said = ", ".join(advisories(program.log)) or "nothing"
    return said + (", serialised" if is_serialised(program) else "")


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
