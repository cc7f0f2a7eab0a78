"""Exercises of the chapter ``v7_persistent``: the last wave, the parity, the turn, the order."""

import re
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy

from hopper.check import compare
from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, EmulatorError
from hopper.errors import CompileError
from hopper.exercises.v4_two_consumers import called
from hopper.experiments.waves import used
from hopper.figures.tile_turns import Tiles, run_tile_turns
from hopper.gemm import Problem, plan
from hopper.paths import INCLUDE, KERNELS

KERNEL = "v7_persistent"
_SMALL = {"TILE_N": 128, "STAGES": 2}
_PARITY = "(tiles + consumer + 1) % 2"
_CLOSES = "if (warpgroup == 0) outbox_close"
#: Who stores counts uses from consumer 1 on, and that one closes the outbox.
_CONSUMER_1_FIRST = (
    ("&out.drained[use / 2 % 2][slot]", "&out.drained[use / 2 % 2 ^ 1][slot]"),
    ("&out.drained[1][0]", "&out.drained[0][0]"),
)
_INCLUDE = '#include "outbox.cuh"\n'
#: What a consumer does with its order, between the wait for the stage and its accumulators.
_TAKE = re.compile(
    r"(    // \[take\]\n    mbarrier_wait_parity\([^\n]*\n).*?(    float d\[[^\n]*\n)", re.DOTALL
)
# (steps of K, a seed for the emulator's schedule): each with three tiles for one block.
_RUNS = ((1, None), (2, None), (3, 1))


