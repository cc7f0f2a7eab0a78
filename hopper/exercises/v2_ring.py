"""Exercises of the chapter ``v2_ring``: how deep a ring, how many blocks, and asking later."""

import math
from collections.abc import Callable
from numbers import Real

from hopper.compile import compile_cuda, compile_kernel
from hopper.emulator import EmulatorError, Run
from hopper.errors import CompileError
from hopper.experiments.ladder_runs import SCHEDULES, SMALL, broken_in, launched
from hopper.experiments.ladder_steps import asking_elsewhere, changed
from hopper.occupancy import fit

#: The ring of the exercise on asking, and its steps of K.
STAGES, STEPS = 3, 10
#: (TILE_M, TILE_N, STAGES) that the exercise on blocks tries.
_RINGS = (
    (128, 128, 1),
    (128, 128, 2),
    (128, 128, 4),
    (64, 256, 2),
    (128, 176, 3),
    (128, 144, 1),  # 170 registers a thread: rounding them up costs a block
    (64, 64, 7),  # the system's kilobyte costs a block
)
#: What the emulator reports of a ring -> what it may come from.
HINTS = {
    "deadlock": "somebody waits for tiles, or for a release, that nobody sends",
    "fault": "a stage may have been asked for again while its last load was still awaited",
    "operand-overwritten": "a stage was asked for again while a group reads it",
    "copy-not-arrived": "a stage was read before its tiles were there",
}


def ring_depth(answer: Callable[[float, float], int | None]) -> None:
    """Check (load, step) → the fewest stages with which no step waits for its tiles.

    ``load``: cycles from asking for a step's tiles until both are there; ``step``: cycles of a step
    that finds its tiles there.
    """
    if not callable(answer):
        print(f"not answered yet: {answer!r} is no function of load and step")
        return
    for step in (512.0, 700.0, 1100.0):
        for load in (400.0, 700.0, 1536.0, 3300.0):
            got = answer(load, step)
            if got is None or got is Ellipsis:
                print("not answered yet: return a number of stages")
                return
            if not whole(got):
                print(f"not yet: {got!r} is no whole number of stages")
                return
            if got != fewest_stages(load, step):
                print(f"not yet: {_why(load, step, got)}")
                return
    print("right: for loads shorter and longer than a step, none waits, and no stage is idle")


def whole(value: object) -> bool:
    """Whether an answer is a whole number, of any numeric type."""
    return isinstance(value, Real) and not isinstance(value, bool) and value == value // 1


def with_hint(told: str) -> str:
    """What the emulator reports of a changed kernel, and what that may come from."""
    hint = next((words for kind, words in HINTS.items() if f"reports {kind}:" in told), "")
    return f"{told}; {hint}" if hint else told


def fewest_stages(load: float, step: float) -> int:
    """A stage's tiles are asked for one step after it was used, and S − 1 steps before the next."""
    return 1 + math.ceil(load / step)


def _why(load: float, step: float, got: int) -> str:
    told = f"a load of {load:g} cycles, a step of {step:g}: your answer is {got}"
    if got < 1:
        return f"{told}; a ring has a stage"
    ahead = (got - 1) * step
    if ahead < load:
        return f"{told}; it leaves {got - 1} steps, {ahead:g} cycles, for the load"
    return f"{told}; with a stage less, {ahead - step:g} cycles are left for the load, enough too"


def blocks_that_fit(answer: Callable[[int, int, int, int], int | None]) -> None:
    """Check (tile_m, tile_n, stages, registers) → blocks of v2 that an SM holds.

    ``registers``: of a thread, as compiled. Compiles v2 for each tile and ring that it tries.
    """
    if not callable(answer):
        print(f"not answered yet: {answer!r} is no function of tile, stages and registers")
        return
    for tile_m, tile_n, stages in _RINGS:
        program = compile_kernel("v2_ring", TILE_M=tile_m, TILE_N=tile_n, STAGES=stages)
        used, right = program.resources, fit(program)
        got = answer(tile_m, tile_n, stages, used.registers)
        if got is None or got is Ellipsis:
            print("not answered yet: return a number of blocks")
            return
        if not whole(got):
            print(f"not yet: {got!r} is no whole number of blocks")
            return
        if got != right.blocks:
            bytes_needed = program.facts.shared_bytes + used.static_shared_bytes
            print(
                f"not yet: {tile_m} × {tile_n}, {stages} stages: your answer is {got}; "
                f"{used.registers} registers a thread allow {right.by_registers}, and "
                f"{bytes_needed:,} bytes of shared memory a block, 1 KB besides for the system, "
                f"allow {right.by_shared}"
            )
            return
    print(f"right: for {len(_RINGS)} tiles and rings")


def ask_later(first: str | None, later: str | None) -> None:
    """Check two bounds of a v2 that asks in front of its loop, and behind each commit.

    ``first``: in front of the loop it asks while ``asked < first``; ``later``: behind the commit of
    ``step`` it asks while ``asked < later``. Both are C++, of STAGES and, ``later``, of step.
    """
    if first is None or later is None:
        print("not answered yet: give both bounds")
        return
    source = changed("v2_ring", asking_elsewhere(first, later))
    try:
        program = compile_cuda(source, "v2_ring", defines=SMALL | {"STAGES": STAGES}, lineinfo=True)
        program.require_clean()
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return
    runs = []
    for emulator in SCHEDULES:
        try:
            run, wrong = launched(program, emulator, STEPS)
        except EmulatorError as error:
            print(f"not yet: the emulator cannot run it: {error}")
            return
        told = broken_in(run) or wrong
        if told:
            print(f"not yet: {with_hint(told)}")
            return
        runs.append(run)
    late = [told for run in runs for told in [_idle(run)] if told]
    if late:
        print(f"not yet: it keeps the rules, and {late[0]}")
        return
    print("right: all stages are in use, no rule is broken, and it asks while products run")


def _idle(run: Run) -> str:
    """A step that leaves a stage idle which it could have filled, in words; else empty."""
    asked = step = 0
    for event in run.trace:
        if event.kind == "tma.issue":
            asked += 1
        elif event.kind == "wgmma.wait":
            if asked // 2 < min(STEPS, step + STAGES):  # two tiles a step
                return f"while step {step} multiplies, {asked // 2} steps have been asked for"
            step += 1
    return ""
