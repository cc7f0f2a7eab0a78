"""The ladder as bars: every rung's speed, cuBLAS in turns with it, and the measured ceiling.

Each rung's bars are a link to its chapter. A drawing that is read aloud in one piece has no
parts to stop at, so the links are elements of their own and lie over it: they work without a
script, and by keyboard.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hopper.ladder import NOT_RECORDED, Ceiling, Rung, Speed

from .canvas import MARGIN, SMALL, WIDTH, Canvas, text_width
from .explorer import static_text
from .figure import Figure

_BAR, _STEP, _LABEL, _GAP = 20, 24, 26, 14
_PAD = 5  # of a link beyond what it leads from
_HEAD = 84
_ROOM = WIDTH - 2 * MARGIN
#: Of a bar: what it shows, its fill, outline and hatch. Its text says the first too.
_LOOKS = {
    "burst": ("accent-soft", "accent", None),
    "sustained": ("warm-soft", "warm", "diagonal"),
    "bf16": ("plum-soft", "plum", "dots"),
}
TITLE = "The ladder at 8192 × 8192 × 8192"


@dataclass(frozen=True)
class Row:
    """Where a rung stands in the drawing, in its units, and what its bars say."""

    kernel: str
    top: float
    height: float
    said: str


@dataclass(frozen=True)
class LinkedBars:
    """The drawing, its rows, and kernel -> address of its chapter; without one it is no link."""

    figure: Figure
    rows: tuple[Row, ...]
    chapters: Mapping[str, str]

    def _repr_html_(self) -> str:
        links = "".join(
            f'<li style="top:{100 * row.top / self.figure.height:.3f}%;'
            f'height:{100 * row.height / self.figure.height:.3f}%">'
            f'<a href="{html.escape(self.chapters[row.kernel])}" '
            f'aria-label="{html.escape(row.said)} To its chapter."></a></li>'
            for row in self.rows
            if row.kernel in self.chapters
        )
        over = f'<ul class="wb-ladder-links">{links}</ul>' if links else ""
        figure = self.figure
        # Inside the drawing's place, so that percentages are of its height.
        drawn = figure._repr_html_().replace(
            figure.svg, f'<div class="wb-ladder-bars">{figure.svg}{over}</div>'
        )
        return f"<style>{static_text('ladder.css')}</style>{drawn}"

    def __repr__(self) -> str:
        return repr(self.figure)


def ladder(
    rungs: Sequence[Rung], ceiling: Ceiling, chapters: Mapping[str, str] | None = None
) -> LinkedBars:
    """Bars of every rung, burst and sustained, and bf16 where it was recorded.

    chapters  kernel -> address of its chapter, relative to the page
    """
    canvas = Canvas()
    shown = {rung.kernel: _speeds(rung) for rung in rungs}
    rates = [
        rate for speeds in shown.values() for one in speeds.values() if one
        for rate in (one.tflops, one.peer_tflops)
    ]  # fmt: skip
    limits = {"sustained": ceiling.sustained, "burst": ceiling.burst}
    rates += [rate for rate in limits.values() if math.isfinite(rate)]
    scale = _ROOM / max(rates, default=1)
    rows = []
    top = _HEAD
    for rung in rungs:
        height = _LABEL + _STEP * len(shown[rung.kernel])
        rows.append(Row(rung.kernel, top - _PAD, height + 2 * _PAD, _said(rung)))
        top += height + _GAP
    bottom = top
    for number, (mode, rate) in enumerate(limits.items()):
        _limit(canvas, mode, rate, scale, 42 + 24 * number, bottom)
    canvas.line([(MARGIN + 2, 9), (MARGIN + 2, 27)], stroke="ink", width=3.5)
    canvas.text(MARGIN + 12, 18, "cuBLAS, in turns with the bar", anchor="start")
    for rung, row in zip(rungs, rows, strict=True):
        label = f"{rung.version} · {rung.short_idea}"
        canvas.text(
            MARGIN,
            row.top + _PAD + 11,
            _cut(label),
            anchor="start",
            bold=True,
            halo="paper",
            fit=_ROOM,
        )
        for number, (what, speed) in enumerate(shown[rung.kernel].items()):
            _bar(canvas, what, speed, scale, row.top + _PAD + _LABEL + _STEP * number)
    figure = canvas.figure(bottom, title=TITLE, alt=_alt(rows, ceiling), caption=_caption(rungs))
    return LinkedBars(figure, tuple(rows), chapters or {})


def _speeds(rung: Rung) -> dict[str, Speed | None]:
    found = {"burst": rung.burst, "sustained": rung.sustained}
    return found | ({"bf16": rung.bf16} if rung.bf16 else {})


def _bar(canvas: Canvas, what: str, speed: Speed | None, scale: float, y: float) -> None:
    if speed is None:
        canvas.text(
            MARGIN + 8, y + _BAR / 2, f"{what}: {NOT_RECORDED}", anchor="start", fill="muted",
            italic=True, halo="paper",
        )  # fmt: skip
        return
    fill, outline, hatch = _LOOKS[what]
    canvas.box(
        MARGIN, y, speed.tflops * scale, _BAR, fill=fill, stroke=outline, radius=3, hatch=hatch
    )
    x = MARGIN + speed.peer_tflops * scale
    canvas.line([(x, y - 1), (x, y + _BAR + 1)], stroke="ink", width=3.5)
    told = f"{what} {speed.tflops:.0f} TFLOPS, {speed.ratio:.0%}"
    canvas.text(MARGIN + 8, y + _BAR / 2, told, anchor="start", halo=fill)


def _limit(canvas: Canvas, mode: str, rate: float, scale: float, y: float, bottom: float) -> None:
    """A line down the drawing, from under its own label."""
    if not math.isfinite(rate):
        canvas.text(
            WIDTH - MARGIN, y, f"ceiling, {mode}: {NOT_RECORDED}", anchor="end", fill="muted",
            italic=True,
        )  # fmt: skip
        return
    x = MARGIN + rate * scale
    canvas.line([(x, y - 8), (x, bottom - 8)], stroke="ink", width=1.5, dashed=mode == "burst")
    canvas.text(x - 7, y, f"ceiling, {mode}: {rate:.0f} TFLOPS", anchor="end", halo="paper")


def _cut(label: str) -> str:
    """As many words of a label as fit."""
    words = label.split()
    while text_width(" ".join(words), SMALL) > _ROOM and len(words) > 1:
        words = [*words[:-2], f"{words[-2].rstrip('…')}…"]
    return " ".join(words)


def _said(rung: Rung) -> str:
    """A rung in words: what its bars show."""
    parts = [
        f"{what} {speed.tflops:.0f} TFLOPS, {speed.ratio:.0%} of cuBLAS at {speed.peer_tflops:.0f}"
        for what, speed in _speeds(rung).items()
        if speed
    ]
    return f"{rung.version}, {rung.short_idea}: {'; '.join(parts) or rung.note}."


def _alt(rows: Sequence[Row], ceiling: Ceiling) -> str:
    limits = "; ".join(
        f"{mode} {rate:.0f} TFLOPS" if math.isfinite(rate) else f"{mode} {NOT_RECORDED}"
        for mode, rate in (("burst", ceiling.burst), ("sustained", ceiling.sustained))
    )
    return " ".join(["Bars of TFLOPS.", *(row.said for row in rows), f"The ceiling: {limits}."])


def _caption(rungs: Sequence[Rung]) -> str:
    """Where the numbers come from."""
    sources = dict.fromkeys(
        f"{one.provenance.gpu}, {one.provenance.date[:10]}"
        for rung in rungs
        for one in _speeds(rung).values()
        if one
    )
    recorded = f"Recorded: {'; '.join(sources)}." if sources else "Nothing is recorded."
    return (
        "Percent are of cuBLAS, which was timed in turns with each bar: the thick mark is its own "
        f"speed then. The ceiling is fp16's. {recorded}"
    )
