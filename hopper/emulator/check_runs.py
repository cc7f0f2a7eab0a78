"""Check a kernel of one's own: run it on several schedules and gather what rules it breaks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy

from hopper.compile import Program, advisories, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.emulator.check_report import Finding, Findings, as_dict
from hopper.emulator.errors import LaunchError, Unsupported
from hopper.emulator.launch_file import FROM_FACTS, LaunchFile, LaunchFileError
from hopper.emulator.ptx import parse
from hopper.emulator.source_lines import Place, SourceLines
from hopper.facts import stated_facts, threads_directive


@dataclass(frozen=True)
class Trial:
    """One run: in which order warps go on and copies land, and where shared memory starts."""

    warps: str
    copies: str
    seed: int
    skew: int

    @property
    def schedule(self) -> str:
        """As a launch file names it."""
        return f"{self.warps}/{self.copies}"

    def __str__(self) -> str:
        seed = f" seed {self.seed}" if "random" in (self.warps, self.copies) else ""
        return self.schedule + seed + (f" skew {self.skew}" if self.skew else "")


@dataclass(frozen=True)
class Checked:
    """The outcome of a check. ``idle``: lines of the reader's file that no run executed."""

    source: Path
    launch: LaunchFile
    kernel: str
    shape: str
    trials: tuple[Trial, ...]
    findings: tuple[Finding, ...]
    idle: tuple[int, ...]
    lines: SourceLines

    def summary(self) -> str:
        """What a reader wants to know last."""
        errors = sum(not found.warning for found in self.findings)
        warnings = len(self.findings) - errors
        parts = [_counted(errors, "error")] if errors else ["no hazards"]
        parts += [_counted(warnings, "warning")] if warnings else []
        schedules = len({trial.schedule for trial in self.trials})
        text = (
            f"{', '.join(parts)} in {_counted(len(self.trials), 'run')} on "
            f"{_counted(schedules, 'schedule')} ({self.kernel}: {self.shape})"
        )
        if self.idle:
            text += (
                f"\nnote: never executed with these arguments: {self.source.name} "
                f"{'lines' if len(self.idle) > 1 else 'line'} {_ranges(self.idle)}; "
                f"what is not executed is not checked"
            )
        return text

    def as_dict(self) -> dict[str, object]:
        """Everything, for JSON."""
        return {
            "source": str(self.source),
            "launch": str(self.launch.path),
            "kernel": self.kernel,
            "runs": [str(trial) for trial in self.trials],
            "findings": [as_dict(found) for found in self.findings],
            "never_executed": list(self.idle),
            "summary": self.summary(),
        }


def check(source: Path, launch: LaunchFile) -> Checked:
    """Compile a kernel and run it on every schedule.

    Raises HopperError where nothing can be checked: CompileError, LaunchFileError, Unsupported.
    """
    program = compile_cuda(source, launch.kernel, defines=launch.defines, lineinfo=True)
    launch = _with_facts(launch, program)
    lines = SourceLines(program.ptx, source)
    findings = Findings(lines, [getattr(a, "array", "") for a in launch.arguments])
    _compiler_advisories(program, findings)
    trials = trials_of(launch, program)
    executed, first = numpy.zeros(len(parse(program.ptx, program.kernel).code), bool), {}
    complete = True
    for trial in trials:
        try:
            run, arrays = _run(program, launch, trial)
        except Unsupported as error:
            raise _in_source(error, lines) from error
        for hazard in run.hazards:
            findings.hazard(hazard, str(trial))
        executed |= run.executed > 0
        complete &= run.completed
        if run.completed:
            _compare(launch, trial, arrays, first, findings)
    _soften_skewed(findings, trials)
    # A run that stopped says nothing about the lines behind.
    idle = _idle(program, lines, executed) if complete else ()
    ordered = sorted(findings, key=lambda found: found.warning)
    return Checked(
        source,
        launch,
        program.kernel,
        _shape(launch, program),
        trials,
        tuple(ordered),
        idle,
        lines,
    )


def trials_of(launch: LaunchFile, program: Program) -> tuple[Trial, ...]:
    """Every run of a check: each schedule, each seed where there is chance, each skew."""
    # Where there is no dynamic shared memory, there is nothing to move.
    skews = launch.shared_skews if launch.shared_bytes else launch.shared_skews[:1]
    found = []
    for schedule in launch.schedules:
        warps, copies = schedule.split("/")
        seeds = launch.seeds if warps != "fixed" or copies == "random" else 1
        found += [Trial(warps, copies, seed, skew) for seed in range(seeds) for skew in skews]
    return tuple(found)


def _run(
    program: Program, launch: LaunchFile, trial: Trial
) -> tuple[Run, dict[str, numpy.ndarray]]:
    """One run, and the arrays as it left them."""
    arrays, args = launch.fresh()
    emulator = Emulator(
        trial.warps, trial.seed, trial.copies, trial.skew, launch.step_limit, "collect"
    )
    try:
        run = emulator.launch(
            program.ptx,
            program.kernel,
            launch.grid,
            launch.block,
            launch.cluster,
            launch.shared_bytes,
            args,
        )
    except LaunchError as error:
        raise LaunchFileError(f"{launch.path}: {error}") from error
    return run, arrays


