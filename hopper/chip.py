"""Where SMs lie on the chip, and numbers for pairs of them that follow from it.

Blocks of a cluster lie in one GPC, and clusters of a launch are dealt to the GPCs in turn. What
several SMs of a GPC read at about the same time is asked of L2 once: the counts of
``hopper.experiments.requests`` fit that. So clusters of v8 and v9 take the numbers of their places:
neighbours in number are neighbours on the chip. Which SMs lie together is not documented, and chips
of one name differ in which are switched off: ``look`` finds it out by launches of
``kernels/chip.cu``. Whatever it finds, every order is right; only speed depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy

from hopper.compile import compile_kernel
from hopper.errors import HopperError
from hopper.facts import stated_facts

if TYPE_CHECKING:
    from hopper.backends import Backend, HopperGpu

#: What pairs of SMs can be numbered by; see ``places``.
ORDERS = ("gpc", "side", "dealt", "patch")
#: Pairs of SMs that a kernel takes numbers of: MOST_PLACES in kernels/include/places.cuh.
MOST_PLACES = 72
KERNEL = "chip"
#: Blocks of a cluster. Sizes that do not divide a GPC chain its SMs together in different ways.
SIZES = (2, 3, 4, 5, 6, 7, 8)
LAUNCHES = 6  # of each size
LINES = 48  # of L2, about half of them near each of its sides
# A wave of 66 clusters is a patch of C 16 units high. Eight clusters take 4 × 2 units of it.
_PATCHED, _HIGH = 66, 16
_CELLS = (
    *(
        row + _HIGH * column
        for left in (0, 2)
        for top in range(0, _HIGH, 4)
        for column in (left, left + 1)
        for row in range(top, top + 4)
    ),
    *range(64, _PATCHED),
)


@dataclass(frozen=True)
class Chip:
    """Where the SMs of a GPU lie, as far as kernels can tell.

    ``groups``: SMs that can be in one cluster, directly or through others, by their lowest SM: a
    GPC, or a part of one. ``dealt``: for each cluster of two of a launch that fills the chip, the
    SM of its first block. ``sides``: near which side of L2 each SM is, 0 or 1; SM 0 is on side 0.
    """

    groups: tuple[tuple[int, ...], ...]
    dealt: tuple[int, ...]
    sides: tuple[int, ...]

    @property
    def group_of(self) -> dict[int, int]:
        """SM -> number of its group."""
        return {sm: number for number, group in enumerate(self.groups) for sm in group}


def plain(sms: int) -> Chip:
    """A chip of which nothing is known: one group, dealt in order, one side."""
    return Chip((tuple(range(sms)),), tuple(range(0, sms - 1, 2)), (0,) * sms)


# ---- numbers by place ---------------------------------------------------------------------------


def places(chip: Chip, order: str = "gpc") -> tuple[int, ...]:
    """A number for each pair of SMs, pair p of the SMs 2p and 2p + 1: a permutation.

    ``order``: "gpc" numbers group by group, within a group as dealt; "side" the same, and all
    groups near one side of L2 first; "patch" as "side", but eight pairs take 4 rows × 2 columns of
    a wave that is 16 units high, which is for 66 pairs, and "gpc" for others; "dealt" is the number
    of the cluster that a launch that fills the chip puts there. Raises HopperError for another.
    """
    if order not in ORDERS:
        raise HopperError(f"order={order!r}: clusters are numbered by one of {', '.join(ORDERS)}")
    if order == "patch" and len(chip.dealt) != _PATCHED:
        order = "gpc"
    group_of = chip.group_of

    # Sorting is stable: what is alike stays as dealt.
    def key(sm: int) -> tuple[int, ...]:
        if order == "dealt":
            return ()
        return (group_of[sm],) if order == "gpc" else (chip.sides[sm], group_of[sm])

    numbers = _CELLS if order == "patch" else range(len(chip.dealt))
    number_of = zip((sm // 2 for sm in sorted(chip.dealt, key=key)), numbers, strict=True)
    return tuple(number for _, number in sorted(number_of))


def argument(places: Sequence[int]) -> numpy.void:
    """The numbers as a kernel takes them, ``struct Places`` of kernels/include/places.cuh.

    76 bytes: how many pairs of SMs there are, a byte for each, and zeros. Raises HopperError for
    more than 72.
    """
    if len(places) > MOST_PLACES:
        raise HopperError(
            f"{len(places)} numbers: a kernel takes {MOST_PLACES} at most, for the pairs of SMs "
            f"of a whole GH100; pass one for each pair"
        )
    padded = numpy.zeros((), [("count", "<i4"), ("of", "u1", MOST_PLACES)])
    padded["count"], padded["of"][: len(places)] = len(places), places
    return padded.view(f"V{padded.itemsize}")[()]


# ---- what launches tell -------------------------------------------------------------------------


def grouped(seen: Iterable[Sequence[int]], sms: int) -> tuple[tuple[int, ...], ...]:
    """SMs that were in one cluster, directly or through others; ``seen``: the SMs of clusters.

    Groups are ordered by their lowest SM, and an SM that was not seen is a group of its own.
    Raises HopperError for an SM that is not one of range(sms).
    """
    above = list(range(sms))  # a smaller SM of the same group, or itself

    def lowest(sm: int) -> int:
        if not 0 <= sm < sms:
            raise HopperError(f"SM {sm}: this chip has {sms}, and their numbers are expected below")
        while above[sm] != sm:
            sm = above[sm]
        return sm

    for cluster in seen:
        roots = {lowest(sm) for sm in cluster}
        for root in roots:
            above[root] = min(roots)
    found: dict[int, list[int]] = {}
    for sm in range(sms):
        found.setdefault(lowest(sm), []).append(sm)
    return tuple(tuple(group) for group in found.values())


def sides_of(cycles: numpy.ndarray) -> tuple[int, ...]:
    """Near which side of L2 each SM is, from cycles of an atomic, (sms, lines).

    SM 0 is on side 0, and so is who is fast on the same lines. Where it cannot be told, some answer
    comes back.
    """
    # At least a quarter of the SMs is near either side, so between these lies the gap.
    low, high = numpy.percentile(cycles, (25, 75), axis=0)
    near = numpy.where(cycles < (low + high) / 2, 1.0, -1.0)
    alike = near @ near[0]
    for _ in range(3):  # all SMs know better than SM 0 alone which lines are near
        lines = numpy.sign(alike) @ near
        alike = near @ lines
    return tuple((alike * alike[0] < 0).astype(int).tolist())


@dataclass(frozen=True, eq=False)
class Launched:
    """What a launch of ``chip`` wrote.

    ``sms`` (clusters, size): the SM of each block. ``cycles`` (blocks, lines): of an atomic.
    """

    sms: numpy.ndarray
    cycles: numpy.ndarray


@dataclass(frozen=True, eq=False)
class Survey:
    """A chip, and ``cycles`` (sms, lines) of an atomic by which its sides were told apart."""

    chip: Chip
    cycles: numpy.ndarray


def launched(gpu: Backend, size: int, lines: int = LINES) -> Launched:
    """Launch ``chip`` with as many clusters of ``size`` blocks as there are SMs for."""
    program = compile_kernel(KERNEL, CLUSTER=size)
    facts, apart = program.facts, stated_facts(program.ptx)["apart"]
    blocks = gpu.sm_count // size * size
    sms = gpu.array(numpy.zeros(blocks, "uint32"))
    cycles = gpu.array(numpy.zeros((blocks, lines), "uint32"))
    memory = gpu.array(numpy.zeros(lines * apart, "uint32"))
    args = (memory, sms, cycles, numpy.int32(lines))
    gpu.launch(program, (blocks, 1, 1), (facts.threads, 1, 1), args, facts.shared_bytes)
    return Launched(gpu.numpy(sms).reshape(-1, size).astype(int), gpu.numpy(cycles))


def understood(launches: Sequence[Launched], sms: int) -> Survey:
    """What launches tell of a chip with so many SMs; those of clusters of two filled it.

    Raises HopperError where they did not: two blocks of a cluster on one SM, an SM without a block;
    and where the two blocks of a cluster did not run on the SMs 2p and 2p + 1.
    """
    pairs = [one for one in launches if one.sms.shape[1] == 2]
    if not pairs:
        raise HopperError("no cluster of two blocks ran, and these tell how clusters are dealt")
    for one in pairs:
        if sorted(one.sms.ravel().tolist()) != list(range(sms)):
            raise HopperError(
                f"{one.sms.size} blocks ran on {len(numpy.unique(one.sms))} of {sms} SMs: one on "
                f"each was expected; does something else run on this GPU?"
            )
        if (one.sms[:, 0] // 2 != one.sms[:, 1] // 2).any():
            raise HopperError("clusters of two blocks ran on other SMs than 2p and 2p + 1 each")
    clusters = [cluster for one in launches for cluster in one.sms.tolist()]
    for cluster in clusters:
        if len(set(cluster)) < len(cluster):
            raise HopperError(f"a cluster ran on the SMs {cluster}: each block needs its own")
    cycles = numpy.min([one.cycles[numpy.argsort(one.sms.ravel())] for one in pairs], axis=0)
    dealt = tuple(pairs[-1].sms[:, 0].tolist())
    return Survey(Chip(grouped(clusters, sms), dealt, sides_of(cycles)), cycles)


@cache
def survey(gpu: HopperGpu) -> Survey:
    """Launch clusters of every size, and understand where they ran. Leaves the GPU idle.

    Raises HopperError as ``understood`` does.
    """
    launches = []
    for size in SIZES:
        with suppress(RuntimeError):  # the driver refuses clusters that do not fit
            launches += [launched(gpu, size) for _ in range(LAUNCHES)]
    gpu.synchronize()
    return understood(launches, gpu.sm_count)


@cache
def look(gpu: HopperGpu) -> Chip:
    """The chip, found out once in a process; ``plain`` where it is not understood."""
    try:
        return survey(gpu).chip
    except HopperError:
        return plain(gpu.sm_count)
