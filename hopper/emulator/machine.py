"""Lanes and their program counters: the part of the emulator that decides who runs next.

All blocks of a wave are resident together. Each thread is a lane with a program counter of its
own; lanes at the same counter execute an instruction as one NumPy operation. A warp runs its lanes
with the lowest counter first, so that they meet again behind a branch, unless these only spin. A
blocked lane is parked under a key until a unit wakes that key. What happens asynchronously (a TMA
copy) waits in a queue, and the schedule says when it happens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy

from hopper.emulator.errors import Deadlock, Fault, StepLimit, Stopped
from hopper.emulator.flow import reaches
from hopper.emulator.hazards import Hazards, hazard
from hopper.emulator.instructions import Lanes, Rule, Step, rule_of, unsupported
from hopper.emulator.launch import Launch
from hopper.emulator.polling import only_looks
from hopper.emulator.ptx import Address, Immediate, Instruction, Label, Not, Register, Sink, Symbol
from hopper.emulator.registers import Read, Registers, Write, constant
from hopper.emulator.spaces import (
    CONST_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    Shared,
)
from hopper.emulator.special import special_register
from hopper.emulator.trace import Event, Trace
from hopper.emulator.types import numpy_type
from hopper.emulator.watch import Watch

WARP, WARPGROUP = 32, 128
_NEVER = 1 << 30  # a program counter behind every instruction
_PATIENCE = 4000  # picks that a lazy copy waits while threads loop
_LOOK = 2000  # steps between two looks for lanes that spin while others of their warp starve
_LAPS = 200  # loops that they may be ahead
_ASTRAY = 1 / 16  # how often the random schedule lets lanes of a warp go before those behind them
_CRUMBS = 1 / 2000  # how often starved warps go although others could
_SPINS = 20  # loops without a wait after which a warp counts as one that only spins

U = TypeVar("U")


@dataclass(frozen=True)
class Wait:
    """Why lanes are parked. ``key``: what wakes them; ``describe``: the words for a deadlock.

    ``blame``: asked in a deadlock, which rule is broken (a key of ``hazards.KINDS``), and by which
    instruction and lane, if not by the waiting ones (None); None where nothing more is known.
    """

    key: Hashable
    describe: Callable[[], str]
    blame: Callable[[], tuple[str, Instruction | None, int | None] | None] | None = None


@dataclass(slots=True)
class _Operation:
    """An instruction, ready to run."""

    x: Instruction
    rule: Rule | None
    run: Step | None
    guard: numpy.ndarray | None = None
    negated: bool = False
    target: int = -1
    mask: Read | None = None
    polls: bool = False  # a jump back over what ``only_looks``


class Machine:
    """One wave of blocks. ``blocks``: their places in the launch's order, whole clusters.

    Lane arrays, an entry a lane: ``pc``, ``alive``, ``running`` (alive and not parked), ``block``
    (place in the wave), ``rank`` (of the block in its cluster), ``thread`` (in the block).
    ``executed``: counts of each instruction, added to. ``watch``: looks for broken rules, None
    where ``hazards`` is. A block takes a multiple of 128 lanes, so lane // 32 is a warp and
    lane // 128 a warpgroup.
    """

    def __init__(
        self,
        launch: Launch,
        blocks: Sequence[int],
        trace: Trace,
        executed: numpy.ndarray,
        hazards: Hazards | None = None,
    ) -> None:
        self.launch, self.kernel = launch, launch.kernel
        self.blocks = tuple(blocks)
        self.trace, self.executed = trace, executed
        threads = launch.threads
        self.block_lanes = -(-threads // WARPGROUP) * WARPGROUP
        self.lane_count = count = len(blocks) * self.block_lanes
        self.lane = numpy.arange(count)
        self.block = self.lane // self.block_lanes
        self.thread = self.lane % self.block_lanes
        self.rank = self.block % launch.cluster_size
        self.alive = self.thread < threads
        self.running = self.alive.copy()
        self.pc = numpy.zeros(count, numpy.int32)
        self.registers = Registers(self.kernel.rows, count)
        self.shared = Shared(len(blocks), launch.shared_end)
        self.steps = 0
        self.at = 0
        self.acting: Lanes | None = None
        self._living = int(self.alive.sum())
        self._turn = numpy.zeros(count // WARP, numpy.int64)
        self._waited = self._turn.copy()  # as ``_turn`` was at a warp's last wait
        self._laps = numpy.zeros(count, numpy.int64)
        self._polled = numpy.zeros(count, bool)  # went round such a loop since anything changed
        self._only_polls = False  # all that run have polled: only a copy can change what they see
        self._starved = self.lane[:0]
        self._look = _LOOK
        self._wait = numpy.full(count, None, object)
        self._parked: dict[Hashable, list[numpy.ndarray]] = {}
        self._meeting: dict[int, numpy.ndarray] = {}
        self._queue: list[tuple[int, Callable[[], None]]] = []
        self._picks = 0
        self._units: dict[type, object] = {}
        self._on_exit: list[Callable[[numpy.ndarray], None]] = []
        self._random = random.Random(launch.seed)
        self._last = self._who_goes_last() if launch.schedule == "starved" else None
        self.watch = Watch(self, hazards) if hazards else None
        self._code = [self._operation(x) for x in self.kernel.code]
        # Of each instruction of a loop that only looks, the jump that closes it; -1 of all others.
        self._closes = [-1] * len(self._code)
        for op in self._code:
            if op.polls:
                for index in range(op.target, op.x.index + 1):
                    self._closes[index] = op.x.index

    # ---- what units ask for

    def unit(self, kind: type[U]) -> U:
        """This machine's one object of a unit's class, made with the machine as argument."""
        if kind not in self._units:
            self._units[kind] = kind(self)
        return self._units[kind]

    def lanes(self, lanes: Lanes) -> numpy.ndarray:
        """Lane numbers of an index."""
        return self.lane[lanes]

    def read(self, operand, kind: str) -> Read:
        """An operand as a function of the lanes: an array, or a NumPy scalar for a constant."""
        if isinstance(operand, Register):
            return self.registers.reader(operand, kind)
        if isinstance(operand, Immediate):
            value = constant(operand, kind)
            return lambda lanes: value
        if isinstance(operand, Not):
            positive = self.read(operand.operand, "pred")
            return lambda lanes: ~positive(lanes)
        if isinstance(operand, Symbol):
            return self._symbol(operand.name, kind)
        raise Fault(f"operand {operand} is not a value")

    def write(self, operand, kind: str) -> Write:
        """A destination as a function of the lanes and their values; ``_`` drops them."""
        if isinstance(operand, Sink):
            return lambda lanes, values: None
        if isinstance(operand, Register):
            return self.registers.writer(operand, kind)
        raise Fault(f"operand {operand} cannot be written")

    def address(self, operand: Address) -> Read:
        """Addresses (uint64, one a lane) of an operand ``[base + offset]``."""
        base, offset = operand.base, numpy.uint64(operand.offset & (1 << 64) - 1)
        narrow = isinstance(base, Register) and base.type in ("b32", "u32", "s32")
        value = self.read(base, "u32" if narrow else "u64")
        lane = self.lane

        def addresses(lanes: Lanes) -> numpy.ndarray:
            found = numpy.asarray(value(lanes)).astype(numpy.uint64) + offset
            return found if found.ndim else numpy.full(lane[lanes].shape, found)

        return addresses

    def each(self, read: Read, lanes: Lanes) -> numpy.ndarray:
        """What ``read`` gives, one value a lane even for a constant."""
        value = numpy.asarray(read(lanes))
        return value if value.ndim else numpy.broadcast_to(value, self.lane[lanes].shape)

    def shared_bytes_at(
        self, lanes: numpy.ndarray, address: numpy.ndarray, size: int
    ) -> numpy.ndarray:
        """Places in ``shared.bytes`` (int64) of shared addresses, each of ``size`` bytes.

        An address names a block of the lane's cluster by its rank in bits 24 and up. Raises Fault
        for a rank outside the cluster, bytes the block does not own, and an address that is no
        multiple of ``size``.
        """
        wide = address.astype(numpy.int64)
        if (wide & (size - 1)).any():
            bad = int(wide[(wide & (size - 1)) != 0].flat[0])
            raise Fault(
                f"shared address {bad:#x} is not a multiple of the {size} bytes that are "
                f"accessed; align it",
                "misaligned",
            )
        return self.shared_place(lanes, wide, size)

    def shared_place(self, lanes: numpy.ndarray, wide: numpy.ndarray, size: int) -> numpy.ndarray:
        """As ``shared_bytes_at`` for int64 addresses, alignment not checked."""
        offset = wide & ((1 << RANK_SHIFT) - 1)
        self.shared.check(offset, size)
        rank = wide >> RANK_SHIFT
        clusters = self.launch.cluster_size
        if int(rank.max(initial=0)) >= clusters or int(rank.min(initial=0)) < 0:
            bad = int(wide.flat[int(numpy.argmax(rank))])
            raise Fault(
                f"shared address {bad:#x} names rank {bad >> RANK_SHIFT} of a cluster of "
                f"{clusters}; map addresses with mapa, and ranks below the cluster's size",
                "shared-out-of-bounds",
            )
        block = self.block[lanes]
        return (block - block % clusters + rank) * self.shared.window + offset

    def park(self, lanes: Lanes, wait: Wait) -> None:
        """Block lanes at the instruction they are executing; they execute it again when woken."""
        self.pc[lanes] = self.at
        self.running[lanes] = False
        self._wait[lanes] = wait
        self._parked.setdefault(wait.key, []).append(self.lane[lanes])
        warps = self.lane[lanes] // WARP
        self._waited[warps] = self._turn[warps]
        self._tell("warp.wait", self._standing(self.lane[lanes]), on=wait.key)

    def wake(self, key: Hashable, *, advance: bool = False) -> None:
        """Unblock all lanes parked under ``key``; with ``advance`` past their instruction."""
        for lanes in self._parked.pop(key, ()):
            stood = self._standing(lanes)
            self.running[lanes] = self.alive[lanes]
            self._wait[lanes] = None
            if advance:
                self.pc[lanes] += 1
            self._tell("warp.wake", stood)

    def parked(self, key: Hashable) -> numpy.ndarray:
        """Lanes that wait for ``key``."""
        waiting = self._parked.get(key)
        return numpy.concatenate(waiting) if waiting else self.lane[:0]

    def later(self, happens: Callable[[], None], block: int = -1) -> None:
        """Put an asynchronous completion into the queue; the schedule picks its moment.

        ``block``: whose memory it concerns, by its place in the wave. Where nothing else runs, the
        oldest completion of every block happens, so that blocks stay in step.
        """
        if self.launch.tma == "eager":
            happens()
        else:
            self._queue.append((block, happens))

    def exit(self, lanes: Lanes) -> None:
        """End lanes for good."""
        gone = self.lane[lanes]
        self.alive[gone] = False
        self.running[gone] = False
        self._living -= gone.size
        if self._living:
            dead = ~self.alive.reshape(-1, WARP).any(axis=1)
            warps = numpy.unique(gone // WARP)
            self._tell("warp.exit", warps[dead[warps]])
        groups = numpy.unique(gone // WARPGROUP)
        for index, meeting in self._meeting.items():
            # Who waits for the gone may be complete now: let them look again.
            if meeting.reshape(-1, WARPGROUP)[groups].any():
                self.wake(("meeting", index))
                meeting[:] = False
        for told in self._on_exit:
            told(gone)

    def on_exit(self, told: Callable[[numpy.ndarray], None]) -> None:
        """Have ``told`` called with the lanes that exit."""
        self._on_exit.append(told)

    def event(self, kind: str, lane: int = -1, **detail: object) -> None:
        """Add to the trace. ``lane``: who did it, -1 for an asynchronous unit."""
        block = warp = -1
        line = 0
        if lane >= 0:
            block, warp = lane // self.block_lanes, lane % self.block_lanes // WARP
            line = self.kernel.code[self.at].line
        self.trace.add(Event(self.steps, kind, block, warp, line, detail))

    def keeps(self, kind: str, first: numpy.ndarray, reads: Iterable[int] = ()) -> None:
        """Add to the trace what warps do again and again: one event as long as nothing else is.

        ``first``: first lanes of the warps; ``reads``: what ``Trace.again`` gathers.
        """
        warps = (first.reshape(-1) // WARP).tolist()
        if not self.trace.again(kind, warps, self.steps, reads):
            again = {"times": 1, "until": self.steps, "reads": set(reads)}
            self.event(kind, int(first.flat[0]), warps=warps, **again)

    def _standing(self, lanes: numpy.ndarray) -> numpy.ndarray:
        """Those warps of lanes, by number in the wave, of which no lane runs."""
        warps = numpy.unique(lanes // WARP)
        return warps[~self.running.reshape(-1, WARP)[warps].any(axis=1)]

    def _tell(self, kind: str, warps: numpy.ndarray, **detail: object) -> None:
        if warps.size:
            self.event(kind, int(warps[0]) * WARP, warps=warps.tolist(), **detail)

    # ---- operands

    def _symbol(self, name: str, kind: str) -> Read:
        launch = self.launch
        if name.startswith("%"):
            return special_register(self, name, kind)
        wanted = numpy_type(kind)
        if name in launch.shared_offsets:
            own = numpy.arange(launch.cluster_size) << RANK_SHIFT
            values = (own + launch.shared_offsets[name]).astype(wanted)[self.rank]
            return lambda lanes: values[lanes]
        for offsets, window in (
            (launch.parameter_offsets, PARAM_WINDOW),
            (launch.const_offsets, CONST_WINDOW),
            (launch.local_offsets, LOCAL_WINDOW),
            (launch.global_addresses, 0),
        ):
            if name in offsets:
                value = numpy.uint64(window | offsets[name]).astype(wanted)
                return lambda lanes: value
        raise Fault(f"{name} is neither a variable nor a parameter of this kernel")

    def _operation(self, x: Instruction) -> _Operation:
        guard = negated = None
        if x.guard:
            guard = self.registers.row(x.guard.register, "pred")
            negated = x.guard.negated
        if x.parts[0] == "bra":
            target = x.operands[0]
            if not isinstance(target, Label):
                raise unsupported(x, "the branch's target is not a label of this kernel")
            polls = target.index <= x.index and only_looks(self.kernel.code[target.index : x.index])
            return _Operation(x, None, None, guard, bool(negated), target.index, polls=polls)
        rule = rule_of(x)
        try:
            run = rule.build(self, x)
        except Fault as error:
            raise unsupported(x, str(error)) from None
        if self.watch:
            run = self.watch.around(x, run)
        mask = None
        if rule.mask is not None:
            mask = self.read(x.operands[rule.mask], "u32")
        return _Operation(x, rule, run, guard, bool(negated), -1, mask)

    # ---- the run loop

    def run(self) -> None:
        """Run until every thread has exited and every asynchronous copy has landed.

        Raises Fault, Deadlock or StepLimit, each with its ``hazard``.
        """
        with numpy.errstate(all="ignore"):
            try:
                while self._living:
                    self._turn_of_the_wheel()
                while self._queue:
                    self._complete()
                if self.watch:
                    self.watch.ended()
            except Fault as error:
                raise self._named(Fault(f"{error}\n{self._where()}", error.kind)) from None
            except StepLimit as error:
                raise self._named(error) from None

    def _turn_of_the_wheel(self) -> None:
        self._picks += 1
        if self._queue and self._due():
            self._complete()
            return
        picked = self._all_in_step() if self.launch.schedule == "fixed" else self._any_warp()
        if not picked:
            self._nothing_runs()
            return
        changed, lap = self._segment(*picked)
        if changed:
            self._something_changed()
        elif lap:
            self._polled[picked[0]] = True
            self._only_polls = not (self.running & ~self._polled).any()
            if self._only_polls and not self._queue:
                self.acting = picked[0]
                raise self._spins_for_ever()

    def _something_changed(self) -> None:
        """Whoever polls may find something else from here on."""
        if self._polled.any():
            self._polled[:] = False
        self._only_polls = False

    def _who_goes_last(self) -> numpy.ndarray:
        """Which warps are starved: one warpgroup or one warp of every block, by the seed.

        Seeds go through them in order, warpgroups first, where a block has several.
        """
        warpgroups, warps = self.block_lanes // WARPGROUP, -(-self.launch.threads // WARP)
        if warpgroups == 1:
            warpgroups = 0
        choice = self.launch.seed % (warpgroups + warps)
        warp = numpy.arange(self.block_lanes // WARP)
        if choice < warpgroups:
            mine = warp * WARP // WARPGROUP == choice
        else:
            mine = warp == choice - warpgroups
        return numpy.tile(mine, len(self.blocks))

    def _without_the_last(self, warps: numpy.ndarray) -> numpy.ndarray:
        """Without the starved: but for a crumb, while another of these warps does not just spin."""
        last = self._last[warps]
        others = warps[~last]
        if not last.any() or (self._turn[others] - self._waited[others] > _SPINS).all():
            return warps
        return warps[last] if self._random.random() < _CRUMBS else others

    def _ready(self) -> numpy.ndarray:
        """Warps of which a lane could go on."""
        # Eight lanes are one word: to look at all of them costs little.
        runs = self.running.view(numpy.uint64).reshape(-1, WARP // 8).any(axis=1)
        return numpy.flatnonzero(runs)

    def _any_warp(self) -> tuple[Lanes, int, int, int] | None:
        """Lanes of one warp, where they are, where they meet others, and how far they go."""
        warps = self._ready()
        if not warps.size:
            return None
        if self._last is not None:
            warps = self._without_the_last(warps)
        if self.steps >= self._look:
            self._find_starved(numpy.where(self.running, self.pc, _NEVER))
        warp = int(warps[self._random.randrange(warps.size)])
        first = WARP * warp
        span = slice(first, first + WARP)
        mine = numpy.where(self.running[span], self.pc[span], _NEVER)
        index = self._fair_front(mine, warp) if warp in self._starved else int(mine.min())
        if self._random.random() < _ASTRAY:
            index = self._random.choice(sorted(set(mine[mine < _NEVER].tolist())))
        ahead = mine[mine > index]
        lanes = _as_slice(first + numpy.flatnonzero(mine == index))
        return (
            lanes,
            index,
            int(ahead.min(initial=_NEVER)),
            1 + int(self._random.expovariate(1 / 24)),
        )

    def _all_in_step(self) -> tuple[Lanes, int, int, int] | None:
        """The same for every warp that is at the lowest counter."""
        pcs = numpy.where(self.running, self.pc, _NEVER)
        fronts = pcs.reshape(-1, WARP).min(axis=1)
        if self.steps >= self._look:
            self._find_starved(pcs)
        for warp in self._starved.tolist():
            fronts[warp] = self._fair_front(pcs[warp * WARP : (warp + 1) * WARP], warp)
        index = int(fronts.min())
        if index == _NEVER:
            return None
        live = fronts < _NEVER
        if (fronts[live] != index).any():
            # Who has looped least goes first, so that a spinning warp starves no other.
            least = int(self._turn[live].min())
            index = int(fronts[live & (self._turn == least)].min())
            lanes = numpy.flatnonzero((pcs == index) & numpy.repeat(fronts == index, WARP))
        else:
            lanes = numpy.flatnonzero(pcs == index)
        ahead = pcs[pcs > index]
        return _as_slice(lanes), index, int(ahead.min(initial=_NEVER)), _NEVER

    def _find_starved(self, pcs: numpy.ndarray) -> None:
        """Find warps of which some lanes loop and loop while others could go on.

        The lowest counter first would never let those go on, and the loop may wait for them: a
        thread of Volta and later always gets its turn (CUDA C++ Programming Guide, "Independent
        Thread Scheduling").
        """
        self._look = self.steps + _LOOK
        pcs, laps = pcs.reshape(-1, WARP), self._laps.reshape(-1, WARP)
        live = pcs < _NEVER
        apart = (numpy.where(live, pcs, -1).max(axis=1) != pcs.min(axis=1)) & live.any(axis=1)
        laps[~apart] = 0
        most = numpy.where(live, laps, -1).max(axis=1)
        least = numpy.where(live, laps, most[:, None]).min(axis=1)
        apart[apart] &= (most - least > _LAPS)[apart] | numpy.isin(
            numpy.flatnonzero(apart), self._starved
        )
        self._starved = numpy.flatnonzero(apart)

    def _fair_front(self, mine: numpy.ndarray, warp: int) -> int:
        """Where the lanes of a warp are that have looped least, of counters ``mine``."""
        live = mine < _NEVER
        if not live.any():
            return _NEVER
        laps = self._laps[warp * WARP : (warp + 1) * WARP]
        return int(mine[live & (laps == laps[live].min())].min())

    def _due(self) -> bool:
        if self._last is not None and self._last[self._ready()].all():
            return True  # the starved come after the copies, too
        if self._only_polls:
            return True
        if self.launch.tma == "random":
            return self._random.random() < 0.2
        return self._picks > _PATIENCE

    def _complete(self) -> None:
        """Let queued completions happen: any one at random, or else the oldest of every block."""
        self._picks = 0
        self._something_changed()
        self.acting = None
        if self.launch.tma == "random":
            _, happens = self._queue.pop(self._random.randrange(len(self._queue)))
            happens()
            return
        oldest: dict[int, Callable[[], None]] = {}
        rest = []
        for block, happens in self._queue:
            if block in oldest:
                rest.append((block, happens))
            else:
                oldest[block] = happens
        # What happens may queue more, behind all that waits already.
        self._queue = rest
        for happens in oldest.values():
            happens()

    def _nothing_runs(self) -> None:
        if not self._queue:
            raise self._deadlock()
        self._complete()

    def _segment(self, lanes: Lanes, index: int, stop: int, budget: int) -> tuple[bool, bool]:
        """Run lanes from ``index`` on, until they part, block, loop, or meet others at ``stop``.

        Returns whether they did anything but look, within a loop that only looks, and whether they
        went all the way round it.
        """
        code, executed = self._code, self.executed
        start, end, lap = index, self._closes[index], False
        warps = _warp_count(self.lane[lanes])
        first, limit = self.steps, self.launch.step_limit
        while True:
            op = code[index]
            self.at = index
            self.steps += 1
            executed[index] += warps
            active: Lanes | None = lanes
            if op.guard is not None:
                holds = op.guard[lanes]
                if op.negated:
                    holds = ~holds
                if not holds.all():
                    active = _as_slice(self.lane[lanes][holds]) if holds.any() else None
            if op.target >= 0:
                if active is None:
                    index += 1
                elif active is lanes:
                    if op.target <= index:
                        self._looped(lanes)
                        changed, lap = index != end, start == op.target
                        index = op.target
                        break
                    index = op.target
                else:
                    self.pc[lanes] = index + 1
                    self.pc[active] = op.target
                    if op.target <= index:
                        self._looped(active)
                    self._check_limit(limit)
                    return True, False
            elif active is None:
                index += 1
            elif op.rule.control or (op.rule.together and not _whole(active, op.rule.together)):
                self.pc[lanes] = index + 1
                self.acting = active
                if op.rule.together and not _whole(active, op.rule.together):
                    active = self._gather(op, active)
                if active is not None:
                    op.run(active)
                self._check_limit(limit)
                return True, False
            else:
                self.acting = active
                op.run(active)
                index += 1
            if index >= stop or self.steps - first >= budget:
                changed = index > end
                break
        self.pc[lanes] = index
        self._check_limit(limit)
        return changed, lap

    def _looped(self, lanes: Lanes) -> None:
        self._laps[lanes] += 1
        self._turn[numpy.unique(self.lane[lanes] // WARP)] += 1

    def _check_limit(self, limit: int) -> None:
        if self.steps > limit:
            where = self.kernel.code[self.at]
            raise StepLimit(
                f"stopped after {limit} steps (instructions × groups of warps that executed them "
                f"together) at PTX line {where.line}: {where.text[:80]}: the kernel spins, or is "
                f"longer than expected; raise step_limit if it is\n{self._parked_warps()}"
            )

    def _spins_for_ever(self) -> StepLimit:
        where = self.kernel.code[self.at]
        rest = self.launch.block_count - 1 - self.blocks[-1]
        later = f", and {rest} blocks start only behind these" if rest else ""
        return StepLimit(
            f"stopped after {self.steps} steps at PTX line {where.line}: {where.text[:80]}: the "
            f"kernel spins, and nobody is left to end it: whatever runs goes round a loop that "
            f"changes nothing, and no asynchronous copy is under way{later}\n"
            f"{self._parked_warps()}"
        )

    def _gather(self, op: _Operation, lanes: Lanes) -> Lanes | None:
        """Bring lanes together that execute as one.

        Returns those whose group is complete; the others are parked. A group is complete when
        every living lane of it (or of the mask that the instruction names) is here.
        """
        index, size = op.x.index, op.rule.together
        here = self._meeting.setdefault(index, numpy.zeros(self.lane_count, bool))
        arrived = self.lane[lanes]
        here[arrived] = True
        need = self.alive.copy()
        if op.mask is not None:
            masks = numpy.zeros(self.lane_count, numpy.uint32)
            masks[arrived] = self.each(op.mask, lanes)
            old = numpy.flatnonzero(here)
            masks[old] = numpy.broadcast_to(op.mask(old), old.shape)
        ready = []
        for group in numpy.unique(arrived // size).tolist():
            span = slice(group * size, (group + 1) * size)
            if op.mask is None:
                if not (here[span] | ~need[span]).all():
                    continue
                if size == WARPGROUP and not need[span].all():
                    raise Fault(
                        f"{int(need[span].sum())} of 128 threads of warpgroup "
                        f"{group % (self.block_lanes // size)} execute it: a warpgroup is four "
                        f"whole warps that are all there; keep all 128 threads alive",
                        "partial-warpgroup",
                    )
                ready.append(self.lane[span][here[span]])
                continue
            for value in numpy.unique(masks[span][here[span]]).tolist():
                named = (value >> numpy.arange(size) & 1).astype(bool)
                mine = here[span] & (masks[span] == value)
                if not named[mine].all():
                    raise Fault(
                        f"a lane executes it with mask {value:#010x}, which does not name it; "
                        f"a thread must be in the mask it passes"
                    )
                if (mine | ~(named & need[span])).all():
                    ready.append(self.lane[span][mine])
        done = numpy.concatenate(ready) if ready else self.lane[:0]
        here[done] = False
        stood = self._standing(done)
        self.running[done] = self.alive[done]
        self._wait[done] = None
        self.pc[done] = index + 1
        left = arrived[here[arrived]]
        key = ("meeting", index)
        # Whoever went on must not be woken from where it waits next.
        here[left] = False
        self._parked[key] = [numpy.flatnonzero(here)]
        here[left] = True
        if left.size:
            blame = partial(self._blame_partial, left, index) if size == WARPGROUP else None
            self.park(left, Wait(key, lambda: _missing(size), blame))
        self._tell("warp.wake", stood)
        return _as_slice(numpy.sort(done)) if done.size else None

    # ---- words

    def place(self, lane: int) -> str:
        """A lane in words: block, warp and thread."""
        block = self.launch.block_index(self.blocks[lane // self.block_lanes])
        thread = lane % self.block_lanes
        return f"block {block}, warp {thread // WARP}, thread {thread}"

    def _where(self) -> str:
        x = self.kernel.code[self.at]
        source = f"\n  CUDA source: {x.source}" if x.source else ""
        return f"  PTX line {x.line}: {x.text[:120]}{source}"

    def who(self, lanes: Lanes | None) -> str:
        """Lanes in words: the first, and how many more; an asynchronous unit for None."""
        if lanes is None:
            return "a copy under way"
        numbers = self.lane[lanes]
        more = f" and {numbers.size - 1} more" if numbers.size > 1 else ""
        return f"{self.place(int(numbers[0]))}{more}"

    def _named(self, error: Stopped) -> Stopped:
        """An error with the hazard that it is, of the instruction that executes."""
        x = self.kernel.code[self.at]
        error.hazard = hazard(error.kind, str(error), x, self.who(self.acting))
        return error

    def cut_off(self, lanes: slice, index: int) -> bool:
        """Whether a living thread among these lanes can no longer come to an instruction."""
        pcs = set(self.pc[lanes][self.alive[lanes]].tolist())
        return not all(reaches(self.kernel, pc, {index}) for pc in pcs)

    def _blame_partial(self, lanes: numpy.ndarray, index: int) -> tuple[str, None, None] | None:
        groups = numpy.unique(lanes // WARPGROUP).tolist()
        spans = [slice(group * WARPGROUP, (group + 1) * WARPGROUP) for group in groups]
        if any(self.cut_off(span, index) for span in spans):
            return ("partial-warpgroup", None, None)
        return None

    def _deadlock(self) -> Deadlock:
        """The report of all that waits. Whoever knows more than that it waits takes the blame."""
        message = (
            "deadlock: every living warp waits, and no asynchronous copy is under way\n"
            + self._parked_warps()
        )
        waiting = self._waiting()
        lanes, kind, x, lane = waiting[0][0], "deadlock", None, None
        for some, wait in waiting:
            blamed = wait.blame() if wait.blame else None
            if blamed:
                lanes, (kind, x, lane) = some, blamed
                break
        error = Deadlock(message, kind)
        x = x or self.kernel.code[int(self.pc[lanes[0]])]
        threads = self.who(lanes if lane is None else numpy.array([lane]))
        error.hazard = hazard(kind, message, x, threads)
        return error

    def _waiting(self) -> list[tuple[numpy.ndarray, Wait]]:
        """Parked lanes of each warp, and why."""
        found = []
        for warp in range(self.lane_count // WARP):
            span = slice(warp * WARP, (warp + 1) * WARP)
            waits = self._wait[span]
            for wait in dict.fromkeys(waits[self.alive[span]].tolist()):
                if wait is not None:
                    lanes = warp * WARP + numpy.flatnonzero(waits == wait)
                    found.append((lanes[self.alive[lanes]], wait))
        return found

    def _parked_warps(self) -> str:
        lines = []
        for lanes, wait in self._waiting():
            x = self.kernel.code[int(self.pc[lanes[0]])]
            source = f" ({x.source})" if x.source else ""
            block = self.launch.block_index(self.blocks[int(lanes[0]) // self.block_lanes])
            in_block = int(lanes[0]) % self.block_lanes // WARP
            lines.append(
                f"  block {block} warp {in_block} ({lanes.size} threads) at PTX line {x.line}"
                f"{source}: {x.text[:70]}: {wait.describe()}"
            )
        return "\n".join(lines[:64] + ([f"  … and {len(lines) - 64} more"] if lines[64:] else []))


def _missing(size: int) -> str:
    what = "warp" if size == WARP else "warpgroup"
    return f"waits for the other threads of its {what}, which execute something else"


def _as_slice(lanes: numpy.ndarray) -> Lanes:
    """Consecutive lanes as a slice, which costs no copy."""
    if lanes.size and int(lanes[-1]) - int(lanes[0]) + 1 == lanes.size:
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes


def _warp_count(lanes: numpy.ndarray) -> int:
    warps = lanes // WARP
    return 1 + int(numpy.count_nonzero(warps[1:] != warps[:-1])) if lanes.size else 0


def _whole(lanes: Lanes, size: int) -> bool:
    """Whether lanes are whole groups of ``size``."""
    if isinstance(lanes, slice):
        return lanes.start % size == 0 and lanes.stop % size == 0
    if lanes.size % size:
        return False
    first = lanes[::size]
    return not (first % size).any() and bool((lanes[size - 1 :: size] - first == size - 1).all())
