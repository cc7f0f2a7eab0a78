"""What became of every mutant, kept in ``results/emulator/mutants.json``, and why some survive.

The record names the emulator's sources and the kernels that it was made with, so that a page can
say when it is stale. ``equivalent_mutants.toml`` says of each survivor why it does no harm.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from hopper.compile import nvrtc_version
from hopper.emulator.mutation_subjects import Subject
from hopper.errors import RecordError
from hopper.records import results_dir

FORMAT = 1
#: What may become of a mutant; but for the last two, it was caught.
VERDICTS = (
    "hazard", "warning", "fault", "deadlock", "step limit", "refused", "wrong", "crash", "survived"
)  # fmt: skip
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant.

    ``mutant``: its name; ``line``: of the PTX; ``source``: of CUDA C++; ``text``: the instruction
    that was changed. ``verdict``: one of VERDICTS; ``hazard``: the kind of hazard, or empty;
    ``told``: the first line of the message. ``launches``: until it was caught.
    """

    mutant: str
    line: int
    source: str
    text: str
    verdict: str
    hazard: str
    told: str
    launches: int


@dataclass(frozen=True)
class Tried:
    """The mutants of one subject. ``ptx``: the hash of the kernel that was changed."""

    subject: str
    ptx: str
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> Counter[str]:
        """Mutants by verdict."""
        return Counter(one.verdict for one in self.outcomes)

    @property
    def survivors(self) -> list[Outcome]:
        """Those that nothing caught."""
        return [one for one in self.outcomes if one.verdict == "survived"]


@dataclass(frozen=True)
class Trials:
    """A run over subjects. ``emulator``: hash of its sources; ``nvrtc``: version."""

    emulator: str
    nvrtc: str
    tried: tuple[Tried, ...]


# ---- survivors that are explained ---------------------------------------------------------------


@dataclass(frozen=True)
class Equivalent:
    """Mutants that behave as the kernel does, and why.

    ``kernels``: names of subjects; ``mutants``: names of mutants; patterns both, as of files.
    """

    kernels: tuple[str, ...]
    mutants: tuple[str, ...]
    reason: str

    def explains(self, subject: str, mutant: str) -> bool:
        """Whether it speaks of a mutant."""
        here = any(fnmatchcase(subject, one) for one in self.kernels)
        return here and any(fnmatchcase(mutant, one) for one in self.mutants)


@dataclass(frozen=True)
class Unreached:
    """Instructions that no launch can reach: those of ``lines`` of CUDA C++ in ``kernels``."""

    kernels: tuple[str, ...]
    lines: tuple[str, ...]
    reason: str


def _entries(kind: type, name: str, path: Path) -> list:
    whole = tomllib.loads(path.read_text())
    try:
        return [
            kind(**{key: tuple(v) if isinstance(v, list) else v for key, v in one.items()})
            for one in whole.get(name, [])
        ]
    except TypeError as error:
        raise RecordError(f"{path.name}: [[{name}]] {error}") from error


def equivalents(path: Path = EQUIVALENT) -> list[Equivalent]:
    """The explanations of survivors. Raises RecordError for an entry of another form."""
    return _entries(Equivalent, "equivalent", path)


def unreached(path: Path = EQUIVALENT) -> list[Unreached]:
    """The explanations of instructions that are never executed; the same error."""
    return _entries(Unreached, "unreached", path)


def reason_for(subject: str, mutant: str, known: Iterable[Equivalent]) -> str:
    """Why a survivor does no harm; empty where nobody says it."""
    return next((one.reason for one in known if one.explains(subject, mutant)), "")


def open_questions(tried: Iterable[Tried], known: Iterable[Equivalent]) -> list[str]:
    """Survivors without a reason, and mutants that crash the emulator, one a line."""
    known, tried = list(known), list(tried)
    lines = [
        f"{subject.subject}: {one.mutant} survives, and nobody says why "
        f"({one.source or 'PTX line ' + str(one.line)}: {one.text})"
        for subject in tried
        for one in subject.survivors
        if not reason_for(subject.subject, one.mutant, known)
    ]
    lines += [
        f"{subject.subject}: {one.mutant} crashes the emulator: {one.told}"
        for subject in tried
        for one in subject.outcomes
        if one.verdict == "crash"
    ]
    return lines


def idle_reasons(tried: Iterable[Tried], known: Iterable[Equivalent]) -> list[str]:
    """Reasons that no survivor needs, one a line. ``tried``: all subjects."""
    left = [(subject.subject, one.mutant) for subject in tried for one in subject.survivors]
    return [
        f"{kernel}: no mutant {pattern!r} survives; take it out of {EQUIVALENT.name}"
        for one in known
        for kernel in one.kernels
        for pattern in one.mutants
        if not any(fnmatchcase(n, kernel) and fnmatchcase(m, pattern) for n, m in left)
    ]


# ---- the file -----------------------------------------------------------------------------------


def sources_hash() -> str:
    """SHA-256 of the emulator's source files."""
    sha = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def record_path() -> Path:
    """Where the record lies."""
    return results_dir() / "emulator" / "mutants.json"


def write(found: Trials, path: Path) -> None:
    """Write a record, a mutant a line."""
    subjects = []
    for one in found.tried:
        rows = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in one.outcomes)
        name = json.dumps(one.subject)
        subjects.append(f'{{"subject": {name}, "ptx": "{one.ptx}", "outcomes": [\n{rows}\n]}}')
    head = f'"format": {FORMAT}, "emulator": "{found.emulator}", "nvrtc": "{found.nvrtc}"'
    whole = ",\n".join(subjects)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{{head},\n"tried": [\n{whole}\n]}}\n', encoding="utf-8")


def load(path: Path | None = None) -> Trials:
    """The record. Raises RecordError where there is none, or it is no such record."""
    path = path or record_path()
    if not path.is_file():
        raise RecordError("no record of mutants; make mutants makes one")
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        if whole["format"] != FORMAT:
            raise ValueError(f"format {whole['format']}, not {FORMAT}")
        tried = tuple(
            Tried(one["subject"], one["ptx"], tuple(Outcome(**row) for row in one["outcomes"]))
            for one in whole["tried"]
        )
        odd = {row.verdict for one in tried for row in one.outcomes} - set(VERDICTS)
        if odd:
            raise ValueError(f"verdict {sorted(odd)[0]!r}")
        return Trials(whole["emulator"], whole["nvrtc"], tried)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(f"{path.name}: no record of mutants ({error}); make mutants") from error


def summary() -> str:
    """How many mutants were tried and caught, in words, or that there is no record."""
    try:
        found = load().tried
    except RecordError as error:
        return str(error)
    known = equivalents()
    count = sum(len(one.outcomes) for one in found)
    survivors = [(one.subject, mutant.mutant) for one in found for mutant in one.survivors]
    explained = sum(bool(reason_for(subject, name, known)) for subject, name in survivors)
    return (
        f"{count} mutants, {count - len(survivors)} caught; of the {len(survivors)} that survive, "
        f"{explained} have a reason"
    )


def state(subject: Subject, found: Trials) -> str:
    """Whether the record is of this kernel and this emulator: "fresh", or what changed since."""
    tried = {one.subject: one for one in found.tried}.get(subject.name)
    if tried is None:
        return "never tried"
    if found.nvrtc != nvrtc_version():
        return "made with another NVRTC than this build's"
    if tried.ptx != subject.compile().ptx_hash:
        return "stale: the kernel changed since"
    return "fresh" if found.emulator == sources_hash() else "stale: the emulator changed since"
