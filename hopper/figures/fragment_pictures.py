"""Fragments as pictures: a thread's share of an accumulator, and how a warp stores its own."""

from __future__ import annotations

import numpy

from hopper.errors import ProblemError
from hopper.fragment import held_by, matrix_held_by
from hopper.sectors import SECTOR_BYTES, touched

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure
from .warpgroup import LANES, WARPS, M, accumulator_registers, require_legal_n

_TINTS = (
    ("accent-soft", "accent"),
    ("warm-soft", "warm"),
    ("leaf-soft", "leaf"),
    ("plum-soft", "plum"),
)
_LABELS = 62  # room for "warp 0"
_MATRIX = WIDTH - 2 * MARGIN - _LABELS
_ITEM_BYTES = 2


def accumulator_fragment(thread: int, n: int) -> Figure:
    """The places of a 64 × n accumulator that one thread holds, and the first four enlarged.

    Raises ProblemError for a thread that a warpgroup has not, or an N that wgmma has not.
    """
    require_legal_n(n)
    if not 0 <= thread < WARPS * LANES:
        raise ProblemError(f"thread={thread}: a warpgroup has 128 threads; count from 0 to 127")
    registers = accumulator_registers(n)
    places = [held_by(thread, r) for r in range(registers)]
    sheet = Canvas()
    top = 52
    cell, tall = _MATRIX / n, 4.0
    left = MARGIN + _LABELS
    sheet.text(
        MARGIN, 22, f"Thread {thread} of a 64 × {n} accumulator", size=BODY, bold=True,
        anchor="start",
    )  # fmt: skip
    for warp, (fill, stroke) in enumerate(_TINTS):
        y = top + warp * 16 * tall
        sheet.box(left, y, _MATRIX, 16 * tall, fill=fill, stroke=stroke, radius=0)
        sheet.text(left - 8, y + 8 * tall, f"warp {warp}", anchor="end", fill="muted")
    for row, column in places:
        sheet.box(
            left + column * cell, top + row * tall, cell, tall, fill="ink", stroke="ink",
            radius=0, stroke_width=0.4,
        )  # fmt: skip
    bottom = top + M * tall
    room = WIDTH - 2 * MARGIN
    height = bottom + 24
    for first in (0, 2):
        (row, column), (_, beside) = places[first : first + 2]
        words = f"registers {first}, {first + 1}: ({row}, {column}), ({row}, {beside})"
        sheet.text(WIDTH / 2, height, words, fit=room)
        height += 22
    if registers > 4:
        words = f"the same every 8 columns, to register {registers - 1}"
        sheet.text(WIDTH / 2, height, words, fit=room)
        height += 22
    shown = ", ".join(f"({row}, {column})" for row, column in places[:4])
    return sheet.figure(
        height,
        title=f"What thread {thread} holds",
        alt=(
            f"A 64 by {n} matrix in four bands of sixteen rows, one for each warp. Marked are the "
            f"{registers} elements of thread {thread}: registers 0 to 3 hold {shown}, and every "
            f"four registers more hold the same eight columns further."
        ),
    )


def store_sectors(n: int = 64) -> Figure:
    """One store instruction of a warp, straight from the fragment and after stmatrix, in fp16.

    Eight rows of C, ``n`` columns wide, each cut into sectors of 32 bytes. Raises ProblemError for
    an n that is no multiple of 64 up to 256.
    """
    if n % 64 or not 64 <= n <= 256:
        raise ProblemError(f"n={n}: the picture has room for 64, 128, 192 or 256 columns")
    lanes = numpy.arange(LANES)
    row, column = matrix_held_by(lanes, 0)
    direct = (row * n + column) * _ITEM_BYTES, 4
    staged = lanes * 16, 16
    sheet = Canvas()
    y = 22
    words = []
    for heading, (addresses, width) in (
        ("Straight from the fragment, 4 bytes a lane", direct),
        ("Rows from shared memory, 16 bytes a lane", staged),
    ):
        found = touched(addresses, width)
        told = f"{found.sectors} sectors, {found.filled:.0%} filled, {found.bytes} bytes"
        words.append(f"{heading.lower()}: {told}")
        sheet.text(MARGIN, y, heading, size=BODY, bold=True, anchor="start")
        _rows(sheet, y + 18, addresses, width, n)
        sheet.text(MARGIN, y + 18 + 8 * 19 + 16, told, anchor="start", fill="muted")
        y += 18 + 8 * 19 + 52
    return sheet.figure(
        y - 12,
        title="What one store instruction of a warp writes",
        alt=(
            f"Eight rows of a matrix C with {n} fp16 columns, cut into sectors of {SECTOR_BYTES} "
            f"bytes. {words[0].capitalize()}: half a sector in each of eight rows. "
            f"{words[1].capitalize()}: whole rows."
        ),
    )


