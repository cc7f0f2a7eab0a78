"""What a check found, each thing once over all runs, printed as a compiler prints its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hopper.emulator.hazards import KINDS, Hazard
from hopper.emulator.source_lines import Place, SourceLines

_ARGUMENT = re.compile(r"\bargument (\d+)")
_ENDLESS = ("deadlock", "never-ends")
_SHOWN_RUNS = 4
_SHOWN_NOTES = 8

_THREAD = re.compile(r"\s*\((block \([\d, ]+\), warp \d+, thread \d+)\)$")
_PARKED = re.compile(
    r"\s*(block \([\d, ]+\)) warp (\d+) \((\d+) threads\) at PTX line (\d+)(?: \([^)]*\))?(: .*)"
)

#: Where an instruction is, in lines of its own: a finding says it in the reader's words.
_WHERE = re.compile(r"  (PTX line \d+|CUDA source): ")


@dataclass
class Finding:
    """Something that was found. ``runs``: where; ``ptx_lines``: at which instructions.

    ``place``: in the reader's file, None where nothing says it; ``inside``: places in what is
    called there, innermost first; ``callers``: who calls the function of the place. ``notes``:
    lines that are printed below.
    """

    kind: str
    message: str
    rule: str
    help: str
    threads: str = ""
    warning: bool = False
    place: Place | None = None
    inside: tuple[Place, ...] = ()
    callers: tuple[Place, ...] = ()
    ptx_lines: list[int] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def severity(self) -> str:
        """ "error" or "warning"."""
        return "warning" if self.warning else "error"


class Findings:
    """Those of all runs: the same kind at the same place is one finding.

    ``arguments``: names of the kernel's arguments, in order, for messages that count them.
    """

    def __init__(self, lines: SourceLines, arguments: Sequence[str] = ()) -> None:
        self.lines, self.arguments = lines, arguments
        self._found: dict[tuple[str, object], Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def add(self, finding: Finding, run: str = "", key: object = None) -> None:
        """Note a finding of a run. ``key``: what it is the same by, its place if left out."""
        if finding.ptx_lines and finding.place is None:
            finding.place, finding.inside, finding.callers = self.lines.split(finding.ptx_lines[0])
        by = key or (finding.place and str(finding.place)) or tuple(finding.ptx_lines)
        known = self._found.setdefault((finding.kind, by), finding)
        if run and run not in known.runs:
            known.runs.append(run)
        known.ptx_lines += [line for line in finding.ptx_lines if line not in known.ptx_lines]

    def hazard(self, hazard: Hazard, run: str) -> None:
        """Note a hazard of a run."""
        kind = KINDS[hazard.kind]
        # The message ends with the rule and the help, which have lines of their own here.
        message = hazard.message.removesuffix(f"; {kind.rule}; {kind.help}")
        told, *more = message.splitlines()
        who, help_ = _THREAD.search(told), kind.help
        told = _THREAD.sub("", told).removeprefix(f"{hazard.kind}: ")
        told = _ARGUMENT.sub(self._named, told)
        if message == hazard.message and "; " in told:
            # What stops a run says itself what to do, and knows more.
            told, _, help_ = told.rpartition("; ")
        finding = Finding(
            hazard.kind,
            told,
            f"{kind.rule} ({kind.source})",
            help_,
            who[1] if who else hazard.threads,
            hazard.warning,
            ptx_lines=[hazard.ptx_line] if hazard.ptx_line else [],
            notes=self._parked([line for line in more if not _WHERE.match(line)]),
        )
        # Who waits, and where, differs from schedule to schedule.
        self.add(finding, run, key=hazard.kind if hazard.kind in _ENDLESS else None)

    def _named(self, found: re.Match) -> str:
        number = int(found[1])
        name = self.arguments[number] if number < len(self.arguments) else ""
        return f"{found[0]} ({name})" if name else found[0]

    def _parked(self, lines: list[str]) -> list[str]:
        """A report of parked warps with places in the reader's file; warps of a kind together."""
        groups: dict[tuple[str, str], list[str]] = {}
        others = []
        for line in lines:
            found = _PARKED.fullmatch(line)
            if not found:
                others.append(line.strip())
                continue
            block, warp, _, ptx_line, what = found.groups()
            place = self.lines.split(int(ptx_line))[0]
            where = str(place) if place else f"PTX line {ptx_line}"
            groups.setdefault((block, f"at {where}{what}"), []).append(warp)
        told = [
            f"{block} warp{'s' * (len(warps) > 1)} {', '.join(warps)} {what}"
            for (block, what), warps in groups.items()
        ]
        return told + others


def rendered(finding: Finding, lines: SourceLines, runs: int, *, brief: bool) -> str:
    """A finding as text; ``brief``: its first line only. ``runs``: of the whole check."""
    where = finding.place or lines.source
    head = f"{where}: {finding.severity}: {finding.kind}: {finding.message}"
    if brief:
        return head
    text = [head]
    if finding.place:
        text += _quoted(finding.place, lines.text(finding.place))
    text += [f"  rule: {finding.rule}"] if finding.rule else []
    text += [f"  help: {finding.help}"] if finding.help else []
    text += [f"  threads: {finding.threads}"] if finding.threads else []
    if finding.inside:
        text.append(f"  inside: {', '.join(map(str, finding.inside))}")
    if finding.callers:
        text.append(f"  called from: {', '.join(map(str, finding.callers))}")
    if finding.ptx_lines:
        first, *others = finding.ptx_lines
        more = f", and {len(others)} more of this line" if others else ""
        text.append(f"  ptx: line {first}{more}")
    notes = list(finding.notes[:_SHOWN_NOTES])
    if finding.notes[_SHOWN_NOTES:]:
        notes.append(f"… and {len(finding.notes) - _SHOWN_NOTES} more")
    text += [f"  note: {note}" for note in notes]
    if finding.runs:
        text.append(f"  schedules: {_told(finding.runs, runs)}")
    return "\n".join(text)


def as_dict(finding: Finding) -> dict[str, object]:
    """A finding for JSON."""
    place = finding.place
    return {
        "severity": finding.severity,
        "kind": finding.kind,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "message": finding.message,
        "rule": finding.rule,
        "help": finding.help,
        "threads": finding.threads,
        "inside": [str(inner) for inner in finding.inside],
        "called_from": [str(outer) for outer in finding.callers],
        "ptx_lines": finding.ptx_lines,
        "notes": finding.notes,
        "runs": finding.runs,
    }


def _quoted(place: Place, text: str) -> list[str]:
    """The line of source, and below it a caret where the instruction's expression begins."""
    if not text.strip():
        return []
    start = place.column - 1
    if not 0 <= start < len(text) or text[start].isspace():
        start = len(text) - len(text.lstrip())
    word = re.match(r"\w+|.", text[start:])
    # Tabs stay tabs, so that the caret stands below what it points at.
    pad = re.sub(r"[^\t]", " ", text[:start])
    number = f"{place.line:>6}"
    return [f"{number} | {text}", f"{' ' * len(number)} | {pad}^{'~' * (len(word[0]) - 1)}"]


def _told(runs: list[str], count: int) -> str:
    if len(runs) == count:
        return f"all {count} runs" if count > 1 else runs[0]
    shown = "; ".join(runs[:_SHOWN_RUNS])
    return shown + (f"; and {len(runs) - _SHOWN_RUNS} more runs" if runs[_SHOWN_RUNS:] else "")
