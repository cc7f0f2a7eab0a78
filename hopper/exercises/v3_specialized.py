"""Exercises of the chapter ``v3_specialized``: counts, causes of a hang, two blocks on an SM."""

import re
from collections.abc import Mapping

from hopper.compile import Program, compile_cuda, compile_kernel
from hopper.emulator import Emulator, Run
from hopper.errors import CompileError
from hopper.exercises.v2_ring import whole, with_hint
from hopper.experiments.ladder_runs import SCHEDULES, SMALL, broken_in, launched
from hopper.experiments.ladder_steps import changed
from hopper.figures.run_names import Names, warps_in_words
from hopper.occupancy import fit

KERNEL = "v3_specialized"
#: The ring of the exercises on counts and hangs, and its steps of K.
STAGES, STEPS = 2, 7
_ARRIVES = "    if (lane == 0) mbarrier_arrive(&empty[stage]);"
_COUNTS = "mbarrier_init(&empty[stage], CONSUMERS * 4);"
#: Way to release a stage -> what stands in place of the arrival.
WAYS = {
    "every_thread": "    mbarrier_arrive(&empty[stage]);",
    "two_at_once": "    if (lane == 0) mbarrier_arrive(&empty[stage], 2);",
    "behind_a_barrier": '    asm volatile("bar.sync 1, 128;" ::: "memory");\n'
    "    if (threadIdx.x == 0) mbarrier_arrive(&empty[stage]);",
}
#: A mistake that makes v3 stand still -> a piece of its text, and what takes its place.
STANDSTILLS = {
    "never released": (_ARRIVES, ""),
    "empty counts threads": (_COUNTS, "mbarrier_init(&empty[stage], CONSUMERS * 128);"),
    "empty counts one warp": (_COUNTS, "mbarrier_init(&empty[stage], 1);"),
    "producer starts at parity 0": ("unsigned parity = 1;", "unsigned parity = 0;"),
}
#: A kernel that stands still, by a letter -> its mistake.
HANGS = {
    "A": "empty counts threads",
    "B": "producer starts at parity 0",
    "C": "never released",
}
_WAITING = re.compile(
    r"warp (\d+) .*at shared address (0x[0-9a-f]+).*waits for phase (\d+) \(parity \d\); "
    r"(\d+) of (\d+) arrivals and (\d+) bytes are missing"
)


def releases(**counts: int | None) -> None:
    """Check the count of ``empty`` for each of WAYS to release a stage, by running them.

    ``every_thread``: all 128 arrive; ``two_at_once``: a lane of each warp arrives, counting two;
    ``behind_a_barrier``: one thread arrives, behind a barrier of the 128.
    """
    missing = [way for way in WAYS if counts.get(way) is None]
    if missing:
        print(f"not answered yet: {', '.join(missing)}")
        return
    for way in WAYS:
        if not whole(counts[way]):
            print(f"not yet: {way}, count {counts[way]!r}: give a whole number")
            return
        if not 1 <= counts[way] < 1 << 20:  # NVRTC 13.0 does not survive a count of 0
            print(f"not yet: {way}, count {counts[way]}: PTX allows counts from 1 to 2^20 − 1")
            return
    for way, arrives in WAYS.items():
        told = with_hint(_released(arrives, int(counts[way])))
        if told:
            print(f"not yet: {way}, count {counts[way]}: {told}")
            return
    print("right: all three run, and break no rule, on four schedules")


def _released(arrives: str, count: int) -> str:
    """What is wrong with a v3 that releases so, and counts so; else empty."""
    changes = ((_ARRIVES, arrives), (_COUNTS, f"mbarrier_init(&empty[stage], {count});"))
    try:
        program = _compiled(changed(KERNEL, changes))
    except CompileError as error:
        return f"it does not compile: {error}"
    for emulator in SCHEDULES:
        run, wrong = launched(program, emulator, STEPS)
        told = broken_in(run) or wrong
        if told:
            return told
    return ""


def _compiled(source: str) -> Program:
    return compile_cuda(source, KERNEL, defines=SMALL | {"STAGES": STAGES}, lineinfo=True)


