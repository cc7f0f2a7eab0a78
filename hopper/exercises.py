"""Checks for the chapters' exercises: each prints whether an answer is right, or what is not.

An answer left open (None) is no mistake; the check then says what to fill in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.backends import Backend, backend
from hopper.compile import Program, advisories, compile_cuda, compile_kernel
from hopper.descriptor import FIELDS, Descriptor
from hopper.emulator.hazards import KINDS
from hopper.emulator.tensorcore import multiply_add
from hopper.errors import CompileError
from hopper.fragment import held_by
from hopper.gemm import Problem, plan
from hopper.mma_sync import addressing_lane
from hopper.mutants import emulated, find_mutation
from hopper.paths import KERNELS

TILE_START = 0x8400
STEP_BYTES = 32


def expected_descriptor(address: int) -> int:
    """A K-major fp16 tile with the 128-byte swizzle at a shared ``address``, as v1 describes it."""
    # The leading offset is unused in this mode; 16 bytes is the convention.
    return Descriptor(address, leading=16, stride=1024, swizzle=128).encode()


def descriptor(first: int | None, next_step: int | None) -> None:
    """Check two descriptors: of the tile at TILE_START, and one step further along K."""
    answers = (("first", first, TILE_START), ("next_step", next_step, TILE_START + STEP_BYTES))
    for name, answer, address in answers:
        print(f"{name}: {_descriptor_verdict(answer, expected_descriptor(address))}")


def _descriptor_verdict(answer: int | None, expected: int) -> str:
    if answer is None:
        return "not answered yet"
    if answer == expected:
        return f"{answer:#018x} is right"
    for field in FIELDS:
        got = field.of(answer)
        if got != field.of(expected):
            return f"not yet: {field.name} (bits {field.first}–{field.last}) is {got:#x}"
    return "not yet: a bit outside all fields is set, or the number is wider than 64 bits"


def fragment(answer: Callable[[int, int], tuple[int | None, int | None]], n: int = 128) -> None:
    """Check a map (thread, register) → (row, column) on every element of a 64 × n tile."""
    for thread in range(128):
        for register in range(n // 2):
            got = answer(thread, register)
            if None in got:
                print("not answered yet: return a row and a column")
                return
            if tuple(got) != held_by(thread, register):
                print(
                    f"not yet: thread {thread}, register {register}: your map says {tuple(got)}; "
                    f"run the epilogue by hand for this thread"
                )
                return
    print(f"right: all {64 * n} elements of a 64 × {n} tile")


def lane_of_b(column: int, chunk: int) -> int:
    """The lane that brings ldmatrix the address of 16 bytes of B, in a piece 16 columns wide.

    ``chunk`` 0 is k 0–7, 1 is k 8–15. Register order is b0, b1 of columns 0–7, then of 8–15.
    """
    return addressing_lane(2 * (column // 8) + chunk, column % 8)


def ldmatrix_b(answer: Callable[[int, int], int | None]) -> None:
    """Check a map (column, chunk) → lane for B's ldmatrix.x4 on all 32 pieces."""
    for column in range(16):
        for chunk in range(2):
            got = answer(column, chunk)
            if got is None:
                print("not answered yet: return a lane")
                return
            if got != lane_of_b(column, chunk):
                print(
                    f"not yet: column {column}, chunk {chunk}: your map says lane {got}; which "
                    f"register must these 16 bytes end up in, and which lanes feed it?"
                )
                return
    print("right: every lane brings the address of the piece that its register needs")


COUNTED_TILE = (64, 256)


def instructions(ldmatrix: int | None, mma: int | None) -> None:
    """Check two counts against v0's machine code: what a warp executes in a K step, 64×256 tile."""
    tile_m, tile_n = COUNTED_TILE
    sass = compile_kernel("v0_mma_sync", TILE_M=tile_m, TILE_N=tile_n).sass()
    for name, answer, mnemonic in (("ldmatrix", ldmatrix, "LDSM"), ("mma", mma, "HMMA")):
        found = sass.count(mnemonic)
        if answer is None:
            verdict = "not answered yet"
        elif answer == found:
            verdict = f"{answer} is right: the code holds as many {mnemonic}"
        elif answer == 4 * found:
            verdict = f"not yet: {answer} is what all four warps execute; count one warp's"
        else:
            verdict = f"not yet: {answer} is not what the compiler made of it"
        print(f"{name}: {verdict}")


# ---- four blanks in a loop over K ---------------------------------------------------------------

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


MISTAKES = {
    "no wait": "launches return before the kernel is done: this is the time to queue them",
    "first launch": "the first launch loads the kernel and finds the clock low; warm up before",
    "other work": "one side allocates its result or converts it, and the other does not",
    "no turns": "the sides are timed at other times, and so at other clocks",
    "old output": "C still holds an earlier result, so what is not written is right all the same",
}
_WRONG_WITH = {"first": "no wait", "second": "other work", "third": "old output"}


def mistakes(first: str | None = None, second: str | None = None, third: str | None = None) -> None:
    """Check which of MISTAKES each of the measuring chapter's three snippets makes."""
    for name, answer in {"first": first, "second": second, "third": third}.items():
        print(f"{name}: {_mistake_verdict(name, answer)}")


