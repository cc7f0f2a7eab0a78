"""In which order blocks take the tiles of C, and what those share that run together.

``rasterized`` is kernels/include/raster.cuh in Python. ``touched`` and ``wave_bytes`` count what
blocks need that run at the same time. They assume that blocks start in the order of their numbers,
as many at a time as there is room for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure


def rasterized(block: int, rows: int, columns: int, width: int) -> tuple[int, int]:
    """Row and column, in tiles, of a block's tile; ``rows`` × ``columns``: the grid's x and y.

    ``block``: blockIdx.x + blockIdx.y · gridDim.x. ``width``: rows of a group; 0: all of them.
    """
    if width == 0:
        return block % rows, block // rows
    group, within = divmod(block, width * columns)
    first = group * width
    high = min(width, rows - first)
    return first + within % high, within // high


def touched(blocks: Sequence[int], rows: int, columns: int, width: int) -> tuple[int, int]:
    """How many rows of tiles (of A) and columns of tiles (of B) some blocks need, each once."""
    tiles = [rasterized(block, rows, columns, width) for block in blocks]
    return len({row for row, _ in tiles}), len({column for _, column in tiles})


def waves(rows: int, columns: int, running: int) -> list[range]:
    """The blocks of a grid, ``running`` at a time."""
    total = rows * columns
    return [range(first, min(first + running, total)) for first in range(0, total, running)]


def wave_bytes(
    rows: int, columns: int, width: int, *, running: int, a_bytes: int, b_bytes: int
) -> int:
    """Bytes that memory delivers if a wave shares everything and nothing outlasts it.

    ``a_bytes``, ``b_bytes``: of a row of tiles of A, and of a column of tiles of B, over all of K.
    """
    total = 0
    for blocks in waves(rows, columns, running):
        of_a, of_b = touched(blocks, rows, columns, width)
        total += of_a * a_bytes + of_b * b_bytes
    return total


def raster_patch(
    widths: tuple[int, int],
    rows: int,
    columns: int,
    running: int,
    *,
    wave: int = 0,
    tile: tuple[int, int] = (1, 1),
) -> Figure:
    """The tiles that run together, for two widths, with the rows of A and columns of B they need.

    ``wave``: which ``running`` blocks. ``tile``: rows and columns of elements, for the shape in
    which tiles are drawn. Raises ProblemError for a wave that there is not, and for a
    grid that has no room.
    """
    every = waves(rows, columns, running)
    if wave >= len(every):
        raise ProblemError(f"wave={wave}: there are {len(every)}, from 0 on; choose one of them")
    strip, between = 9, 26
    cell = ((WIDTH - 2 * MARGIN - between) / 2 - strip - 4) / columns
    tall = cell * tile[0] / tile[1]
    if min(cell, tall) < 2 or rows * tall > 600:
        raise ProblemError(f"{rows} × {columns} tiles do not fit the drawing; use fewer")
    sheet = Canvas()
    top = MARGIN + 50
    told = []
    for index, width in enumerate(widths):
        left = MARGIN + index * ((WIDTH - 2 * MARGIN - between) / 2 + between)
        of_a, of_b = touched(every[wave], rows, columns, width)
        name = f"{width} rows" if width else "all rows"
        sheet.text(left, MARGIN + 4, f"groups of {name}", bold=True, anchor="start", size=BODY)
        sheet.text(left, MARGIN + 25, f"needs {of_a} of A, {of_b} of B", anchor="start")
        corner_x, corner_y = left + strip + 4, top + strip + 4
        sheet.box(corner_x, corner_y, columns * cell, rows * tall, fill="panel", radius=0)
        tiles = {rasterized(block, rows, columns, width) for block in every[wave]}
        for column in range(columns):
            high = sorted(row for row, where in tiles if where == column)
            for first, last in _runs(high):
                sheet.box(
                    corner_x + column * cell, corner_y + first * tall, cell,
                    (last - first + 1) * tall, fill="accent-soft", stroke="accent", radius=0,
                    stroke_width=1,
                )  # fmt: skip
        of_a_ends = corner_y + (max(row for row, _ in tiles) + 1) * tall
        of_b_ends = corner_x + (max(column for _, column in tiles) + 1) * cell
        sheet.text(left + strip / 2, of_a_ends + 11, "A", bold=True)
        sheet.text(of_b_ends + 10, top + strip / 2, "B", bold=True)
        for first, last in _runs(sorted({row for row, _ in tiles})):
            sheet.box(left, corner_y + first * tall, strip, (last - first + 1) * tall,
                      fill="warm-soft", stroke="warm", hatch="diagonal", radius=0)  # fmt: skip
        for first, last in _runs(sorted({column for _, column in tiles})):
            sheet.box(corner_x + first * cell, top, (last - first + 1) * cell, strip,
                      fill="leaf-soft", stroke="leaf", hatch="rows", radius=0)  # fmt: skip
        told.append(
            f"in groups of {name} they need {of_a} rows of tiles of A and {of_b} columns of B"
        )
    return sheet.figure(
        math.ceil(top + strip + 4 + rows * tall + 8 + MARGIN),
        title=f"{len(every[wave])} tiles of C that are computed at the same time",
        alt=(
            f"Twice the {rows} × {columns} tiles of C, with the {len(every[wave])} marked that run "
            f"together. {told[0][0].upper()}{told[0][1:]}; {told[1]}."
        ),
        caption="At the left the rows of A that they need, at the top the columns of B.",
    )


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
