"""Exercises of the chapter ``protocol``: what a wait frees, three stages, sums changed soundly.

Where an answer is code, it is put into ``protocol_loop``, compiled, and judged by the emulator. An
answer of the wrong type, or one that raises, is told in a sentence: a check raises nothing.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy

from hopper.compile import Program, advisories, compile_cuda
from hopper.emulator import EmulatorError, Hazard
from hopper.emulator.hazards import KINDS
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
#: Steps after which an answer spins: a right one takes a tenth of them.
_STEP_LIMIT = 40_000
_EXCERPT = 60  # characters of a source line that are shown


def freed(answer: Callable[[int, int], int | None]) -> None:
    """Check (step, n) → the latest step whose group has retired behind wait_group n, or None.

    Each step commits one group, and step 0 is the first.
    """
    if not callable(answer):
        print(f"not yet: {answer!r} is no function; pass one of (step, n)")
        return
    for pending in range(4):
        for now in range(8):
            retired = now - pending
            try:
                got = answer(now, pending)
            except Exception as error:  # whatever a reader's function raises
                told = f"{type(error).__name__}: {error}"
                print(f"not yet: your function of step = {now}, n = {pending} raises {told}")
                return
            if got is Ellipsis:
                print("not answered yet: return a step, or None where no group has retired")
                return
            number = _whole(got)
            if got is not None and number is None:
                print(
                    f"not yet: in step {now} with n = {pending} your function returns {got!r}; "
                    f"return a step, which is an int, or None where no group has retired"
                )
                return
            if number == (retired if retired >= 0 else None):
                continue
            print(
                f"not yet: behind wait_group {pending} in step {now}: your answer is {got}; "
                f"{_committed(now, pending)}"
            )
            return
    print("right: for every step from 0 to 7 and n from 0 to 3")


def _committed(now: int, pending: int) -> str:
    """Which groups there are in a step, and which of them may run behind a wait, in words."""
    groups = f"groups 0 to {now} are" if now else "group 0 is"
    if not pending:
        return f"{groups} committed, and none of them may still run"
    latest = f"the latest {pending} of them" if pending > 1 else "the latest"
    none = "; so none has retired, and the answer is None" if pending > now else ""
    return f"{groups} committed, and {latest} may still run{none}"


def keep_the_rules(names: Iterable[str] | None) -> None:
    """Check which of the changes in the chapter's tables keep every rule and return what is right.

    ``names``: as the tables have them. The emulator judges. One of which it only warns counts
    neither way, and the answer says why.
    """
    if names is None or names is Ellipsis:
        print("not answered yet: name the changes that keep every rule and are right")
        return
    given = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    if not all(isinstance(name, str) for name in given):
        print(f"not yet: {names!r} is no list of names; pass one, with names from the tables")
        return
    changes = {one.name: one.variant for one in every_break()}
    for name in given:
        if name not in changes:
            print(f"not yet: {name!r} is no change of the tables; copy its first line")
            return
    for name in given:
        found = verdict(changes[name])
        if _only_warned(changes[name]):
            print(f"{name}: {found} is a warning; PTX is silent here, so it counts neither way")
        elif found.kinds:
            print(f"not yet: {name}: the emulator says {found}")
            return
        elif not found.right:
            print(f"not yet: {name}: it keeps every rule, and the emulator gets a wrong result")
            return
    sound = {name for name, one in changes.items() if verdict(one).right and not verdict(one).kinds}
    missing = len(sound - set(given))
    if missing:
        print(f"so far right; {missing} more")
    else:
        print(f"right: these {len(sound)}, and no other")


def _only_warned(variant: Variant) -> bool:
    kinds = verdict(variant).kinds
    return bool(kinds) and all(KINDS[kind].warning for kind in kinds)


def two_in_flight(wait: int | None, back: int | None) -> None:
    """Check a loop of three stages that leaves two groups running.

    ``wait``: what it passes to wait_group; ``back``: by how many steps the stage that it frees lies
    back.
    """
    if any(one is None or one is Ellipsis for one in (wait, back)):
        print("not answered yet: give wait and back")
        return
    for name, value in (("wait", wait), ("back", back)):
        number = _whole(value)
        if number is None or number < 0:
            print(f"not yet: {name}={value!r}: pass an int, 0 or more")
            return
    wait, back = operator.index(wait), operator.index(back)
    changes = (
        ("constexpr int STAGES = 2,", "constexpr int STAGES = 3,"),
        ("wgmma_wait_group<1>();", f"wgmma_wait_group<{wait}>();"),
        ("if (step > 0 && lane == 0)", f"if (step >= {back} && lane == 0)"),
        ("&empty[(step - 1) % STAGES]", f"&empty[(step - {back}) % STAGES]"),
    )
    program = _compiled(Variant("three stages", changes).source)
    if program is None:
        return
    hints = {}
    if back > 2:
        hints["deadlock"] = (
            f"three stages: step s + 3 needs the stage of step s, and with back={back} it comes "
            f"free behind the products of step s + {back} only; that is too late"
        )
    if not _sound(program, _product, hints):
        return
    if wait < 2:
        print(f"not yet: it keeps the rules, and leaves {wait} running; two should")
    else:
        print(f"right: two groups run, and the stage of {back} steps ago is free")


def halved(tail: str | None) -> None:
    """Check a loop that halves its sums after each step: ``tail`` is what stands behind the wgmmas.

    It takes the place of commit, wait and release in ``protocol_loop``.
    """
    if tail is None or tail is Ellipsis or (isinstance(tail, str) and "__1__" in tail):
        print("not answered yet: write what stands behind the wgmmas")
        return
    if not isinstance(tail, str):
        print(f"not yet: {tail!r} is no text; pass lines of CUDA C++ as a str")
        return
    old = step("commit") + step("wait 1") + step("release")
    program = _compiled(Variant("halved", ((old, tail.strip("\n") + "\n"),)).source)
    if program is None or not _sound(
        program, _halved_product, {"accumulator-pending": _why_pending(tail)}
    ):
        return
    for code, messages in advisories(program.log).items():
        print(f"not yet: it keeps the rules, and the compiler says {code}: {messages[0]}")
        return
    print("right: no rule is broken, no message, and each sum is what it should be")


def _whole(answer: object) -> int | None:
    """The answer as an int, None if it is none; NumPy's integers are some, a bool is none."""
    if isinstance(answer, bool | numpy.bool_):
        return None
    try:
        return operator.index(answer)  # type: ignore[arg-type]
    except TypeError:
        return None