def _mistake_verdict(name: str, answer: str | None) -> str:
    if answer is None:
        return "not answered yet; one of " + ", ".join(MISTAKES)
    if answer not in MISTAKES:
        return f"{answer!r} is none of " + ", ".join(MISTAKES)
    if answer == _WRONG_WITH[name]:
        return f"right: {MISTAKES[answer]}"
    return f"not yet: {answer!r} would mean that {MISTAKES[answer]}"


def acceptance(answer: Callable[[numpy.ndarray, numpy.ndarray], bool | None]) -> None:
    """Check a reader's ``answer(c, reference)``: does it accept a product exactly if it is right?

    ``c``: fp16 (64, 64), ``reference``: the same in fp64. Tried on right results, whose values are
    about 0.001, 16 and 256, and on five kinds of wrong ones of each size.
    """
    for scale in (2.0**-7, 1.0, 4.0):
        reference, results = _products(scale)
        size = f"values of about {reference.std():.2g}"
        for name, c in results.items():
            accepted = answer(c, reference)
            if accepted is None:
                print("not answered yet: return True for a right product, False for a wrong one")
                return
            if bool(accepted) != (name == "right"):
                verb = "accepts" if accepted else "refuses"
                print(f"not yet: it {verb} this one: {name}, {size}")
                return
    print("right: it accepts every right product and none of the wrong ones, at three scales")


def _products(scale: float) -> tuple[numpy.ndarray, dict[str, numpy.ndarray]]:
    """A product in fp64, and fp16 results for it: the right one, and five that are wrong."""
    random = numpy.random.default_rng(7)
    a, b = ((scale * random.standard_normal((64, 256))).astype("float16") for _ in range(2))
    reference = a.astype("float64") @ b.astype("float64").T
    right = reference.astype("float16")
    one_off, gap = right.copy(), right.copy()
    typical = abs(abs(reference) - reference.std()).argmin()
    one_off.flat[typical] *= numpy.float16(1.02)
    gap[32:, :32] = numpy.nan
    results = {"right": right, "one element off by a fiftieth": one_off}
    results["a tile never written"] = gap
    results["all zeros"] = numpy.zeros_like(right)
    short_a, short_b = (matrix[:, :-16].astype("float64") for matrix in (a, b))
    results["last K step skipped"] = (short_a @ short_b.T).astype("float16")
    results["transposed"] = numpy.ascontiguousarray(right.T)
    return reference, results


# ---- the emulator -------------------------------------------------------------------------------

COUNTED = Problem(256, 256, 256)


def executed(answer: int | None) -> None:
    """Check how many wgmma.mma_async v1 executes for COUNTED, counted once a warp."""
    a, b = COUNTED.inputs()
    c = numpy.zeros((COUNTED.m, COUNTED.n), "float16")
    run = plan(compile_kernel("v1_wgmma"), a, b, c).run()
    counted = sum(n for opcode, n in run.counts.items() if opcode.startswith("wgmma.mma_async"))
    if answer is None:
        print("not answered yet")
    elif answer == counted:
        print(f"{answer} is right: the emulator counted as many")
    elif 4 * answer == counted:
        print(f"not yet: {answer} warpgroups issue one, and each of four warps counts")
    else:
        print(f"not yet: {answer} is not what the emulator counted")


#: Products of one wgmma whose accumulator holds 1.
SUMMANDS = (2.0**-23, *[2.0**-25] * 4, *[2.0**-26] * 2)


def fused_sum(units: int | None = None, rounded_units: int | None = None) -> None:
    """Check 1 plus SUMMANDS, in units of 2^-23: by one wgmma, and rounded one by one."""
    a, b = numpy.zeros((1, 16), "float16"), numpy.zeros((1, 16), "float16")
    a[0, : len(SUMMANDS)] = 2.0**-12
    b[0, : len(SUMMANDS)] = numpy.array(SUMMANDS) * 2.0**12
    one = numpy.ones((1, 1), "float32")
    fused = multiply_add(
        a.view("u2"), b.view("u2"), one.view("u4"), a_type="f16", b_type="f16", d_type="f32"
    ).view("f4")
    in_turn = numpy.float32(1)
    for term in SUMMANDS:
        in_turn += numpy.float32(term)
    for name, answer, value in (
        ("the tensor core", units, fused[0, 0]),
        ("rounded one by one", rounded_units, in_turn),
    ):
        right = round((float(value) - 1) * 2**23)
        if answer is None:
            print(f"{name}: not answered yet")
        else:
            print(f"{name}: {'right' if answer == right else f'not yet: {answer} is not it'}")


_TAKEN_OUT = {
    "no_fence": "no wgmma.fence",
    "no_wait": "no wait_group",
    "no_barrier": "no trailing barrier",
}


def broken_rules(
    no_fence: str | None = None, no_wait: str | None = None, no_barrier: str | None = None
) -> None:
    """Check which kind of hazard the emulator reports for v1 with one line taken out."""
    answers = {"no_fence": no_fence, "no_wait": no_wait, "no_barrier": no_barrier}
    if None in answers.values():
        print(f"the kinds: {', '.join(KINDS)}")
    for name, answer in answers.items():
        if answer is None:
            print(f"{name}: not answered yet")
            continue
        if answer not in KINDS:
            print(f"{name}: {answer!r} is no kind of hazard")
            continue
        found = emulated(find_mutation("v1_wgmma", _TAKEN_OUT[name]))
        if answer in found:
            print(f"{name}: right, the emulator reports {', '.join(found)}")
        else:
            print(f"{name}: not yet: it reports something else than {answer}")
