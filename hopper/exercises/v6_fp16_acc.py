"""Exercises of the chapter ``v6_fp16_acc``: registers of the sums, where they stop, no turns."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy

from hopper.architecture import constant
from hopper.check import compare
from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError
from hopper.exercises.v4_two_consumers import called
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

KERNEL = "v6_fp16_acc"
_CONSUMER_ROWS = 64
_WHAT = "registers a thread, and registers that are left"


def room_for_sums(answer: Callable[[int, int, int], tuple[int | None, int | None]]) -> None:
    """Check (tile_m, tile_n, bits of a sum) → registers a thread for sums, and what is left.

    A consumer, 128 threads, for each 64 rows of the tile; left is what the SM has besides all sums.
    """
    on_sm, threads = (constant(name).value for name in ("registers_per_sm", "warpgroup_threads"))
    for bits in (32, 16):
        for tile in ((128, 256), (192, 256), (256, 256), (256, 192), (256, 128)):
            got, wrong = called(answer, *tile, bits)
            if wrong:
                print(f"not yet: {wrong}")
                return
            if got is None or got is Ellipsis:
                print(f"not answered yet: return two numbers: {_WHAT}")
                return
            if not isinstance(got, tuple | list) or len(got) != 2:
                print(f"not yet: return two numbers: {_WHAT}; your function returned {got!r}")
                return
            if any(one is None or one is Ellipsis for one in got):
                print(f"not answered yet: return two numbers: {_WHAT}")
                return
            sums = tile[0] * tile[1] * bits // 32
            right = (sums // (tile[0] // _CONSUMER_ROWS * threads), on_sm - sums)
            case = f"{tile[0]} × {tile[1]} with sums of {bits} bits"
            for number, (one, wanted) in enumerate(zip(got, right, strict=True)):
                if not isinstance(one, Real) or one != wanted:
                    hint = (
                        "a thread holds a 128th of 64 rows, and a register has 32 bits",
                        f"an SM has {on_sm:,} registers",
                    )[number]
                    print(
                        f"not yet: {case}: you say {one!r} {_WHAT.split(', and ')[number]}; {hint}"
                    )
                    return
    print("right: five tiles with sums of 32 and of 16 bits")


def last_value(step: float) -> float:
    """Where an fp16 sum that grows by ``step`` ends: it stands still there, or is infinite."""
    total, step = numpy.float16(0), numpy.float16(step)
    with numpy.errstate(over="ignore"):
        while math.isfinite(total) and (larger := numpy.float16(total + step)) != total:
            total = larger
    return float(total)


def stands_still(answer: Callable[[float], float | None]) -> None:
    """Check step → the value at which an fp16 sum that grows by it step by step ends.

    ``step``: what the products of one wgmma add up to. Infinity where the sum overflows.
    """
    for step in (4.0, 1.0, 0.5, 3.0, 5.0, 8.0, 12.0, 16.0, 17.0, 32.0, 100.0, 0.0625):
        right = last_value(step)
        got, wrong = called(answer, step)
        if wrong:
            print(f"not yet: {wrong}")
            return
        if not isinstance(got, Real):
            print("not answered yet: return a value, math.inf where the sum overflows")
            return
        if got != right:
            if math.isinf(right):
                hint = f"it goes on to infinity: fp16 ends at {float(numpy.finfo('float16').max):g}"
            else:
                digit = float(numpy.spacing(numpy.float16(right)))
                hint = f"behind {right:g} the last digit of fp16 is worth {digit:g}"
                if math.isinf(got):
                    hint = f"it never gets there; {hint}"
            print(f"not yet: steps of {step:g}: your answer is {got:g}; {hint}")
            return
    print("right: twelve sizes of a step, from one that stops early to one that overflows")


_OWN = "  const int own = 1 + warpgroup, turn = 5 + warpgroup;"
_WAIT = "  if (warpgroup > 0) named_barrier_sync(turn, 128 + 32);\n"
_PASS = "    if (warpgroup + 1 < CONSUMERS) named_barrier_arrive(turn + 1, 128 + 32);\n"
_IN_THE_RING = (
    "  half (*const out)[ROWS * BOX] =\n"
    "      reinterpret_cast<half (*)[ROWS * BOX]>(ring) + warpgroup * (TILE_N / BOX);\n"
)
_SMALL = {"TILE_M": 192, "TILE_N": 128, "STAGES": 2}


def in_the_ring(lines: str) -> str:
    """v6 whose consumers each stage their rows in the ring, in places of their own.

    ``lines``: CUDA C++ between the last wait_group and the first stmatrix.
    """
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    changes = (
        (_OWN, "  const int own = 1 + warpgroup;"),
        (_WAIT, _IN_THE_RING + lines.strip("\n") + "\n"),
        ("&shared.out[chunk / 8]", "&out[chunk / 8]"),
        ("shared.out[box]", "out[box]"),
        (_PASS, ""),
    )
    for old, new in changes:
        assert source.count(old) == 1, f"{KERNEL}.cu must have {old!r} once"
        source = source.replace(old, new)
    return source


def without_turns(lines: Any) -> None:
    """Check what must stand before consumers stage their rows in the ring, each in its own place.

    ``lines``: CUDA C++ between the last wait_group and the first stmatrix.
    """
    if lines is None or lines is Ellipsis:
        print("not answered yet: fill the blank")
        return
    if not isinstance(lines, str):
        print(f"not yet: lines of CUDA C++, in a string; this is {lines!r}")
        return
    if "__1__" in lines:
        print("not answered yet: fill the blank")
        return
    try:
        program = compile_cuda(in_the_ring(lines), KERNEL, defines=_SMALL, lineinfo=True)
        program.require_clean()
    except CompileError as error:
        told = [line.strip() for line in str(error).splitlines() if "error" in line or "C7" in line]
        print("it does not compile cleanly:", *(told or [str(error)]), sep="\n  ")
        return
    for steps in (1, 2, 5):
        for emulator in (Emulator(), Emulator(schedule="random", tma="random", seed=steps)):
            if wrong := _ran(program, steps, emulator):
                print(f"not yet: {wrong}")
                return
    print("right: three consumers store at once, in six runs, and nobody waits for a turn")


def _ran(program: Program, steps: int, emulator: Emulator) -> str:
    """Run so many steps: what is wrong, in words; else empty."""
    facts = program.facts
    a, b = Problem(facts.tile_m, facts.tile_n, steps * facts.tile_k).inputs()
    c = numpy.full((facts.tile_m, facts.tile_n), numpy.nan, "float16")
    launch = plan(program, a, b, c)
    try:
        emulator.launch(
            program.ptx,
            KERNEL,
            launch.grid,
            launch.block,
            shared_bytes=facts.shared_bytes,
            args=launch.args,
        )
    except EmulatorError as error:
        return "the emulator reports " + str(error).split("; ")[0].splitlines()[0]
    if not compare(c, a, b, fp16_sums=True).ok:
        return f"{steps} steps: no rule is broken, and the result is wrong"
    return ""
