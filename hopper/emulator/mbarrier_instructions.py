"""The instructions ``mbarrier.*``: operands and forms; what they do is in ``mbarrier``.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". Memory order
(``.release``, ``.acquire``, ``.relaxed`` and scopes) changes no result, because the emulator's
memory is sequentially consistent; it tells the watch who learns of whose past.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import locator
from hopper.emulator.machine import WARP, Machine
from hopper.emulator.mbarrier import Mbarriers, parity_in, pending_in
from hopper.emulator.ptx import Address, Instruction, Sink

_SPACES = ("shared", "shared::cta", "shared::cluster")


def _form(x: Instruction, behind: int, *, remote: bool, order: tuple[str, ...] = ()) -> str:
    """The state space that the opcode names, "" for generic addresses.

    ``behind``: parts of its name; ``remote``: whether it reaches other blocks of the cluster.
    Raises Unsupported for parts that the instruction has not.
    """
    rest = list(x.parts[behind:])
    if not rest or rest.pop() != "b64":
        raise unsupported(x, f"{x.opcode} is of type .b64")
    spaces = [part for part in rest if part in _SPACES[: 3 if remote else 2]]
    orders = [part for part in rest if part in order]
    semantics = [part for part in orders if part not in ("cta", "cluster")]
    whole = len(orders) == 2 * len(semantics) and len(semantics) <= 1
    if len(spaces) + len(orders) != len(rest) or len(spaces) > 1 or not whole:
        raise unsupported(x, f"{x.opcode} is no form of {'.'.join(x.parts[:behind])}")
    return spaces[0] if spaces else ""


def _places(
    machine: Machine, x: Instruction, operand, space: str, *, own: bool
) -> Callable[[Lanes], numpy.ndarray]:
    """Places of the barriers that an address operand names, as a function of the lanes.

    ``own``: only barriers of the thread's own block can be meant.
    """
    if not isinstance(operand, Address):
        raise unsupported(x, "the barrier is an address in brackets")
    address, locate = machine.address(operand), locator(machine, space, 8)
    shared, lane, block = machine.shared, machine.lane, machine.block

    def places(lanes: Lanes) -> numpy.ndarray:
        addresses = address(lanes)
        found = locate(lanes, addresses)
        if len(found) != 1 or found[0][0] is not shared:
            raise Fault(
                f"address {int(addresses[0]):#x} is not one of shared memory, where mbarriers "
                f"lie; pass the address of a __shared__ variable"
            )
        at = found[0][1]
        if own and space == "":
            _own(machine, lane[lanes], at, block[lanes])
        return at

    return places


def _own(machine: Machine, lanes: numpy.ndarray, at: numpy.ndarray, block: numpy.ndarray) -> None:
    away = at // machine.shared.window != block
    if away.any():
        first = int(away.argmax())
        raise Fault(
            f"the {machine.unit(Mbarriers).name(int(at[first]))} belongs to another block: only "
            f"arrive (with result _), expect_tx and complete_tx reach it "
            f"({machine.place(int(lanes[first]))})"
        )


def _present(machine: Machine, lanes: Lanes, places: numpy.ndarray) -> None:
    """Raise Fault where a block of the cluster has exited, whose barrier a thread names."""
    away = places // machine.shared.window != machine.block[lanes]
    for at in numpy.flatnonzero(away).tolist():
        first = int(places[at]) // machine.shared.window * machine.block_lanes
        if not machine.alive[first : first + machine.block_lanes].any():
            raise Fault(
                f"the block of the {machine.unit(Mbarriers).name(int(places[at]))} has exited: "
                f"its shared memory is gone; keep blocks alive by a cluster barrier "
                f"({machine.place(int(machine.lane[lanes][at]))})",
                "peer-gone",
            )


@executes("mbarrier.init")
def init(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.init.b64 [addr], count``."""
    space = _form(x, 2, remote=False)
    if len(x.operands) != 2:
        raise unsupported(x, "mbarrier.init takes an address and a count")
    barriers, places = machine.unit(Mbarriers), _places(machine, x, x.operands[0], space, own=True)
    count = machine.read(x.operands[1], "u32")

    def step(lanes: Lanes) -> None:
        counts = machine.each(count, lanes).tolist()
        who = machine.lane[lanes].tolist()
        for place, n, lane in zip(places(lanes).tolist(), counts, who, strict=True):
            if machine.watch:
                machine.watch.initialised(lane, place)
            barriers.init(place, n, lane)

    return step


