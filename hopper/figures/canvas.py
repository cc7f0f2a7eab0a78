"""A sheet of SVG to draw on: rounded boxes, text, arrows and hatches in the book's palette."""

from __future__ import annotations

import html

from hopper.errors import ProblemError

from .figure import Figure, unique_prefix
from .palette import colour

WIDTH = 420
MARGIN = 14
#: Smallest text, in units: 11 px when the sheet is shown 328 px wide, as on a 360 px phone.
SMALL = 14.5
BODY = 16.0
LARGE = 22.0
#: Widest average advance of a sans-serif character, as a fraction of its size (DejaVu Sans).
_ADVANCE = 0.62


def text_width(text: str, size: float) -> float:
    """An upper estimate of the width of `text`, in units: fonts differ from reader to reader."""
    return len(text) * size * _ADVANCE


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Canvas:
    """Collects SVG elements; `figure()` turns them into a Figure."""

    def __init__(self) -> None:
        self._elements: list[str] = []
        self._hatches: dict[str, str] = {}

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "panel",
        stroke: str = "line",
        radius: float = 6,
        dashed: bool = False,
        hatch: str | None = None,
        stroke_width: float = 1.5,
    ) -> None:
        """A rounded box. `hatch` is "diagonal", "dots" or "rows", drawn over the fill."""
        place = (
            f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" '
            f'height="{_number(height)}" rx="{_number(radius)}"'
        )
        dash = ";stroke-dasharray:5 4" if dashed else ""
        self._elements.append(
            f'<rect {place} style="fill:{colour(fill)};stroke:{colour(stroke)};'
            f'stroke-width:{_number(stroke_width)}{dash}"/>'
        )
        if hatch:
            self._hatches[f"{hatch}-{stroke}"] = _hatch_content(hatch, stroke)
            self._elements.append(f'<rect {place} style="fill:url(#HATCH-{hatch}-{stroke})"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = SMALL,
        fill: str = "ink",
        anchor: str = "middle",
        bold: bool = False,
        italic: bool = False,
        fit: float | None = None,
        halo: str | None = None,
    ) -> None:
        """One line of text whose middle is at height `y`.

        `fit` is the room there is, in units; text that might be wider raises ProblemError.
        `halo` names the colour of an outline that keeps text legible over a hatch.
        """
        if fit is not None and text_width(text, size) > fit:
            raise ProblemError(
                f"{text!r} needs up to {text_width(text, size):.0f} units, its place in the "
                f"drawing has {fit:.0f}; shorten the text"
            )
        style = f"fill:{colour(fill)};font-size:{_number(size)}px"
        style += ";font-weight:600" if bold else ""
        style += ";font-style:italic" if italic else ""
        if halo:
            style += f";paint-order:stroke;stroke:{colour(halo)};stroke-width:5px"
            style += ";stroke-linejoin:round"
        self._elements.append(
            f'<text x="{_number(x)}" y="{_number(y + size * 0.36)}" text-anchor="{anchor}" '
            f'style="{style}">{html.escape(text)}</text>'
        )

    def line(
        self,
        points: list[tuple[float, float]],
        *,
        stroke: str = "muted",
        width: float = 1.5,
        dashed: bool = False,
    ) -> None:
        """A line through the points."""
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        dash = ";stroke-dasharray:5 4" if dashed else ""
        self._elements.append(
            f'<polyline points="{path}" style="fill:none;stroke:{colour(stroke)};'
            f'stroke-width:{_number(width)};stroke-linecap:round;stroke-linejoin:round{dash}"/>'
        )

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], *, stroke: str = "muted"
    ) -> None:
        """A straight arrow, horizontal or vertical, with a filled head at `end`."""
        (x0, y0), (x1, y1) = start, end
        length = abs(x1 - x0) + abs(y1 - y0)
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        neck = (x1 - 8 * dx, y1 - 8 * dy)
        self.line([start, neck], stroke=stroke, width=2)
        head = [
            (x1, y1),
            (neck[0] - 5 * dy, neck[1] - 5 * dx),
            (neck[0] + 5 * dy, neck[1] + 5 * dx),
        ]
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in head)
        self._elements.append(f'<polygon points="{path}" style="fill:{colour(stroke)}"/>')

    def figure(self, height: float, *, title: str, alt: str, caption: str = "") -> Figure:
        """The finished figure, on a sheet of opaque paper `WIDTH` wide and `height` tall."""
        content = "".join(self._elements)
        prefix = unique_prefix(title, content)
        definitions = "".join(
            f'<pattern id="HATCH-{name}" {inner}' for name, inner in self._hatches.items()
        )
        if definitions:
            definitions = f"<defs>{definitions}</defs>"
        body = f"{definitions}{paper(WIDTH, height)}{content}".replace("HATCH-", f"{prefix}-")
        return Figure(title=title, alt=alt, body=body, width=WIDTH, height=height, caption=caption)


def paper(width: float, height: float) -> str:
    """The opaque sheet under a drawing."""
    return (
        f'<rect width="{_number(width)}" height="{_number(height)}" rx="10" '
        f'style="fill:{colour("paper")}"/>'
    )


def _hatch_content(hatch: str, stroke: str) -> str:
    line = f"stroke:{colour(stroke)};stroke-width:1.2;opacity:.45"
    if hatch == "diagonal":
        return (
            'width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<path d="M0 0V8" style="{line}"/></pattern>'
        )
    if hatch == "rows":
        return (
            'width="8" height="7" patternUnits="userSpaceOnUse">'
            f'<path d="M0 3.5H8" style="{line}"/></pattern>'
        )
    if hatch == "dots":
        return (
            'width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<circle cx="4" cy="4" r="1.3" style="fill:{colour(stroke)};opacity:.6"/></pattern>'
        )
    raise ProblemError(f"hatch={hatch!r}: choose diagonal, dots or rows")
