"""What pictures of layouts are made of: cells with a text and a group, legends, and grids of them.

Groups (threads, warps, tiles …) differ by their fill and by the side of the cell that carries a
bar: left, top, right, bottom, then again. Modes that are nested leave a gap where the inner one
ends. What would be too small on a phone is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hopper.errors import ProblemError
from hopper.layout import Layout
from hopper.layout.core import flatten

from .canvas import MARGIN, SMALL, WIDTH, Canvas, text_width

TINTS = (
    ("accent-soft", "accent"),
    ("warm-soft", "warm"),
    ("leaf-soft", "leaf"),
    ("plum-soft", "plum"),
)
_PLAIN = ("panel", "line")
HEAD = 24  # room for the numbers beside rows and above columns
CELL = 30
_NEST = 7  # gap where an inner mode ends
_BAR = 4

#: (row, column) -> number of the group, or None for none.
Grouping = Callable[[int, int], int | None]


def draw_cell(
    sheet: Canvas, x: float, y: float, width: float, height: float, lines: Sequence[str],
    group: int | None = None,
) -> None:  # fmt: skip
    """A cell with one or two lines of text; a group has a tint and a bar at one side."""
    fill, stroke = _PLAIN if group is None else TINTS[group % 4]
    sheet.box(x, y, width, height, fill=fill, stroke=stroke, radius=3, stroke_width=1.2)
    if group is not None:
        side = group % 4
        bar_x = x + width - _BAR if side == 2 else x
        bar_y = y + height - _BAR if side == 3 else y
        sheet.box(
            bar_x,
            bar_y,
            width if side % 2 else _BAR,
            _BAR if side % 2 else height,
            fill=stroke,
            stroke=stroke,
            radius=1,
            stroke_width=0.5,
        )
    for number, line in enumerate(lines):
        place = (number + 1) * height / (len(lines) + 1)
        place += (number - 0.5) * 5 if len(lines) > 1 else 0
        sheet.text(x + width / 2, y + place, line, fit=width)


def draw_legend(sheet: Canvas, y: float, names: Sequence[str]) -> float:
    """A sample of each group with its name, as many in a line as fit; the height it takes."""
    if not names:
        return 0
    widest = max(text_width(name, SMALL) for name in names) + 34
    across = max(1, min(len(names), int((WIDTH - 2 * MARGIN) // widest)))
    for index, name in enumerate(names):
        x = MARGIN + index % across * (WIDTH - 2 * MARGIN) / across
        top = y + index // across * 28
        draw_cell(sheet, x, top, 24, 20, (), index)
        sheet.text(x + 31, top + 10, name, anchor="start")
    return 28 * -(-len(names) // across) + 6


def _positions(mode: Layout, size: float, start: float) -> list[float]:
    """Where each cell of a mode begins: with a gap after each run of its innermost integer."""
    inner = flatten(mode.shape)[0] if isinstance(mode.shape, tuple) else mode.size
    gap = 0 if inner in (1, mode.size) else _NEST
    return [start + index * size + index // inner * gap for index in range(mode.size)]


def draw_grid(
    sheet: Canvas, y: float, layout: Layout, texts: Sequence[Sequence[Sequence[str]]],
    group: Grouping, *, across: str, down: str,
) -> float:  # fmt: skip
    """Cells of a rank-2 layout below ``y``; returns where they end.

    ``texts``: the lines of each cell, by row and column. Raises ProblemError where they would have
    to be smaller than a phone can show.
    """
    rows, columns = layout
    lines = max(len(cell) for row in texts for cell in row)
    needed = 4 + max(text_width(line, SMALL) for row in texts for cell in row for line in cell)
    gaps = _positions(columns, 0, 0)[-1]
    width = min(46.0, (WIDTH - 2 * MARGIN - HEAD - gaps) / columns.size)
    if width < needed:
        raise ProblemError(
            f"{layout}: {columns.size} columns of {needed:.0f} units do not fit into the "
            f"{WIDTH} of a drawing; draw a smaller layout"
        )
    height = CELL if lines == 1 else CELL + 18
    xs = _positions(columns, width, MARGIN + HEAD)
    ys = _positions(rows, height, y + 2 * HEAD)
    sheet.text(MARGIN, y + 10, f"↓ {down}   → {across}", fill="muted", anchor="start", italic=True)
    for j, x in enumerate(xs):
        sheet.text(x + width / 2, y + HEAD + 14, str(j), fill="muted")
    for i, top in enumerate(ys):
        sheet.text(MARGIN + HEAD - 6, top + height / 2, str(i), fill="muted", anchor="end")
        for j, x in enumerate(xs):
            draw_cell(sheet, x, top, width, height, texts[i][j], group(i, j))
    return ys[-1] + height


def require_matrix(layout: Layout, most: int) -> None:
    """Raise ProblemError unless a layout has two modes and at most ``most`` elements."""
    if layout.rank != 2 or layout.size > most:
        raise ProblemError(
            f"{layout}: a picture needs two modes and at most {most} elements, this has rank "
            f"{layout.rank} and {layout.size}; draw a part of it"
        )


def ungrouped(row: int, column: int) -> None:
    """The grouping of cells that belong to none."""
