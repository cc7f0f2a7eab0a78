"""Record the book's measurements on a Hopper GPU, into one bundle.

    python -m hopper.recording --out FOLDER [--kernel NAME ...] [--parts PART ...] [--minutes N]
        [--experiment NAME ...] [--problem MxNxK ...]

Each kernel has parts: timing, tuning, counters (under ncu), experiments, chapter (executed as a
notebook) and, when asked for, mutants. A part is a process of its own with a time limit, so one
that fails or hangs costs its own entries only; it is named at the end, and the exit status is 1.
The bundle, ``FOLDER/<gpu>/<kernel>.json``, is written again after each part. On the machine that
has the git checkout, ``python -m hopper.records merge FOLDER`` installs it into results/.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hopper import notebooks
from hopper.backends import HopperGpu, find_hopper
from hopper.bench import PEER, checked_pair, inputs_on, interleaved, timed_entry
from hopper.compile import Program, advisories, compile_kernel, kernel_names, nvrtc_version
from hopper.counters import OPTIONS, profile
from hopper.errors import CheckError, HopperError, RecordError
from hopper.experiments import Experiment, experiments_of
from hopper.gemm import Problem
from hopper.mutants import Mutation, compile_mutation, mutations, try_on_hopper
from hopper.paths import RESULTS, ROOT
from hopper.plans import PLANS
from hopper.processes import environment, run_group
from hopper.provenance import collect, source
from hopper.records import (
    HEADLINE,
    Record,
    change_of,
    configuration,
    gpu_slug,
    identity_of,
    named_quantities,
    read_record,
    record_path,
    replaced,
    write_record,
)
from hopper.refusal import built
from hopper.schema import (
    Chapter,
    Counters,
    Entry,
    Mutants,
    Profile,
    Sweep,
    Tuning,
    TuningRow,
    parse_entry,
)

# Seconds that a part may take.
LIMITS = {
    "timing": 150,
    "tuning": 120,
    "counters": 150,
    "experiments": 240,
    "chapter": 240,
    "mutants": 400,
}
DEFAULT_PARTS = ("timing", "tuning", "counters", "experiments", "chapter")
LEAST_SECONDS = 15
# What a part keeps back of its time, to end its own subprocess before it is ended itself.
RESERVE_SECONDS = 10

_START = time.monotonic()


def say(text: str) -> None:
    """Print a line of progress with the seconds since the start."""
    print(f"[{time.monotonic() - _START:6.1f} s] {text}", flush=True)


# The parts. Each yields entries as they are done; each runs in a process of its own.


def each(make: Callable[[Any], Iterator[Entry]], items: Iterable[Any]) -> Iterator[Entry]:
    """``make(item)`` for every item, where one that fails does not cost the others theirs.

    Raises HopperError at the end, naming all that failed.
    """
    failed = []
    for item in items:
        try:
            yield from make(item)
        except HopperError as error:
            failed.append(f"{item}: {error}")
            say(f"  FAILED {failed[-1]}")
    if failed:
        raise HopperError("; ".join(failed))


def timing(kernel: str, seconds: float, only: Sequence[str] = ()) -> Iterator[Entry]:
    """The kernel as written, or for bf16, on every problem of its plan, or on those of ``only``.

    And straight behind it with overlapping launches, where the plan asks for that.
    """
    gpu, plan = find_hopper(), PLANS[kernel]

    def on(problem: Problem) -> Iterator[Entry]:
        arrays, program = inputs_on(gpu, problem), compile_kernel(kernel, **problem.defines)
        headline = replace(problem, dtype=HEADLINE.dtype) == HEADLINE
        for mode in ("burst", "sustained") if headline else ("burst",):
            yield timed_entry(gpu, program, problem, mode, own=False, arrays=arrays)
        if problem in plan.overlapping:
            program = compile_kernel(kernel, OVERLAP=1, **problem.defines)
            yield timed_entry(gpu, program, problem, "burst", own=False, arrays=arrays)

    yield from each(on, [one for one in plan.problems if not only or size_name(one) in only])


def size_name(problem: Problem) -> str:
    """A problem as the command line names it: ``MxNxK``, of whatever type its elements are."""
    return f"{problem.m}x{problem.n}x{problem.k}"


def tuning(kernel: str, seconds: float) -> Iterator[Entry]:
    """The table over configurations. A row that cannot be launched is kept with its reason."""
    if not PLANS[kernel].configurations:
        return
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    rows = []
    for defines in PLANS[kernel].configurations:
        rows.append(tuning_row(gpu, kernel, defines, arrays))
        say(f"  {configuration(defines)}: {rows[-1].reason or rows[-1].status}")
    program = compile_kernel(kernel)
    data = Tuning(HEADLINE, PEER, tuple(rows))
    yield Entry(kernel, "tuning", identity_of(program), collect(gpu, program.nvrtc), data)


def tuning_row(gpu: HopperGpu, kernel: str, defines: dict[str, int], arrays) -> TuningRow:
    """One configuration, timed, or refused because it does not compile or is not clean."""
    program, reason = compiled_or_refused(kernel, defines)
    identity = identity_of(program) if program else None
    registers = program.resources.registers if program else None
    if reason:
        return TuningRow(defines, identity, registers, "refused", reason, 0, (), (), None)
    try:
        pair = checked_pair(program, *arrays)
    except CheckError as error:
        wrong = f"its result is wrong: {error}"
        return TuningRow(defines, identity, registers, "refused", wrong, 0, (), (), None)
    timed = interleaved(gpu, pair.run, pair.peer)
    return TuningRow(
        defines,
        identity,
        registers,
        "timed",
        None,
        timed.launches_per_sample,
        timed.samples_ms,
        timed.peer_samples_ms,
        pair.check,
    )


def compiled_or_refused(kernel: str, defines: dict[str, int]) -> tuple[Program | None, str | None]:
    """The program, and why it must not be launched; no program where it does not compile."""
    return built(partial(compile_kernel, kernel, **defines))


def counters(kernel: str, seconds: float) -> Iterator[Entry]:
    """Hardware counters of the kernel as written and of cuBLAS's, on the headline problem."""
    if HEADLINE not in PLANS[kernel].problems:
        return
    command = [sys.executable, "-m", "hopper.recording", "launch", kernel]
    found = profile(command, timeout=seconds, environment=environment())
    own, peer = split_profiles(kernel, found.profiles)
    data = Counters(HEADLINE, found.tool, OPTIONS, own, peer, found.unavailable)
    if peer is None:
        say("  ncu saw no kernel of cuBLAS")
    program = compile_kernel(kernel)
    provenance = collect(find_hopper(), program.nvrtc)
    yield Entry(kernel, "counters", identity_of(program), provenance, data)


