"""Pictures of layouts: as a grid of offsets, as memory, as threads, composed, and divided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hopper.errors import ProblemError
from hopper.layout import Layout, composition, zipped_divide

from .canvas import BODY, MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure
from .layout_cells import (
    CELL,
    HEAD,
    TINTS,
    Grouping,
    draw_cell,
    draw_grid,
    draw_legend,
    require_matrix,
    ungrouped,
)

# ---- a layout as a grid, and as memory ----------------------------------------------------------


def layout_grid(
    layout: Layout,
    *,
    title: str | None = None,
    group: Grouping = ungrouped,
    names: Sequence[str] = (),
    down: str = "mode 0",
    across: str = "mode 1",
) -> Figure:
    """Coordinates to offsets: a cell for each (i, j), with the offset in it.

    ``group``: which group (i, j) belongs to; ``names`` are the legend, one for each group. ``down``
    and ``across`` name the modes. Raises ProblemError for another rank than 2, for more than 256
    elements, and where the numbers would not be legible on a phone.
    """
    require_matrix(layout, 256)
    table = layout.table
    texts = [[(str(offset),) for offset in row] for row in table.tolist()]
    sheet = Canvas()
    top = MARGIN + draw_legend(sheet, MARGIN, names)
    end = draw_grid(sheet, top, layout, texts, group, across=across, down=down)
    rows, columns = table.shape
    alt = (
        f"{layout} as a grid of {rows} rows and {columns} columns, the offset in each cell. Down "
        f"the first column: {_listed(table[:, 0])}. Along the first row: {_listed(table[0])}."
    )
    if names:
        alt += f" Cells are marked by group: {', '.join(names)}."
    figure = sheet.figure(end + MARGIN, title=title or f"{layout}, as a grid", alt=alt)
    numbered = tuple((str(i), *map(str, row)) for i, row in enumerate(table.tolist()))
    return replace(figure, columns=("", *map(str, range(columns))), rows=numbered)


def layout_memory(
    layout: Layout,
    *,
    title: str | None = None,
    group: Grouping = ungrouped,
    names: Sequence[str] = (),
    across: int = 8,
) -> Figure:
    """Offsets to coordinates: memory from its first element on, ``across`` elements a line.

    A cell says which i,j lies there; a dashed one belongs to none. Raises ProblemError for another
    rank than 2, a cosize above 128, two coordinates at one offset, and where text would not fit.
    """
    require_matrix(layout, 128)
    if not layout.injective or layout.cosize > 128:
        raise ProblemError(
            f"{layout}: memory is drawn for layouts that put one coordinate at an offset, up to "
            f"128 of them; this spans {layout.cosize}; draw it as a grid"
        )
    rows, columns = layout
    held = {int(layout(i, j)): (i, j) for i in range(rows.size) for j in range(columns.size)}
    sheet = Canvas()
    top = MARGIN + draw_legend(sheet, MARGIN, names)
    sheet.text(MARGIN, top + 10, "offset: i,j", fill="muted", anchor="start", italic=True)
    top += HEAD
    label = text_width(str(layout.cosize), SMALL) + 8
    width = min(46.0, (WIDTH - 2 * MARGIN - label) / across)
    for offset in range(layout.cosize):
        x = MARGIN + label + offset % across * width
        y = top + offset // across * (CELL + 4)
        if offset % across == 0:
            text = f"{offset}:"
            sheet.text(MARGIN + label - 8, y + CELL / 2, text, fill="muted", anchor="end")
        if offset in held:
            draw_cell(
                sheet, x, y, width, CELL, ("{},{}".format(*held[offset]),), group(*held[offset])
            )
        else:
            sheet.box(x, y, width, CELL, fill="paper", stroke="line", radius=3, dashed=True)
    empty = layout.cosize - len(held)
    first = ", ".join("({},{})".format(*held[at]) for at in sorted(held)[:6])
    alt = (
        f"{layout} as memory, {across} elements a line. In the order of memory the coordinates are "
        f"{first} and so on. " + (f"{empty} elements in between belong to none." if empty else
        "No element is left out.")
    )  # fmt: skip
    end = top + -(-layout.cosize // across) * (CELL + 4)
    figure = sheet.figure(end + MARGIN, title=title or f"{layout}, as memory", alt=alt)
    listed = tuple((str(at), "{},{}".format(*held[at])) for at in sorted(held))
    return replace(figure, columns=("offset", "i,j"), rows=listed)


# ---- threads and values -------------------------------------------------------------------------


def thread_values(
    layout: Layout,
    rows: int,
    columns: int,
    *,
    title: str | None = None,
    marked: Sequence[int] = (0, 1, 2, 3),
) -> Figure:
    """A matrix whose cells say which thread holds the element, and as which of its values.

    ``layout``: (thread, value) -> place, counted down the columns of a ``rows`` × ``columns``
    matrix. ``marked``: threads whose cells have a colour and a bar, at most four. Raises
    ProblemError where the layout leaves an element out or gives it to two.
    """
    require_matrix(layout, 256)
    if sorted(layout.offsets.tolist()) != list(range(rows * columns)):
        raise ProblemError(
            f"{layout}: it does not give each of the {rows} × {columns} elements to one thread and "
            f"value; see layout.injective and layout.cosize"
        )
    owner = {
        int(layout(t, v)): (t, v) for t in range(layout[0].size) for v in range(layout[1].size)
    }
    held = [[owner[i + rows * j] for j in range(columns)] for i in range(rows)]
    texts = [[(f"T{t}", f"V{v}") for t, v in row] for row in held]
    places = {thread: number for number, thread in enumerate(marked)}
    sheet = Canvas()
    top = MARGIN + draw_legend(sheet, MARGIN, [f"T{thread}" for thread in marked])
    end = draw_grid(
        sheet,
        top,
        Layout((rows, columns)),
        texts,
        lambda i, j: places.get(held[i][j][0]),
        across="column",
        down="row",
    )
    of_first = [f"({i},{j})" for i in range(rows) for j in range(columns) if held[i][j][0] == 0]
    alt = (
        f"A matrix of {rows} rows and {columns} columns; each cell names its thread and value, as "
        f"{layout} says. The first row belongs to threads {_listed([t for t, _ in held[0]])}. "
        f"Thread 0 holds {', '.join(of_first)}."
    )
    figure = sheet.figure(end + MARGIN, title=title or f"{layout}: who holds what", alt=alt)
    numbered = tuple((str(i), *(f"T{t} V{v}" for t, v in row)) for i, row in enumerate(held))
    return replace(figure, columns=("", *map(str, range(columns))), rows=numbered)


# ---- composition and division -------------------------------------------------------------------


def layout_composition(a: Layout, b: Layout, *, title: str | None = None) -> Figure:
    """``a`` after ``b``: which element of ``a`` each coordinate of ``b`` picks, and its offset.

    The coordinates of b stand above, colours and bars changing with b's second mode; lines lead to
    the integer coordinates of a, below which its offsets stand. Raises ProblemError for more than
    12 coordinates of either, and where the composition is refused.
    """
    both = composition(a, b)
    if max(a.size, b.size) > 12:
        raise ProblemError(
            f"{a} ∘ {b}: {max(a.size, b.size)} elements; at most 12 fit side by side; draw fewer"
        )
    inner = b[0].size if b.rank > 1 else b.size
    left, width = MARGIN + 2, (WIDTH - 2 * MARGIN - 4) / 12
    above, below = 60, 210
    sheet = Canvas()
    sheet.text(left, 20, f"c, a coordinate of B = {b}", anchor="start", bold=True, size=BODY)
    chosen = {int(b(c)): c // inner for c in reversed(range(b.size))}
    for c in range(b.size):
        target = int(b(c))
        stroke = TINTS[c // inner % 4][1]
        start = (left + (c + 0.5) * width, above + CELL)
        sheet.line([start, (left + (target + 0.5) * width, below)], stroke=stroke)
    for c in range(b.size):
        draw_cell(sheet, left + c * width, above, width - 2, CELL, (str(c),), c // inner)
    for i in range(a.size):
        draw_cell(sheet, left + i * width, below, width - 2, CELL, (str(i),), chosen.get(i))
        offset = str(int(a(i)))
        sheet.text(left + (i + 0.5) * width - 1, below + CELL + 16, offset, fit=width)
    sheet.text(left, above - 18, "its integer form:", fill="muted", anchor="start", italic=True)
    low = below + CELL + 42
    sheet.text(left, low, f"B(c), a coordinate of A = {a},", anchor="start", bold=True, size=BODY)
    sheet.text(left, low + 24, "and below each its offset A(B(c))", anchor="start", size=BODY)
    picked = [int(i) for i in b.offsets]
    alt = (
        f"Two rows of cells joined by lines. Coordinates 0 to {b.size - 1} of B, {b}, lead to the "
        f"elements {_listed(picked)} of A, {a}, whose offsets are {_listed(both.offsets)}. The "
        f"composition is {both}."
    )
    caption = "One colour for each step of B's second mode." if b.rank > 1 else ""
    name = title or f"A ∘ B = {both}"
    figure = sheet.figure(low + 44, title=name, alt=alt, caption=caption)
    listed = tuple((str(c), str(i), str(int(a(i)))) for c, i in enumerate(picked))
    return replace(figure, columns=("c", "B(c)", "A(B(c))"), rows=listed)


def layout_division(layout: Layout, tiler: tuple, *, title: str | None = None) -> Figure:
    """A matrix cut into tiles, and the same after ``zipped_divide``: a tile in each column.

    ``tiler``: one tile a mode, as ``zipped_divide`` takes it. Raises ProblemError for more than
    four tiles, for a layout that puts two coordinates at one offset, and where text would not fit.
    """
    require_matrix(layout, 128)
    zipped = zipped_divide(layout, tiler)
    if zipped[1].size > 4 or not layout.injective:
        raise ProblemError(
            f"{layout}: {zipped[1].size} tiles; up to four are told apart, in layouts that put one "
            f"coordinate at an offset; draw larger tiles"
        )
    of_tile = {
        int(offset): tile for tile in range(zipped[1].size) for offset in zipped.table[:, tile]
    }
    names = [f"tile {tile}" for tile in range(zipped[1].size)]
    sheet = Canvas()
    top = MARGIN + draw_legend(sheet, MARGIN, names)
    end = draw_grid(
        sheet,
        top,
        layout,
        [[(str(x),) for x in row] for row in layout.table.tolist()],
        lambda i, j: of_tile[int(layout(i, j))],
        across="column",
        down="row",
    )
    sheet.text(MARGIN, end + 32, "zipped_divide", anchor="start", bold=True, size=BODY)
    end = draw_grid(
        sheet,
        end + 46,
        Layout((zipped[0].size, zipped[1].size)),
        [[(str(x),) for x in row] for row in zipped.table.tolist()],
        lambda i, j: j,
        across="which tile",
        down="element of the tile",
    )
    alt = (
        f"Above, {layout} as a grid of {layout[0].size} by {layout[1].size} offsets, each marked "
        f"with its tile. Below, the same offsets as {zipped[0].size} rows by {zipped[1].size} "
        f"columns: each column is one tile. Tile 0 holds offsets {_listed(zipped.table[:, 0])}."
    )
    figure = sheet.figure(end + MARGIN, title=title or f"{layout}, divided: {zipped}", alt=alt)
    listed = tuple((name, _listed(zipped.table[:, at])) for at, name in enumerate(names))
    return replace(figure, columns=("tile", "offsets"), rows=listed)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(int(number)) for number in numbers)
