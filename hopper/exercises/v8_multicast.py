"""Exercises of the chapter ``v8_multicast``: bytes of a pair, a cluster of four, the producer."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy

from hopper.check import compare
from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError
from hopper.exercises.v4_two_consumers import called
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

KERNEL = "v8_multicast"
_SHARED = ("nothing", "A", "B")
_TILES = ((128, 256), (256, 128), (256, 192), (128, 128), (64, 256))
_SMALL = {"TILE_M": 128, "TILE_N": 128, "STAGES": 2}
_SCHEDULES = 3  # the fixed one, and so many less one at random


def pair_bytes(answer: Callable[[int, int, str], float | None]) -> None:
    """Check (tile_m, tile_n, shared) → bytes that a block asks L2 for, for each operation.

    ``shared``: "nothing", "A" or "B", by two blocks; operands of 16 bits.
    """
    for tile_m, tile_n in _TILES:
        for shared in _SHARED:
            rows = tile_m / (1 + (shared == "A")) + tile_n / (1 + (shared == "B"))
            right = rows / (tile_m * tile_n)
            got, wrong = called(answer, tile_m, tile_n, shared)
            if wrong:
                print(f"not yet: {wrong}")
                return
            if got is None or got is Ellipsis:
                print("not answered yet: return bytes for one operation")
                return
            if not isinstance(got, Real) or not math.isfinite(got):
                print(f"not yet: a number of bytes; your function returned {got!r}")
                return
            if not math.isclose(got, right, rel_tol=1e-6):
                print(
                    f"not yet: {tile_m} × {tile_n}, shared: {shared}: your answer is {got:.6f}, "
                    f"right is {right:.6f}; {_hint(got, right, tile_m, tile_n, shared)}"
                )
                return
    print(f"right: {len(_TILES)} tiles, alone and with either operand shared")


def _hint(got: float, right: float, tile_m: int, tile_n: int, shared: str) -> str:
    if math.isclose(got, 2 * right, rel_tol=1e-6):
        return "a multiply-add counts as two operations"
    if math.isclose(got, right / 2, rel_tol=1e-6):
        return "an element has two bytes"
    if shared != "nothing":
        alone = (tile_m + tile_n) / (tile_m * tile_n)
        if math.isclose(got, alone, rel_tol=1e-6):
            return "the shared operand is asked for in halves, one by each block"
        if math.isclose(got, alone / 2, rel_tol=1e-6):
            return "only one operand is halved: the other is the block's own"
        return "half of the shared tile, and all of the block's own"
    return "in one step of K: the elements of both tiles, over the operations on them"


def two_by_two(*, empty: int | None, announced: int | None, asked: int | None) -> None:
    """Check a cluster of two by two blocks, each with a tile of 128 × 256 and 8 warps.

    ``empty``: arrivals of a phase; ``announced``: bytes of expect_tx; ``asked``: bytes that one
    block asks for in a step of K of 64.
    """
    given = {"empty": empty, "announced": announced, "asked": asked}
    if any(value is None or value is Ellipsis for value in given.values()):
        print("not answered yet: three numbers")
        return
    for name, value in given.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
            print(f"not yet: {name}={value!r}: a whole number")
            return
    warps, row = 8, 64 * 2
    if announced != (128 + 256) * row:
        print(
            f"not yet: announced={announced}: what lands in a stage of one block does not depend "
            f"on who asks for it"
        )
        return
    if asked != (128 // 2 + 256 // 2) * row:
        print(
            f"not yet: asked={asked}: two blocks need the same tile of A, and two the same tile "
            f"of B; each asks for its part of either"
        )
        return
    if empty == 4 * warps:
        print(
            "not yet: empty=32: that works, and waits for one block too many. Into whose stages "
            "does this block's producer write? The block across the diagonal shares nothing with it"
        )
        return
    if empty != 3 * warps:
        print(
            f"not yet: empty={empty}: a producer must hear from every warp that reads what it "
            f"writes: in which blocks do its two boxes land?"
        )
        return
    print("right: itself, the block in its row and the one in its column, eight warps each")


def _producer_of(source: str) -> str:
    """The lines that the exercise replaces, from the announcement to the last load."""
    first = source.index("          mbarrier_arrive_expect_tx(landed")
    last = source.index("        }\n      }\n      mbarrier_wait_parity(&barriers.empty[at.stage]")
    return source[first:last]


def pair_producer(lines: str | None) -> None:
    """Check what a producer of a pair that shares B does in a step, behind its wait.

    ``lines``: CUDA C++ in the place of v8's own, with the names that stand there.
    """
    if lines is None or lines is Ellipsis:
        print("not answered yet: fill the blanks")
        return
    if not isinstance(lines, str):
        print(f"not yet: lines of CUDA C++, in a string; this is {lines!r}")
        return
    blanks = [name for name in ("__1__", "__2__", "__3__", "__4__") if name in lines]
    if blanks:
        print(f"not answered yet: fill {', '.join(blanks)}")
        return
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    own = _producer_of(source)
    assert source.count(own) == 1, f"{KERNEL}.cu must have its producer once"
    changed = source.replace(own, lines.strip("\n") + "\n")
    try:
        program = compile_cuda(changed, KERNEL, defines=_SMALL, lineinfo=True)
        program.require_clean()
    except CompileError as error:
        told = [line.strip() for line in str(error).splitlines() if "error" in line or "C7" in line]
        print("it does not compile cleanly:", *(told or [str(error)]), sep="\n  ")
        return
    for seed in range(_SCHEDULES):
        wrong = _run_pair(program, seed)
        if wrong:
            print(f"not yet: {wrong}")
            return
    print(f"right: two pairs, one after the other, on {_SCHEDULES} schedules")


def _run_pair(program: Program, seed: int) -> str:
    """Run two pairs of tiles on one cluster: what is wrong, in words; else empty."""
    facts = program.facts
    problem = Problem(4 * facts.tile_m, facts.tile_n, 3 * facts.tile_k)
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    launch = plan(program, a, b, c, blocks=facts.cluster)
    how: dict[str, Any] = {"schedule": "random", "tma": "random", "seed": seed} if seed else {}
    try:
        Emulator(**how).launch(
            program.ptx,
            program.kernel,
            launch.grid,
            launch.block,
            shared_bytes=facts.shared_bytes,
            args=launch.args,
        )
    except EmulatorError as error:
        return "the emulator reports " + str(error).split("; ")[0].splitlines()[0]
    if compare(c, a, b).ok:
        return ""
    return "no rule is broken, and the result is wrong: does each block ask for its own half?"