def split_profiles(kernel: str, profiles: Sequence[Profile]) -> tuple[Profile, Profile | None]:
    """The kernel's profile, and the longest of the others, which is cuBLAS's product."""
    named = re.compile(rf"{re.escape(kernel)}\b")
    own = [one for one in profiles if named.match(one.kernel)]
    rest = [one for one in profiles if not named.match(one.kernel)]
    if not own:
        seen = ", ".join(one.kernel for one in profiles)
        raise HopperError(f"ncu profiled {seen}, and not {kernel}: was it launched?")

    def duration(one: Profile) -> float:
        metric = one.metrics.get("gpu__time_duration.sum")
        return metric.value if metric else 0.0

    return own[0], max(rest, key=duration, default=None)


def launch(kernel: str) -> None:
    """Launch the kernel and cuBLAS once each between cudaProfilerStart and Stop, for ncu."""
    import cupy

    gpu, program = find_hopper(), compile_kernel(kernel)
    pair = checked_pair(program, *inputs_on(gpu, HEADLINE))
    gpu.synchronize()
    cupy.cuda.runtime.profilerStart()
    pair.run()
    pair.peer()
    gpu.synchronize()
    cupy.cuda.runtime.profilerStop()


def experiments(kernel: str, seconds: float, only: Sequence[str] = ()) -> Iterator[Entry]:
    """The kernel's experiments, each a sweep or a probe; those of ``only`` where it names some."""
    gpu, program = find_hopper(), compile_kernel(kernel)

    def of(one: Experiment) -> Iterator[Entry]:
        say(f"  {one.name}")
        data = one.run(gpu, program)
        if data.name != one.name:
            raise HopperError(f"{one.name}: its data is named {data.name!r}; name both alike")
        provenance = collect(gpu, program.nvrtc)
        kind = "sweep" if isinstance(data, Sweep) else "probe"
        yield Entry(kernel, kind, identity_of(program), provenance, data)

    yield from each(of, [one for one in experiments_of(kernel) if not only or one.name in only])


def chapter(kernel: str, seconds: float) -> Iterator[Entry]:
    """Every chapter whose run this kernel's record holds, executed live."""
    yield from each(lambda slug: chapter_entries(kernel, slug), notebooks.chapter_slugs())


def chapter_entries(kernel: str, slug: str) -> Iterator[Entry]:
    """The live execution of one chapter, if its run belongs into this kernel's record."""
    cells = notebooks.code_cells(slug)
    named = notebooks.kernels_named(cells)
    if not named or notebooks.main_kernel(slug, named) != kernel:
        return
    say(f"  chapters/{slug}.md, {len(cells)} code cells")
    # Before it runs: what a chapter may write beside itself is no change of the source.
    provenance = collect(find_hopper(), nvrtc_version())
    outputs, count, took = notebooks.execute(slug)
    identities = {name: identity_of(compile_kernel(name)) for name in named}
    code = notebooks.code_sha256(cells)
    data = Chapter(slug, code, identities, count, round(took, 1), tuple(outputs))
    yield Entry(kernel, "chapter", identities[kernel], provenance, data)