def share_used(answer: Callable[..., Any]) -> None:
    """Check (m, n, tile_m, tile_n, sms) → share of the SMs' time that whole tiles fill."""
    for m, n, tile_m, tile_n, sms in (
        (8192, 8192, 128, 256, 132),
        (1408, 3072, 128, 256, 132),
        (1409, 3072, 128, 256, 132),
        (8192, 8192, 256, 192, 132),
        (100, 100, 128, 256, 132),
        (4096, 4096, 128, 256, 114),
    ):
        right = used(-(-m // tile_m) * -(-n // tile_n), sms)
        got, wrong = called(answer, m, n, tile_m, tile_n, sms)
        if wrong:
            print(f"not yet: {wrong}")
            return
        if not isinstance(got, Real) or isinstance(got, bool):
            print("not answered yet: return a share, 1 for all of the time")
            return
        if not abs(got - right) <= 1e-9:
            hint = "tiles at an edge count as whole ones"
            if got > 1:
                hint = "a share is 1 at most"
            elif m % tile_m == 0 and n % tile_n == 0:
                hint = "how many tiles could so many waves hold?"
            print(
                f"not yet: C of {m} × {n}, tiles of {tile_m} × {tile_n}, {sms} SMs: your answer "
                f"is {got:.4g}, and {right:.4g} of the time is used; {hint}"
            )
            return
    print("right: six sizes, edges included")


def drained_parity(expression: str | None) -> None:
    """Check the parity that outbox_put awaits if consumer 1 fills the outbox before consumer 0.

    ``expression``: C++, of ``tiles`` and ``consumer``.
    """
    if not _asked(expression):
        return
    header = (INCLUDE / "outbox.cuh").read_text(encoding="utf-8").replace("#pragma once\n", "")
    header = _replaced(header, (*_CONSUMER_1_FIRST, (_PARITY, f"unsigned({expression})")))
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    source = _replaced(source, ((_CLOSES, _CLOSES.replace("0", "1")), (_INCLUDE, header)))
    wrong = _tried(source, _SMALL)
    print(wrong or f"right: {len(_RUNS)} runs of three tiles, no slot is filled too early or never")


def order_read(lines: str | None) -> None:
    """Check how a consumer takes its order, with TURN = 0.

    ``lines``: CUDA C++ that declares ``order`` and leaves the loop where there is none.
    """
    if not _asked(lines):
        return
    source = (KERNELS / f"{KERNEL}.cu").read_text(encoding="utf-8")
    assert len(_TAKE.findall(source)) == 1, f"{KERNEL}.cu must take its order once"
    text = lines.strip("\n") + "\n"
    source = _TAKE.sub(lambda found: found[1] + text + found[2], source)
    wrong = _tried(source, _SMALL | {"TURN": 0})
    print(wrong or f"right: {len(_RUNS)} runs of three tiles, and every order is read in time")


def _replaced(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, f"v7 must have {old!r} once"
        text = text.replace(old, new)
    return text


def _asked(text: str | None) -> bool:
    """Whether there is an answer in a string; else say what is missing."""
    if text is None or text is Ellipsis or (isinstance(text, str) and not text.strip(" .\n")):
        print("not answered yet: CUDA C++, in a string")
    elif not isinstance(text, str):
        print(f"not yet: CUDA C++, in a string; this is {text!r}")
    elif "__1__" in text:
        print("not answered yet: fill the blank")
    else:
        return True
    return False


def _tried(source: str, defines: dict[str, int]) -> str:
    """Compile and run a changed v7: what is wrong, in words; else empty."""
    try:
        program = compile_cuda(source, KERNEL, defines=defines, lineinfo=True)
        program.require_clean()
    except CompileError as error:
        told = [line.strip() for line in str(error).splitlines() if "error" in line or "C7" in line]
        return "\n  ".join(["it does not compile cleanly:", *(told or [str(error)])])
    for steps, seed in _RUNS:
        wrong = _broken(program, steps, seed)
        if wrong:
            how = "" if seed is None else ", on another schedule"
            many = "one step" if steps == 1 else f"{steps} steps"
            return f"not yet: {many} a tile{how}: {wrong}"
    return ""


def _broken(program: Program, steps: int, seed: int | None) -> str:
    facts = program.facts
    a, b = Problem(3 * facts.tile_m, facts.tile_n, steps * facts.tile_k).inputs()
    c = numpy.full((3 * facts.tile_m, facts.tile_n), numpy.nan, "float16")
    launch = plan(program, a, b, c, blocks=1)
    how = {} if seed is None else {"schedule": "random", "tma": "random", "seed": seed}
    try:
        Emulator(**how).launch(
            program.ptx,
            KERNEL,
            launch.grid,
            launch.block,
            shared_bytes=facts.shared_bytes,
            args=launch.args,
        )
    except EmulatorError as error:
        return "the emulator reports " + str(error).split("; ")[0].splitlines()[0]
    return "" if compare(c, a, b).ok else "no rule is broken, and the result is wrong"


def lost(answer: Callable[..., Any]) -> None:
    """Check (leave, product, turn) → time that a tile loses, for two or more steps held back."""
    for leave in (6.0, 3.3, 2.0, 9.0):
        for product in (1.0, 2.0):
            for turn in (2, 3, 4):
                way = Tiles(
                    steps=12, stages=turn + 1, turn=turn, product=product, load=product, leave=leave
                )
                right = (1 / run_tile_turns(way, 16).busy - 1) * 2 * way.steps * product
                got, wrong = called(answer, leave, product, turn)
                if wrong:
                    print(f"not yet: {wrong}")
                    return
                if not isinstance(got, Real) or isinstance(got, bool):
                    print("not answered yet: return a time")
                    return
                if not abs(got - right) <= 1e-6:
                    if got < 0:
                        hint = "no time is gained by packing faster than the other multiplies"
                    elif right < 1e-6:
                        hint = "here the other consumer multiplies for longer than packing takes"
                    else:
                        hint = "how long can the other consumer multiply alone?"
                    print(
                        f"not yet: packing takes {leave:g}, a product {product:g}, TURN = {turn}: "
                        f"your answer is {got:.4g}, the model loses {right:.4g} a tile; {hint}"
                    )
                    return
    print("right: 24 combinations of packing, product and TURN")
