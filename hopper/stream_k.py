"""Stream-K in Python: which cluster of v9 computes what, and who gives sums to whom.

The same plan that kernels/include/stream_k.cuh and pairs.cuh make on the GPU, each cluster for
itself; a test compares the two. Here it is made for all clusters at once, to be looked at, counted
and drawn. Whole units first, one a cluster in every wave; what is left is laid end to end along K
and cut into equal shares. The decomposition is Stream-K's (Osama et al., PPoPP 2023).

A *unit* is a pair of tiles that a cluster of two blocks computes. A *step* is TILE_K elements of K.
*Cost* is counted so that a step of a pair of 256 × 192 costs 3 and one of 128 × 256 costs 2: what
they multiply. Where there is one kind of tile only, a step costs 1.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy

from hopper.errors import ProblemError
from hopper.facts import LaunchFacts
from hopper.figures.raster import rasterized

CLUSTER = 2  # blocks
SHARERS = 4  # stream_k.cuh: bounds how many clusters share a unit
MIN_STEPS = 2  # stream_k.cuh: a cut closer to a unit's end than this moves to it
HAND_OVER = 12  # v9_stream_k.cu: steps that handing over costs, about
_SIZE_MAX = 2**31 - 256


@dataclass(frozen=True)
class Tiling:
    """How C is cut into pairs of tiles.

    ``share_a``: the two tiles of a pair lie in a row and share A; otherwise in a column, and share
    B. ``raster``: rows of pairs in a group, or columns where they share B, so that neighbours share
    the other operand; 0 for no groups, None for as many as v9 has as written. Raises ProblemError
    for sizes that are no multiples of what an instruction multiplies.
    """

    tile_m: int = 256
    tile_n: int = 192
    tile_k: int = 64
    share_a: bool = True
    raster: int | None = None

    def __post_init__(self) -> None:
        for name, multiple in (("tile_m", 128), ("tile_n", 64), ("tile_k", 16)):
            value = _whole(name, getattr(self, name))
            if value < 1 or value % multiple:
                raise ProblemError(
                    f"{name}={value}: two consumers of whole wgmmas and whole boxes of C need a "
                    f"multiple of {multiple}; the book's tiles are 256 × 192 and 128 × 256"
                )
        if self.tile_n > 256:
            raise ProblemError(
                f"tile_n={self.tile_n}: a wgmma has 256 columns at most; take more rows instead"
            )
        if self.raster is None:
            object.__setattr__(self, "raster", 16 if self.share_a else 8)
        if _whole("raster", self.raster) < 0:
            raise ProblemError(f"raster={self.raster}: rows of pairs in a group; 0 for no groups")

    @classmethod
    def of(cls, facts: LaunchFacts, raster: int | None = None) -> Tiling:
        """The tiling of a compiled kernel; its RASTER is no launch fact."""
        share_a = 0 < facts.a_rows < facts.tile_m
        return cls(facts.tile_m, facts.tile_n, facts.tile_k, share_a, raster)

    @property
    def pair(self) -> tuple[int, int]:
        """Rows and columns of C that a wide unit covers."""
        if self.share_a:
            return self.tile_m, 2 * self.tile_n
        return 2 * self.tile_m, self.tile_n

    @property
    def rest_n(self) -> int:
        """Columns of a tile for the rest of N; 0 where there is no such kind."""
        return 256 if self.share_a and (self.tile_m, self.tile_n) == (256, 192) else 0

    @property
    def costs(self) -> tuple[int, int]:
        """Of a step: of a wide unit, and of the others."""
        return (3, 2) if self.rest_n else (1, 1)


@dataclass(frozen=True)
class Unit:
    """A pair of tiles: ``rows`` × ``columns`` of C from the corner on, past C's edge at times.

    ``wide``: of the first kind. ``cost``: of a step.
    """

    number: int
    row: int
    column: int
    rows: int
    columns: int
    wide: bool
    cost: int


class Point(NamedTuple):
    """A place in the stream: before a step of a unit."""

    unit: int
    step: int


@dataclass(frozen=True)
class Piece:
    """Steps ``first`` to ``last`` − 1 of a unit, computed by one cluster.

    ``givers``: clusters whose sums of earlier steps it adds, in this order. ``to``: the cluster
    that it gives its own sums to; None where it finishes the unit. ``backwards``: through K from
    the end. ``cost``: of all its steps.
    """

    cluster: int
    unit: int
    first: int
    last: int
    givers: tuple[int, ...]
    to: int | None
    backwards: bool
    cost: int

    @property
    def steps(self) -> int:
        """How many."""
        return self.last - self.first


@dataclass(frozen=True)
class Plan:
    """Who computes what. Made by ``plan_stream_k``.

    ``steps``: of K, of every unit. ``waves``: whole units that each cluster computes first.
    ``sharers``: clusters that have a share of the stream. ``pieces``: by cluster, in the order in
    which it computes them.
    """

    m: int
    n: int
    k: int
    clusters: int
    tiling: Tiling
    steps: int
    units: tuple[Unit, ...] = field(repr=False)
    waves: int
    sharers: int
    pieces: tuple[tuple[Piece, ...], ...] = field(repr=False)

    @property
    def wide(self) -> int:
        """Units of the first kind; they have the first numbers."""
        return sum(unit.wide for unit in self.units)

    @property
    def whole(self) -> int:
        """Units of the waves; those that follow make the stream."""
        return self.waves * self.clusters

    @cached_property
    def stream(self) -> int:
        """Cost of the stream."""
        return self.steps * sum(unit.cost for unit in self.units[self.whole :])

    @cached_property
    def cost(self) -> int:
        """Of all units."""
        return self.steps * sum(unit.cost for unit in self.units)

    def cost_of(self, cluster: int) -> int:
        """Of a cluster's pieces."""
        return sum(piece.cost for piece in self.pieces[cluster])

    @cached_property
    def longest(self) -> int:
        """Cost of the cluster that has most to do: the others wait for it."""
        return max(self.cost_of(cluster) for cluster in range(self.clusters))

    @property
    def share(self) -> float:
        """Of all clusters' time that is products, if a step takes what it costs: 1 is perfect."""
        return self.cost / (self.longest * self.clusters)

    def every(self) -> Iterator[Piece]:
        """All pieces, cluster by cluster."""
        for mine in self.pieces:
            yield from mine

    @property
    def gifts(self) -> int:
        """How often a cluster gives its sums away."""
        return sum(piece.to is not None for piece in self.every())


