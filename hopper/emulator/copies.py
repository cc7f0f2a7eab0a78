"""cp.async: each thread's asynchronous copies from global to shared memory.

PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy" (non-bulk copies). A copy
happens some time between its instruction and the wait that covers it: the schedule picks the
moment, and the source is read then. Copies of one thread have no order among themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import Pieces, locator, shared_locator
from hopper.emulator.machine import Machine
from hopper.emulator.mbarrier import Mbarriers
from hopper.emulator.opcodes import CACHE_HINT, address_at, expect, slots
from hopper.emulator.ptx import Immediate, Instruction, Not, Operand, Register

_BYTE = numpy.dtype("u1")


@dataclass(slots=True, eq=False)
class _Batch:
    """The copies that lanes started together.

    ``places``, ``size``: the shared memory that each writes. ``group``: of each, which group of
    its thread it belongs to; ``waiting``: not performed yet; ``perform``: performs those at some
    positions.
    """

    lanes: numpy.ndarray
    places: numpy.ndarray
    size: int
    group: numpy.ndarray
    waiting: numpy.ndarray
    perform: Callable[[numpy.ndarray], None]


class Copies:
    """Copies under way, and how many groups each thread has committed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.committed = numpy.zeros(machine.lane_count, numpy.int64)
        self._batches: list[_Batch] = []

    def start(
        self,
        lanes: numpy.ndarray,
        places: numpy.ndarray,
        size: int,
        perform: Callable[[numpy.ndarray], None],
    ) -> None:
        """Put copies, one a lane, into the groups that their threads build."""
        waiting = numpy.ones(lanes.size, bool)
        batch = _Batch(lanes, places, size, self.committed[lanes], waiting, perform)
        self._batches.append(batch)
        if self.machine.watch:
            self.machine.watch.copying(lanes, places, size, batch.group)
        self.machine.later(lambda: self._finish(batch, batch.waiting.copy()))

    def behind(self, lanes: Lanes, happens: Callable[[], None]) -> None:
        """Let something happen once the copies that these lanes have started so far are done."""
        mine = numpy.zeros(self.machine.lane_count, bool)
        mine[lanes] = True
        prior = list(self._batches)

        def later() -> None:
            for batch in prior:
                self._finish(batch, batch.waiting & mine[batch.lanes])
            happens()

        self.machine.later(later)

    def commit(self, lanes: Lanes) -> None:
        """Close the groups of these lanes."""
        self.committed[lanes] += 1

    def complete(self, lanes: Lanes, groups: int) -> None:
        """Perform what these lanes wait for: all but their ``groups`` newest committed groups.

        ``groups`` of -1 stands for everything, committed or not.
        """
        if self.machine.watch:
            number = self.machine.lane[lanes]
            self.machine.watch.copied(number, self.committed[number] - groups)
        if not self._batches:
            return
        # A copy whose group is older than this must be there.
        limit = numpy.zeros(self.machine.lane_count, numpy.int64)
        limit[lanes] = self.committed[lanes] - groups
        for batch in list(self._batches):
            self._finish(batch, batch.waiting & (batch.group < limit[batch.lanes]))

    def _finish(self, batch: _Batch, which: numpy.ndarray) -> None:
        positions = numpy.flatnonzero(which)
        if positions.size:
            batch.perform(positions)
            batch.waiting[positions] = False
        if batch in self._batches and not batch.waiting.any():
            self._batches.remove(batch)


@executes("cp.async")
def copy(machine: Machine, x: Instruction) -> Step:
    """``cp.async.ca.shared.global [to], [from], size{, source size | ignore source}{, policy}``."""
    form = slots(
        x,
        2,
        operator=("ca", "cg"),
        to=("shared", "shared::cta"),
        source=("global",),
        hint=(CACHE_HINT,),
        prefetch=("L2::64B", "L2::128B", "L2::256B"),
    )
    operands = x.operands[: len(x.operands) - bool(form["hint"])]
    if not (form["operator"] and form["to"] and form["source"] and len(operands) in (3, 4)):
        raise unsupported(
            x, "it is cp.async.ca or .cg, .shared.global, with two addresses and size"
        )
    size = operands[2].value if isinstance(operands[2], Immediate) else 0
    if size not in ((4, 8, 16) if form["operator"] == "ca" else (16,)):
        raise unsupported(x, "it copies 4, 8 or 16 bytes by .ca, and 16 by .cg")
    wanted = _source_bytes(machine, operands[3], size) if len(operands) == 4 else None
    copies = machine.unit(Copies)
    to, source = machine.address(address_at(x, 0)), machine.address(address_at(x, 1))
    into, out_of = locator(machine, "shared", size), locator(machine, "global", size)
    whole = numpy.dtype("c16" if size == 16 else f"u{size}")
    shift = size.bit_length() - 1
    shared = machine.shared

    def step(lanes: Lanes) -> None:
        ((_, target, _),) = into(lanes, to(lanes))
        if wanted is not None:
            read = machine.each(wanted, lanes)
            if int(read.min()) < size:
                partial = _partial(machine, lanes, target, source(lanes), read, size)
                copies.start(machine.lane[lanes], target, size, partial)
                return
        pieces = out_of(lanes, source(lanes))

        def perform(positions: numpy.ndarray) -> None:
            items = _gather(pieces, target.size, whole, shift)
            shared.view(whole)[target[positions] >> shift] = items[positions]

        copies.start(machine.lane[lanes], target, size, perform)

    return step


