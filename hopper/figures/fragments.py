"""ldmatrix and mma.sync: which lane brings which address, and which register holds what."""

from __future__ import annotations

from hopper.errors import ProblemError
from hopper.mma_sync import (
    LANES,
    MATRIX_ROWS,
    MMA_K,
    MMA_M,
    MMA_N,
    addressing_lane,
    fragment_a,
    fragment_b,
    fragment_d,
    received,
)

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

_TINTS = (
    ("accent-soft", "accent"),
    ("warm-soft", "warm"),
    ("leaf-soft", "leaf"),
    ("plum-soft", "plum"),
)


def ldmatrix_addresses() -> Figure:
    """A 16×16 piece of A as the four matrices of one ldmatrix.x4: addresses in, registers out."""
    sheet = Canvas()
    row_height, left = 21, MARGIN + 66
    width = (WIDTH - MARGIN - left - 10) / 2
    top = 74
    sheet.text(MARGIN, 22, "Addresses in", size=BODY, bold=True, anchor="start")
    for half, label in ((0, "k 0–7, 16 bytes"), (1, "k 8–15, 16 bytes")):
        sheet.text(left + half * (width + 10) + width / 2, 50, label, fill="muted", fit=width + 8)
    for matrix, (fill, stroke) in enumerate(_TINTS):
        right, lower = divmod(matrix, 2)
        x = left + right * (width + 10)
        y = top + lower * (MATRIX_ROWS * row_height + 10)
        for row in range(MATRIX_ROWS):
            sheet.box(
                x, y + row * row_height, width, row_height - 2, fill=fill, stroke=stroke, radius=3
            )
            lane = addressing_lane(matrix, row)
            sheet.text(x + width / 2, y + (row + 0.45) * row_height, f"lane {lane}", fit=width)
        if right == 0:
            for row in range(0, MATRIX_ROWS, MATRIX_ROWS - 1):
                sheet.text(
                    left - 8,
                    y + (row + 0.45) * row_height,
                    f"row {8 * lower + row}",
                    fill="muted",
                    anchor="end",
                )

    top += 2 * MATRIX_ROWS * row_height + 46
    sheet.line([(MARGIN, top - 22), (WIDTH - MARGIN, top - 22)], stroke="line", width=1)
    sheet.text(MARGIN, top, "Registers out", size=BODY, bold=True, anchor="start")
    sheet.text(WIDTH - MARGIN, top, "of each matrix, two values a lane", fill="muted", anchor="end")
    top += 20
    cell = (WIDTH - 2 * MARGIN - 66) / 4
    holders = {received(lane): lane for lane in range(LANES)}
    shown = (0, 1, 7)
    for index, row in enumerate(shown):
        y = top + index * 30 + (14 if row == 7 else 0)
        sheet.text(left - 8, y + 12, f"row {row}", fill="muted", anchor="end")
        for pair in range(4):
            sheet.box(
                left + pair * cell,
                y,
                cell - 4,
                25,
                fill="panel",
                stroke="muted",
                radius=3,
            )
            sheet.text(
                left + pair * cell + (cell - 4) / 2, y + 12.5, f"lane {holders[row, 2 * pair]}"
            )
    sheet.text(left + 2 * cell, top + 66, "⋯", fill="muted")
    top += 122
    for matrix, (fill, stroke) in enumerate(_TINTS):
        right, lower = divmod(matrix, 2)
        x = MARGIN + right * (WIDTH - 2 * MARGIN + 8) / 2
        y = top + lower * 34
        room = (WIDTH - 2 * MARGIN - 8) / 2
        sheet.box(x, y, room, 28, fill=fill, stroke=stroke)
        first = addressing_lane(matrix, 0)
        sheet.text(
            x + room / 2, y + 14, f"lanes {first}–{first + 7} → a[{matrix}]", bold=True, fit=room
        )
    groups = "; ".join(
        f"matrix {m}, rows {8 * (m % 2)} to {8 * (m % 2) + 7} at k {8 * (m // 2)} to "
        f"{8 * (m // 2) + 7}: addressed by lanes {8 * m} to {8 * m + 7}, received in a[{m}]"
        for m in range(4)
    )
    return sheet.figure(
        top + 80,
        title="One ldmatrix.x4: a lane brings an address, and receives something else",
        alt=(
            f"A 16 by 16 piece of A, split into four matrices of 8 rows of 16 bytes: {groups}. Of "
            "each matrix, a row goes to four neighbouring lanes, two values each: row 0 to lanes "
            "0 to 3, row 1 to lanes 4 to 7, row 7 to lanes 28 to 31."
        ),
    )


