"""Threads of a warp that exchange values: shuffles, votes, matches, reductions, elections.

PTX ISA, "Parallel Synchronization and Communication Instructions". The machine brings together the
lanes that a membermask names before a step runs. Lanes of one warp that pass different masks are
groups of their own, even in one call. Forms without ``.sync`` do not exist on sm_90a.

Values of a group are a matrix, a row a warp and a column a lane, beside a matrix that says who is
there: an exited thread, or one outside the mask, contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine, Wait
from hopper.emulator.ptx import Instruction, Pair, Sink
from hopper.emulator.registers import Read, Write

_ALL = 0xFFFFFFFF
_COLUMNS = numpy.arange(WARP)
#: Results of a group from who is there and the values: matrices (warps, 32), or (warps, 1).
Compute = Callable[..., tuple[numpy.ndarray, ...]]


def _exchange(
    machine: Machine, mask: Read, reads: Sequence[Read], compute: Compute, puts: Sequence[Write]
) -> Step:
    """A step that lets the lanes of each warp and mask exchange what ``reads`` give."""

    def step(lanes: Lanes) -> None:
        number = machine.lane[lanes]
        masks = mask(lanes)
        rows = number.size // WARP
        if numpy.all(masks == _ALL) and _whole_warps(number):
            everyone = numpy.ones((rows, WARP), bool)
            values = [machine.each(read, lanes).reshape(rows, WARP) for read in reads]
            for put, result in zip(puts, compute(everyone, *values), strict=True):
                put(lanes, numpy.broadcast_to(result, (rows, WARP)).reshape(-1))
            return
        masks = numpy.broadcast_to(masks, number.shape)
        for value in dict.fromkeys(masks.tolist()):
            group = number[masks == value]
            _check_mask(machine, group, value)
            warps, row = numpy.unique(group // WARP, return_inverse=True)
            there = numpy.zeros((warps.size, WARP), bool)
            there[row, group % WARP] = True
            values = []
            for read in reads:
                given = machine.each(read, group)
                spread = numpy.zeros((warps.size, WARP), given.dtype)
                spread[row, group % WARP] = given
                values.append(spread)
            for put, result in zip(puts, compute(there, *values), strict=True):
                put(group, numpy.broadcast_to(result, there.shape)[row, group % WARP])

    return step


def _whole_warps(number: numpy.ndarray) -> bool:
    """Whether sorted lanes are whole warps."""
    if number.size % WARP or number[0] % WARP:
        return False
    first = number[::WARP]
    return not (first % WARP).any() and bool((number[WARP - 1 :: WARP] - first == WARP - 1).all())


def _check_mask(machine: Machine, group: numpy.ndarray, mask: int) -> None:
    """Raise Fault unless a group is the living lanes that its mask names."""
    outside = (mask >> group % WARP & 1) == 0
    if outside.any():
        raise _outside(machine, int(group[outside.argmax()]), mask)
    warps = numpy.unique(group // WARP)
    named = (mask >> _COLUMNS & 1).astype(bool) & machine.alive.reshape(-1, WARP)[warps]
    if int(named.sum()) != group.size:
        missing = (warps[:, None] * WARP + _COLUMNS)[named]
        first = int(numpy.setdiff1d(missing, group)[0])
        raise Fault(
            f"membermask {mask:#010x} names a thread that passes another mask or none "
            f"({machine.place(first)}): all threads of a mask execute it with that mask"
        )


def _outside(machine: Machine, lane: int, mask: int) -> Fault:
    return Fault(
        f"membermask {mask:#010x} does not name a thread that passes it ({machine.place(lane)}): a "
        f"thread must be in its own mask"
    )


def _bits(there: numpy.ndarray) -> numpy.ndarray:
    """A matrix (…, 32) of bools as 32-bit masks (…, 1)."""
    return numpy.packbits(there, axis=-1, bitorder="little").view("<u4")


def _halves(operand) -> tuple:
    """``d|p`` as its two operands; a lone d has no p."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