def plan_stream_k(
    m: int,
    n: int,
    k: int,
    clusters: int,
    tiling: Tiling | None = None,
    *,
    stream: bool = True,
    alternate: bool = True,
    hand_over: int = HAND_OVER,
    places: Sequence[int] | None = None,
) -> Plan:
    """Who computes what of C (m, n) = A (m, k) · B (n, k)ᵀ, with so many clusters.

    ``stream``: False for whole units only, wave after wave, as v8. ``alternate``: every second
    wave goes through K backwards. ``hand_over``: steps of a wide unit that a stream costs besides;
    where the last wave idles less, units are whole. ``places``: the numbers of the clusters by
    place, after which they take whole units from the second wave on; None for their own. Raises
    ProblemError for sizes that v9 cannot take.
    """
    tiling = tiling or Tiling()
    m, n, k = (_size(name, value) for name, value in (("m", m), ("n", n), ("k", k)))
    for name, value in (("n", n), ("k", k)):
        if value % 8:
            raise ProblemError(
                f"{name}={value}: TMA moves rows of a multiple of 16 bytes, 8 elements of fp16; "
                f"pad to {name}={-(-value // 8) * 8}"
            )
    if _whole("clusters", clusters) < 1:
        raise ProblemError(
            f"clusters={clusters}: at least 1; an H200 has room for 66 of two blocks each"
        )
    places = tuple(range(clusters) if places is None else places)
    if sorted(places) != list(range(clusters)):
        raise ProblemError(f"places={places}: each of {clusters} clusters has a number of its own")
    steps = -(-k // tiling.tile_k)
    units = divide(m, n, tiling)
    cut = _Cut(steps, clusters, sum(unit.wide for unit in units), len(units), *tiling.costs)
    shared = cut.even + numpy.float32(_whole("hand_over", hand_over) * cut.wide_cost)
    least = min(cut.all_whole, shared) if stream else cut.all_whole
    if tiling.rest_n:
        narrow = divide(m, n, tiling, narrow=True)
        if _Cut(steps, clusters, 0, len(narrow), *tiling.costs).all_whole < least:
            return _whole_units(m, n, k, places, tiling, steps, narrow, alternate)
    if not stream or cut.all_whole <= shared:
        return _whole_units(m, n, k, places, tiling, steps, units, alternate)
    pieces = tuple(
        tuple(_pieces_of(cluster, place, cut, units, alternate))
        for cluster, place in enumerate(places)
    )
    return Plan(m, n, k, clusters, tiling, steps, units, cut.waves, cut.sharers, pieces)


def divide(m: int, n: int, tiling: Tiling, *, narrow: bool = False) -> tuple[Unit, ...]:
    """C in units: wide ones, group by group, then those of the rest of N.

    ``narrow``: only units of the second kind. What ``Pairs::divide`` and ``Pairs::order`` say in
    pairs.cuh.
    """
    high, broad = tiling.pair
    rows, columns, rest = -(-m // high), n // broad, 0
    over, cost = n % broad, tiling.costs
    if narrow:
        columns, rest = 0, -(-n // tiling.rest_n)
    elif over:
        if over <= 2 * tiling.rest_n - broad and columns > 0:
            columns, rest = columns - 1, 2
        elif over <= tiling.rest_n:
            rest = 1
        else:
            columns += 1
    units = []
    for number in range(rows * columns):
        if tiling.share_a:
            row, column = rasterized(number, rows, columns, tiling.raster)
        else:
            column, row = rasterized(number, columns, rows, tiling.raster)
        units.append(Unit(number, row * high, column * broad, high, broad, True, cost[0]))
    for beyond in range(rows * rest):
        column, row = rasterized(beyond, rest, rows, (tiling.raster + 1) // 2)
        left = columns * broad + column * tiling.rest_n
        units.append(Unit(len(units), row * high, left, high, tiling.rest_n, False, cost[1]))
    return tuple(units)


class _Cut:
    """The stream and its shares; named as in stream_k.cuh, whose integers it repeats."""

    def __init__(
        self, steps: int, clusters: int, wide: int, units: int, wide_cost: int, less_cost: int
    ) -> None:
        self.steps, self.clusters, self.wide, self.units = steps, clusters, wide, units
        self.wide_cost, self.less_cost = wide_cost, less_cost
        self.waves = wide // clusters
        # Where little is left, each unit would have many sharers: one more wave joins the stream.
        if self.waves and self.rest and self.rest * SHARERS < clusters * steps * wide_cost:
            self.waves -= 1
        most = (self.rest // (steps * wide_cost) + 1) * SHARERS
        worth = self.rest // (2 * MIN_STEPS * wide_cost) + 1
        self.sharers = min(clusters, most, worth) if self.rest else 0

    @property
    def all_whole(self) -> numpy.float32:
        """When the last cluster ends, as a cost, if all units are whole."""
        of_wide, of_all = (-(-count // self.clusters) for count in (self.wide, self.units))
        cost = of_wide * self.wide_cost + (of_all - of_wide) * self.less_cost
        return numpy.float32(cost) * numpy.float32(self.steps)

    @property
    def even(self) -> numpy.float32:
        """When all clusters end, if their shares are equal and handing over costs nothing."""
        cost = self.wide * self.wide_cost + (self.units - self.wide) * self.less_cost
        return numpy.float32(cost) * numpy.float32(self.steps) / numpy.float32(self.clusters)

    @property
    def long_ones(self) -> int:
        """Cost of the stream's wide units, which come first."""
        return (self.wide - self.waves * self.clusters) * self.wide_cost * self.steps

    @property
    def rest(self) -> int:
        """Cost of the stream."""
        return self.long_ones + (self.units - self.wide) * self.less_cost * self.steps

    def point(self, sharer: int) -> Point:
        """Where the share of a sharer begins."""
        share, more = divmod(self.rest, self.sharers)
        place = share * sharer + more * sharer // self.sharers
        is_long = place < self.long_ones
        cost = self.steps * (self.wide_cost if is_long else self.less_cost)
        begin = self.waves * self.clusters if is_long else self.wide
        further, within = divmod(place if is_long else place - self.long_ones, cost)
        unit, step = begin + further, within * self.steps // cost
        if step < MIN_STEPS:
            return Point(unit, 0)
        return Point(unit + 1, 0) if self.steps - step < MIN_STEPS else Point(unit, step)


def _pieces_of(
    cluster: int, place: int, cut: _Cut, units: tuple[Unit, ...], alternate: bool
) -> Iterator[Piece]:
    """A cluster's pieces in order: whole units, then its share of the stream from the back."""
    steps = cut.steps
    for wave in range(cut.waves):
        unit = (place if wave else cluster) + wave * cut.clusters
        backwards = alternate and wave % 2 == 1
        yield Piece(cluster, unit, 0, steps, (), None, backwards, steps * units[unit].cost)
    if cluster >= cut.sharers:
        return
    first, last = cut.point(cluster), cut.point(cluster + 1)
    if last.step == 0:
        last = Point(last.unit - 1, steps)
    for unit in range(last.unit, first.unit - 1, -1):
        begin = first.step if unit == first.unit else 0
        end = last.step if unit == last.unit else steps
        givers: tuple[int, ...] = ()
        if end == steps and begin > 0:
            givers = _givers(cut, cluster)
        to = _owner(cut, cluster) if end < steps else None
        cost = (end - begin) * units[unit].cost
        yield Piece(cluster, unit, begin, end, givers, to, False, cost)


def _givers(cut: _Cut, cluster: int) -> tuple[int, ...]:
    """Clusters before this one whose shares end in the unit in which its share begins."""
    found: list[int] = []
    unit, at = cut.point(cluster).unit, cut.point(cluster)
    while at.unit == unit and at.step > 0:
        found.append(cluster - len(found) - 1)
        at = cut.point(found[-1])
    return tuple(found)


def _owner(cut: _Cut, cluster: int) -> int:
    """The cluster that finishes the unit in which this one's share ends."""
    unit = cut.point(cluster + 1).unit
    owner = cluster + 1
    while cut.point(owner + 1).unit == unit and cut.point(owner + 1).step > 0:
        owner += 1
    return owner


def _whole_units(
    m: int,
    n: int,
    k: int,
    places: tuple[int, ...],
    tiling: Tiling,
    steps: int,
    units: tuple[Unit, ...],
    alternate: bool,
) -> Plan:
    clusters = len(places)
    waves = -(-len(units) // clusters)
    pieces = tuple(
        tuple(
            Piece(cluster, unit, 0, steps, (), None, alternate and wave % 2 == 1,
                  steps * units[unit].cost)
            for wave in range(waves)
            if (unit := (place if wave else cluster) + wave * clusters) < len(units)
        )
        for cluster, place in enumerate(places)
    )  # fmt: skip
    return Plan(m, n, k, clusters, tiling, steps, units, waves, 0, pieces)


# ---- over time ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """A piece over time: products from ``begin`` to ``end``, finished at ``done``.

    ``done`` is later than ``end`` where the cluster waits for a gift, in cost.
    """

    piece: Piece
    begin: int
    end: int
    done: int


def run_plan(
    plan: Plan, *, resident: int | None = None, from_the_front: bool = False
) -> list[list[Timed]]:
    """A plan over time, by cluster: a step takes what it costs, and gifts take no time.

    ``resident``: clusters that run at once, all by default; as one ends the next in number starts.
    ``from_the_front``: shares in the order of the stream, which v9 does not do.
    Raises ProblemError where nobody can go on.
    """
    room = plan.clusters if resident is None else _whole("resident", resident)
    if room < 1:
        raise ProblemError(f"resident={resident}: at least one cluster runs")
    given: dict[int, int] = {}  # by cluster that gives: when
    lines: list[list[Timed]] = [[] for _ in range(plan.clusters)]
    free = [0] * min(room, plan.clusters)  # when each place is free
    for cluster in range(plan.clusters):
        place = min(range(len(free)), key=free.__getitem__)
        now = free[place]
        whole = plan.pieces[cluster][: plan.waves] if plan.sharers else plan.pieces[cluster]
        share = plan.pieces[cluster][len(whole) :]
        for piece in (*whole, *(reversed(share) if from_the_front else share)):
            end = now + piece.cost
            # A giver has a smaller number, so it has been here: no cluster waits for a later one.
            missing = [giver for giver in piece.givers if giver not in given]
            if missing:
                raise ProblemError(
                    f"cluster {cluster} waits for {missing}, which have not started; givers must "
                    f"have smaller numbers"
                )
            done = max([end, *(given[giver] for giver in piece.givers)])
            lines[cluster].append(Timed(piece, now, end, done))
            if piece.to is not None:
                given[cluster] = end
            now = done
        free[place] = now
    return lines


# ---- waves --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waves:
    """How a grid of tiles fills SMs: ``exact`` waves, ``whole`` of them taken, ``share`` used."""

    tiles: int
    exact: float
    whole: int
    share: float


def waves(m: int, n: int, tile_m: int, tile_n: int, at_once: int) -> Waves:
    """Whole waves of tiles, ``at_once`` of them at the same time. Raises ProblemError."""
    for name, value in (("m", m), ("n", n), ("tile_m", tile_m), ("tile_n", tile_n)):
        _size(name, value)
    if _whole("at_once", at_once) < 1:
        raise ProblemError(f"at_once={at_once}: at least one tile is computed at a time")
    tiles = -(-m // tile_m) * -(-n // tile_n)
    whole = -(-tiles // at_once)
    return Waves(tiles, tiles / at_once, whole, tiles / (whole * at_once))


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ProblemError(f"{name}={value!r}: a whole number; pass an int") from None


def _size(name: str, value: int) -> int:
    number = _whole(name, value)
    if not 1 <= number <= _SIZE_MAX:
        raise ProblemError(f"{name}={number}: sizes are 1 to {_SIZE_MAX}; split the matrix")
    return number
