"""A pair of blocks in pictures: which operand it shares, which box goes where, who tells whom."""

from __future__ import annotations

from hopper.errors import ProblemError
from hopper.facts import LaunchFacts
from hopper.pairs import loaded_bytes, shares_a

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

_RIGHT = WIDTH - MARGIN
_GAP = 16.0
_WIDE = (WIDTH - 2 * MARGIN - _GAP) / 2  # of a block
_LEFT = (MARGIN, MARGIN + _WIDE + _GAP)
#: Of each half of the shared operand: fill, outline, hatch. The tiles of a block's own are plain.
_HALF = (("accent-soft", "accent", None), ("warm-soft", "warm", "diagonal"))
_OWN = ("panel", "muted", None)


def _kb(amount: int) -> str:
    return f"{amount / 1024:g} KB"


def _require_pair(facts: LaunchFacts) -> None:
    if facts.cluster != 2:
        raise ProblemError(
            f"cluster={facts.cluster}: the drawing has two blocks; take a kernel whose clusters "
            f"are pairs, as v8_multicast"
        )


def pair_tiles(column: LaunchFacts, row: LaunchFacts) -> Figure:
    """Two tiles of C in a column, which share B, and two in a row, which share A.

    The facts of a kernel for each. Raises ProblemError where they are not of pairs, or swapped.
    """
    for facts in (column, row):
        _require_pair(facts)
    if shares_a(column) or not shares_a(row):
        raise ProblemError("column shares B and row shares A: pass the facts in this order")
    sheet = Canvas()
    scale = (_WIDE - 34) / (2 * row.tile_n)
    told = []
    for left, facts in zip(_LEFT, (column, row), strict=True):
        across = shares_a(facts)
        wide, tall = facts.tile_n * scale, facts.tile_m * scale
        shared, own = ("A", "B") if across else ("B", "A")
        sheet.text(left, 18, f"in a {'row' if across else 'column'}", bold=True, anchor="start",
                   size=BODY)  # fmt: skip
        sheet.text(left, 40, f"both need the same {shared}", anchor="start", fit=_WIDE + 6)
        x0, y0, strip = left + 26, 86.0, 18.0
        for rank in range(2):
            x, y = x0 + rank * across * wide, y0 + rank * (not across) * tall
            sheet.box(x, y, wide, tall, fill="peer-soft", stroke="peer", radius=0)
            sheet.text(x + wide / 2, y + tall / 2, f"C{'₀₁'[rank]}", bold=True)
        for matrix in ("A", "B"):
            for part in range(2):
                fill, stroke, hatch = _HALF[part] if matrix == shared else _OWN
                place = _strip(matrix, part, matrix == shared, x0, y0, wide, tall, strip)
                sheet.box(*place, fill=fill, stroke=stroke, hatch=hatch, radius=0)
        sheet.text(x0 - 13, y0 - 14, "A", bold=True)
        sheet.text(x0 + (2 if across else 1) * wide + 10, y0 - 13, "B", bold=True)
        told.append(
            f"two tiles of C in a {'row' if across else 'column'}: each has {own} of its own, "
            f"and both need the same {shared}, of which each block loads one half"
        )
    bottom = 86 + 2 * column.tile_m * scale + 24
    sheet.text(MARGIN, bottom, "Coloured: the shared tile, in halves. Each", anchor="start")
    sheet.text(MARGIN, bottom + 19, "block loads the half of its rank, for both.", anchor="start")
    return sheet.figure(
        bottom + 38,
        title="Two ways to make a pair",
        alt=f"{told[0][0].upper()}{told[0][1:]}. Beside it {told[1]}.",
        caption="C₀ is the tile of block 0, C₁ that of block 1. Strips: what they need of A, at "
        "the left, and of B, at the top, in one step of K.",
    )