def mma_fragment(lane: int) -> Figure:
    """What one lane holds of A, B and D of an mma.sync.m16n8k16, marked in the three matrices.

    Raises ProblemError for a lane that a warp does not have.
    """
    if not 0 <= lane < LANES:
        raise ProblemError(f"lane={lane}: a warp has lanes 0 to {LANES - 1}")
    sheet = Canvas()
    cell, gap = 13.5, 14
    a_left = MARGIN
    d_left = a_left + MMA_K * cell + gap
    b_top = 62
    d_top = b_top + MMA_K * cell + gap
    sheet.text(
        MARGIN, 22, f"What lane {lane} holds of one m16n8k16", size=BODY, bold=True, anchor="start"
    )
    sheet.text(d_left + MMA_N * cell / 2, b_top - 15, "B, 16×8", bold=True)
    sheet.text(a_left + MMA_K * cell / 2, d_top + MMA_M * cell + 20, "A, 16×16", bold=True)
    sheet.text(d_left + MMA_N * cell / 2, d_top + MMA_M * cell + 20, "D, 16×8", bold=True)

    held_a = {fragment_a(lane, e): f"a[{e // 2}]" for e in range(8)}
    held_b = {fragment_b(lane, e): f"b{e // 2}" for e in range(4)}
    held_d = {fragment_d(lane, e): f"d[{e}]" for e in range(4)}
    _matrix(sheet, a_left, d_top, MMA_M, MMA_K, cell, set(held_a), "accent")
    _matrix(sheet, d_left, b_top, MMA_K, MMA_N, cell, set(held_b), "warm")
    _matrix(sheet, d_left, d_top, MMA_M, MMA_N, cell, set(held_d), "leaf")

    x = d_left + MMA_N * cell + 10
    for element in (0, 2):
        k, _ = fragment_b(lane, element)
        sheet.text(x, b_top + (k + 1) * cell, f"b{element // 2}", anchor="start", bold=True)
        row, _ = fragment_d(lane, element)
        for offset in (0, 1):
            y = d_top + (row + 0.5) * cell + 9.5 * (2 * offset - 1)
            sheet.text(x, y, f"d[{element + offset}]", anchor="start", bold=True)

    y = 62
    for heading, held in (
        ("A: (row, k)", held_a),
        ("B: (k, column)", held_b),
        ("D: (row, column)", held_d),
    ):
        sheet.text(a_left, y, heading, anchor="start", fill="muted")
        for line in _lines(held):
            y += 19
            sheet.text(a_left, y, line, anchor="start", fit=d_left - a_left)
        y += 25
    spoken = "; ".join(
        f"{register} holds {'(' + ', '.join(map(str, place)) + ')'}"
        for held in (held_a, held_b, held_d)
        for place, register in held.items()
    )
    return sheet.figure(
        d_top + MMA_M * cell + 42,
        title=f"The fragments of lane {lane}",
        alt=(
            f"Three matrices of one mma.sync m16n8k16 with the elements of lane {lane} marked. A "
            f"places are row and k, B places k and column, D places row and column: {spoken}."
        ),
    )


def _lines(held: dict[tuple[int, int], str]) -> list[str]:
    """Two neighbouring elements a line, after the register or the registers that hold them."""
    places = list(held.items())
    lines = []
    for (first, register), (second, other) in zip(places[::2], places[1::2], strict=True):
        named = register if register == other else f"{register} {other}"
        lines.append("{} ({}, {}) ({}, {})".format(named, *first, *second))
    return lines


def _matrix(
    sheet: Canvas,
    left: float,
    top: float,
    rows: int,
    columns: int,
    cell: float,
    held: set[tuple[int, int]],
    stroke: str,
) -> None:
    """A grid of elements, those in ``held`` filled; heavier lines between its 8×8 matrices."""
    sheet.box(left, top, columns * cell, rows * cell, fill="panel", stroke="muted", radius=2)
    for line in range(1, columns):
        heavy = line % 8 == 0
        sheet.line(
            [(left + line * cell, top), (left + line * cell, top + rows * cell)],
            stroke="muted" if heavy else "line",
            width=2 if heavy else 0.7,
        )
    for line in range(1, rows):
        heavy = line % 8 == 0
        sheet.line(
            [(left, top + line * cell), (left + columns * cell, top + line * cell)],
            stroke="muted" if heavy else "line",
            width=2 if heavy else 0.7,
        )
    for row, column in held:
        sheet.box(
            left + column * cell + 1,
            top + row * cell + 1,
            cell - 2,
            cell - 2,
            fill=stroke,
            stroke=stroke,
            radius=2,
        )
