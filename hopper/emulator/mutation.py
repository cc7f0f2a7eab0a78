"""Does the emulator catch what is broken? Every kernel with one instruction changed at a time.

    python -m hopper.emulator.mutation           all mutants of all kernels: the table, the record
    python -m hopper.emulator.mutation NAME …    of some kernels only; nothing is written

A mutant that no hazard, fault, deadlock or wrong result gives away must be explained in
``equivalent_mutants.toml``; else the exit status is 1.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from functools import lru_cache

from hopper.compile import Program, nvrtc_version
from hopper.emulator import Deadlock, Emulator, EmulatorError, Fault, HazardError, StepLimit
from hopper.emulator.mutation_changes import Mutant, mutants
from hopper.emulator.mutation_record import (
    VERDICTS,
    Outcome,
    Trials,
    Tried,
    equivalents,
    idle_reasons,
    open_questions,
    record_path,
    sources_hash,
    write,
)
from hopper.emulator.mutation_subjects import SUBJECTS
from hopper.emulator.ptx import parse

STEP_LIMIT = 80_000  # more than twice what any trial of an unchanged kernel takes
SCHEDULES = (
    Emulator(step_limit=STEP_LIMIT),
    Emulator(tma="eager", shared_skew=16, step_limit=STEP_LIMIT),
    *(
        Emulator(schedule="random", tma="random", seed=seed, step_limit=STEP_LIMIT)
        for seed in (1, 2, 3)
    ),
)
_ERRORS = ((HazardError, "hazard"), (Deadlock, "deadlock"), (StepLimit, "step limit"),
           (Fault, "fault"), (EmulatorError, "refused"))  # fmt: skip


@lru_cache(maxsize=16)
def subject_mutants(name: str) -> tuple[Program, tuple[Mutant, ...]]:
    """A subject's program, and every mutant of it."""
    program = SUBJECTS[name].compile()
    return program, tuple(mutants(parse(program.ptx, program.kernel)))


def judge(name: str, mutant: Mutant) -> Outcome:
    """Run a mutant of a subject until something catches it, on every trial and schedule."""
    subject, (program, _) = SUBJECTS[name], subject_mutants(name)
    ptx = mutant.applied(program.ptx)
    verdict = hazard = told = ""
    launches = 0
    for emulator in SCHEDULES:
        for prepare in subject.trials:
            trial = prepare(program)
            launches += 1
            verdict, hazard, told = _launched(trial, ptx, program.kernel, emulator)
            if verdict:
                break
        if verdict:
            break
    return Outcome(
        mutant.name,
        mutant.line,
        mutant.source,
        mutant.text,
        verdict or "survived",
        hazard,
        told,
        launches,
    )


def _launched(trial, ptx: str, kernel: str, emulator: Emulator) -> tuple[str, str, str]:
    """Verdict, kind of hazard and message of one launch; empty where nothing is wrong."""
    try:
        run = trial.run(ptx, kernel, emulator)
    except EmulatorError as error:
        verdict = next(word for kind, word in _ERRORS if isinstance(error, kind))
        found = getattr(error, "hazard", None)  # an error before the launch has none
        return verdict, found.kind if found else "", _first_line(error)
    except Exception as error:  # a mutant must not bring the emulator down: that is a finding
        return "crash", "", f"{type(error).__name__}: {_first_line(error)}"
    if wrong := trial.wrong():
        return "wrong", "", wrong
    if run.hazards:
        return "warning", run.hazards[0].kind, _first_line(run.hazards[0])
    return "", "", ""


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def _judge_numbered(task: tuple[str, int]) -> tuple[str, int, Outcome]:
    name, number = task
    outcome = judge(name, subject_mutants(name)[1][number])
    # A launch leaves tens of megabytes in cycles, in too few objects to be collected by themselves.
    gc.collect()
    return name, number, outcome


def try_all(names: list[str]) -> Trials:
    """Judge every mutant of subjects, on all cores."""
    tasks = [(name, n) for name in names for n in range(len(subject_mutants(name)[1]))]
    outcomes: dict[str, dict[int, Outcome]] = {name: {} for name in names}
    # Workers are renewed: what launches leave behind adds up to gigabytes.
    with multiprocessing.Pool(os.cpu_count(), maxtasksperchild=25) as pool:
        for name, number, outcome in pool.imap_unordered(_judge_numbered, tasks, chunksize=4):
            outcomes[name][number] = outcome
    tried = tuple(
        Tried(name, subject_mutants(name)[0].ptx_hash, tuple(found[n] for n in sorted(found)))
        for name, found in outcomes.items()
    )
    return Trials(sources_hash(), nvrtc_version(), tried)


def table(found: Trials) -> str:
    """Mutants by kernel and verdict, and by kind of hazard, as text."""
    width = max(len(one.subject) for one in found.tried)
    lines = [" ".join([f"{'':{width}}", "mutants", *VERDICTS])]
    for one in found.tried:
        cells = [f"{one.counts[verdict]:{len(verdict)}}" for verdict in VERDICTS]
        lines.append(" ".join([f"{one.subject:{width}}", f"{len(one.outcomes):7}", *cells]))
    kinds = Counter(row.hazard for one in found.tried for row in one.outcomes if row.hazard)
    lines += ["", *(f"{count:5} {kind}" for kind, count in kinds.most_common())]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the table and what is open; write the record when all subjects were tried."""
    unknown = [name for name in arguments if name not in SUBJECTS]
    if unknown:
        print(f"{unknown[0]}: no such subject; there are: {'; '.join(SUBJECTS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    found = try_all(arguments or list(SUBJECTS))
    print(table(found))
    print(f"\n{time.monotonic() - started:.0f} s on {os.cpu_count()} cores")
    known = equivalents()
    questions = open_questions(found.tried, known)
    if not arguments:
        write(found, record_path())
        questions += idle_reasons(found.tried, known)
    for line in questions:
        print(line)
    return 1 if questions else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
