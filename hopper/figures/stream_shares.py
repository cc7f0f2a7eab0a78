"""Stream-K drawn: a stream of units cut into shares, and clusters over time.

Both take a plan of ``hopper.stream_k``. A piece is drawn by what becomes of it: whole units are
plain, sums that are given away have diagonal hatching, and pieces that add the sums of others have
dots.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hopper.errors import ProblemError

from .canvas import MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure

if TYPE_CHECKING:
    from hopper.stream_k import Piece, Plan, Timed

#: What becomes of a piece -> fill, outline, hatch, and its name.
KINDS: dict[str, tuple[str, str, str | None, str]] = {
    "wave": ("panel", "muted", None, "a whole unit of a wave"),
    "whole": ("accent-soft", "accent", None, "a whole unit of the stream"),
    "gives": ("warm-soft", "warm", "diagonal", "gives its sums"),
    "adds": ("leaf-soft", "leaf", "dots", "adds sums of others, and finishes"),
}
_LEFT = 34.0
_ROOM = WIDTH - MARGIN - _LEFT
_ROW, _THIN = 30.0, 7.0


def kind_of(piece: Piece, plan: Plan) -> str:
    """A key of KINDS."""
    if piece.unit < plan.whole:
        return "wave"
    if piece.to is not None:
        return "gives"
    return "adds" if piece.givers else "whole"


def stream_cut(plan: Plan, *, title: str = "") -> Figure:
    """The stream end to end along K, with the shares into which it is cut.

    Raises ProblemError where there is no stream, and where shares are too many to be labelled.
    """
    if not plan.sharers:
        raise ProblemError("this plan has no stream: whole waves leave nothing over")
    if plan.sharers > 12:
        raise ProblemError(f"{plan.sharers} shares do not fit the drawing; use a dozen at most")
    scale = (WIDTH - 2 * MARGIN) / plan.stream
    sheet = Canvas()
    top = MARGIN + 8
    sheet.text(MARGIN, top, "the stream, unit by unit", anchor="start", bold=True)
    top += 14
    x = float(MARGIN)
    begins = {}
    for unit in plan.units[plan.whole :]:
        width = unit.cost * plan.steps * scale
        begins[unit.number] = x
        sheet.box(x, top, width, _ROW, fill="panel", stroke="ink", radius=0)
        sheet.text(x + width / 2, top + _ROW / 2, _short(f"u{unit.number}", width), bold=True)
        x += width
    top += _ROW + 26
    sheet.text(MARGIN, top, "its shares, cluster by cluster", anchor="start", bold=True)
    top += 14
    for cluster in range(plan.sharers):
        mine = [piece for piece in plan.pieces[cluster] if piece.unit >= plan.whole]
        for piece in mine:
            cost = plan.units[piece.unit].cost
            left = begins[piece.unit] + piece.first * cost * scale
            _piece(sheet, piece, plan, left, top, piece.cost * scale, _ROW, label=False)
        if not mine:
            continue
        low = min(begins[p.unit] + p.first * plan.units[p.unit].cost * scale for p in mine)
        wide = sum(p.cost for p in mine) * scale
        sheet.text(low + wide / 2, top + _ROW + 13, _short(f"c{cluster}", wide), bold=True)
        sheet.line([(low, top - 6), (low, top + _ROW + 6)], stroke="ink", width=2)
    sheet.line([(WIDTH - MARGIN, top - 6), (WIDTH - MARGIN, top + _ROW + 6)], stroke="ink", width=2)
    top += _ROW + 34
    drawn = {kind_of(piece, plan) for piece in plan.every()} - {"wave"}
    top = _legend(sheet, top, [kind for kind in KINDS if kind in drawn])
    count = len(plan.units) - plan.whole
    return sheet.figure(
        math.ceil(top + MARGIN - 8),
        title=title or f"A stream of {count} units, cut into {plan.sharers} shares",
        alt=(
            f"Above, {count} units side by side, each as wide as its cost along K. Below, the same "
            f"length cut into {plan.sharers} equal shares, one a cluster. A cut inside of a unit "
            f"leaves a piece before it, which is given, and one behind it, which adds."
        ),
        caption="u: number of the unit. c: number of the cluster. From left to right along K.",
    )


def stream_clusters(
    plan: Plan,
    *,
    title: str = "",
    alt: str = "",
    caption: str = "",
    from_the_front: bool = False,
    waves: bool = True,
) -> Figure:
    """Clusters over time, a row each, every piece as long as its cost.

    ``from_the_front``: shares in the order of the stream, which v9 does not do. ``waves``: False
    leaves out the whole waves, which are the same for everyone. Raises ProblemError where nothing
    is left then.
    """
    from hopper.stream_k import run_plan  # which needs this package's raster

    if not waves and not plan.sharers:
        raise ProblemError("this plan has no stream; draw its waves")
    lines = run_plan(plan, from_the_front=from_the_front)
    skipped = 0 if waves else plan.waves * plan.steps * plan.units[0].cost
    end = max(line[-1].done for line in lines if line)
    scale = _ROOM / (end - skipped)
    few = plan.clusters <= 12
    high = _ROW if few else _THIN
    sheet = Canvas()
    top = float(MARGIN)
    for cluster, line in enumerate(lines):
        y = top + cluster * high
        if few or cluster % 10 == 0 or cluster == plan.clusters - 1:
            sheet.text(_LEFT - 5, y + high / 2, f"c{cluster}", anchor="end", bold=few)
        for one in line:
            if one.end <= skipped:
                continue
            left, wide = _LEFT + (one.begin - skipped) * scale, one.piece.cost * scale
            _piece(sheet, one.piece, plan, left, y + 1, wide, high - (3 if few else 1), label=few)
            if one.done > one.end:
                _waits(sheet, one, left + wide, y + high / 2, (one.done - one.end) * scale, few)
    top += plan.clusters * high + 12
    sheet.text(_LEFT, top, "time", fill="muted", italic=True, anchor="start")
    sheet.arrow((_LEFT + 46, top), (WIDTH - MARGIN, top))
    top += 26
    shown = [kind for kind in KINDS if any(_drawn(p, plan, kind, waves) for p in plan.every())]
    top = _legend(sheet, top, shown)
    if any(one.done > one.end for line in lines for one in line):
        sheet.line([(MARGIN + 2, top), (MARGIN + 24, top)], stroke="ink", width=2, dashed=True)
        sheet.text(MARGIN + 32, top, "waits for a gift", anchor="start")
        top += 24
    used = plan.cost / (plan.clusters * end)
    return sheet.figure(
        math.ceil(top + MARGIN - 8),
        title=title or f"{plan.clusters} clusters over time",
        alt=alt
        or (
            f"A row of pieces for each of {plan.clusters} clusters. {_told(plan, waves)} "
            f"Products fill {used:.1%} of the area."
        ),
        caption=caption
        or (
            "u: number of the unit; behind the colon its steps of K, or all. "
            "←: backwards through K."
            if few
            else ""
        ),
    )


def _told(plan: Plan, waves: bool) -> str:
    if not plan.sharers:
        counts = [len(pieces) for pieces in plan.pieces]
        costs = {plan.cost_of(cluster) for cluster in range(plan.clusters)}
        return f"Whole units only, {_units(min(counts), max(counts))} each; " + (
            "some rows end before others." if len(costs) > 1 else "all rows end together."
        )
    begin = f"First {_units(plan.waves)} each, then shares" if plan.waves and waves else "Shares"
    some = f", for {plan.sharers} of them" if plan.sharers < plan.clusters else ""
    return (
        f"{begin} of the stream{some}: first the piece that is given, then whole units, at the "
        f"end the piece that adds what others gave."
    )


def _units(few: int, many: int | None = None) -> str:
    many = few if many is None else many
    number = f"{few}" if few == many else f"{few} to {many}"
    return f"{number} whole unit{'' if many == 1 else 's'}"


def _drawn(piece: Piece, plan: Plan, kind: str, waves: bool) -> bool:
    return kind_of(piece, plan) == kind and (waves or kind != "wave")


def _piece(
    sheet: Canvas,
    piece: Piece,
    plan: Plan,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    label: bool,
) -> None:
    fill, stroke, hatch, _ = KINDS[kind_of(piece, plan)]
    thin = height < 10
    sheet.box(x, y, width, height, fill=fill, stroke=stroke, hatch=hatch, radius=0 if thin else 3,
              stroke_width=0.5 if thin else 1.5)  # fmt: skip
    if not label:
        return
    whole = piece.steps == plan.steps
    arrow = " ←" if piece.backwards else ""
    full = f"u{piece.unit}{arrow}" if whole else f"u{piece.unit}:{piece.first}–{piece.last - 1}"
    text = _short(full, width) or _short(f"u{piece.unit}", width)
    if text:
        sheet.text(x + width / 2, y + height / 2, text, halo=fill if hatch else None)


def _waits(sheet: Canvas, one: Timed, x: float, y: float, width: float, few: bool) -> None:
    sheet.line([(x, y), (x + width, y)], stroke="ink", width=2 if few else 1, dashed=True)


def _short(text: str, width: float) -> str:
    return text if text_width(text, SMALL) <= width else ""


def _legend(sheet: Canvas, top: float, kinds: tuple[str, ...] | list[str]) -> float:
    for kind in kinds:
        fill, stroke, hatch, name = KINDS[kind]
        sheet.box(MARGIN, top - 8, 26, 16, fill=fill, stroke=stroke, hatch=hatch, radius=2)
        sheet.text(MARGIN + 34, top, name, anchor="start")
        top += 24
    return top
