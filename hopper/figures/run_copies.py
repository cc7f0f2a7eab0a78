"""Lanes of TMA and of shared memory: copies under way, and what becomes of the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .run_names import Names
from .run_parts import Lane, Span, Timed, packed
from .run_tensor import groups


@dataclass(frozen=True)
class Copy:
    """A copy of TMA. ``read``, ``end``: moments at which its source was read, and it was done.

    ``writes``, ``reads``: shared memory as (block, address, bytes), None where it is global.
    """

    begin: int
    read: int
    end: int
    block: int
    writes: tuple[int, int, int] | None
    reads: tuple[int, int, int] | None
    corner: tuple[int, ...] | None
    bytes: int
    line: int
    landed: bool


def copies(timed: Sequence[Timed], end: int) -> list[Copy]:
    """Every copy in the trace, in the order of issue; one that never lands ends at ``end``."""
    done = {t.event.detail["copy"]: t.moment for t in timed if t.event.kind == "tma.complete"}
    read = {t.event.detail["copy"]: t.moment for t in timed if t.event.kind == "tma.read"}
    found, corner = [], None
    for t in timed:
        event = t.event
        if event.kind == "tma.issue":
            corner = event.detail.get("corner")
        if event.kind == "tma.copy":
            detail, number = event.detail, event.detail["copy"]
            finish = done.get(number, end)
            found.append(
                Copy(
                    t.moment,
                    read.get(number, finish),
                    finish,
                    event.block,
                    detail.get("writes"),
                    detail.get("reads"),
                    corner,
                    detail["bytes"],
                    event.line,
                    number in done,
                )
            )
    return found


def copy_lanes(
    timed: Sequence[Timed], end: int, block: int, known: Names, prefix: str
) -> list[Lane]:
    """TMA's copies that a block asked for, each from issue to landing; a row for each at a time."""
    spans = []
    for copy in copies(timed, end):
        if copy.block != block:
            continue
        place = known.memory(*(copy.writes or copy.reads)[1:])
        box = f", box at {copy.corner}" if copy.corner else ""
        way = f"into {place}" if copy.writes else f"out of {place}"
        words = f"TMA copies {copy.bytes:,} bytes {way}{box}"
        words += ": from the asking to the landing" if copy.landed else ": it never lands"
        arrow = "→ " if copy.writes else "← "
        spans.append(
            Span(
                copy.begin, copy.end, "copy", (arrow + place, arrow), words, known.source(copy.line)
            )
        )
    return [
        Lane(f"{prefix}TMA" + (f" · {row + 1}" if row else ""), "tma", tuple(row_spans))
        for row, row_spans in enumerate(packed(spans))
    ]


def memory_lanes(
    timed: Sequence[Timed], end: int, block: int, per_block: int, known: Names, prefix: str
) -> list[Lane]:
    """Shared memory that copies touch: being written, full, being read, or both at once."""
    every = copies(timed, end)
    regions: dict[int, int] = {}
    for copy in every:
        for touched in (copy.writes, copy.reads):
            if touched and touched[0] == block:
                regions[touched[1]] = max(regions.get(touched[1], 0), touched[2])
    lanes = []
    for address, size in sorted(regions.items()):
        writes = [
            (c.begin, c.end, known.source(c.line))
            for c in every
            if c.writes and c.writes[0] == block and _meet(c.writes, address, size)
        ]
        reads = [
            (c.begin, c.read, known.source(c.line), "TMA")
            for c in every
            if c.reads and c.reads[0] == block and _meet(c.reads, address, size)
        ]
        reads += [
            (g.begin, g.end, known.source(g.line), g.reader)
            for g in groups(timed, end, block, per_block)
            if any(low < address + size and address < high for low, high in g.reads)
        ]
        spans = _states(writes, reads, end)
        name = known.memory(address, size)
        lanes.append(Lane(prefix + name, "memory", tuple(spans)))
    return lanes


def _meet(touched: tuple[int, int, int], address: int, size: int) -> bool:
    return touched[1] < address + size and address < touched[1] + touched[2]


def _states(
    writes: list[tuple[int, int, str]], reads: list[tuple[int, int, str, str]], end: int
) -> list[Span]:
    """Spans of one region: a state lasts until a copy or a reader begins or ends."""
    cuts = {end} | {m for one in (*writes, *reads) for m in one[:2]}
    ordered = sorted(cuts)
    spans: list[Span] = []
    for begin, stop in zip(ordered, ordered[1:], strict=False):
        writing = [one for one in writes if one[0] <= begin < one[1]]
        reading = [one for one in reads if one[0] <= begin < one[1]]
        full = any(one[1] <= begin for one in writes)
        if writing and reading:
            span = Span(
                begin,
                stop,
                "clash",
                ("written while read", "clash", "!"),
                f"a copy writes it while {reading[0][3]} may still read it",
                writing[0][2],
            )
        elif writing:
            words = "a copy is under way into it: nobody may access it"
            span = Span(
                begin, stop, "copy", ("being written", "written", "←"), words, writing[0][2]
            )
        elif reading:
            words = f"{reading[0][3]} reads it"
            span = Span(begin, stop, "read", (words, "read", "r"), words, reading[0][2])
        elif full:
            words = "holds data that have landed"
            span = Span(begin, stop, "holds", ("holds data", "data", "d"), words)
        else:
            continue
        if spans and spans[-1].end == begin and _same(spans[-1], span):
            last = spans[-1]
            spans[-1] = Span(last.begin, stop, last.kind, last.texts, last.words, last.source)
        else:
            spans.append(span)
    return spans


def _same(one: Span, other: Span) -> bool:
    return (one.kind, one.words) == (other.kind, other.words)
