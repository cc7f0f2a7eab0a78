"""Two consumers from tile to tile: a small model of who multiplies when, and its drawing.

It goes on where the model of ``streams`` ends. A consumer multiplies its part of a tile, step by
step, with one group in flight, and then packs what it has, while the other one may multiply. Loads
do not get into each other's way, and the tensor cores take groups in the order of issue. It is the
book's own and no description of the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

CONSUMERS = 2


@dataclass(frozen=True)
class Tiles:
    """How a block takes its tiles, and what things take.

    ``steps`` a tile, ``stages`` of the ring; ``turn``: last steps of a tile that consumer 1 holds
    back until consumer 0 has issued its last, where a tile has ``stages`` steps or more.
    ``product``: of one consumer in one step; ``load``: from the release of a stage until the next
    tiles are in it; ``leave``: what a consumer does behind its products. ``start``: 0 for a block
    that stays; else each tile has a block of its own, which takes so long to start, when the last
    one has left, before it asks for its first tiles.
    """

    steps: int = 8
    stages: int = 4
    turn: int = 0
    product: float = 1.0
    load: float = 1.5
    leave: float = 3.0
    start: float = 0.0


@dataclass(frozen=True)
class Piece:
    """A consumer multiplies its part of a step, or packs a tile (``step`` None)."""

    consumer: int
    tile: int
    step: int | None
    begin: float
    end: float


@dataclass(frozen=True)
class TileTurns:
    """What happens in a run, in the order in which it begins."""

    way: Tiles
    pieces: tuple[Piece, ...]

    @property
    def products(self) -> list[Piece]:
        """What the tensor cores do."""
        return [one for one in self.pieces if one.step is not None]

    @property
    def busy(self) -> float:
        """Share of the time in which the tensor cores multiply, from tile 1 to the last tile."""
        last = max(one.tile for one in self.products)
        first, end = (
            min(one.begin for one in self.products if one.tile == tile) for tile in (1, last)
        )
        within = [
            min(one.end, end) - max(one.begin, first)
            for one in self.products
            if one.begin < end and one.end > first
        ]
        return sum(within) / (end - first)


def run_tile_turns(way: Tiles, tiles: int) -> TileTurns:
    """The model, over so many tiles.

    Raises ProblemError where nobody can go on: as many steps held back as there are stages.
    """
    every = way.steps * tiles
    issued: list[list[float]] = [[] for _ in range(CONSUMERS)]
    ends: list[list[float]] = [[] for _ in range(CONSUMERS)]
    released: list[list[float]] = [[] for _ in range(CONSUMERS)]
    ready = [0.0] * CONSUMERS
    left: list[list[float]] = [[] for _ in range(CONSUMERS)]  # tiles
    pieces: list[Piece] = []
    free = 0.0  # the tensor cores

    def landed(step: int) -> float | None:
        """When the tiles of a step are there; None while it is not known."""
        tile, within = divmod(step, way.steps)
        asked = way.start
        if way.start and tile:
            if any(len(mine) < tile for mine in left):
                return None
            asked += max(mine[tile - 1] for mine in left)
        if step < way.stages or (way.start and within < way.stages):
            return asked + way.load
        use = step - way.stages
        if any(len(mine) <= use for mine in released):
            return None
        return max(asked, *(mine[use] for mine in released)) + way.load

    def held(consumer: int, step: int) -> float | None:
        """Until when a consumer holds a step back; None while it is not known."""
        tile, within = divmod(step, way.steps)
        if not way.turn or way.steps < way.stages:
            return 0.0
        if consumer != 1 or within != way.steps - way.turn:
            return 0.0
        last = (tile + 1) * way.steps - 1
        return issued[0][last] if len(issued[0]) > last else None

    while any(len(mine) < every for mine in issued):
        possible = []
        for consumer in range(CONSUMERS):
            step = len(issued[consumer])
            if step < every:
                there, until = landed(step), held(consumer, step)
                if there is not None and until is not None:
                    possible.append((max(ready[consumer], there, until), consumer, step))
        if not possible:
            raise ProblemError(
                f"turn={way.turn}, stages={way.stages}: a deadlock: consumer 1 holds as many "
                f"stages as there are, and consumer 0 needs one more; hold back fewer steps"
            )
        now, consumer, step = min(possible)
        tile, within = divmod(step, way.steps)
        begin = max(now, free)
        free = begin + way.product
        pieces.append(Piece(consumer, tile, within, begin, free))
        issued[consumer].append(now)
        ends[consumer].append(free)
        ready[consumer] = now
        if within:
            ready[consumer] = max(now, ends[consumer][step - 1])
            released[consumer].append(ready[consumer])
        if within == way.steps - 1:
            released[consumer].append(free)
            ready[consumer] = free + way.leave
            left[consumer].append(ready[consumer])
            pieces.append(Piece(consumer, tile, None, free, ready[consumer]))
    return TileTurns(way, tuple(sorted(pieces, key=lambda one: one.begin)))


_ROW = 26
_HEAD = 28
_BETWEEN = 16
_PRODUCTS = (("accent-soft", "accent", None), ("warm-soft", "warm", "diagonal"))


def tile_turns(
    ways: Sequence[tuple[str, Tiles]],
    *,
    tiles: int,
    title: str,
    alt: str,
    caption: str = "",
) -> Figure:
    """Two consumers and the tensor cores under several ways of working, over one axis of time.

    ways    (label, Tiles): two rows each, a consumer's, with the numbers of tiles. What is in full
            height multiplies; consumer 1's is hatched. What is flat, with dots, packs or stores. A
            third row shows where the tensor cores rest.
    Raises ProblemError for no ways, and as ``run_tile_turns``.
    """
    if not ways:
        raise ProblemError("ways=[]: draw at least one (label, Tiles)")
    runs = [(label, run_tile_turns(way, tiles)) for label, way in ways]
    end = max(one.end for _, run in runs for one in run.pieces)
    begin = min(one.begin for _, run in runs for one in run.products)
    left = MARGIN + 44
    room = WIDTH - MARGIN - left
    scale = room / (end - begin)
    sheet = Canvas()
    top = MARGIN
    for label, run in runs:
        sheet.text(MARGIN, top + 9, label, bold=True, anchor="start", size=BODY)
        top += _HEAD
        for consumer in range(CONSUMERS):
            middle = top + _ROW / 2
            sheet.text(left - 8, middle, f"{consumer}", anchor="end", fill="muted")
            sheet.box(left, top, room, _ROW, fill="panel", stroke="panel", radius=0)
            for one in _joined(run, consumer):
                x, width = left + (one.begin - begin) * scale, (one.end - one.begin) * scale
                if one.step is None:
                    sheet.box(x, top + 9, width, _ROW - 18, fill="leaf-soft", stroke="leaf",
                              hatch="dots", radius=2)  # fmt: skip
                    continue
                fill, stroke, hatch = _PRODUCTS[consumer]
                sheet.box(x, top + 2, width, _ROW - 4, fill=fill, stroke=stroke, hatch=hatch,
                          radius=3)  # fmt: skip
            for tile in range(tiles):
                mine = [p for p in run.products if (p.consumer, p.tile) == (consumer, tile)]
                centre = (mine[0].begin + mine[-1].end) / 2
                x = left + (centre - begin) * scale
                sheet.text(x, middle, str(tile), bold=True, halo="paper")
            top += _ROW + 3
        sheet.text(left - 8, top + 6, "idle", anchor="end", fill="muted")
        for start, stop in _idle(run):
            sheet.box(left + (start - begin) * scale, top + 1, (stop - start) * scale, 10,
                      fill="remove", stroke="remove-ink", radius=1)  # fmt: skip
        top += 14 + _BETWEEN
    sheet.text(MARGIN, top, "time", fill="muted", italic=True, anchor="start")
    sheet.arrow((MARGIN + 46, top), (WIDTH - MARGIN, top))
    return sheet.figure(top + MARGIN + 6, title=title, alt=alt, caption=caption)


def _joined(run: TileTurns, consumer: int) -> list[Piece]:
    """A consumer's pieces, products of a tile that follow one another as one."""
    found: list[Piece] = []
    for one in run.pieces:
        if one.consumer != consumer:
            continue
        last = found[-1] if found else None
        if (
            last
            and one.step is not None
            and last.step is not None
            and last.tile == one.tile
            and one.begin - last.end < 1e-9
        ):
            found[-1] = Piece(consumer, one.tile, last.step, last.begin, one.end)
        else:
            found.append(one)
    return found


def _idle(run: TileTurns) -> list[tuple[float, float]]:
    """When the tensor cores rest, from the first product to the last."""
    products = sorted(run.products, key=lambda one: one.begin)
    return [
        (before.end, after.begin)
        for before, after in zip(products, products[1:], strict=False)
        if after.begin - before.end > 1e-9
    ]
