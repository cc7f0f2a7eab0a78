"""Lanes of warps: when they run, when they wait and for what, and what they issue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .run_names import Names, warps_in_words
from .run_parts import Lane, Mark, Span, Timed

#: Events of a warp -> the letter that stands for them.
LETTERS = {
    "mbarrier.init": "i",
    "mbarrier.arrive": "a",
    "mbarrier.expect_tx": "e",
    "tma.copy": "T",
    "wgmma.fence": "f",
    "wgmma.issue": "w",
    "wgmma.commit": "c",
    "wgmma.wait": "r",
    "ldmatrix": "l",
    "mma": "m",
}


def warp_lanes(
    timed: Sequence[Timed],
    end: int,
    block: int,
    per_block: int,
    roles: Mapping[str, Sequence[int]] | None,
    known: Names,
    prefix: str,
) -> list[Lane]:
    """One lane for warps that do the same; with ``roles`` (label -> warps) one a role."""
    spans = _spans(timed, end, block, per_block, known)
    if roles is None:
        alike: dict[tuple, list[int]] = {}
        for warp in sorted(spans):
            alike.setdefault(tuple(spans[warp]), []).append(warp)
        roles = {_label(warps): warps for warps in alike.values()}
    lanes = []
    for label, warps in roles.items():
        mine = [warp for warp in warps if warp in spans]
        if mine:
            marks = marks_of(timed, block, per_block, mine, known)
            lanes.append(Lane(prefix + label, "warps", tuple(spans[mine[0]]), marks))
    return lanes


def _label(warps: list[int]) -> str:
    words = warps_in_words(warps)
    return words[0].lower() + words[1:]


def _spans(
    timed: Sequence[Timed], end: int, block: int, per_block: int, known: Names
) -> dict[int, list[Span]]:
    """Of each warp of a block: spans of "run" and "wait", without empty ones."""
    states: dict[int, list[tuple[int, str, str, str]]] = {}
    for t in timed:
        event = t.event
        everyone = event.detail.get("warps")
        if everyone is None and event.block == block and event.warp >= 0:
            together = 4 if event.kind.startswith("wgmma") else 1
            first = block * per_block + event.warp
            everyone = range(first, first + together)
        for warp in everyone or ():
            if warp // per_block != block:
                continue
            mine = states.setdefault(warp % per_block, [(0, "run", "", "")])
            if event.kind == "warp.wait":
                why = known.waits_for(event.detail["on"])
                mine.append((t.moment, "wait", why, known.source(event.line)))
            elif event.kind in ("warp.wake", "warp.exit"):
                mine.append((t.moment, "run" if event.kind == "warp.wake" else "gone", "", ""))
    return {warp: _between(mine, end) for warp, mine in states.items()}


def _between(states: list[tuple[int, str, str, str]], end: int) -> list[Span]:
    spans: list[Span] = []
    for now, then in zip(states, [*states[1:], (end, "", "", "")], strict=True):
        moment, kind, why, source = now
        if then[0] == moment or kind == "gone":
            continue
        if kind == "wait":
            spans.append(
                Span(moment, then[0], kind, (f"waits: {why}", "waits"), f"waits for {why}", source)
            )
        elif spans and spans[-1].kind == "run" and spans[-1].end == moment:
            spans[-1] = Span(spans[-1].begin, then[0], "run", (), "runs")
        else:
            spans.append(Span(moment, then[0], "run", (), "runs"))
    return spans


def marks_of(
    timed: Sequence[Timed], block: int, per_block: int, warps: Sequence[int], known: Names
) -> tuple[Mark, ...]:
    """What the warps of a lane issue. Of several at one moment the drawing shows the first."""
    marks = []
    for t in timed:
        event = t.event
        if event.kind not in LETTERS or event.block < 0:
            continue
        if event.kind in ("ldmatrix", "mma"):
            mine = any(
                one // per_block == block and one % per_block in warps
                for one in event.detail["warps"]
            )
        else:
            mine = event.block == block and event.warp in warps
        if mine:
            words = known.sentence(event, {})
            times = event.detail.get("times", 1)
            if times > 1:
                words = f"{words[:-1]}, {times} times, steps {event.step}–{event.detail['until']}."
            marks.append(Mark(t.moment, LETTERS[event.kind], words, known.source(event.line)))
    return tuple(marks)
