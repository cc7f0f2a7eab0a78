"""Operands in shared memory: what the two offsets lead to, where TMA put what, who meets in a bank.

The last two draw what they are given: a dump that a run made, and the addresses of a warp's lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy

from hopper.banks import BANKS, WORD_BYTES, bank, fewest, lanes_at_once, wavefronts
from hopper.errors import ProblemError
from hopper.swizzle import PIECE_BYTES

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

LINE_BYTES = BANKS * WORD_BYTES
_PIECES_A_LINE = LINE_BYTES // PIECE_BYTES
_UNTOUCHED = 0xFFFF

# ---- leading and stride -------------------------------------------------------------------------

#: An offset has its colour, whichever way it leads.
_OFFSET_COLOURS = {"LBO": "plum", "SBO": "warm"}
#: Pieces of a core matrix, spans of an atom.
_STRIPS = 8
#: Title, block (rows, K), what leads to the next block along K and along the rows.
_COMBINATIONS = (
    ("K-major, no swizzle", ("8 rows", "16 B"), "LBO", "SBO"),
    ("K-major, swizzled", ("8 rows", "a span"), None, "SBO"),
    ("MN-major, no swizzle", ("16 B", "8 of k"), "LBO", "SBO"),
    ("MN-major, swizzled", ("a span", "8 of k"), "SBO", "LBO"),
)


def leading_and_stride() -> Figure:
    """Which of the two byte offsets leads where, for each major with and without a swizzle."""
    sheet = Canvas()
    width = (WIDTH - 2 * MARGIN - 16) / 2
    height = 226
    sheet.text(MARGIN, 22, "Rows of M or N run down, K runs to the right.", fill="muted",
               anchor="start")  # fmt: skip
    for number, combination in enumerate(_COMBINATIONS):
        down, right = divmod(number, 2)
        _combination(sheet, MARGIN + right * (width + 16), 40 + down * height, width, *combination)
    return sheet.figure(
        40 + 2 * height - 12,
        title="Where the two byte offsets lead",
        alt=(
            "Four small drawings of an operand made of blocks, rows running down and K to the "
            "right. K-major without a swizzle: a block is 8 rows of 16 bytes, LBO leads to the "
            "next block along K, SBO to the next 8 rows. K-major with a swizzle: a block is 8 rows "
            "of one span, SBO leads to the next 8 rows, LBO is not used. MN-major without a "
            "swizzle: a block is 16 bytes of rows by 8 of k, LBO leads to the next 8 of k, SBO to "
            "the next 8 rows. MN-major with a swizzle: a block is one span of rows by 8 of k, SBO "
            "leads to the next 8 of k, LBO to the next span of rows. A block has eight strips of "
            "neighbouring bytes: they lie along K if K-major, and upright, along the rows, if "
            "MN-major."
        ),
        caption=(
            "Each block has eight strips. The bytes of a strip are neighbours in memory: 16 of "
            "them, or with a swizzle a span. K-major a strip is a part of one row and lies along "
            "K, MN-major it is a part of one k and stands upright. An offset keeps its colour, and "
            "changes its direction in the last drawing."
        ),
    )


def _combination(
    sheet: Canvas,
    x: float,
    y: float,
    width: float,
    title: str,
    block: tuple[str, str],
    along_k: str | None,
    along_rows: str,
) -> None:
    """One of the four: two blocks along K where an instruction reads two, and two down."""
    sheet.text(x, y + 10, title, bold=True, anchor="start", fit=width + 8)
    major_k = title.startswith("K")
    across = 2 if along_k else 1
    gap, wide = 30, 44
    cell = (width - wide) / 2 if across == 2 else width
    tall = 74
    for row in range(2):
        for column in range(across):
            left, top = x + column * (cell + wide), y + 28 + row * (tall + gap)
            first = row == column == 0
            sheet.box(
                left,
                top,
                cell,
                tall,
                fill="accent-soft" if first else "panel",
                stroke="accent" if first else "muted",
                stroke_width=2 if first else 1.5,
            )
            for strip in range(1, _STRIPS):
                x0, y0, x1, y1 = left, top, left + cell, top + tall
                if major_k:
                    y0 = y1 = top + strip * tall / _STRIPS
                else:
                    x0 = x1 = left + strip * cell / _STRIPS
                sheet.line([(x0, y0), (x1, y1)], stroke="accent" if first else "peer", width=0.75)
            if first:
                halo, room = "accent-soft", min(cell - 8, 80)
                sheet.box(left + (cell - room) / 2, top + tall / 2 - 20, room, 40, fill=halo,
                          stroke=halo, radius=4)  # fmt: skip
                sheet.text(left + cell / 2, top + tall / 2 - 10, block[0], fit=cell, halo=halo)
                sheet.text(left + cell / 2, top + tall / 2 + 10, f"× {block[1]}", fit=cell + 4,
                           halo=halo)  # fmt: skip
    middle = y + 28 + tall + gap / 2
    tint = _OFFSET_COLOURS[along_rows]
    sheet.arrow((x + 16, middle - gap / 2 + 2), (x + 16, middle + gap / 2 - 2), stroke=tint)
    sheet.text(x + 28, middle, along_rows, anchor="start", bold=True, fill=tint)
    if along_k:
        level = y + 28 + tall / 2 + 26
        tint = _OFFSET_COLOURS[along_k]
        sheet.arrow((x + cell + 2, level), (x + cell + wide - 2, level), stroke=tint)
        sheet.text(x + cell + wide / 2, y + 28 + tall / 2 + 8, along_k, bold=True, fill=tint)
    else:
        sheet.text(x + width - 4, middle, "no LBO", anchor="end", italic=True, fill="muted")


# ---- what TMA wrote -----------------------------------------------------------------------------


def swizzle_dump(
    dumps: Mapping[str, Sequence[int] | numpy.ndarray],
    columns: Mapping[str, int],
    *,
    lines: int = 8,
    title: str,
    caption: str = "",
) -> Figure:
    """Shared memory in lines of 128 bytes, each 16-byte piece named by its row and place.

    dumps    heading -> what shared memory held, 2-byte elements; element i of the box holds i
    columns  heading -> elements in a row of that box
    lines    how many lines of each are drawn
    Pieces that were the first of their row are marked. 0xFFFF is what TMA left alone.
    Raises ProblemError for a piece whose elements did not stay together.
    """
    sheet = Canvas()
    left = MARGIN + 52
    cell = (WIDTH - MARGIN - left) / _PIECES_A_LINE
    tall, y = 24, 14.0
    spoken, rows = [], []
    for heading, dump in dumps.items():
        sheet.text(MARGIN, y + 10, heading, size=BODY, bold=True, anchor="start", fit=WIDTH - 28)
        y += 30
        told = []
        for line in range(lines):
            sheet.text(left - 8, y + tall / 2 - 1, str(line * LINE_BYTES), anchor="end",
                       fill="muted")  # fmt: skip
            names = []
            for place in range(_PIECES_A_LINE):
                name = _piece(dump, line * _PIECES_A_LINE + place, columns[heading])
                names.append(name or "—")
                marked = name.endswith("·0")
                sheet.box(
                    left + place * cell,
                    y,
                    cell - 3,
                    tall - 3,
                    fill="warm-soft" if marked else "panel" if name else "paper",
                    stroke="warm" if marked else "line",
                    radius=3,
                    stroke_width=2 if marked else 1,
                    dashed=not name,
                )
                if name:
                    sheet.text(left + place * cell + (cell - 3) / 2, y + tall / 2 - 1, name,
                               bold=marked, fit=cell + 2)  # fmt: skip
            rows.append((heading, str(line * LINE_BYTES), *names))
            told.append(f"{line * LINE_BYTES}: {' '.join(names)}")
            y += tall
        y += 18
        spoken.append(f"{heading}. " + "; ".join(told))
    figure = sheet.figure(
        y,
        title=title,
        alt=(
            "Shared memory in lines of 128 bytes, eight pieces of 16 bytes each. A piece is named "
            "by its row in the box and its place in the row; first pieces are marked. By address: "
            + " | ".join(spoken)
        ),
        caption=caption,
    )
    heads = (f"+{PIECE_BYTES * place}" for place in range(_PIECES_A_LINE))
    return replace(figure, columns=("mode", "address", *heads), rows=tuple(rows))


def _piece(dump: Sequence[int] | numpy.ndarray, number: int, columns: int) -> str:
    """Row and place of what lies in piece ``number`` of memory; empty where nothing does."""
    items = PIECE_BYTES // 2
    held = numpy.asarray(dump[number * items : (number + 1) * items], dtype=int)
    if (held == _UNTOUCHED).all():
        return ""
    if (held != held[0] + numpy.arange(items)).any() or held[0] % items:
        raise ProblemError(
            f"piece {number} holds elements {held.tolist()}: 16 bytes move as one, so these are "
            f"eight neighbours; pass a dump of a box that numbers its elements from 0"
        )
    return f"{held[0] // columns}·{held[0] % columns // items}"


# ---- banks --------------------------------------------------------------------------------------


def bank_picture(
    patterns: Mapping[str, Sequence[int] | numpy.ndarray], *, access_bytes: int = 16
) -> Figure:
    """Which banks the lanes want that are served together, and how many turns that takes.

    patterns      heading -> byte address of each lane of a warp
    access_bytes  4, 8 or 16
    Draws the first group of lanes of each pattern: 8 lanes where a lane reads 16 bytes.
    """
    sheet = Canvas()
    group = lanes_at_once(access_bytes)
    columns = BANKS // (access_bytes // WORD_BYTES)
    left = MARGIN + 58
    cell = (WIDTH - MARGIN - left) / columns
    tall, y = (20 if group <= 8 else 12), 14.0
    spoken = []
    for heading, addresses in patterns.items():
        lanes = numpy.asarray(addresses)[:group]
        turns = wavefronts(lanes, access_bytes)
        sheet.text(MARGIN, y + 10, heading, size=BODY, bold=True, anchor="start")
        counted = f"{turns} turn{'s' if turns > 1 else ''}"
        sheet.text(WIDTH - MARGIN, y + 10, counted, size=BODY, bold=True, anchor="end",
                   fill="warm" if turns > fewest(access_bytes, group) else "leaf")  # fmt: skip
        y += 28
        wanted = bank(lanes) // (access_bytes // WORD_BYTES)
        for lane, column in enumerate(wanted):
            if group <= 8 or lane % 4 == 0:
                sheet.text(left - 8, y + tall / 2, f"lane {lane}", anchor="end", fill="muted")
            for place in range(columns):
                hit = place == column
                sheet.box(
                    left + place * cell,
                    y,
                    cell - 2,
                    tall - 2,
                    fill="accent" if hit else "panel",
                    stroke="accent" if hit else "line",
                    radius=2,
                    stroke_width=1,
                )
            y += tall
        first, last = "banks 0–3" if access_bytes == 16 else "bank 0", f"{BANKS - 1}"
        sheet.text(left, y + 12, first, anchor="start", fill="muted")
        sheet.text(WIDTH - MARGIN, y + 12, last, anchor="end", fill="muted")
        y += 38
        places = ", ".join(str(int(bank(one))) for one in lanes)
        spoken.append(f"{heading}: lanes 0 to {group - 1} begin in banks {places}; {counted}")
    return sheet.figure(
        y - 8,
        title="Lanes that are served together, and the banks they want",
        alt=(
            f"Grids of {group} lanes by the 32 banks, a filled cell for the "
            f"{access_bytes} bytes that a lane wants. " + ". ".join(spoken) + "."
        ),
    )
