"""What every figure of the book is: an SVG to show inline, and the same in words."""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from pathlib import Path

from hopper.errors import ProblemError

from . import palette

#: Widest a figure is shown. Drawings are about 420 units wide, so that 14.5 units are 11 px or
#: more on a phone; without a limit the same text would be as tall as a heading on a desktop.
MAX_WIDTH = "36rem"


def slug(text: str) -> str:
    """Lower-case letters and digits joined by hyphens: the part of a title that can be an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "figure"


@dataclass(frozen=True)
class Figure:
    """A themed figure. JupyterLab and the site show it as inline SVG, a terminal as a table.

    title    one line, shown under the figure
    alt      what the figure shows, in words; read aloud instead of the drawing
    body     SVG elements, without the <svg> around them
    width, height   the view box, in SVG units
    columns, rows   the plotted data, for a terminal and for screen readers
    caption  where the numbers come from
    fold_data       whether the page also offers the data as a folded table

    Raises ProblemError if `title` or `alt` is empty.
    """

    title: str
    alt: str
    body: str
    width: float
    height: float
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    caption: str = ""
    fold_data: bool = False

    def __post_init__(self) -> None:
        for name in ("title", "alt"):
            if not getattr(self, name).strip():
                raise ProblemError(
                    f"{name}={getattr(self, name)!r}: a figure needs its {name} in words; "
                    f"pass {name}='…' saying what the figure shows"
                )

    @property
    def svg(self) -> str:
        """The inline <svg> element, coloured by CSS variables."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'role="img" aria-label="{html.escape(self.alt)}" '
            f'style="display:block;width:100%;height:auto;font-family:{palette.FONT}">'
            f"{self.body}</svg>"
        )

    def save(self, path: str | Path) -> Path:
        """Write a stand-alone SVG file that follows the system's light or dark preference."""
        style = f"<style>{palette.dark_media_rule()}</style>"
        target = Path(path)
        target.write_text(self.svg.replace(">", f">{style}", 1) + "\n", encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        caption = f'<strong style="font-weight:600">{html.escape(self.title)}.</strong>'
        if self.caption:
            caption += f" {html.escape(self.caption)}"
        return (
            palette.dark_jupyter_style(".wb-figure")
            + f'<figure class="wb-figure" style="margin:1rem auto;max-width:{MAX_WIDTH}">'
            + self.svg
            + '<figcaption style="margin-top:.5rem;font-size:.9em;line-height:1.45;'
            + f'text-align:left;font-weight:400;color:var(--wb-ink,inherit)">{caption}</figcaption>'
            + (self._data_table() if self.fold_data else "")
            + "</figure>"
        )

    def _data_table(self) -> str:
        cell = 'style="padding:.15rem .6rem;text-align:left"'
        head = "".join(f'<th scope="col" {cell}>{html.escape(c)}</th>' for c in self.columns)
        rows = "".join(
            "<tr>" + "".join(f"<td {cell}>{html.escape(v)}</td>" for v in row) + "</tr>"
            for row in self.rows
        )
        label = html.escape(f"Numbers of the figure: {self.title}")
        return (
            '<details style="margin-top:.4rem;font-size:.9em"><summary>The numbers</summary>'
            f'<div role="group" tabindex="0" aria-label="{label}" style="overflow-x:auto">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
        )

    def __repr__(self) -> str:
        lines = [self.title]
        if self.rows:
            table = [self.columns, *self.rows]
            widths = [max(len(row[i]) for row in table) for i in range(len(self.columns))]
            for row in table:
                cells = (v.ljust(w) for v, w in zip(row, widths, strict=True))
                lines.append("  ".join(cells).rstrip())
            lines.insert(2, "  ".join("-" * w for w in widths))
        else:
            lines.append(self.alt)
        if self.caption:
            lines.append(self.caption)
        return "\n".join(lines)


def unique_prefix(title: str, content: str) -> str:
    """Prefix for the ids inside a figure: readable, and different for different figures."""
    return f"wb-{slug(title)}-{hashlib.sha256(content.encode()).hexdigest()[:6]}"
