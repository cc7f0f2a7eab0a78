"""Looking over all records, and installing new ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hopper import notebooks
from hopper.compile import kernel_names
from hopper.conformance import cases
from hopper.conformance.record import (
    answers_path,
    read_answers,
    units_with_cases,
    write_answers,
)
from hopper.conformance.record import load as load_answers
from hopper.conformance.record import state as answer_state
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Trials, trials_path
from hopper.emulator.hazard_trials import load as load_trials
from hopper.emulator.hazard_trials import state as trial_state
from hopper.errors import RecordError
from hopper.records.fresh import freshness, merged
from hopper.records.sealed import read_sealed, write_sealed
from hopper.records.store import (
    AGAIN,
    GPU,
    HEADLINE,
    Record,
    gpu_slug,
    load,
    read_record,
    record_path,
    results_dir,
    size_of,
    write_record,
)
from hopper.schema import Chapter, Entry, Probe, Sweep, Timing

T = TypeVar("T")


def merge(folder: Path) -> list[Path]:
    """Install a bundle, ``folder/<gpu>/<kernel>.json``, into results/. Returns what was written.

    Raises RecordError, before anything is written, when a file is no sound recording, was made
    from a changed tree, or when there is none.
    """
    found = sorted(folder.glob("*/*.json"))
    answered = sorted(folder.glob("*/conformance/*.json"))
    tried = sorted(folder.glob("*/hazards/trials.json"))
    if not found and not answered and not tried:
        raise RecordError(f"{folder}: no bundle (nothing like {GPU}/kernel.json in it)")
    bundle = [read_record(path) for path in found]
    answers = [_clean(path, read_answers(path)) for path in answered]
    trials = [_clean(path, read_sealed(path, Trials)) for path in tried]
    for path, record in zip(found, bundle, strict=True):
        for entry in record.entries:
            if not entry.provenance.clean:
                raise RecordError(
                    f"{path}: {entry.kind} was made from a changed tree; commit, then {AGAIN}"
                )
    written = []
    for record in bundle:
        path = record_path(record.kernel, gpu_slug(record.gpu))
        old = read_record(path).entries if path.is_file() else ()
        write_record(Record(record.kernel, record.gpu, merged(old, record.entries)), path)
        written.append(path)
    for one in answers:
        path = answers_path(one.unit, gpu_slug(one.provenance.gpu))
        write_answers(one, path)
        written.append(path)
    for one in trials:
        path = trials_path(gpu_slug(one.provenance.gpu))
        write_sealed(path, one, "trials")
        written.append(path)
    return written


def _clean(path: Path, found: T) -> T:
    if not found.provenance.clean:
        raise RecordError(f"{path}: made from a changed tree; commit, then {AGAIN}")
    return found


@dataclass(frozen=True)
class Finding:
    """One line of ``check_records``: what was looked at, and its state; ``ok`` passes."""

    what: str
    state: str
    date: str
    ok: bool


def check_records(gpu: str = GPU) -> list[Finding]:
    """Look at every record: is it there, intact and fresh? Compiles what was recorded."""
    findings = []
    for kernel in kernel_names():
        findings += _check_kernel(kernel, gpu)
    for path in sorted((results_dir() / gpu).glob("*.json")):
        if path.stem not in kernel_names():
            findings.append(Finding(path.name, "no such kernel: remove the file", "", False))
    for slug in notebooks.chapter_slugs():
        findings += _check_chapter(slug, gpu)
    return findings + check_emulator(gpu)


def check_emulator(gpu: str = GPU) -> list[Finding]:
    """What a GPU answered to the emulator's cases, and how it took kernels that break a rule."""
    return [*(_check_answers(unit, gpu) for unit in units_with_cases()), _check_trials(gpu)]


def _check_trials(gpu: str) -> Finding:
    """One line for all hazard kernels."""
    try:
        recorded = load_trials(gpu)
    except RecordError as error:
        return Finding("hazard kernels", str(error), "", False)
    states = {kernel.name: trial_state(kernel, recorded) for kernel in HAZARD_KERNELS}
    odd = [f"{name} is {found}" for name, found in states.items() if found != "fresh"]
    told = "; ".join(odd[:3]) or f"fresh: {len(states)} kernels"
    return Finding("hazard kernels", told, recorded.provenance.date[:10], not odd)


def _check_answers(unit: str, gpu: str) -> Finding:
    """One line for all cases of a unit: how many are fresh, and which is not."""
    try:
        recorded = load_answers(unit, gpu)
    except RecordError as error:
        return Finding(f"conformance {unit}", str(error), "", False)
    states = {case.name: answer_state(case, recorded) for case in cases(unit)}
    odd = [f"{name} is {found}" for name, found in states.items() if found != "fresh"]
    gone = [f"{name} is no case" for name in recorded.answers if name not in states]
    told = "; ".join([*odd, *gone][:3]) or f"fresh: {len(states)} cases"
    date = recorded.provenance.date[:10]
    return Finding(f"conformance {unit}", told, date, not odd and not gone)


def _check_kernel(kernel: str, gpu: str) -> list[Finding]:
    try:
        record = load(kernel, gpu)
    except RecordError as error:
        return [Finding(kernel, str(error), "", False)]
    findings = []
    for entry in record.entries:
        state = freshness(entry)
        clean = "" if entry.provenance.clean else ", made from a changed tree"
        ok = state == "fresh" and entry.provenance.clean
        findings.append(Finding(_title(entry), state + clean, entry.provenance.date[:10], ok))
    return findings + [
        Finding(kernel, f"{missing}; {AGAIN}", "", False) for missing in _missing(record)
    ]


def _missing(record: Record) -> list[str]:
    """What the kernel's plan asks for and its record lacks, in words."""
    # Both speak about records, so they are loaded after this package.
    from hopper.experiments import experiments_of
    from hopper.plans import PLANS

    if record.kernel not in PLANS:
        return ["no plan in hopper/plans.py says what to record"]
    lacking = []
    timed = any(_is_headline(entry) for entry in record.entries)
    if HEADLINE in PLANS[record.kernel].problems and not timed:
        lacking.append(f"no burst timing at {size_of(HEADLINE)} as written")
    done = {e.data.name for e in record.entries if isinstance(e.data, (Sweep, Probe))}
    for one in experiments_of(record.kernel):
        if one.name not in done:
            lacking.append(f"no experiment {one.name!r}")
    return lacking


def _is_headline(entry: Entry) -> bool:
    data = entry.data
    return (
        isinstance(data, Timing)
        and (data.problem, data.mode) == (HEADLINE, "burst")
        and not entry.identity.defines
    )


def _check_chapter(slug: str, gpu: str) -> list[Finding]:
    kernels = notebooks.kernels_named(notebooks.code_cells(slug))
    if not kernels:
        return []
    try:
        entries = load(notebooks.main_kernel(slug, kernels), gpu).entries
    except RecordError:
        entries = ()  # reported with its kernel
    if any(isinstance(e.data, Chapter) and e.data.slug == slug for e in entries):
        return []  # its state was reported with its kernel
    return [Finding(f"chapter {slug}", f"no live execution; {AGAIN}", "", False)]


def _title(entry: Entry) -> str:
    data = entry.data
    parts = [entry.kernel, entry.kind]
    if hasattr(data, "problem"):
        parts.append(size_of(data.problem))
    parts += [getattr(data, name) for name in ("mode", "name", "slug") if hasattr(data, name)]
    parts += [f"{name}={value}" for name, value in entry.identity.defines.items()]
    return " ".join(parts)