def hung(letter: str) -> None:
    """Print in what state a kernel of HANGS stands still: who waits, for what, what is missing."""
    known = str(letter).strip().upper()
    if known not in HANGS:
        print(f"{letter!r} is none of the kernels {', '.join(HANGS)}")
        return
    for line in standstill(HANGS[known]):
        print(line)


def standstill(mistake: str) -> list[str]:
    """The state in which a v3 with one of STANDSTILLS ends, a line for those who wait alike."""
    program = _compiled(changed(KERNEL, (STANDSTILLS[mistake],)))
    run, _ = launched(program, Emulator(on_hazard="collect"), STEPS)
    return _waiting(run, program)


def _waiting(run: Run, program: Program) -> list[str]:
    per_block = program.facts.threads // 32
    known = Names(program, {}, per_block)
    waiting: dict[str, list[int]] = {}
    for warp, address, phase, missing, count, announced in _WAITING.findall(
        run.hazards[-1].message
    ):
        words = (
            f"phase {phase} of {known.barrier(int(address, 16))}: {missing} of {count} arrivals "
            f"and {int(announced):,} bytes are missing"
        )
        waiting.setdefault(words, []).append(int(warp))
    return [
        f"{warps_in_words(warps)} {'wait' if len(warps) > 1 else 'waits'} for {words}"
        for words, warps in waiting.items()
    ]


def causes(answers: Mapping[str, str | None]) -> None:
    """Check letter → cause of a standstill, one of the mistakes that HANGS names."""
    known = sorted(HANGS.values())
    if not isinstance(answers, Mapping):
        print(f"not answered yet: {answers!r} is no dict of letter and cause")
        return
    for letter, right in HANGS.items():
        got = answers.get(letter)
        if isinstance(got, str):
            got = " ".join(got.lower().split())
        if got is None or got is Ellipsis:
            print(f"{letter}: not answered yet")
        elif got == right:
            print(f"{letter}: right")
        elif got not in known:
            print(f"{letter}: {got!r} is none of {', '.join(known)}")
        else:
            print(f"{letter}: not yet; {got!r} would end like this: {standstill(got)[-1]}")


def two_blocks(**defines: int) -> None:
    """Check a tile and a ring of v3: two blocks an SM, three stages, fewer bytes a FLOP.

    ``defines``: TILE_M, TILE_N, STAGES. Fewer bytes than the kernel as written loads.
    """
    wanted = {"TILE_M", "TILE_N", "STAGES"}
    if set(defines) != wanted:
        print(f"not answered yet: give {', '.join(sorted(wanted))}")
        return
    for name, value in defines.items():
        if not whole(value):
            print(f"not yet: {name}={value!r} is no whole number")
            return
    defines = {name: int(value) for name, value in defines.items()}
    try:
        program = compile_kernel(KERNEL, **defines)
        program.require_clean()
    except CompileError as error:
        told = re.findall(r'static assertion failed with "(.*)"', str(error))
        print(f"not yet: it cannot be launched: {told[0] if told else error}")
        return
    facts, room = program.facts, fit(program)
    written = compile_kernel(KERNEL).facts
    if room.blocks < 2:
        print(
            f"not yet: {room.blocks} on an SM: registers allow {room.by_registers}, shared memory "
            f"{room.by_shared}"
        )
    elif facts.stages < 3:
        print(f"not yet: {facts.stages} stages; take three or more")
    elif _bytes_a_flop(facts) >= _bytes_a_flop(written):
        print(
            f"not yet: {facts.tile_m} × {facts.tile_n} loads {1000 * _bytes_a_flop(facts):.2f} "
            f"bytes for 1000 FLOP, and the kernel as written {1000 * _bytes_a_flop(written):.2f}"
        )
    else:
        print(
            f"right: {room.blocks} blocks, {facts.stages} stages, "
            f"{1000 * _bytes_a_flop(facts):.2f} bytes for 1000 FLOP in place of "
            f"{1000 * _bytes_a_flop(written):.2f}"
        )


def _bytes_a_flop(facts) -> float:
    return (facts.tile_m + facts.tile_n) / (facts.tile_m * facts.tile_n)
