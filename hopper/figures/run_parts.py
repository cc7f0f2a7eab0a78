"""The parts of a timeline: moments, lanes, what stands in a lane, and broken rules."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hopper.emulator.trace import Event


@dataclass(frozen=True)
class Span:
    """A lane's state from moment ``begin`` up to moment ``end``, which is not part of it.

    ``kind``: how it is drawn; ``texts``: what is written into it, longest first; ``words``: what it
    is; ``source``: the line of CUDA C++ that caused it, in words.
    """

    begin: int
    end: int
    kind: str
    texts: tuple[str, ...]
    words: str
    source: str = ""


@dataclass(frozen=True)
class Mark:
    """An instruction of a warp: ``letter`` stands in the drawing, ``words`` say what it is."""

    moment: int
    letter: str
    words: str
    source: str = ""


@dataclass(frozen=True)
class Lane:
    """A row. ``unit``: "warps", "tma", "tensor", "memory" or "mbarrier".

    ``states``: (moment, words): what is the case from that moment on.
    """

    label: str
    unit: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...] = ()
    states: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Moment:
    """``step``: steps that the machine had taken; ``words``: what happens, a sentence each."""

    step: int
    words: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True)
class Broken:
    """A broken rule, where it was found. ``more``: times that it was found at the same line.

    ``warning``: the hardware that was asked returned the right result all the same.
    """

    moment: int
    kind: str
    words: str
    source: str
    threads: str
    more: int = 0
    warning: bool = False

    @property
    def heading(self) -> str:
        """What it is, in a few words."""
        return f"✗ {'Warning' if self.warning else 'Rule broken'}, {self.kind}"


@dataclass(frozen=True)
class RunModel:
    """Everything that the figure shows, ready for JSON."""

    kernel: str
    steps: int
    moments: tuple[Moment, ...]
    lanes: tuple[Lane, ...]
    broken: tuple[Broken, ...] = ()
    dropped: int = 0

    def as_json(self) -> dict[str, object]:
        """Plain lists, strings and numbers."""
        return asdict(self)

    def of(self, unit: str) -> list[Lane]:
        """Lanes of a unit."""
        return [lane for lane in self.lanes if lane.unit == unit]


@dataclass(frozen=True)
class Timed:
    """An event and the number of its moment."""

    moment: int
    event: Event


def packed(spans: list[Span]) -> list[list[Span]]:
    """Spans in as few rows as hold them side by side, each in the first row with room."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda one: (one.begin, one.end)):
        row = next((row for row in rows if row[-1].end <= span.begin), None)
        if row is None:
            rows.append([span])
        else:
            row.append(span)
    return rows