def _gather(pieces: Pieces, count: int, dtype: numpy.dtype, shift: int) -> numpy.ndarray:
    """An item for each address that the pieces were found for."""
    items = numpy.zeros(count, dtype)
    for memory, places, which in pieces:
        items[which] = memory.view(dtype)[places >> shift]
    return items


def _source_bytes(machine: Machine, operand: Operand, size: int):
    """How many bytes each lane reads; the rest is filled with zeros."""
    condition = operand.operand if isinstance(operand, Not) else operand
    if isinstance(condition, Register) and condition.type == "pred":
        ignored = machine.read(operand, "pred")
        return lambda lanes: numpy.where(ignored(lanes), 0, size)
    read = machine.read(operand, "u32")

    def bytes(lanes: Lanes) -> numpy.ndarray:
        found = numpy.asarray(read(lanes))
        if int(found.max()) > size:
            raise Fault(
                f"cp.async of {size} bytes with a source size of {int(found.max())}: it is at most "
                f"the size that is copied"
            )
        return found

    return bytes


def _partial(
    machine: Machine,
    lanes: Lanes,
    target: numpy.ndarray,
    source: numpy.ndarray,
    wanted: numpy.ndarray,
    size: int,
) -> Callable[[numpy.ndarray], None]:
    """Copies of which some read less than they write. Only what is read must exist."""
    lane = machine.lane[lanes]
    read = numpy.arange(size) < wanted[:, None]
    readers = numpy.flatnonzero(wanted)
    found: Pieces = []
    byte = locator(machine, "global", 1)
    if readers.size:
        if (source[readers] & numpy.uint64(size - 1)).any():
            locator(machine, "global", size)(lane[readers], source[readers])
        each = source[readers][:, None] + numpy.arange(size, dtype=numpy.uint64)
        rows, columns = numpy.nonzero(read[readers])
        for memory, places, which in byte(lane[readers][rows], each[rows, columns]):
            found.append((memory, places, (readers[rows[which]], columns[which])))

    def perform(positions: numpy.ndarray) -> None:
        items = numpy.zeros(read.shape, _BYTE)
        for memory, places, (rows, columns) in found:
            items[rows, columns] = memory.bytes[places]
        cells = target[positions][:, None] + numpy.arange(size)
        machine.shared.bytes[cells] = items[positions]

    return perform


@executes("cp.async.commit_group")
def commit(machine: Machine, x: Instruction) -> Step:
    """The thread's copies since its last commit become a group."""
    slots(x, 3)
    expect(x, 0)
    return machine.unit(Copies).commit


@executes("cp.async.wait_group", "cp.async.wait_all")
def wait(machine: Machine, x: Instruction) -> Step:
    """Until all but the newest N groups, or all copies, of the thread have happened."""
    slots(x, 3)
    groups = -1
    if x.parts[2] == "wait_group":
        expect(x, 1)
        operand = x.operands[0]
        if not isinstance(operand, Immediate) or operand.value < 0:
            raise unsupported(x, "the number of groups is a constant, 0 or more")
        groups = operand.value
    else:
        expect(x, 0)
    copies = machine.unit(Copies)
    return lambda lanes: copies.complete(lanes, groups)


@executes("cp.async.mbarrier.arrive")
def arrive(machine: Machine, x: Instruction) -> Step:
    """An arrival at an mbarrier once the thread's copies so far have happened.

    Without .noinc the barrier's pending count grows by one now, which the arrival takes back.
    """
    form = slots(x, 4, noinc=("noinc",), space=("shared", "shared::cta"), type=("b64",))
    if not form["type"]:
        raise unsupported(x, "its type is .b64")
    expect(x, 1)
    address, where = machine.address(address_at(x, 0)), shared_locator(machine, form["space"], 8)
    barriers, copies = machine.unit(Mbarriers), machine.unit(Copies)

    def step(lanes: Lanes) -> None:
        places, who = where(lanes, address(lanes)), machine.lane[lanes]
        groups = copies.committed[who] + 1
        for place in places.tolist():
            barriers.get(place)
            if not form["noinc"]:
                barriers.add_pending(place)

        def happens() -> None:
            if machine.watch:
                machine.watch.copied(who, groups)
                machine.watch.arrived(who, places, relaxed=False)
            for place in places.tolist():
                barriers.arrive(place)

        copies.behind(lanes, happens)

    return step
