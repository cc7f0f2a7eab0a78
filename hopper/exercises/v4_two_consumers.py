"""Exercises of the chapter ``v4_two_consumers``: registers, order of tiles, a third consumer."""

from collections.abc import Callable

import numpy

from hopper.architecture import constant
from hopper.check import compare
from hopper.compile import compile_cuda
from hopper.emulator import EmulatorError
from hopper.errors import CompileError
from hopper.figures.raster import rasterized
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

KERNEL = "v4_two_consumers"
_STEP = 8  # registers: what setmaxnreg counts in


def registers_to_trade(consumers: int, kept: int) -> tuple[int, int]:
    """Registers a thread at launch, and after setmaxnreg in each consumer.

    A block alone on its SM, ``consumers`` warpgroups and one that loads and keeps ``kept``.
    """
    warpgroups = consumers + 1
    slots = constant("registers_per_sm").value // constant("warpgroup_threads").value
    launched = slots // warpgroups // _STEP * _STEP
    return launched, (launched * warpgroups - kept) // consumers // _STEP * _STEP


def traded(answer: Callable[[int, int], tuple[int | None, int | None]]) -> None:
    """Check (consumers, kept) → registers a thread at launch, and later in each consumer."""
    for consumers in (2, 3):
        for kept in (24, 40, 56):
            launched, raised = registers_to_trade(consumers, kept)
            got = answer(consumers, kept)
            if not isinstance(got, tuple) or len(got) != 2 or None in got or Ellipsis in got:
                print("not answered yet: return two numbers of registers")
                return
            case = f"{consumers} consumers, the producer keeps {kept}"
            if got[0] != launched:
                print(
                    f"not yet: {case}: your launch has {got[0]} a thread; an SM has "
                    f"{constant('registers_per_sm').value:,} registers for "
                    f"{128 * (consumers + 1)} threads, and they come in eights"
                )
                return
            if got[1] != raised:
                print(
                    f"not yet: {case}: your consumers get {got[1]}; the block was launched with "
                    f"{launched} for each of {consumers + 1} warpgroups, {kept} stay with one, and "
                    f"the others share what is left, in eights"
                )
                return
    print("right: for two consumers and for three")


def tile_of_block(answer: Callable[[int, int, int, int], tuple[int, int] | None]) -> None:
    """Check (block, rows, columns, width) → (row, column) of the block's tile."""
    for rows, columns in ((4, 3), (8, 5), (7, 2), (3, 9)):
        for width in (1, 2, 3, 8):
            for block in range(rows * columns):
                got, right = (
                    answer(block, rows, columns, width),
                    rasterized(block, rows, columns, width),
                )
                if got is None or got is Ellipsis:
                    print("not answered yet: return a row and a column")
                    return
                if tuple(got) != right:
                    first = block // (width * columns) * width
                    print(
                        f"not yet: {rows} × {columns} tiles, groups of {width}, block {block}: "
                        f"your answer is {tuple(got)}; its group begins in row {first} and is "
                        f"{min(width, rows - first)} rows high"
                    )
                    return
    print("right: every tile of four grids, four widths each")


def three_consumers(kept: int | None, raised: int | None, tile_n: int | None) -> None:
    """Check v4 with three consumers: 192 × ``tile_n``, and these two counts for setmaxnreg."""
    if None in (kept, raised, tile_n):
        print("not answered yet: two register counts and a width")
        return
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    for old, new in (("setmaxnreg_dec<40>", f"setmaxnreg_dec<{kept}>"),
                     ("setmaxnreg_inc<232>", f"setmaxnreg_inc<{raised}>")):  # fmt: skip
        assert source.count(old) == 1, f"{KERNEL}.cu must have {old} once"
        source = source.replace(old, new)
    tile = {"CONSUMERS": 3, "TILE_M": 192, "TILE_N": tile_n, "STAGES": 2}
    try:
        program = compile_cuda(source, KERNEL, defines=tile)
        program.require_clean()
    except CompileError as error:
        told = [
            line.strip() for line in str(error).splitlines() if "C7" in line or "assert" in line
        ]
        print("not yet: the compiler refuses it:", *(told or [str(error)])[:2], sep="\n  ")
        return
    facts = program.facts
    problem = Problem(facts.tile_m + 40, tile_n, 5 * facts.tile_k + 8)
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    try:
        plan(program, a, b, c).run()
    except EmulatorError as error:
        print("not yet: the emulator reports " + str(error).split("; ")[0].splitlines()[0])
        return
    if not compare(c, a, b).ok:
        print("not yet: no rule is broken, and the result is wrong")
        return
    print(f"right: 192 × {tile_n}, {kept} registers for the producer, {raised} for each consumer")
