"""Exercises of the chapter ``emulator``: counts, one fused sum, and which rule is broken."""

import numpy

from hopper.compile import compile_kernel
from hopper.emulator.hazards import KINDS
from hopper.emulator.tensorcore import multiply_add
from hopper.gemm import Problem, plan
from hopper.mutants import emulated, find_mutation

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
