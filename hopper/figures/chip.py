"""Where SMs lie on the chip: how far the lines of L2 are from each, and who gets which cluster.

The darker a cell is, or in dark mode the brighter, the longer an atomic takes; next to nothing and
nearly everything are the two sides of L2, so the picture needs no colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy

from hopper.errors import ProblemError

from .canvas import MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure
from .palette import colour

if TYPE_CHECKING:
    from hopper.chip import Chip

_LEFT = 116.0  # where cells begin, behind the names of groups
_ROOM = WIDTH - MARGIN - _LEFT
_SM, _GAP = 1.5, 4.0  # height of an SM's row, and between groups
_TEXT, _CELL = 20.0, 17.0  # height of a line of text, and of a cluster's cell
_MOST_LEVELS, _STEP = 6, 50  # of cycles
_FAINTEST = 0.1  # opacity
_SIDES = ("the side of SM 0: groups", "the other side: groups")


class _Sheet(Canvas):
    """A canvas that also draws many cells as one path."""

    def cells(self, cells: Sequence[tuple[float, float, float, float]], opacity: float) -> None:
        """Cells (x, y, width, height) in one colour, without seams."""
        path = "".join(f"M{x:.5g} {y:.5g}h{w:.4g}v{h:.4g}h-{w:.4g}z" for x, y, w, h in cells)
        self._elements.append(
            f'<path d="{path}" shape-rendering="crispEdges" '
            f'style="fill:{colour("accent")};fill-opacity:{opacity:.2f}"/>'
        )


def chip_map(
    chip: Chip | None,
    cycles: numpy.ndarray | None,
    *,
    alt: str,
    title: str = "Groups of SMs, and two sides of L2",
    caption: str = "",
) -> Figure:
    """Above, cycles of an atomic by SM and line; below, which group gets which cluster of a launch.

    ``cycles`` (sms, lines). None where nothing was recorded: the figure says so. SMs are drawn
    group by group, lines near SM 0 before the others. Raises ProblemError for cycles of another
    number of SMs, and for more groups than the drawing has columns for.
    """
    sheet = _Sheet()
    if chip is None or cycles is None:
        sheet.text(WIDTH / 2, MARGIN + 16, "not recorded, so not drawn", fill="muted", italic=True)
        return sheet.figure(
            2 * MARGIN + 32, title=title, alt=f"Not recorded, so not drawn. {alt}", caption=caption
        )
    if len(cycles) != len(chip.sides):
        raise ProblemError(
            f"cycles of {len(cycles)} SMs: this chip has {len(chip.sides)}; pass those of its own "
            f"survey"
        )
    width = (WIDTH - 2 * MARGIN) / len(chip.groups)
    if width < text_width("00", SMALL) + 2:
        raise ProblemError(f"{len(chip.groups)} groups do not fit the drawing; use 19 at most")
    near = lines_near(chip, cycles)
    top = _distances(sheet, chip, cycles, near, float(MARGIN))
    bottom = _dealing(sheet, chip, width, top + 10)
    figure = sheet.figure(math.ceil(bottom + MARGIN), title=title, alt=alt, caption=caption)
    return replace(
        figure,
        columns=("group", "SMs", "side", "cycles, near lines", "cycles, far lines", "clusters"),
        rows=tuple(_rows(chip, cycles, near)),
        fold_data=True,
    )


def lines_near(chip: Chip, cycles: numpy.ndarray) -> numpy.ndarray:
    """Which lines are near side 0: an atomic on them takes less time there. (lines,) of bool."""
    sides = numpy.array(chip.sides)
    if sides.all() or not sides.any():
        return numpy.ones(cycles.shape[1], bool)
    by_side = [numpy.median(cycles[sides == side], axis=0) for side in (0, 1)]
    return by_side[0] < by_side[1]


def turns(chip: Chip) -> list[list[tuple[int, int]]]:
    """Clusters as they are dealt, (group, cluster), a list for each turn through the groups."""
    found: list[list[tuple[int, int]]] = []
    group_of, last = chip.group_of, math.inf
    for cluster, sm in enumerate(chip.dealt):
        group = group_of[sm]
        if group <= last:
            found.append([])
        found[-1].append((group, cluster))
        last = group
    return found


def _side_of(chip: Chip, group: Sequence[int]) -> int:
    """The side that most SMs of a group are near."""
    return int(2 * sum(chip.sides[sm] for sm in group) > len(group))


def _levels(cycles: numpy.ndarray) -> tuple[int, int, int]:
    """First and last edge of the levels in cycles, and the step between two.

    A few values may lie outside: an SM can be disturbed for all tries at a line.
    """
    low, high = numpy.percentile(cycles, (1, 99))
    step = _STEP
    while (edges := (int(low // step * step), int(high // step * step + step))) and (
        edges[1] - edges[0] > _MOST_LEVELS * step
    ):
        step *= 2
    return *edges, step


def _opacity(level: int, levels: int) -> float:
    return _FAINTEST + (1 - _FAINTEST) * level / max(levels - 1, 1)


def _distances(
    sheet: _Sheet, chip: Chip, cycles: numpy.ndarray, near: numpy.ndarray, top: float
) -> float:
    """The cycles of each SM and line; returns where it ends."""
    low, high, step = _levels(cycles)
    levels = (high - low) // step
    level_of = numpy.clip((cycles - low) // step, 0, levels - 1).astype(int)
    top = _scale(sheet, low, step, levels, top)
    order = numpy.argsort(~near, kind="stable")  # those near SM 0 first
    wide = _ROOM / len(order)
    split = _LEFT + wide * near.sum()
    sheet.text(_LEFT, top + 8, "lines near SM 0", anchor="start")
    sheet.text(WIDTH - MARGIN, top + 8, "far from SM 0", anchor="end")
    top += _TEXT
    cells: dict[int, list[tuple[float, float, float, float]]] = {}
    begin = top
    for side, name in enumerate(_SIDES):
        numbers = [n for n, group in enumerate(chip.groups) if _side_of(chip, group) == side]
        if not numbers:
            continue
        sheet.text(MARGIN, top + 8, name, anchor="start", bold=True)
        top += _TEXT
        where = {}
        for number in numbers:
            group = list(chip.groups[number])
            where[number] = (top, top + _SM * len(group))
            for column, line in enumerate(order):
                x = _LEFT + column * wide
                for level, first, count in _runs(level_of[group, line]):
                    cell = (x, top + first * _SM, wide, count * _SM)
                    cells.setdefault(level, []).append(cell)
            top += _SM * len(group) + _GAP
        for label, middle in _labels(chip, where):
            sheet.text(_LEFT - 6, middle, label, anchor="end", fit=_LEFT - 6)
    for level, drawn in sorted(cells.items()):
        sheet.cells(drawn, _opacity(level, levels))
    if 0 < near.sum() < len(near):
        ends = [(split, begin - 2), (split, top - _GAP + 2)]
        sheet.line(ends, stroke="ink", width=1, dashed=True)
    return top


def _scale(sheet: _Sheet, low: int, step: int, levels: int, top: float) -> float:
    """What the shades stand for."""
    sheet.text(MARGIN, top + 8, "cycles of an atomic", anchor="start", bold=True)
    top += _TEXT
    room = (WIDTH - 2 * MARGIN - 40) / _MOST_LEVELS
    for level in range(levels):
        x = MARGIN + 20 + level * room
        sheet.cells([(x, top, room, 14)], _opacity(level, levels))
        sheet.text(x, top + 24, f"{low + level * step}")
    left, right = MARGIN + 20, MARGIN + 20 + levels * room
    corners = [(left, top), (right, top), (right, top + 14), (left, top + 14), (left, top)]
    sheet.line(corners, stroke="muted", width=1)
    sheet.text(right, top + 24, f"{low + levels * step}")
    return top + 44


def _runs(levels: numpy.ndarray) -> Iterator[tuple[int, int, int]]:
    """(level, first, how many) of each run of equal levels."""
    starts = numpy.flatnonzero(numpy.diff(levels, prepend=-1)).tolist()
    for first, end in zip(starts, [*starts[1:], len(levels)], strict=True):
        yield int(levels[first]), first, end - first


def _labels(chip: Chip, where: dict[int, tuple[float, float]]) -> Iterator[tuple[str, float]]:
    """A name for each group and where it stands; neighbours too small for one share it."""
    for small, run in groupby(where, key=lambda number: len(chip.groups[number]) * _SM < 10):
        numbers = list(run)
        for named in [numbers] if small else [[number] for number in numbers]:
            first, last = named[0], named[-1]
            name = f"{first}–{last}" if last > first else f"{first}"
            sizes = sorted({len(chip.groups[number]) for number in named})
            each = "–".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
            each += " SMs" if len(named) == 1 else " each"
            yield f"{name}: {each}", (where[first][0] + where[last][1]) / 2


def _dealing(sheet: _Sheet, chip: Chip, width: float, top: float) -> float:
    """A column for each group, a row for each turn, in each cell the cluster; returns the end."""
    sheet.text(MARGIN, top + 8, "which group gets which cluster", anchor="start", bold=True)
    top += _TEXT
    sheet.text(MARGIN, top + 8, "a column a group, a row a turn", anchor="start", fill="muted")
    top += _TEXT
    for group in range(len(chip.groups)):
        sheet.text(MARGIN + (group + 0.5) * width, top + 6, str(group), bold=True)
    top += _TEXT - 3
    for turn in turns(chip):
        for group, cluster in turn:
            x = MARGIN + group * width
            sheet.box(x + 1, top, width - 2, _CELL - 1, radius=2, stroke_width=1)
            sheet.text(x + width / 2, top + _CELL / 2, str(cluster))
        top += _CELL
    return top


def _rows(chip: Chip, cycles: numpy.ndarray, near: numpy.ndarray) -> Iterator[tuple[str, ...]]:
    group_of = chip.group_of
    for number, group in enumerate(chip.groups):
        side = _side_of(chip, group)
        mine = cycles[list(group)]
        on = [mine[:, near == (side == 0)], mine[:, near == (side == 1)]]
        clusters = [str(c) for c, sm in enumerate(chip.dealt) if group_of[sm] == number]
        medians = [f"{numpy.median(one):.0f}" if one.size else "—" for one in on]
        yield (str(number), str(len(group)), str(side), *medians, ", ".join(clusters) or "—")