def _compiled(source: str) -> Program | None:
    try:
        return compile_cuda(source, KERNEL, defines={"TILE_N": 8}, lineinfo=True)
    except CompileError as error:
        told = [line for line in str(error).splitlines() if "error" in line]
        print("it does not compile:", *(told or [str(error)]), sep="\n  ")
        return None


def _why_pending(tail: str) -> str:
    """Why the sums are still added to where a tail touches them, as far as its lines tell."""
    code = re.sub(r"//.*", "", tail)
    commit, wait = code.find("wgmma_commit_group("), code.find("wgmma_wait_group<")
    pending = re.search(r"wgmma_wait_group<\s*(\d+)", code)
    if commit < 0:
        return "this step's wgmmas are in no group, and wait_group waits for groups only"
    if wait < 0:
        return "nothing waits for this step's group"
    if wait < commit:
        return "wait_group stands before commit_group, so it waits for earlier groups only"
    if pending and int(pending[1]):
        return f"wait_group<{pending[1]}> lets the latest group run, and that is this step's"
    return "wait first, then touch the sums"


def _sound(
    program: Program, expected: Callable[..., numpy.ndarray], hints: Mapping[str, str]
) -> bool:
    """Whether no rule is broken and C is right; prints what is wrong.

    ``hints``: where a rule's mistake is likely to come from, by its kind.
    """
    for emulator in SCHEDULES:
        try:
            done, c = run(replace(emulator, step_limit=_STEP_LIMIT), program, _DEPTH)
        except EmulatorError as error:
            print(f"not yet: the emulator cannot run it: {error}")
            return False
        broken = [hazard for hazard in done.hazards if not hazard.warning]
        if broken:
            hint = hints.get(broken[0].kind)
            print(f"not yet: {_told(broken[0], program)}" + (f"; {hint}" if hint else ""))
            return False
        a, b = inputs(1, program.facts.tile_n, _DEPTH)
        wrong = int((c != expected(a, b)).sum())
        if wrong:
            print(f"not yet: {wrong} of {c.size} sums are wrong")
            return False
    return True


def _told(hazard: Hazard, program: Program) -> str:
    """A broken rule in the words of the source: its line, and ``d`` for registers of the sums."""
    told = hazard.message.removeprefix(f"{hazard.kind}: ").split("; ")[0].split("\n")[0]
    if hazard.kind == "accumulator-pending":
        told = "d is accessed while a wgmma that adds to it may still run"
    elif hazard.kind == "never-ends":
        told = f"after {_STEP_LIMIT:,} steps it still runs"
    line = int(hazard.source_line.rpartition(":")[2] or 0)
    code = program._unit.source.splitlines()[line - 1].split("//")[0].strip() if line else ""
    place = f" at `{code[:_EXCERPT]}`" if code else ""
    return f"the emulator reports {hazard.kind}{place}: {told} ({hazard.threads})"


def _product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    return product(a, b)


def _halved_product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    total = numpy.zeros((ROWS, len(b)), "float32")
    for k in range(0, a.shape[1], 64):
        total = (total + product(a[:, k : k + 64], b[:, k : k + 64])) / 2
    return total