def mutants(kernel: str, seconds: float) -> Iterator[Entry]:
    """Every deliberate break of the kernel: what the hardware returned, and how often."""
    yield from each(mutant_entries, mutations(kernel))


def mutant_entries(mutation: Mutation) -> Iterator[Entry]:
    """One break: what the compiler said, and what came back. The identity is the sound kernel's."""
    messages = [
        f"{code}: {line}"
        for code, lines in advisories(compile_mutation(mutation).log).items()
        for line in dict.fromkeys(lines)
    ]
    try:
        trials = try_on_hopper(mutation)
    except subprocess.TimeoutExpired as error:
        raise HopperError(f"not done within {error.timeout:.0f} s") from error
    data = Mutants(mutation.name, change_of(mutation), tuple(messages), trials)
    identity = identity_of(compile_kernel(mutation.kernel))
    provenance = collect(find_hopper(), nvrtc_version())
    yield Entry(mutation.kernel, "mutants", identity, provenance, data)


PARTS: dict[str, Callable[..., Iterator[Entry]]] = {
    "timing": timing,
    "tuning": tuning,
    "counters": counters,
    "experiments": experiments,
    "chapter": chapter,
    "mutants": mutants,
}


# One part in its process: entries go to a file, which is written again after each.


def run_part(part: str, kernel: str, path: Path, seconds: float, only: Sequence[str] = ()) -> None:
    """Do a part here, and keep its entries in ``path`` as they come."""
    entries: list[Entry] = []
    make = partial(PARTS[part], only=only) if only else PARTS[part]
    for entry in make(kernel, seconds):
        entries.append(entry)
        say(f"  {describe(entry)}")
        write_entries(entries, path)


def write_entries(entries: Iterable[Entry], path: Path) -> None:
    """Keep entries between processes, as JSON."""
    path.write_text(json.dumps([entry.as_json() for entry in entries]))


def read_entries(kernel: str, path: Path) -> list[Entry]:
    """What ``write_entries`` wrote, read strictly; empty when the part got nowhere."""
    if not path.is_file():
        return []
    values = json.loads(path.read_text())
    return [parse_entry(value, kernel, f"entry {number}") for number, value in enumerate(values)]


def describe(entry: Entry) -> str:
    """A line about an entry, for whoever watches."""
    named = {name: found for name, (found, _) in named_quantities([entry]).items()}
    ends = ("tflops", "ratio", "tensor_pipe", "seconds", "wrong", "hung")
    shown = [
        f"{name} {found.value:.4g} {found.unit}".strip()
        for name, found in named.items()
        if name.endswith(ends)
    ]
    return f"{entry.kind}: {'; '.join(shown[:12]) or 'done'}"


# The whole recording.


@dataclass
class Bundle:
    """One recording: where it goes, how long it may take, what failed.

    ``only``: part → what of it is recorded, where that is not all.
    """

    out: Path
    gpu: str
    deadline: float
    failures: list[str]
    only: Mapping[str, Sequence[str]]

    def record(self, kernel: str, parts: Iterable[str]) -> None:
        """Record the parts of one kernel, and write its file of the bundle after each."""
        entries: list[Entry] = []
        for part in parts:
            found = self.part(part, kernel, entries)
            if not found:
                continue
            entries = [*entries, *found]
            path = record_path(kernel, gpu_slug(self.gpu), self.out)
            write_record(Record(kernel, self.gpu, tuple(entries)), path)

    def part(self, part: str, kernel: str, so_far: list[Entry]) -> list[Entry]:
        """Run a part in a process of its own; returns what it brought, even when it failed."""
        seconds = min(LIMITS[part], self.deadline - time.monotonic())
        if seconds < LEAST_SECONDS:
            self.failures.append(f"{kernel} {part}: no time left")
            return []
        say(f"{kernel} {part} (at most {seconds:.0f} s)")
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results"
            self.results_with(kernel, so_far, results)
            path = Path(folder) / "entries.json"
            try:
                only = self.only.get(part, ())
                status = start_part(part, kernel, path, seconds, results, only)
                if status:
                    self.failures.append(f"{kernel} {part}: exit status {status}, see above")
            except subprocess.TimeoutExpired:
                self.failures.append(f"{kernel} {part}: not done within {seconds:.0f} s")
            try:
                found = read_entries(kernel, path)
            except (RecordError, ValueError) as error:
                self.failures.append(f"{kernel} {part}: {error}")
                return []
        return found

    def results_with(self, kernel: str, so_far: list[Entry], root: Path) -> None:
        """Recordings as they will be, for a chapter that shows them: results/ and this bundle."""
        if RESULTS.is_dir():
            shutil.copytree(RESULTS, root)
        path = record_path(kernel, gpu_slug(self.gpu), root)
        old: tuple[Entry, ...] = ()
        with suppress(RecordError):  # a missing or broken old record is what this one replaces
            old = read_record(path).entries
        if so_far:
            write_record(Record(kernel, self.gpu, replaced(old, so_far)), path)