@executes("shfl.sync", together=WARP, mask=4)
def shfl(machine: Machine, x: Instruction) -> Step:
    """``shfl.sync.mode.b32 d|p, a, b, c, membermask``: read register a of another lane.

    ``c`` holds a clamp (bits 0–4) and a segment mask (bits 8–12); p says whether the lane that b
    names lies in the segment, and a lane for which it does not gets its own a. Raises Fault for a
    lane that reads one which is not there: its value is undefined.
    """
    mode = x.parts[2] if len(x.parts) > 2 else ""
    if mode not in ("idx", "up", "down", "bfly") or x.parts[3:] != ("b32",) or len(x.operands) != 5:
        raise unsupported(x, "shfl.sync has modes up, down, bfly and idx, type .b32 and a mask")
    first, second = _halves(x.operands[0])
    reads = [machine.read(operand, "b32") for operand in x.operands[1:4]]
    puts = [machine.write(first, "b32"), machine.write(second, "pred")]

    def compute(there, value, b, c):
        wanted = (b & 31).astype(numpy.int64)
        clamp, segment = (c & 31).astype(numpy.int64), (c >> 8 & 31).astype(numpy.int64)
        fixed = _COLUMNS & segment
        limit = fixed | clamp & ~segment
        if mode == "idx":
            source = fixed | wanted & ~segment
        elif mode == "up":
            source = _COLUMNS - wanted
        elif mode == "down":
            source = _COLUMNS + wanted
        else:
            source = _COLUMNS ^ wanted
        valid = source >= limit if mode == "up" else source <= limit
        source = numpy.where(valid, source, _COLUMNS)
        rows = numpy.arange(source.shape[0])[:, None]
        absent = there & ~there[rows, source]
        if absent.any():
            row, lane = (int(at) for at in numpy.argwhere(absent)[0])
            raise Fault(
                f"lane {lane} reads lane {int(source[row, lane])}, which does not take part: what "
                f"it gets is undefined; keep the lane alive and in the mask, or read another"
            )
        return value[rows, source], valid

    return _exchange(machine, machine.read(x.operands[4], "u32"), reads, compute, puts)


@executes("vote.sync", together=WARP, mask=2)
def vote(machine: Machine, x: Instruction) -> Step:
    """``vote.sync.all|any|uni.pred d, a, membermask`` and ``vote.sync.ballot.b32``."""
    mode, kind = x.parts[2:] if len(x.parts) == 4 else ("", "")
    if (mode, kind) != ("ballot", "b32") and (mode not in ("all", "any", "uni") or kind != "pred"):
        raise unsupported(x, "vote.sync is .all.pred, .any.pred, .uni.pred or .ballot.b32")

    def compute(there, value):
        yes = there & value
        if mode == "ballot":
            return (_bits(yes),)
        some = yes.any(axis=1, keepdims=True)
        every = (value | ~there).all(axis=1, keepdims=True)
        return ({"all": every, "any": some, "uni": every | ~some}[mode],)

    put, given = machine.write(x.operands[0], kind), machine.read(x.operands[1], "pred")
    return _exchange(machine, machine.read(x.operands[2], "u32"), [given], compute, [put])


@executes("match.any.sync", "match.all.sync", together=WARP, mask=2)
def match(machine: Machine, x: Instruction) -> Step:
    """``match.any.sync d, a, membermask``: who has my a; ``.all d|p``: the mask if all have one."""
    kind, every = x.parts[-1], x.parts[1] == "all"
    if x.parts[3:] not in (("b32",), ("b64",)):
        raise unsupported(x, "match compares .b32 or .b64")
    if isinstance(x.operands[0], Pair) and not every:
        raise unsupported(x, "match.any has no predicate")
    first, second = _halves(x.operands[0])
    puts = [machine.write(first, "b32"), machine.write(second, "pred")]

    def compute(there, value):
        same = (value[:, :, None] == value[:, None, :]) & there[:, None, :]
        mine = _bits(same)[:, :, 0]
        if not every:
            return mine, there
        members = _bits(there)
        agree = ((mine == members) | ~there).all(axis=1, keepdims=True)
        return numpy.where(agree, members, numpy.uint32(0)), agree

    reads = [machine.read(x.operands[1], kind)]
    return _exchange(machine, machine.read(x.operands[2], "u32"), reads, compute, puts)


# Operation, and what an absent lane contributes, by name and type.
_REDUCTIONS = {
    ("add", "u32"): (numpy.add, 0),
    ("add", "s32"): (numpy.add, 0),
    ("min", "u32"): (numpy.minimum, 2**32 - 1),
    ("min", "s32"): (numpy.minimum, 2**31 - 1),
    ("max", "u32"): (numpy.maximum, 0),
    ("max", "s32"): (numpy.maximum, -(2**31)),
    ("and", "b32"): (numpy.bitwise_and, 2**32 - 1),
    ("or", "b32"): (numpy.bitwise_or, 0),
    ("xor", "b32"): (numpy.bitwise_xor, 0),
}


