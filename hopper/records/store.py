"""Record files: where they lie, their seal, reading and writing them, bundles."""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hopper.errors import RecordError
from hopper.gemm import Problem
from hopper.paths import RESULTS, cache_dir
from hopper.schema import Entry, Timing, Tuning, parse_entry

FORMAT = 1
GPU = "nvidia-h200"
# The problem that the ladder is compared at.
HEADLINE = Problem(8192, 8192, 8192)
AGAIN = "record it with make record OUT=folder on a Hopper GPU"
RESTORE = f"take results/ from git again, or {AGAIN}"


class NoRecording(RecordError):
    """This variant was never recorded, or it changed since: a gap, where others are faults."""


@dataclass(frozen=True)
class Record:
    """Everything recorded of one kernel on one GPU model."""

    kernel: str
    gpu: str
    entries: tuple[Entry, ...]


def results_dir() -> Path:
    """Where recordings are read from: results/, or ``$HOPPER_RESULTS``.

    The recorder points the variable at the bundle it is making, so that a chapter executed there
    already shows the timings beside it.
    """
    return Path(os.environ.get("HOPPER_RESULTS") or RESULTS)


def gpu_slug(name: str) -> str:
    """'NVIDIA H200' → 'nvidia-h200', the folder of its records."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def record_path(kernel: str, gpu: str = GPU, root: Path | None = None) -> Path:
    """The file of a kernel's recordings on a GPU model (a slug such as 'nvidia-h200')."""
    return (root or results_dir()) / gpu / f"{kernel}.json"


def load(kernel: str, gpu: str = GPU) -> Record:
    """The recordings of a kernel. Raises NoRecording without a file, RecordError on a bad one."""
    path = record_path(kernel, gpu)
    if not path.is_file():
        raise NoRecording(
            f"{kernel} was never recorded on {gpu} (no {gpu}/{kernel}.json in results); {AGAIN}"
        )
    return read_record(path)


def read_record(path: Path) -> Record:
    """Read one file strictly. Raises RecordError when it is truncated, altered or ill-formed."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: the record cannot be read ({error}); {RESTORE}") from error
    return parse_record(text, path)


def parse_record(text: str, path: Path) -> Record:
    """The record in ``text``, which lies or will lie at ``path``. Raises RecordError."""
    try:
        whole = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{path}: truncated or not JSON ({error}); {RESTORE}") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise RecordError(f"{path}: not a record of format {FORMAT}; {RESTORE}")
    expected = {"format", "kernel", "gpu", "seal", "entries"}
    if set(whole) != expected:
        odd = ", ".join(sorted(set(whole) ^ expected))
        raise RecordError(f"{path}: missing or unknown field: {odd}; {RESTORE}")
    if whole["seal"] != seal(whole):
        raise RecordError(
            f"{path}: altered since it was recorded (its seal does not match); {RESTORE}"
        )
    kernel, gpu, entries = whole["kernel"], whole["gpu"], whole["entries"]
    if kernel != path.stem or not isinstance(gpu, str) or gpu_slug(gpu) != path.parent.name:
        raise RecordError(f"{path}: holds {kernel} on {gpu}, which belongs elsewhere; {RESTORE}")
    if not isinstance(entries, list):
        raise RecordError(f"{path}: entries must be a list; {RESTORE}")
    parsed = tuple(
        parse_entry(entry, kernel, f"{path}: entry {number}")
        for number, entry in enumerate(entries)
    )
    for number, entry in enumerate(parsed):
        if entry.provenance.gpu != gpu:
            raise RecordError(
                f"{path}: entry {number} was measured on {entry.provenance.gpu}, the file is of "
                f"{gpu}; {RESTORE}"
            )
    _refuse_doubles(parsed, path)
    return Record(kernel, gpu, parsed)


def _refuse_doubles(entries: Iterable[Entry], path: Path) -> None:
    seen = set()
    for number, entry in enumerate(entries):
        if entry.key in seen:
            raise RecordError(f"{path}: entry {number} ({entry.kind}) is there twice; {RESTORE}")
        seen.add(entry.key)


def seal(whole: dict) -> str:
    """SHA-256 of a record file's content without its seal, as canonical JSON."""
    rest = {key: value for key, value in whole.items() if key != "seal"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_record(record: Record, path: Path) -> None:
    """Seal and write a record, an entry a line, once it is known to read back as it should."""
    whole = {"format": FORMAT, "kernel": record.kernel, "gpu": record.gpu}
    # Through JSON and back, so that the seal is taken over what a reader will see.
    whole["entries"] = json.loads(json.dumps([e.as_json() for e in record.entries]))
    head = {**whole, "seal": seal(whole)}
    entries = head.pop("entries")
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    rows = ",\n".join(json.dumps(entry, sort_keys=True) for entry in entries)
    text = "{\n" + ",\n".join([*lines, f'"entries": [\n{rows}\n]']) + "\n}\n"
    parse_record(text, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".writing")
    temporary.write_text(text)
    os.replace(temporary, path)


def recorded_list(record: Record) -> str:
    """The recorded timings in words, for an error that must say what there is instead."""
    found = []
    for entry in record.entries:
        data = entry.data
        if isinstance(data, Timing):
            shown = configuration(entry.identity.defines)
            found.append(f"{shown} at {size_of(data.problem)}, {data.mode}")
        elif isinstance(data, Tuning):
            timed = [row for row in data.rows if row.status == "timed"]
            found += [
                f"{configuration(row.defines)} at {size_of(data.problem)}, burst" for row in timed
            ]
    return "; ".join(dict.fromkeys(found)) or "nothing"


def configuration(defines: dict[str, int | str]) -> str:
    """A configuration in words: its ``-D`` names."""
    return " ".join(f"{name}={value}" for name, value in defines.items()) or "as written"


def size_of(problem: Problem) -> str:
    """A problem's size in words."""
    return f"{problem.m}×{problem.n}×{problem.k}"


def find(
    kind: str,
    kernel: str,
    *,
    gpu: str = GPU,
    problem: Problem | None = None,
    mode: str | None = None,
) -> list[Entry]:
    """The entries of a kind, narrowed by problem and mode where given; empty without any."""
    return [
        entry
        for entry in load(kernel, gpu).entries
        if entry.kind == kind
        and (problem is None or getattr(entry.data, "problem", None) == problem)
        and (mode is None or getattr(entry.data, "mode", None) == mode)
    ]


def own_dir() -> Path:
    """The folder of the reader's own measurements, in their cache. Raises CacheError."""
    return cache_dir() / "results"


def save_own(entry: Entry) -> Path:
    """Keep a reader's own measurement in their cache folder; results/ is never written."""
    path = record_path(entry.kernel, gpu_slug(entry.provenance.gpu), own_dir())
    try:
        old = read_record(path).entries if path.is_file() else ()
    except RecordError:
        old = ()  # a reader's own file of an older book: their next run starts it anew
    kept = tuple(e for e in old if e.key != entry.key)
    write_record(Record(entry.kernel, entry.provenance.gpu, (*kept, entry)), path)
    return path
