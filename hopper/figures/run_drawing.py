"""The drawing of a timeline: its SVG, which says everything without a script."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager

from .canvas import Canvas, text_width
from .figure import Figure
from .run_parts import Broken, Lane, Mark, Moment, RunModel, Span

#: Pixels; the drawing is shown in its own size and scrolls.
SIZE, SMALL_SIZE = 13.0, 12.0
LEFT, AXIS, LABEL, BAR, GAP = 16, 52, 19, 28, 9
#: A bar wider than this has its text at its beginning, where a reader who scrolls sees it.
WIDE = 260
#: Width of a step, and the least and the most that two neighbouring moments are apart.
STEP, NEAR, FAR = 1.6, 22.0, 46.0

#: kind -> fill, outline, hatch, dashed. No two differ by colour alone.
KINDS: dict[str, tuple[str, str, str | None, bool]] = {
    "run": ("panel", "muted", None, False),
    "wait": ("paper", "muted", None, True),
    "copy": ("warm-soft", "warm", "diagonal", False),
    "product": ("accent-soft", "accent", None, False),
    "pending": ("accent-soft", "accent", "rows", True),
    "holds": ("leaf-soft", "leaf", None, False),
    "read": ("accent-soft", "accent", "dots", False),
    "clash": ("remove", "remove-ink", "rows", True),
    "idle": ("paper", "plum", None, True),
    "counts": ("plum-soft", "plum", None, False),
}


def places(moments: tuple[Moment, ...]) -> list[float]:
    """Where each moment lies, in pixels: in order, long stretches of steps shortened."""
    found = [float(LEFT)]
    for before, after in zip(moments, moments[1:], strict=False):
        width = STEP * (after.step - before.step)
        found.append(found[-1] + min(max(width, NEAR), FAR))
    return found


class _Sheet(Canvas):
    """A canvas whose elements can be grouped, each group with attributes."""

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """Put what is drawn inside into one <g>."""
        said = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
            for name, value in attributes.items()
        )
        self._elements.append(f"<g{said}>")
        yield
        self._elements.append("</g>")


def drawing(model: RunModel, title: str, alt: str) -> Figure:
    """The timeline as a figure; ``width`` and ``height`` are pixels."""
    x = places(model.moments)
    width = max(x[-1] + LEFT + 30, 320.0)
    height = AXIS + len(model.lanes) * (LABEL + BAR + GAP) + 8
    sheet = _Sheet()
    sheet.box(0, 0, width, height, fill="paper", stroke="paper", radius=10, stroke_width=0)
    _axis(sheet, model, x, height)
    for number, lane in enumerate(model.lanes):
        _lane(sheet, lane, number, _top(number), x)
    for number, broken in enumerate(model.broken):
        _flag(sheet, broken, number, x[broken.moment], height)
    with sheet.group(class_="wb-run-labels"):
        for number, lane in enumerate(model.lanes):
            middle = _top(number) + LABEL / 2 - 1
            sheet.text(6, middle, lane.label, size=SIZE, bold=True, anchor="start", halo="paper")
    figure = sheet.figure(height, title=title, alt=alt)
    return Figure(title=title, alt=alt, body=figure.body, width=width, height=height)


def _top(lane: int) -> float:
    return AXIS + lane * (LABEL + BAR + GAP)


def _axis(sheet: _Sheet, model: RunModel, x: list[float], height: float) -> None:
    shown, last = -100.0, ""
    for moment, place in zip(model.moments, x, strict=True):
        text = str(moment.step)
        if text == last or place - shown < text_width(text, SMALL_SIZE) + 6:
            continue
        shown, last = place, text
        sheet.line([(place, AXIS - 13), (place, height - 6)], stroke="line", width=1)
        sheet.text(place, AXIS - 21, text, size=SMALL_SIZE, fill="muted")


def _lane(sheet: _Sheet, lane: Lane, number: int, top: float, x: list[float]) -> None:
    bar = top + LABEL
    for span in lane.spans:
        _span(sheet, span, number, bar, x)
    drawn = -1
    for mark in lane.marks:
        _mark(sheet, mark, number, bar, x[mark.moment], again=mark.moment == drawn)
        drawn = mark.moment


def _said(lane: int, begin: int, end: int, words: str, source: str) -> dict[str, object]:
    return {
        "class_": "wb-run-item",
        "aria_label": words,
        "data_lane": lane,
        "data_begin": begin,
        "data_end": end,
        "data_source": source,
    }


def _span(sheet: _Sheet, span: Span, lane: int, bar: float, x: list[float]) -> None:
    fill, stroke, hatch, dashed = KINDS[span.kind]
    left, right = x[span.begin], x[span.end]
    with sheet.group(**_said(lane, span.begin, span.end, span.words, span.source)):
        sheet.box(
            left + 1,
            bar,
            right - left - 2,
            BAR,
            fill=fill,
            stroke=stroke,
            radius=4,
            dashed=dashed,
            hatch=hatch,
        )
        room = right - left - 8
        text = next((t for t in span.texts if text_width(t, SMALL_SIZE) * 0.92 <= room), "")
        if text:
            wide = room > WIDE
            sheet.text(
                left + 8 if wide else (left + right) / 2,
                bar + BAR / 2,
                text,
                anchor="start" if wide else "middle",
                size=SMALL_SIZE,
                italic=dashed,
                halo=fill if hatch else None,
            )


def _mark(sheet: _Sheet, mark: Mark, lane: int, bar: float, place: float, *, again: bool) -> None:
    said = _said(lane, mark.moment, mark.moment + 1, mark.words, mark.source)
    said["class_"] = "wb-run-item wb-run-mark"
    if again:
        return
    with sheet.group(**said):
        sheet.box(place, bar + 4, 17, BAR - 8, fill="paper", stroke="muted", radius=3)
        sheet.text(place + 8.5, bar + BAR / 2, mark.letter, size=SMALL_SIZE, bold=True)


def _flag(sheet: _Sheet, broken: Broken, number: int, place: float, height: float) -> None:
    words = f"{broken.heading}: {broken.words} ({broken.threads})"
    said = _said(-1, broken.moment, broken.moment + 1, words, broken.source)
    with sheet.group(**(said | {"class_": "wb-run-item wb-run-flag"})):
        sheet.line([(place, 22), (place, height - 4)], stroke="remove-ink", width=2, dashed=True)
        sheet.box(place - 10, 2, 20, 20, fill="remove", stroke="remove-ink", radius=4)
        sheet.text(place, 12, f"✗{number + 1}", size=SMALL_SIZE, fill="remove-ink", bold=True)
