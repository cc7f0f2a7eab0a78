"""Who keeps the tensor cores busy: a small model of consumers and stages, and its drawing.

The model knows four things: how long a load takes, how long a product, how long a consumer needs
from the end of one product until it has issued the next (the gap), and who may reuse a stage when.
Loads do not get into each other's way, and the tensor cores take groups in the order of issue. It
is the book's own and no description of the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure


@dataclass(frozen=True)
class Way:
    """How a block multiplies.

    ``consumers``: warpgroups that share each step, each with an equal part of its product.
    ``in_flight``: groups that a consumer leaves running when it waits, 0 or 1. ``stages``: of the
    ring.
    """

    consumers: int = 1
    in_flight: int = 0
    stages: int = 4


@dataclass(frozen=True)
class Group:
    """What a consumer issues in a step. ``begin`` and ``end``: of its product on the tensor cores.

    ``issued``: when the consumer had its tiles and issued it; ``released``: when the consumer let
    go of the stage.
    """

    consumer: int
    step: int
    issued: float
    begin: float
    end: float
    released: float


@dataclass(frozen=True)
class Streams:
    """The groups of a run, in the order in which the tensor cores took them."""

    way: Way
    groups: tuple[Group, ...]

    @property
    def step_time(self) -> float:
        """Time of a step once the ring has gone round, from the later half of the run.

        Short of stages, steps come in bursts, so whole turns of the ring are measured.
        """
        last = self.groups[-1].step
        ends = {g.step: g.end for g in self.groups}  # of the last consumer in each step
        turn = self.way.stages * max(1, self.way.stages - self.way.in_flight)
        steps = max(last // 2 // turn, 1) * turn
        if steps > last:
            raise ProblemError(f"{last + 1} steps: the model settles later; take {2 * turn + 1}")
        return (ends[last] - ends[last - steps]) / steps


def run_streams(way: Way, *, load: float, product: float, gap: float, steps: int) -> Streams:
    """The model. ``product``: of a whole step, all consumers together; times in any one unit.

    Raises ProblemError where nobody can go on: one stage, and a group that is left in flight.
    """
    share = product / way.consumers
    issued: list[list[float]] = [[] for _ in range(way.consumers)]
    begins: list[list[float]] = [[] for _ in range(way.consumers)]
    ends: list[list[float]] = [[] for _ in range(way.consumers)]
    released: list[list[float]] = [[] for _ in range(way.consumers)]
    ready = [0.0] * way.consumers
    order: list[tuple[int, int]] = []
    free = 0.0  # the tensor cores

    def landed(step: int) -> float | None:
        """When the tiles of a step are there; None while it is not known."""
        if step < way.stages:
            return load
        use = step - way.stages
        if any(len(mine) <= use for mine in released):
            return None
        return max(mine[use] for mine in released) + load

    while len(order) < steps * way.consumers:
        possible = []
        for consumer in range(way.consumers):
            step = len(issued[consumer])
            there = landed(step) if step < steps else None
            if there is not None:
                possible.append((max(ready[consumer], there), consumer, step))
        if not possible:
            raise ProblemError(
                f"{way}: a deadlock: the stage is released when the next group is issued, and that "
                f"needs the stage; use one stage more"
            )
        now, consumer, step = min(possible)
        begin = max(now, free)
        free = begin + share
        issued[consumer].append(now)
        begins[consumer].append(begin)
        ends[consumer].append(free)
        order.append((consumer, step))
        ready[consumer] = now
        if step >= way.in_flight:
            ready[consumer] = max(now, ends[consumer][step - way.in_flight]) + gap
            released[consumer].append(ready[consumer])
    for mine, over in zip(released, ends, strict=True):
        mine += [over[-1] + gap] * (steps - len(mine))  # behind the loop
    return Streams(
        way,
        tuple(
            Group(c, s, issued[c][s], begins[c][s], ends[c][s], released[c][s]) for c, s in order
        ),
    )


_KINDS = (("accent-soft", "accent", None), ("warm-soft", "warm", "diagonal"))
_ROW = 30
_HEAD = 30
_BETWEEN = 18


def streams(
    ways: Sequence[tuple[str, Way]],
    *,
    load: float,
    product: float,
    gap: float,
    steps: int,
    title: str,
    alt: str,
    caption: str = "",
) -> Figure:
    """The tensor cores under several ways of working, over one axis of time.

    ways   (label, Way): a row each. A product is labelled with its step; those of a second consumer
           are hatched.
    load, product, gap, steps   as for ``run_streams``
    Raises ProblemError for no ways, and as ``run_streams``.
    """
    if not ways:
        raise ProblemError("ways=[]: draw at least one (label, Way)")
    runs = [
        (label, run_streams(way, load=load, product=product, gap=gap, steps=steps))
        for label, way in ways
    ]
    end = max(group.end for _, run in runs for group in run.groups)
    begin = load - gap  # the first load says nothing
    scale = (WIDTH - 2 * MARGIN) / (end - begin)
    sheet = Canvas()
    top = MARGIN
    for label, run in runs:
        sheet.text(MARGIN, top + 9, label, bold=True, anchor="start", size=BODY)
        top += _HEAD
        room = WIDTH - 2 * MARGIN
        sheet.box(MARGIN, top, room, _ROW, fill="panel", stroke="panel", radius=0)
        for group in run.groups:
            x = MARGIN + (group.begin - begin) * scale
            width = (group.end - group.begin) * scale
            fill, stroke, hatch = _KINDS[group.consumer]
            sheet.box(x, top + 2, width, _ROW - 4, fill=fill, stroke=stroke, hatch=hatch, radius=3)
            number = str(group.step)
            if text_width(number, SMALL) < width:
                sheet.text(x + width / 2, top + _ROW / 2, number, halo=fill if hatch else None)
        top += _ROW + _BETWEEN
    sheet.text(MARGIN, top, "time", fill="muted", italic=True, anchor="start")
    sheet.arrow((MARGIN + 46, top), (WIDTH - MARGIN, top))
    return sheet.figure(top + MARGIN + 6, title=title, alt=alt, caption=caption)