@executes("mbarrier.inval")
def inval(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.inval.b64 [addr]``."""
    space = _form(x, 2, remote=False)
    barriers, places = machine.unit(Mbarriers), _places(machine, x, x.operands[0], space, own=True)

    def step(lanes: Lanes) -> None:
        for place, lane in zip(places(lanes).tolist(), machine.lane[lanes].tolist(), strict=True):
            barriers.inval(place)
            if machine.watch:
                machine.watch.initialised(lane, place, alive=False)

    return step


@executes("mbarrier.expect_tx", "mbarrier.complete_tx")
def change_tx(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.expect_tx.b64 [addr], bytes``, and ``complete_tx``, which simulates a copy."""
    space = _form(x, 2, remote=True, order=("relaxed", "cta", "cluster"))
    if len(x.operands) != 2:
        raise unsupported(x, f"{x.parts[1]} takes an address and a number of bytes")
    barriers, places = machine.unit(Mbarriers), _places(machine, x, x.operands[0], space, own=False)
    bytes = machine.read(x.operands[1], "u32")
    change = barriers.expect_tx if x.parts[1] == "expect_tx" else barriers.complete_tx

    def step(lanes: Lanes) -> None:
        at, counts = places(lanes), machine.each(bytes, lanes).tolist()
        _present(machine, lanes, at)
        if machine.watch:
            machine.watch.used(machine.lane[lanes], at)
            if x.parts[1] == "expect_tx":
                machine.watch.announced(machine.lane[lanes], at)
        for place, n, lane in zip(at.tolist(), counts, machine.lane[lanes].tolist(), strict=True):
            change(place, n, lane)

    return step


@executes("mbarrier.arrive", "mbarrier.arrive_drop")
def arrive(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.arrive.b64 state, [addr], count``, with ``.expect_tx`` and ``.noComplete``."""
    expects, completes = x.has("expect_tx"), not x.has("noComplete")
    if expects and not completes:
        raise unsupported(x, "an arrival has .expect_tx or .noComplete, not both")
    behind = 2 + (expects or not completes)
    order = ("release", "relaxed", "cta", "cluster") if completes else ("release", "cta")
    space = _form(x, behind, remote=completes, order=order)
    few, many = (3, 3) if expects or not completes else (2, 3)
    if not few <= len(x.operands) <= many:
        raise unsupported(
            x, f"it takes {few} to {many} operands: a state or _, an address, a count"
        )
    silent = isinstance(x.operands[0], Sink)
    if space == "shared::cluster" and not silent:
        raise unsupported(x, "an arrival in .shared::cluster returns no state: write _")
    barriers = machine.unit(Mbarriers)
    places = _places(machine, x, x.operands[1], space, own=not silent)
    put, number = machine.write(x.operands[0], "b64"), None
    if len(x.operands) == 3:
        number = machine.read(x.operands[2], "u32")
    drop = x.parts[1] == "arrive_drop"
    order = {"relaxed": x.has("relaxed"), "wide": x.has("cluster")}

    def one(place: int, n: int, lane: int) -> int:
        count, bytes = (1, n) if expects else (n, 0)
        return barriers.arrive(place, count, bytes=bytes, drop=drop, completes=completes, lane=lane)

    def step(lanes: Lanes) -> None:
        at = places(lanes)
        _present(machine, lanes, at)
        who, watch = machine.lane[lanes], machine.watch
        if watch and expects:
            watch.announced(who, at)
        counts = machine.each(number, lanes) if number else numpy.ones(at.size, numpy.uint32)
        merged = at
        if silent and not expects and at.size > 1:
            merged, first, counts = _merged(barriers, at, who, counts)
        if merged is not at:
            if watch:  # one phase takes them all
                watch.arrived(who, at, **order)
            at, who, watch = merged, first, None
        states = []
        for place, n, lane in zip(at.tolist(), counts.tolist(), who.tolist(), strict=True):
            if watch:  # an arrival releases into the phase that counts it, and into none before
                watch.arrived(numpy.array([lane]), numpy.array([place]), **order)
            states.append(one(place, n, lane))
        if not silent:
            put(lanes, numpy.array(states, numpy.uint64))

    return step


def _merged(barriers: Mbarriers, at: numpy.ndarray, who: numpy.ndarray, counts: numpy.ndarray):
    """Arrivals of many lanes at few barriers as one each, where one phase takes them all."""
    places, first, which = numpy.unique(at, return_index=True, return_inverse=True)
    if places.size == at.size:
        return at, who, counts
    sums = numpy.bincount(which, counts).astype(numpy.int64)
    if (counts == 0).any() or any(
        n > barriers.get(place).pending
        for place, n in zip(places.tolist(), sums.tolist(), strict=True)
    ):
        return at, who, counts
    return places, who[first], sums


@executes("mbarrier.test_wait")
def test_wait(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.test_wait.b64 p, [addr], state`` (or a parity): has the phase completed?"""
    barriers, places, parity, put = _waiting(machine, x, 3, 3)

    def step(lanes: Lanes) -> None:
        at = places(lanes)
        done = barriers.completed(at, parity(lanes))
        if machine.watch:
            machine.watch.waited(machine.lane[lanes], at, done, relaxed=x.has("relaxed"))
        put(lanes, done)

    return step


@executes("mbarrier.try_wait", control=True)
def try_wait(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.try_wait.b64 p, [addr], state``: wait until the phase has completed.

    Hardware gives up after a time, and so do random schedules now and then. The hint how long
    to wait (last operand) has no effect.
    """
    barriers, places, parity, put = _waiting(machine, x, 3, 4)

    def step(lanes: Lanes) -> None:
        at, wanted = places(lanes), parity(lanes)
        done = barriers.completed(at, wanted)
        if machine.watch:
            machine.watch.waited(machine.lane[lanes], at, done, relaxed=x.has("relaxed"))
        if done.all():
            put(lanes, done)
            return
        number = machine.lane[lanes]
        put(number[done], done[done])
        waits = ~done
        gave_up = barriers.wait(number[waits], at[waits], wanted[waits])
        put(gave_up, numpy.zeros(gave_up.size, bool))
        if gave_up.size < at.size and not done.any():
            # A warp that waits has executed it once it returns.
            parked = number[numpy.isin(number, gave_up, invert=True)]
            machine.executed[machine.at] -= numpy.unique(parked // WARP).size

    return step


def _waiting(machine: Machine, x: Instruction, few: int, many: int):
    """What both waits share: places and parities of the lanes, and where the answer goes."""
    by_parity = x.has("parity")
    space = _form(
        x, 3 if by_parity else 2, remote=False, order=("acquire", "relaxed", "cta", "cluster")
    )
    if not few <= len(x.operands) <= many:
        raise unsupported(x, f"it takes {few} to {many} operands")
    barriers = machine.unit(Mbarriers)
    places = _places(machine, x, x.operands[1], space, own=True)
    given = machine.read(x.operands[2], "u32" if by_parity else "u64")

    def parity(lanes: Lanes) -> numpy.ndarray:
        values = machine.each(given, lanes)
        if not by_parity:
            return parity_in(values)
        if (values > 1).any():
            raise Fault(
                f"a wait for the phase of parity {int(values.max())}: a parity is 0 or 1; keep the "
                f"lowest bit of the phase's number"
            )
        return values

    return barriers, places, parity, machine.write(x.operands[0], "pred")


@executes("mbarrier.pending_count")
def pending_count(machine: Machine, x: Instruction) -> Step:
    """``mbarrier.pending_count.b64 count, state``: arrivals that were pending in a state."""
    if x.parts[2:] != ("b64",) or len(x.operands) != 2:
        raise unsupported(x, "mbarrier.pending_count.b64 takes a count and a state")
    state, put = machine.read(x.operands[1], "u64"), machine.write(x.operands[0], "u32")
    return lambda lanes: put(lanes, pending_in(numpy.asarray(state(lanes))))