def start_part(
    part: str, kernel: str, path: Path, seconds: float, results: Path, only: Sequence[str] = ()
) -> int:
    """Start ``run_part`` in a process of its own and wait; returns its exit status."""
    command = [sys.executable, "-m", "hopper.recording", "part", part, kernel, str(path)]
    command += [str(seconds - RESERVE_SECONDS), *only]
    return run_group(
        command,
        timeout=seconds,
        environment=environment(HOPPER_RESULTS=str(results)),
        capture=False,
    ).returncode


def pinned_nvrtc() -> str | None:
    """The NVRTC that requirements.txt pins, with which freshness is decided elsewhere."""
    path = ROOT / "requirements.txt"
    found = path.is_file() and re.search(
        r"^nvidia-cuda-nvrtc==([\d.]+)", path.read_text(), re.MULTILINE
    )
    return found[1] if found else None


def refuse_unknown(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    """Raise RecordError for the first name that is not among the known ones."""
    known = list(dict.fromkeys(known))
    if unknown := [name for name in names if name not in known]:
        raise RecordError(
            f"{what} {unknown[0]!r}: these kernels have {', '.join(known) or 'none'}; "
            f"name one of them"
        )


def record(
    out: Path,
    kernels: list[str],
    parts: list[str],
    minutes: float,
    *,
    only_experiments: Sequence[str] = (),
    only_problems: Sequence[str] = (),
) -> int:
    """Record ``parts`` of ``kernels`` into ``out``. Returns the exit status.

    ``only_experiments``, ``only_problems``: which experiments are run, and which problems (MxNxK)
    are timed, where not all. Raises RecordError for a changed tree or for one that none of the
    kernels has, and NoHopper without a GPU, before anything runs.
    """
    plans = [PLANS[kernel] for kernel in kernels if kernel in PLANS]
    problems = (size_name(one) for plan in plans for one in plan.problems)
    refuse_unknown("problem", only_problems, problems)
    names = (one.name for kernel in kernels for one in experiments_of(kernel))
    refuse_unknown("experiment", only_experiments, sorted(names))
    commit = source().commit
    out.mkdir(parents=True, exist_ok=True)
    gpu = find_hopper()
    say(f"commit {commit[:10]} on {gpu.gpu}, {gpu.sm_count} SMs, NVRTC {nvrtc_version()}")
    only = {"experiments": only_experiments, "timing": only_problems}
    bundle = Bundle(out, gpu.gpu, time.monotonic() + 60 * minutes, [], only)
    if pinned_nvrtc() not in (None, nvrtc_version()):
        bundle.failures.append(
            f"NVRTC here is {nvrtc_version()} and requirements.txt pins {pinned_nvrtc()}: the "
            f"recording will read 'other compiler' wherever the pinned one is used"
        )
    for kernel in kernels:
        if kernel not in PLANS:
            bundle.failures.append(f"{kernel}: no plan in hopper.recording.PLANS")
            continue
        bundle.record(kernel, parts)
    for failure in bundle.failures:
        say(f"FAILED {failure}")
    say(f"bundle in {out}")
    return 1 if bundle.failures else 0


def main(arguments: list[str]) -> int:
    """The command line. ``part`` and ``launch`` are what the recorder starts itself."""
    try:
        match arguments:
            case ["part", part, kernel, path, seconds, *only]:
                run_part(part, kernel, Path(path), float(seconds), only)
                return 0
            case ["launch", kernel]:
                launch(kernel)
                return 0
        parser = argparse.ArgumentParser(prog="python -m hopper.recording")
        parser.add_argument("--out", type=Path, required=True, help="folder of the bundle")
        parser.add_argument("--kernel", nargs="+", choices=kernel_names(), default=kernel_names())
        parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=DEFAULT_PARTS)
        parser.add_argument("--minutes", type=float, default=9, help="time limit of the whole")
        parser.add_argument("--experiment", nargs="+", default=(), help="these only, not all")
        parser.add_argument(
            "--problem", nargs="+", default=(), metavar="MxNxK", help="timings of these only"
        )
        given = parser.parse_args(arguments)
        return record(
            given.out,
            given.kernel,
            list(given.parts),
            given.minutes,
            only_experiments=given.experiment,
            only_problems=given.problem,
        )
    except HopperError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