def _rows(sheet: Canvas, top: float, addresses: numpy.ndarray, width: int, n: int) -> None:
    """Eight rows of ``n`` fp16 and what a store fills of them."""
    room = WIDTH - 2 * MARGIN
    row_bytes = n * _ITEM_BYTES
    scale = room / row_bytes
    for row in range(8):
        y = top + row * 19
        for sector in range(row_bytes // SECTOR_BYTES):
            sheet.box(
                MARGIN + sector * SECTOR_BYTES * scale, y, SECTOR_BYTES * scale, 15,
                fill="panel", stroke="line", radius=2,
            )  # fmt: skip
    for address in addresses:
        row, byte = divmod(int(address), row_bytes)
        sheet.box(
            MARGIN + byte * scale, top + row * 19 + 1.5, width * scale, 12,
            fill="accent", stroke="accent-soft", radius=1, stroke_width=0.8,
        )  # fmt: skip


def stmatrix_matrices() -> Figure:
    """A 16 × 16 piece of a warp's accumulators as the four matrices of one stmatrix.x4."""
    sheet = Canvas()
    left, room, tall = MARGIN + 58, (WIDTH - 2 * MARGIN - 68) / 2, 96
    sheet.text(MARGIN, 22, "Registers in", size=BODY, bold=True, anchor="start")
    sheet.text(WIDTH - MARGIN, 22, "packed fp16, two columns each", fill="muted", anchor="end")
    spoken = []
    for matrix, (fill, stroke) in enumerate(_TINTS):
        right, lower = divmod(matrix, 2)
        x, y = left + right * (room + 10), 66 + lower * (tall + 10)
        sheet.box(x, y, room, tall, fill=fill, stroke=stroke)
        first = 4 * right + 2 * lower
        for place, (text, bold) in enumerate(
            (
                (f"matrix {matrix}", True),
                (f"d[{first}], d[{first + 1}]", False),
                (f"lanes {8 * matrix}–{8 * matrix + 7} bring", False),
                ("its 8 addresses", False),
            )
        ):
            sheet.text(x + room / 2, y + 18 + place * 20, text, bold=bold, fit=room + 8)
        spoken.append(
            f"matrix {matrix}, rows {8 * lower} to {8 * lower + 7}, columns {8 * right} to "
            f"{8 * right + 7}, comes from d[{first}] and d[{first + 1}] of all lanes and goes to "
            f"the addresses that lanes {8 * matrix} to {8 * matrix + 7} bring"
        )
        if not right:
            sheet.text(left - 8, y + tall / 2 - 9, "rows", fill="muted", anchor="end")
            sheet.text(
                left - 8, y + tall / 2 + 9, f"{8 * lower}–{8 * lower + 7}", fill="muted",
                anchor="end",
            )  # fmt: skip
        if not lower:
            sheet.text(
                x + room / 2, 50, f"columns {8 * right}–{8 * right + 7}", fill="muted", fit=room
            )
    return sheet.figure(
        66 + 2 * tall + 24,
        title="One stmatrix.x4: eight accumulators of each lane",
        alt="A 16 by 16 piece of the accumulators of a warp, in four matrices: "
        + "; ".join(spoken)
        + ".",
    )