def _in_source(error: Unsupported, lines: SourceLines) -> Unsupported:
    """The error with its place in the reader's file."""
    line = re.search(r"PTX line (\d+)", str(error))
    place = lines.split(int(line[1]))[0] if line else None
    return Unsupported(f"{place or lines.source}: unsupported: {error}")


def _with_facts(launch: LaunchFile, program: Program) -> LaunchFile:
    """The launch with what the kernel's launch facts say. Raises LaunchFileError."""
    facts = stated_facts(program.ptx)
    block, shared_bytes = launch.block, launch.shared_bytes
    if block is None:
        threads = facts.get("threads") or threads_directive(program.ptx, program.kernel)
        if not threads:
            raise LaunchFileError(_no_fact(launch, program, "block", "threads"))
        block = (threads, 1, 1)
    if shared_bytes is None:
        if "shared_bytes" not in facts:
            raise LaunchFileError(_no_fact(launch, program, "shared_bytes", "shared_bytes"))
        shared_bytes = facts["shared_bytes"]
    return replace(launch, block=block, shared_bytes=shared_bytes)


def _no_fact(launch: LaunchFile, program: Program, key: str, fact: str) -> str:
    return (
        f'{launch.path}: {key} = "{FROM_FACTS}": {program.source_name} states no {fact}; add '
        f"LAUNCH_FACT({fact}, …) from launch_facts.cuh, or write the number"
    )


def _compiler_advisories(program: Program, findings: Findings) -> None:
    """What ptxas repaired in silence: the hardware then gives right answers from wrong source."""
    for code, messages in advisories(program.log).items():
        for message in messages:
            line = re.search(r"around line (\d+)", message)
            finding = Finding(
                code,
                message,
                "a compiler that has something to say about wgmma changed what the source says",
                "correct the source until it has nothing to say",
                warning=True,
                ptx_lines=[int(line[1])] if line else [],
            )
            findings.add(finding, key=None if line else message)


def _compare(
    launch: LaunchFile,
    trial: Trial,
    arrays: Mapping[str, numpy.ndarray],
    first: dict[str, tuple[Trial, numpy.ndarray]],
    findings: Findings,
) -> None:
    """Compare arrays with what is expected, and the others with what the first run left."""
    for expected in launch.expected:
        wrong = expected.difference(arrays[expected.array])
        if wrong:
            rule = f"behind a run {expected.array} holds {expected.equals}"
            way_out = "compare the indices of the wrong elements with the kernel's tiles"
            finding = Finding("wrong-result", wrong, rule, way_out, place=_in(launch))
            findings.add(finding, str(trial), key=expected.array)
    named = {expected.array for expected in launch.expected}
    for name, array in arrays.items():
        before, other = first.setdefault(name, (trial, array))
        if name in named or array.tobytes() == other.tobytes():
            continue
        finding = Finding(
            "result-varies",
            f"{name} is not what {before} left in it",
            "a kernel is right only if every schedule agrees",
            "look for what depends on the order; sums by floating-point atomics may",
            warning=True,
            place=_in(launch),
        )
        findings.add(finding, str(trial), key=name)


def _in(launch: LaunchFile) -> Place:
    return Place(str(launch.path))


def _soften_skewed(findings: Findings, trials: Sequence[Trial]) -> None:
    """What shows only where shared memory starts later is a matter of portability."""
    skewed = {str(trial) for trial in trials if trial.skew}
    if len(skewed) == len(trials):
        return
    for found in findings:
        if found.runs and skewed.issuperset(found.runs):
            found.warning = True
            found.notes.append(
                "only where dynamic shared memory starts 16 bytes later: CUDA promises 16 bytes of "
                "alignment, today's hardware starts at 1024; round the address up in the kernel"
            )


def _idle(program: Program, lines: SourceLines, executed: numpy.ndarray) -> tuple[int, ...]:
    """Lines of the reader's file of which no instruction ran."""
    ran, there = set(), set()
    for x in parse(program.ptx, program.kernel).code:
        place = lines.split(x.line)[0]
        if place and place.file == str(lines.source):
            there.add(place.line)
            if executed[x.index]:
                ran.add(place.line)
    return tuple(sorted(there - ran))


def _shape(launch: LaunchFile, program: Program) -> str:
    blocks, threads = (int(numpy.prod(lengths)) for lengths in (launch.grid, launch.block))
    text = f"{_counted(blocks, 'block')} of {_counted(threads, 'thread')}"
    cluster = launch.cluster or parse(program.ptx, program.kernel).cluster
    if cluster and numpy.prod(cluster) > 1:
        text += f" in clusters of {int(numpy.prod(cluster))}"
    return text + (
        f", {launch.shared_bytes} bytes of dynamic shared memory" * bool(launch.shared_bytes)
    )


def _ranges(numbers: Sequence[int]) -> str:
    """ "3, 7–9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"