@executes("redux.sync", together=WARP, mask=2)
def redux(machine: Machine, x: Instruction) -> Step:
    """``redux.sync.op.type d, a, membermask``: one result from all lanes of the mask."""
    found = _REDUCTIONS.get(x.parts[2:])
    if found is None:
        raise unsupported(x, "redux.sync is add, min, max of .u32 or .s32, or and, or, xor of .b32")
    operation, neutral = found
    kind = x.parts[3]

    def compute(there, value):
        counted = numpy.where(there, value, value.dtype.type(neutral))
        return (operation.reduce(counted, axis=1, keepdims=True, dtype=value.dtype),)

    put, given = machine.write(x.operands[0], kind), machine.read(x.operands[1], kind)
    return _exchange(machine, machine.read(x.operands[2], "u32"), [given], compute, [put])


@executes("elect.sync", together=WARP, mask=1)
def elect(machine: Machine, x: Instruction) -> Step:
    """``elect.sync d|p, membermask``: one lane of the mask, the same each time: the lowest.

    That it is the lowest was shown by ``kernels/probes/warps.cu``.
    """
    if len(x.parts) != 2 or not isinstance(x.operands[0], Pair):
        raise unsupported(x, "elect.sync d|p, membermask has a predicate")
    first, second = _halves(x.operands[0])
    puts = [machine.write(first, "b32"), machine.write(second, "pred")]

    def compute(there):
        leader = there.argmax(axis=1)[:, None]
        return leader.astype(numpy.uint32), leader == _COLUMNS

    return _exchange(machine, machine.read(x.operands[1], "u32"), [], compute, puts)


@executes("activemask")
def activemask(machine: Machine, x: Instruction) -> Step:
    """``activemask.b32 d``: the lanes of the warp that execute it together."""
    put = machine.write(x.operands[0], "b32")

    def step(lanes: Lanes) -> None:
        number = machine.lane[lanes]
        there = numpy.zeros((machine.lane_count // WARP, WARP), bool)
        there.reshape(-1)[number] = True
        put(lanes, _bits(there)[number // WARP, 0])

    return step


class WarpBarriers:
    """Lanes that wait for the lanes of a mask, each at an instruction of its own."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._here: dict[tuple[int, int], numpy.ndarray] = {}
        machine.on_exit(self._exited)

    def arrive(self, lanes: numpy.ndarray, mask: int) -> None:
        """Lanes of one mask wait until all living lanes that it names have come."""
        outside = (mask >> lanes % WARP & 1) == 0
        if outside.any():
            raise _outside(self.machine, int(lanes[outside.argmax()]), mask)
        for warp in dict.fromkeys((lanes // WARP).tolist()):
            mine = lanes[lanes // WARP == warp]
            here = self._here.setdefault((warp, mask), numpy.zeros(WARP, bool))
            here[mine % WARP] = True
            self.machine.park(mine, Wait(("bar.warp", warp, mask), lambda: _LATE))
            self._complete(warp, mask)

    def _complete(self, warp: int, mask: int) -> None:
        alive = self.machine.alive[warp * WARP : (warp + 1) * WARP]
        named = (mask >> _COLUMNS & 1).astype(bool)
        if not (self._here[warp, mask] | ~(named & alive)).all():
            return
        here = self._here.pop((warp, mask))
        self.machine.wake(("bar.warp", warp, mask), advance=True)
        if self.machine.watch:
            self.machine.watch.met(warp * WARP + numpy.flatnonzero(here))

    def _exited(self, lanes: numpy.ndarray) -> None:
        if self._here:
            gone = set((lanes // WARP).tolist())
            for warp, mask in [at for at in self._here if at[0] in gone]:
                self._complete(warp, mask)


_LATE = "waits for the other threads of its mask, which execute something else"


@executes("bar.warp.sync", control=True)
def bar_warp(machine: Machine, x: Instruction) -> Step:
    """``bar.warp.sync membermask``: lanes wait for each other, also at different instructions."""
    if len(x.parts) != 3 or len(x.operands) != 1:
        raise unsupported(x, "bar.warp.sync takes a membermask")
    mask, barriers = machine.read(x.operands[0], "u32"), machine.unit(WarpBarriers)

    def step(lanes: Lanes) -> None:
        number, masks = machine.lane[lanes], numpy.asarray(mask(lanes))
        if (masks == _ALL).all() and _whole_warps(number):
            if machine.watch:
                for first in range(0, number.size, WARP):
                    machine.watch.met(number[first : first + WARP])
            return
        masks = numpy.broadcast_to(masks, number.shape)
        for value in dict.fromkeys(masks.tolist()):
            barriers.arrive(number[masks == value], value)

    return step