def _strip(
    matrix: str, part: int, shared: bool, x0: float, y0: float, wide: float, tall: float,
    thick: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """Place of a part of an operand: half of a shared tile, or the tile of one block."""
    long = (tall if matrix == "A" else wide) / (2 if shared else 1)
    if matrix == "A":
        return x0 - thick - 4, y0 + part * long, thick, long
    return x0 + part * long, y0 - thick - 4, long, thick


def pair_loads(facts: LaunchFacts, warps: int) -> Figure:
    """One step of K of a pair: four boxes, where each lands, and what each `full` counts.

    ``warps``: that multiply, of each block. Raises ProblemError unless its clusters are of two.
    """
    _require_pair(facts)
    across = shares_a(facts)
    own, shared = ("B", "A") if across else ("A", "B")
    own_rows, half_rows = (
        (facts.b_box[0], facts.a_box[0]) if across else (facts.a_box[0], facts.b_box[0])
    )
    row_bytes = facts.tile_k * 2
    own_kb, half_kb = _kb(own_rows * row_bytes), _kb(half_rows * row_bytes)
    whole = _kb((own_rows + 2 * half_rows) * row_bytes)
    asked = _kb(loaded_bytes(facts))
    sheet = Canvas()
    sheet.text(MARGIN, 16, "L2", bold=True, anchor="start", size=BODY)
    sheet.text(_RIGHT, 16, f"each block asks for {asked}", anchor="end")
    top, box = 30.0, 34.0
    columns = [_LEFT[0], _LEFT[0] + _WIDE / 2, _LEFT[1], _LEFT[1] + _WIDE / 2]
    each = _WIDE / 2 - 4
    sources = (  # x, label, look
        (columns[0], f"{own}₀", _OWN),
        (columns[1], f"{shared}, half 0", _HALF[0]),
        (columns[2], f"{shared}, half 1", _HALF[1]),
        (columns[3], f"{own}₁", _OWN),
    )
    for x, label, (fill, stroke, hatch) in sources:
        sheet.box(x, top, each, box, fill=fill, stroke=stroke, hatch=hatch, radius=0)
        sheet.text(x + each / 2, top + box / 2, label, halo=fill if hatch else None, fit=each + 8)
    # Where they land: in block 0 own, half 0, half 1; in block 1 half 0, half 1, own.
    stage, third = 162.0, (_WIDE - 16) / 3
    places = [[_LEFT[rank] + 8 + part * third for part in range(3)] for rank in range(2)]
    for rank in range(2):
        sheet.box(_LEFT[rank], stage - 8, _WIDE, 166, fill="paper", stroke="ink")
        parts = [(f"{own}{'₀₁'[rank]}", _OWN, own_kb), ("half 0", _HALF[0], half_kb),
                 ("half 1", _HALF[1], half_kb)]  # fmt: skip
        order = parts if rank == 0 else [*parts[1:], parts[0]]
        for x, (label, (fill, stroke, hatch), size) in zip(places[rank], order, strict=True):
            sheet.box(x, stage, third, 48, fill=fill, stroke=stroke, hatch=hatch, radius=0)
            halo = fill if hatch else None
            sheet.text(x + third / 2, stage + 15, label, halo=halo, fit=third + 6)
            sheet.text(x + third / 2, stage + 34, size, halo=halo, fit=third + 6)
        middle = _LEFT[rank] + _WIDE / 2
        sheet.text(middle, stage + 64, f"block {rank}, one stage", bold=True)
        y = stage + 80
        sheet.box(_LEFT[rank] + 8, y, _WIDE - 16, 64, fill="leaf-soft", stroke="leaf")
        sheet.text(_LEFT[rank] + 16, y + 14, "full", bold=True, anchor="start")
        sheet.text(_LEFT[rank] + 16, y + 33, "1 arrival, its own", anchor="start", fit=_WIDE - 16)
        sheet.text(_LEFT[rank] + 16, y + 51, f"{whole}, from both", anchor="start", fit=_WIDE - 16)
    ends = {0: places[0][0], 3: places[1][2]}
    for source, x in ends.items():
        start = columns[source] + each / 2
        level = top + box + 16
        target = x + third / 2
        sheet.line([(start, top + box + 4), (start, level), (target, level)], stroke="muted",
                   width=2)  # fmt: skip
        sheet.arrow((target, level), (target, stage - 3), stroke="muted")
    for half in range(2):
        stroke = _HALF[half][1]
        start, level = columns[1 + half] + each / 2, top + box + 36 + 24 * half
        targets = [places[0][1 + half] + third / 2, places[1][half] + third / 2]
        xs = [*targets, start]
        sheet.line([(start, top + box + 4), (start, level)], stroke=stroke, width=2)
        sheet.line([(min(xs), level), (max(xs), level)], stroke=stroke, width=2)
        for x in targets:
            sheet.arrow((x, level), (x, stage - 3), stroke=stroke)
    y = stage + 182
    sheet.text(MARGIN, y, "when both blocks have used the stage", bold=True, anchor="start",
               size=BODY)  # fmt: skip
    for rank in range(2):
        for row, (who, fill, stroke) in enumerate(
            ((f"{warps} consumer warps", "plum-soft", "plum"),
             (f"empty: {2 * warps} arrivals", "leaf-soft", "leaf"))
        ):  # fmt: skip
            at = y + 18 + row * 92
            sheet.box(_LEFT[rank], at, _WIDE, 38, fill=fill, stroke=stroke)
            sheet.text(_LEFT[rank] + _WIDE / 2, at + 19, who, fit=_WIDE)
    start, end = y + 58, y + 108
    for rank in range(2):  # lane 0 to block 0, lane 1 to block 1
        near = _LEFT[rank] + (0.1 if rank == 0 else 0.9) * _WIDE
        sheet.arrow((near, start), (near, end), stroke="plum")
        x = near + (9 if rank == 0 else -9)
        sheet.text(x, start + 14, f"lane {rank}", anchor="start" if rank == 0 else "end")
    for rank in range(2):
        out = _LEFT[rank] + (0.87 if rank == 0 else 0.13) * _WIDE
        into = _LEFT[1 - rank] + (0.34 if rank == 0 else 0.66) * _WIDE
        level = start + (30 if rank == 0 else 38)
        sheet.line([(out, start), (out, level), (into, level)], stroke="plum", width=2)
        sheet.arrow((into, level), (into, end), stroke="plum")
    sheet.text(_LEFT[0] + 0.87 * _WIDE - 8, start + 14, "lane 1", anchor="end")
    sheet.text(_LEFT[1] + 0.13 * _WIDE + 8, start + 14, "lane 0", anchor="start")
    return sheet.figure(
        y + 158,
        title="One step of a pair: which box goes where, and who tells whom",
        alt=(
            f"Above, in L2, four boxes: {own} of block 0, the two halves of {shared}, {own} of "
            f"block 1. Arrows are requests. {own} of each block goes to that block alone. Block 0 "
            f"asks for half 0 and block 1 for half 1, and each half goes to both blocks, to the "
            f"same place of the stage. In either block full expects one arrival, of its own "
            f"producer, and {whole}, of which it asked for {asked}. Below, the {warps} warps that "
            f"multiply in each block: lane 0 of each tells empty of block 0, lane 1 empty of "
            f"block 1. So each empty gets {2 * warps} arrivals, {warps} from either block."
        ),
        caption=f"The sizes of one step: {own} {own_kb}, each half of {shared} {half_kb}. "
        "In memory a stage is A and behind it B, in both blocks.",
    )
