"""The sixteen barriers of a block: ``bar`` and ``barrier``.

PTX ISA, "bar, barrier". A barrier counts whole warps: a warp arrives once each of its living
threads is there, and counts as 32 threads, also where some have exited. Without a thread count, a
barrier waits for every warp of the block that has living threads (CUDA C++ Programming Guide: since
Volta, barriers wait for all threads that have not exited); with one, for that many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

import numpy

from hopper.emulator.clocks import Knowledge
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine, Wait
from hopper.emulator.ptx import Immediate, Instruction

BARRIERS = 16


@dataclass(frozen=True, eq=False)
class Arrival:
    """How an instruction arrives. ``kind``: "sync", "arrive" or "red"; ``aligned``: the warp must
    execute it as one; ``value``, ``put``: of a reduction ``operation`` (popc, and, or).
    """

    kind: str
    aligned: bool
    operation: str = ""
    value: Callable[[Lanes], numpy.ndarray] | None = None
    put: Callable[[Lanes, numpy.ndarray], None] | None = None


@dataclass(slots=True)
class _Barrier:
    """A barrier in use. ``threads``: its count, 0 for the whole block; ``warps``: that arrived;
    ``keys``: what the waiting lanes are parked under; ``waiting``: those lanes; ``known``: what
    the watch gathers of all that arrived.
    """

    threads: int
    reduces: str
    warps: set[int] = field(default_factory=set)
    keys: dict[Hashable, None] = field(default_factory=dict)
    votes: list[tuple[Arrival, numpy.ndarray]] = field(default_factory=list)
    waiting: list[numpy.ndarray] = field(default_factory=list)
    known: Knowledge | None = None


@dataclass(slots=True)
class _Part:
    """A warp of which some threads are at a barrier, and others not yet."""

    number: int
    threads: int
    aligned: bool
    instructions: set[int] = field(default_factory=set)
    groups: list[tuple[Arrival, numpy.ndarray]] = field(default_factory=list)

    @property
    def here(self) -> int:
        return sum(lanes.size for _, lanes in self.groups)


class BlockBarriers:
    """Barriers of all blocks of a wave."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.warps_a_block = machine.block_lanes // WARP
        self.living = machine.alive.reshape(-1, WARP).sum(axis=1)
        self._active: dict[tuple[int, int], _Barrier] = {}
        self._parts: dict[int, _Part] = {}
        machine.on_exit(self._exited)

    def whole_blocks(self, lanes: Lanes, number: int) -> bool:
        """Whether lanes are all threads of blocks in which nobody waits at this barrier."""
        lane = self.machine.lane[lanes]
        size = self.machine.block_lanes
        first, last = int(lane[0]), int(lane[-1])
        if first % size or last % size != size - 1 or lane.size != last - first + 1 or self._parts:
            return False
        blocks = range(first // size, last // size + 1)
        if any((block, number) in self._active for block in blocks):
            return False
        if self.machine.watch:
            self.machine.watch.blocks_met(blocks)
        return True

    def arrive(self, how: Arrival, number: int, threads: int, lanes: numpy.ndarray) -> None:
        """Lanes (sorted) arrive at a barrier, and wait there unless they only arrive."""
        warps, counts = numpy.unique(lanes // WARP, return_counts=True)
        complete = counts == self.living[warps]
        if not complete.all():
            for warp in warps[~complete].tolist():
                self._come_in_part(how, number, threads, warp, lanes[lanes // WARP == warp])
            lanes = lanes[numpy.repeat(complete, counts)]
            warps, counts = warps[complete], counts[complete]
        stops = numpy.cumsum(counts)
        block = warps // self.warps_a_block
        for one in dict.fromkeys(block.tolist()):
            mine = numpy.flatnonzero(block == one)
            while mine.size:
                # With a count, warps beyond it are the first of the next round.
                room = self._room(one, number, threads) if threads else mine.size
                now, mine = mine[:room], mine[room:]
                some = lanes[stops[now[0]] - counts[now[0]] : stops[now[-1]]]
                key = None
                if how.kind != "arrive":
                    key = ("bar", one, number)
                    words, blame = partial(self._words, one, number), partial(self._blame, one)
                    self.machine.park(
                        some, Wait(key, words, partial(blame, threads, self.machine.at))
                    )
                self._join(one, number, threads, warps[now], [(how, some)], key)

    def _room(self, block: int, number: int, threads: int) -> int:
        barrier = self._active.get((block, number))
        return max(1, threads // WARP - (len(barrier.warps) if barrier else 0))

    def _come_in_part(
        self, how: Arrival, number: int, threads: int, warp: int, lanes: numpy.ndarray
    ) -> None:
        machine, who = self.machine, self.machine.place(int(lanes[0]))
        part = self._parts.setdefault(warp, _Part(number, threads, how.aligned))
        if (part.number, part.threads) != (number, threads):
            raise Fault(
                f"threads of one warp are at barrier {part.number} with {_count(part.threads)} and "
                f"at barrier {number} with {_count(threads)} ({who}); a warp arrives at one "
                f"barrier as a whole"
            )
        part.aligned |= how.aligned
        part.instructions.add(machine.at)
        part.groups.append((how, lanes))
        if part.aligned and len(part.instructions) > 1:
            raise Fault(
                f"threads of one warp reach barrier {number} by different instructions ({who}), "
                f"and these are .aligned: all threads of a warp execute the same one; move it out "
                f"of the branch, or use barrier.sync, which is not .aligned",
                "barrier-divergence",
            )
        waits = how.kind != "arrive"
        blame = partial(self._blame, warp // self.warps_a_block, threads, machine.at)
        words = partial(self._part_words, warp)
        machine.park(lanes, Wait(("bar.part", warp, waits), words, blame))
        self._complete_warp(warp)

    def _complete_warp(self, warp: int) -> None:
        part = self._parts[warp]
        if part.here < self.living[warp]:
            return
        del self._parts[warp]
        self.machine.wake(("bar.part", warp, False), advance=True)
        block = warp // self.warps_a_block
        waits = any(how.kind != "arrive" for how, _ in part.groups)
        self._join(
            block,
            part.number,
            part.threads,
            numpy.array([warp]),
            part.groups,
            ("bar.part", warp, True) if waits else None,
        )

    def _join(
        self,
        block: int,
        number: int,
        threads: int,
        warps: numpy.ndarray,
        groups: list[tuple[Arrival, numpy.ndarray]],
        key: Hashable,
    ) -> None:
        """Whole warps of one block arrive. ``key``: what those that wait are parked under."""
        reduces = next((how.operation for how, _ in groups if how.kind == "red"), "")
        barrier = self._active.get((block, number))
        if barrier is None:
            barrier = self._active[block, number] = _Barrier(threads, reduces)
        who = self.machine.place(int(groups[0][1][0]))
        if barrier.threads != threads:
            raise Fault(
                f"barrier {number} is in use with {_count(barrier.threads)}, and a warp comes with "
                f"{_count(threads)} ({who}): all that meet at a barrier name one count; use the "
                f"same count, or another barrier"
            )
        if barrier.reduces != reduces:
            raise Fault(
                f"barrier {number} is in use by {_by(barrier.reduces)}, and a warp comes by "
                f"{_by(reduces)} ({who}): reductions do not mix with others at one barrier"
            )
        if twice := barrier.warps.intersection(warps.tolist()):
            raise Fault(
                f"warp {min(twice) % self.warps_a_block} arrives at barrier {number} twice before "
                f"the others have come once ({who}): the barrier opens too early; wait (bar.sync) "
                f"in between, or use two barriers"
            )
        barrier.warps.update(warps.tolist())
        if reduces:
            barrier.votes += groups
        if self.machine.watch:
            for how, lanes in groups:
                barrier.known = self.machine.watch.released(lanes, barrier.known)
                if how.kind != "arrive":
                    barrier.waiting.append(lanes)
        if key is not None:
            barrier.keys[key] = None
        self._complete(block, number)

    def _complete(self, block: int, number: int) -> None:
        """Open a barrier where all have arrived."""
        barrier = self._active[block, number]
        if len(barrier.warps) < self._expected(block, barrier):
            return
        del self._active[block, number]
        for key in barrier.keys:
            self.machine.wake(key, advance=True)
        for lanes in barrier.waiting:
            self.machine.watch.acquired(lanes, barrier.known)
        if barrier.reduces:
            votes = [self.machine.each(how.value, lanes) for how, lanes in barrier.votes]
            result = _REDUCE[barrier.reduces](numpy.concatenate(votes))
            for how, lanes in barrier.votes:
                how.put(lanes, numpy.full(lanes.size, result))

    def _expected(self, block: int, barrier: _Barrier) -> int:
        """Warps that the barrier waits for."""
        if barrier.threads:
            return barrier.threads // WARP
        span = slice(block * self.warps_a_block, (block + 1) * self.warps_a_block)
        return int(numpy.count_nonzero(self.living[span]))

    def _exited(self, lanes: numpy.ndarray) -> None:
        """Threads that have gone are waited for no longer."""
        gone, counts = numpy.unique(lanes // WARP, return_counts=True)
        self.living[gone] -= counts
        for warp in [warp for warp in gone.tolist() if warp in self._parts]:
            self._complete_warp(warp)
        blocks = set((gone[self.living[gone] == 0] // self.warps_a_block).tolist())
        for block, number in [at for at in self._active if at[0] in blocks]:
            self._complete(block, number)

    # ---- words

    def _blame(self, block: int, threads: int, index: int) -> tuple[str, None, None] | None:
        """Whether threads of the block wait elsewhere, and cannot come to this instruction."""
        size = self.machine.block_lanes
        if threads or not self.machine.cut_off(slice(block * size, (block + 1) * size), index):
            return None
        return ("barrier-divergence", None, None)

    def _words(self, block: int, number: int) -> str:
        barrier = self._active[block, number]
        expected = self._expected(block, barrier)
        span = range(block * self.warps_a_block, (block + 1) * self.warps_a_block)
        absent = [w % self.warps_a_block for w in span if self.living[w] and w not in barrier.warps]
        said = f"{len(barrier.warps) * WARP} of {expected * WARP} threads have arrived"
        if expected > len(barrier.warps) + len(absent):
            said += ", more than are left of the block"
        if absent:
            said += f"; not yet: warp{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
        return f"barrier {number}: {said}"

    def _part_words(self, warp: int) -> str:
        part = self._parts.get(warp)
        if part is None:
            block, number = next(
                at for at, b in self._active.items() if ("bar.part", warp, True) in b.keys
            )
            return self._words(block, number)
        return (
            f"barrier {part.number}: waits for the other {int(self.living[warp]) - part.here} "
            f"threads of its warp, which execute something else"
        )


_REDUCE = {"popc": lambda c: numpy.uint32(c.sum()), "and": numpy.all, "or": numpy.any}


def _count(threads: int) -> str:
    return f"{threads} threads" if threads else "all threads of the block"


def _by(reduces: str) -> str:
    return f"red.{reduces}" if reduces else "sync or arrive"


def _arrival(machine: Machine, x: Instruction) -> tuple[Arrival, list]:
    """What an opcode says, and the operands that name the barrier and the thread count."""
    parts = [part for part in x.parts if part != "cta"]
    aligned = parts[0] == "bar" or "aligned" in parts
    form = ".".join(part for part in parts[1:] if part != "aligned")
    names = list(x.operands)
    if form in ("sync", "arrive"):
        how = Arrival(form, aligned)
    elif form in ("red.popc.u32", "red.and.pred", "red.or.pred") and len(names) >= 3:
        _, operation, kind = form.split(".")
        value, put = machine.read(names.pop(), "pred"), machine.write(names.pop(0), kind)
        how = Arrival("red", aligned, operation, value, put)
    else:
        raise unsupported(x, "barriers are sync, arrive, red.popc.u32, red.and.pred, red.or.pred")
    if len(names) not in ((2,) if form == "arrive" else (1, 2)):
        raise unsupported(x, "it takes a barrier and a thread count, which arrive cannot leave out")
    return how, names


@executes("bar", "barrier", control=True)
def barrier(machine: Machine, x: Instruction) -> Step:
    """``barrier.sync a, b``, ``arrive`` and ``red``; ``bar`` is ``barrier`` with ``.aligned``.

    Raises Fault for a barrier above 15, and for a thread count that is no multiple of 32.
    """
    how, names = _arrival(machine, x)
    barriers = machine.unit(BlockBarriers)
    number = machine.read(names[0], "u32")
    threads = machine.read(names[1], "u32") if len(names) == 2 else None
    if how.kind == "sync" and threads is None and isinstance(names[0], Immediate):
        always = names[0].value
        _check_operands(always, None)
    else:
        always = -1

    def step(lanes: Lanes) -> None:
        if always >= 0 and barriers.whole_blocks(lanes, always):
            return
        lane = machine.lane[lanes]
        wanted = numpy.asarray(number(lanes)).astype(numpy.uint64) << numpy.uint64(32)
        if threads:
            wanted = wanted | numpy.asarray(threads(lanes)).astype(numpy.uint64)
        for pair in numpy.unique(wanted).tolist():
            a, b = pair >> 32, pair & 0xFFFFFFFF
            _check_operands(a, b if threads else None)
            barriers.arrive(how, a, b, lane[wanted == pair] if wanted.ndim else lane)

    return step


def _check_operands(number: int, threads: int | None) -> None:
    if number >= BARRIERS:
        raise Fault(f"barrier {number}: a block has barriers 0 to {BARRIERS - 1}; use one of them")
    if threads is not None and (threads % WARP or threads == 0):
        raise Fault(
            f"barrier {number} for {threads} threads: a thread count is a multiple of {WARP} and "
            f"not 0, because whole warps arrive; round it up"
        )
