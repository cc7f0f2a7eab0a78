"""Exercises of the chapter ``v4_two_consumers``: registers, order of tiles, a third consumer."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy

from hopper.architecture import constant
from hopper.check import compare
from hopper.compile import Program, compile_cuda
from hopper.emulator import EmulatorError
from hopper.errors import CompileError
from hopper.figures.raster import rasterized
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

KERNEL = "v4_two_consumers"
_STEP = 8  # registers: what setmaxnreg counts in; columns: what the N of a wgmma counts in
_WIDEST = 256


def called(answer: Any, *arguments: Any) -> tuple[Any, str]:
    """What the reader's function returns, and "" or what is wrong with it in words."""
    if not callable(answer):
        return None, f"hand over your function; this is {answer!r}"
    try:
        return answer(*arguments), ""
    except Exception as error:  # whatever a reader's function raises
        told = ", ".join(map(str, arguments))
        return None, f"your function, called with ({told}), raised {type(error).__name__}: {error}"


def _pair(got: Any, what: str) -> str:
    """ "" if this is two whole numbers; else what to print."""
    if got is None or got is Ellipsis:
        return f"not answered yet: return {what}"
    if not isinstance(got, tuple | list) or len(got) != 2:
        return f"not yet: return {what}; your function returned {got!r}"
    if any(one is None or one is Ellipsis for one in got):
        return f"not answered yet: return {what}"
    if not all(isinstance(one, Integral) for one in got):
        return f"not yet: {what}, in whole numbers (// divides without a rest); got {got!r}"
    return ""


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
        for kept in (24, 32, 40, 48, 56):
            launched, raised = registers_to_trade(consumers, kept)
            got, wrong = called(answer, consumers, kept)
            wrong = f"not yet: {wrong}" if wrong else _pair(got, "two numbers of registers")
            if wrong:
                print(wrong)
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
                right = rasterized(block, rows, columns, width)
                got, wrong = called(answer, block, rows, columns, width)
                wrong = f"not yet: {wrong}" if wrong else _pair(got, "a row and a column")
                if wrong:
                    print(wrong)
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


def _compiled(source: str, tile_n: int) -> tuple[Program | None, list[str]]:
    """v4 with three consumers and this width, or what the compiler says against it."""
    tile = {"CONSUMERS": 3, "TILE_M": 192, "TILE_N": tile_n, "STAGES": 2}
    try:
        program = compile_cuda(source, KERNEL, defines=tile)
        program.require_clean()
    except CompileError as error:
        told = [
            line.strip() for line in str(error).splitlines() if "C7" in line or "assert" in line
        ]
        return None, (told or [str(error)])[:2]
    return program, []


def three_consumers(kept: int | None, raised: int | None, tile_n: int | None) -> None:
    """Check v4 with three consumers: 192 × ``tile_n``, and these two counts for setmaxnreg.

    Right is what runs, leaves no register of the launch over, and is as wide as compiles.
    """
    given = {"kept": kept, "raised": raised, "tile_n": tile_n}
    if any(value is None or value is Ellipsis for value in given.values()):
        print("not answered yet: two register counts and a width")
        return
    for name, value in given.items():
        if not isinstance(value, Integral):
            print(f"not yet: {name}={value!r}: a whole number")
            return
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    for old, new in (("setmaxnreg_dec<40>", f"setmaxnreg_dec<{kept}>"),
                     ("setmaxnreg_inc<232>", f"setmaxnreg_inc<{raised}>")):  # fmt: skip
        assert source.count(old) == 1, f"{KERNEL}.cu must have {old} once"
        source = source.replace(old, new)
    program, refused = _compiled(source, tile_n)
    if program is None:
        print("not yet: the compiler refuses it:", *refused, sep="\n  ")
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
    left = 4 * program.resources.registers - kept - 3 * raised
    missing = []
    if left:
        missing.append(
            f"4 · {program.resources.registers} − {kept} − 3 · {raised} = {left} are left over"
        )
    if tile_n < _WIDEST and _compiled(source, tile_n + _STEP)[0]:
        missing.append(f"a width of {tile_n + _STEP} compiles, too")
    if missing:
        print(f"not yet: it runs, but {', and '.join(missing)}")
        return
    print(f"right: 192 × {tile_n}, {kept} registers for the producer, {raised} for each consumer")
