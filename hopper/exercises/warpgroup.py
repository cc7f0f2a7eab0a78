"""The exercise of the chapter ``warpgroup``: four blanks in a loop over K."""

import re
from dataclasses import dataclass

import numpy

from hopper.backends import Backend, backend
from hopper.compile import Program, advisories, compile_cuda
from hopper.errors import CompileError
from hopper.gemm import Problem
from hopper.paths import KERNELS

K_LOOP = KERNELS / "exercises" / "k_loop.cu"
BLANKS = {1: "the fence", 2: "the step of the descriptors", 3: "the commit", 4: "the wait"}
_LOOP = re.compile(r"(// \[loop\]\n).*?(  // \[/loop\])", re.DOTALL)
_WGMMA = re.compile(
    r"wgmma\.(fence|commit_group|wait_group|mma_async)\S*(?: \{[^}]*\}, (%rd\d+), (%rd\d+)| (\d+))?"
)
_ADDED = re.compile(r"add\.s64\s+(%rd\d+), (%rd\d+), (-?\d+);")


@dataclass(frozen=True)
class Issued:
    """One instruction of the wgmma family, as PTX has it, in the order of the text.

    ``op``: fence, mma_async, commit_group or wait_group. ``steps``: by how much the descriptors
    of A and B exceed those of the first mma_async. ``pending``: groups that a wait leaves running.
    """

    op: str
    steps: tuple[int, int] | None = None
    pending: int | None = None


def k_loop(loop: str) -> None:
    """Check the loop over K of an exercise: ``loop`` is CUDA C++, with or without open blanks.

    It is compiled, and its wgmma instructions are compared with the solution's; a loop that passes
    runs on whole numbers, on the Hopper GPU of this machine or in the emulator.
    """
    still_open = [f"{n} ({what})" for n, what in BLANKS.items() if f"__{n}__" in loop]
    if still_open:
        print(f"still open: blank {', '.join(still_open)}")
        return
    try:
        program = compile_cuda(k_loop_source(loop), "k_loop")
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error:" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return
    wrong = wrong_blank(issued(program.ptx), issued(compile_cuda(K_LOOP, "k_loop").ptx))
    if wrong:
        print(f"not yet: {wrong}")
        for code, lines in advisories(program.log).items():
            print(f"  the compiler noticed, {code}: {lines[0]}")
        return
    program.require_clean()
    print("right: fence, four wgmmas 16 apart, commit, wait, as in the solution")
    print(k_loop_run(backend(), program))


def k_loop_source(loop: str) -> str:
    """The exercise's kernel with ``loop`` in the place of its loop."""
    text = loop.strip("\n") + "\n"
    source, found = _LOOP.subn(lambda match: match[1] + text + match[2], K_LOOP.read_text())
    assert found == 1, "k_loop.cu must mark one region named loop"
    return source


def issued(ptx: str) -> list[Issued]:
    """The wgmma instructions of a PTX text, in order, descriptors followed to their start."""
    added = {to: (base, int(by)) for to, base, by in _ADDED.findall(ptx)}

    def offset_of(register: str) -> int:
        offset, seen = 0, set()
        while register in added and register not in seen:  # a loop adds to a register itself
            seen.add(register)
            register, by = added[register]
            offset += by
        return offset

    found: list[Issued] = []
    first: tuple[int, int] | None = None
    for op, a, b, pending in _WGMMA.findall(ptx):
        if op != "mma_async":
            found.append(Issued(op, pending=int(pending) if pending else None))
            continue
        offsets = (offset_of(a), offset_of(b))
        first = first or offsets
        found.append(Issued(op, steps=(offsets[0] - first[0], offsets[1] - first[1])))
    return found


def wrong_blank(got: list[Issued], expected: list[Issued]) -> str | None:
    """Which blank makes ``got`` differ from ``expected``, and how; None if they are alike."""
    ops = [one.op for one in got]
    products = ops.count("mma_async")
    wanted = [one for one in expected if one.op == "mma_async"]
    if products != len(wanted):
        return (
            f"wgmma stands {products} times in the compiled code, {len(wanted)} times in the "
            f"solution's; leave the loop and its #pragma unroll as they are"
        )
    first, last = ops.index("mma_async"), len(ops) - 1 - ops[::-1].index("mma_async")
    if "fence" not in ops[:first]:
        return "blank 1: nothing orders the accumulators' registers before the first wgmma"
    steps = [one.steps for one in got if one.op == "mma_async"]
    for number, (mine, theirs) in enumerate(zip(steps, wanted, strict=True)):
        for operand, by, right in zip("AB", mine, theirs.steps, strict=True):
            if by != right:
                return (
                    f"blank 2: wgmma {number} reads {operand} {16 * by} bytes into the tile; "
                    f"16 columns of K further are two core matrices of 128 bytes, and a "
                    f"descriptor counts in units of 16 bytes"
                )
    if "commit_group" not in ops[last:]:
        return "blank 3: the wgmmas belong to no group, so a wait has nothing to wait for"
    after = got[last + ops[last:].index("commit_group") :]
    waits = [one for one in after if one.op == "wait_group"]
    if not waits:
        return "blank 4: nobody waits for the group before the accumulators are read"
    if waits[-1].pending:
        return (
            f"blank 4: wait_group {waits[-1].pending} returns while a group still runs; "
            f"the accumulators are read right behind it"
        )
    return None if got == expected else "more is issued than the solution needs"


def k_loop_run(here: Backend, program: Program) -> str:
    """Run a compiled loop on whole numbers: what came out, in words."""
    a, b = Problem(64, 16, 64, distribution="integers").inputs()
    d = here.array(numpy.full((64, 16), numpy.nan, "float32"))
    here.launch(program, (1, 1, 1), (128, 1, 1), (here.array(a), here.array(b), d), 0)
    wrong = int((here.numpy(d) != a.astype("float64") @ b.astype("float64").T).sum())
    if wrong:
        return f"run on {here.gpu}: {wrong} of {64 * 16} elements are wrong"
    return f"run on {here.gpu}: all {64 * 16} elements are right to the last bit"
