"""Exercises of the chapter ``protocol``: what a wait frees, three stages, sums changed soundly.

Where an answer is code, it is put into ``protocol_loop``, compiled, and judged by the emulator.
"""

from collections.abc import Callable, Iterable

import numpy

from hopper.compile import Program, advisories, compile_cuda
from hopper.emulator import EmulatorError
from hopper.errors import CompileError
from hopper.experiments.protocol_breaks import every_break
from hopper.experiments.protocol_variants import (
    KERNEL,
    ROWS,
    SCHEDULES,
    Variant,
    inputs,
    product,
    run,
    step,
    verdict,
)

_DEPTH = 384  # K: six steps


def freed(answer: Callable[[int, int], int | None]) -> None:
    """Check (step, n) → the latest step whose group has retired behind wait_group n, or None.

    Each step commits one group, and step 0 is the first.
    """
    for pending in range(4):
        for now in range(8):
            retired = now - pending
            got = answer(now, pending)
            if got is Ellipsis:
                print("not answered yet: return a step, or None where no group has retired")
                return
            if got == (retired if retired >= 0 else None):
                continue
            print(
                f"not yet: behind wait_group {pending} in step {now}: your answer is {got}; groups "
                f"0 to {now} are committed, and the latest {pending} of them may still run"
            )
            return
    print("right: for every step from 0 to 7 and n from 0 to 3")


def keep_the_rules(names: Iterable[str] | None) -> None:
    """Check which of the changes in the chapter's tables break no rule, by the emulator's verdict.

    ``names``: as the tables have them. One whose result is wrong does not count.
    """
    if names is None:
        print("not answered yet: name the changes that break no rule")
        return
    changes = {one.name: one.variant for one in every_break()}
    given = list(names)
    for name in given:
        if name not in changes:
            print(f"{name!r} is no change of the tables; copy its first line")
            return
    for name in given:
        found = verdict(changes[name])
        if found.kinds or not found.right:
            print(f"not yet: {name}: the emulator says {found}")
            return
    sound = {name for name, one in changes.items() if verdict(one).right and not verdict(one).kinds}
    missing = len(sound - set(given))
    if missing:
        print(f"so far right; {missing} more")
    else:
        print(f"right: these {len(sound)}, and no other")


def two_in_flight(wait: int | None, back: int | None) -> None:
    """Check a loop of three stages that leaves two groups running.

    ``wait``: what it passes to wait_group; ``back``: by how many steps the stage that it frees lies
    back.
    """
    if wait is None or back is None:
        print("not answered yet: give wait and back")
        return
    changes = (
        ("constexpr int STAGES = 2,", "constexpr int STAGES = 3,"),
        ("wgmma_wait_group<1>();", f"wgmma_wait_group<{wait}>();"),
        ("if (step > 0 && lane == 0)", f"if (step >= {back} && lane == 0)"),
        ("&empty[(step - 1) % STAGES]", f"&empty[(step - {back}) % STAGES]"),
    )
    program = _compiled(Variant("three stages", changes).source)
    if program is None or not _sound(program, _product):
        return
    if wait < 2:
        print(f"not yet: it keeps the rules, and leaves {wait} running; two should")
    else:
        print(f"right: two groups run, and the stage of {back} steps ago is free")


def halved(tail: str | None) -> None:
    """Check a loop that halves its sums after each step: ``tail`` is what stands behind the wgmmas.

    It takes the place of commit, wait and release in ``protocol_loop``.
    """
    if tail is None or "__1__" in tail:
        print("not answered yet: write what stands behind the wgmmas")
        return
    old = step("commit") + step("wait 1") + step("release")
    program = _compiled(Variant("halved", ((old, tail.strip("\n") + "\n"),)).source)
    if program is None or not _sound(program, _halved_product):
        return
    for code, messages in advisories(program.log).items():
        print(f"not yet: it keeps the rules, and the compiler says {code}: {messages[0]}")
        return
    print("right: no rule is broken, no message, and each sum is what it should be")


def _compiled(source: str) -> Program | None:
    try:
        return compile_cuda(source, KERNEL, defines={"TILE_N": 8}, lineinfo=True)
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return None


def _sound(program: Program, expected: Callable[..., numpy.ndarray]) -> bool:
    """Whether no rule is broken and C is right; prints what is wrong."""
    for emulator in SCHEDULES:
        try:
            done, c = run(emulator, program, _DEPTH)
        except EmulatorError as error:
            print(f"not yet: the emulator cannot run it: {error}")
            return False
        broken = [hazard for hazard in done.hazards if not hazard.warning]
        if broken:
            first = broken[0]
            told = first.message.removeprefix(f"{first.kind}: ").split("; ")[0].split("\n")[0]
            print(f"not yet: the emulator reports {first.kind}: {told} ({first.threads})")
            return False
        a, b = inputs(1, program.facts.tile_n, _DEPTH)
        wrong = int((c != expected(a, b)).sum())
        if wrong:
            print(f"not yet: {wrong} of {c.size} sums are wrong")
            return False
    return True


def _product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    return product(a, b)


def _halved_product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    total = numpy.zeros((ROWS, len(b)), "float32")
    for k in range(0, a.shape[1], 64):
        total = (total + product(a[:, k : k + 64], b[:, k : k + 64])) / 2
    return total
