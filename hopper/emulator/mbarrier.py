"""mbarrier: objects in shared memory that count arrivals and bytes, phase by phase.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". A phase completes when
no arrival is pending and the tx-count (bytes announced less bytes landed) is zero; then the next
one starts with the full count of arrivals. The tx-count may be negative for a while: a copy may
land before its bytes were announced.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.machine import Machine, Wait
from hopper.emulator.ptx import Instruction

#: Largest count of arrivals, and of bytes either way (PTX ISA, "Contents of the mbarrier object").
MAX_COUNT = (1 << 20) - 1
# How often try_wait gives up although the phase runs, where the schedule is not fixed.
_GIVES_UP = 0.25

# The object's 64 bits, which the ISA calls opaque. Where its fields lie, and that it counts upwards
# from minus what is missing, was found from 535 states that an H200 returned (mbarrier.cu).
_PHASE, _PENDING, _TX, _EXPECTED = 63, 43, 21, 1
_FIELD, _TX_FIELD = (1 << 20) - 1, (1 << 21) - 1
# A state is the upper half: the instruction leaves the lower 32 bits as they were.
_STATE = (1 << 64) - (1 << 32)


@dataclass(slots=True)
class Barrier:
    """One mbarrier. ``count``: arrivals of a phase; ``pending``: those that its phase still lacks;
    ``tx``: bytes that it still lacks; ``phase``: phases that have completed.
    """

    count: int
    pending: int
    tx: int = 0
    phase: int = 0

    @property
    def word(self) -> int:
        """The object's 64 bits."""
        return (
            (self.phase & 1) << _PHASE
            | (-self.pending & _FIELD) << _PENDING
            | (-self.tx & _TX_FIELD) << _TX
            | (-self.count & _FIELD) << _EXPECTED
        )

    @property
    def state(self) -> int:
        """What ``mbarrier.arrive`` returns."""
        return self.word & _STATE


def pending_in(state: numpy.ndarray) -> numpy.ndarray:
    """Pending arrivals in states (uint64) that ``mbarrier.arrive`` returned, as uint32."""
    counted = state >> numpy.uint64(_PENDING) & numpy.uint64(_FIELD)
    missing = numpy.uint64(_FIELD + 1) - counted & numpy.uint64(_FIELD)
    return missing.astype(numpy.uint32)


def parity_in(state: numpy.ndarray) -> numpy.ndarray:
    """Parity of the phase that a state belongs to, as uint32."""
    return (state >> numpy.uint64(_PHASE)).astype(numpy.uint32)


class Mbarriers:
    """All mbarriers of a wave.

    ``place``: index of a barrier's first byte in ``machine.shared.bytes``. ``lane``: who does it,
    -1 for an asynchronous unit. Every operation raises Fault where no barrier is, and where data
    have overwritten it.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._objects: dict[int, Barrier] = {}
        self._words = machine.shared.view(numpy.dtype("u8"))
        # Parity of the phase that runs, -1 where no barrier is: an entry for each 8 bytes.
        self._parity = numpy.full(self._words.size, -1, numpy.int8)
        self._random = random.Random(machine.launch.seed)
        self._gives_up = machine.launch.schedule != "fixed"

    # ---- operations

    def init(self, place: int, count: int, lane: int = -1) -> None:
        """Start a barrier whose phases complete after ``count`` arrivals each."""
        if place in self._objects:
            raise Fault(
                f"mbarrier.init of the {self.name(place)}, which is one already: what happens is "
                f"undefined; execute mbarrier.inval first",
                "barrier-overwritten",
            )
        if not 1 <= count <= MAX_COUNT:
            raise Fault(
                f"mbarrier.init with a count of {count}: a phase has 1 to {MAX_COUNT} arrivals; "
                f"pass how many threads (or copies) arrive"
            )
        barrier = self._objects[place] = Barrier(count, count)
        self._store(place, barrier)
        self.machine.event("mbarrier.init", lane, count=count, **self._where(place))

    def inval(self, place: int) -> None:
        """End a barrier: its memory may hold something else from now on."""
        self.get(place)
        if self.machine.parked(("mbarrier", place)).size:
            raise Fault(
                f"mbarrier.inval of the {self.name(place)}, which threads wait for; let them "
                f"return from their wait first"
            )
        del self._objects[place]
        self._parity[place >> 3] = -1

    def expect_tx(self, place: int, bytes: int, lane: int = -1) -> None:
        """The phase that runs waits for ``bytes`` more bytes."""
        barrier = self.get(place)
        self.machine.event("mbarrier.expect_tx", lane, bytes=bytes, **self._where(place))
        self._change(place, barrier, 0, bytes)

    def complete_tx(self, place: int, bytes: int, lane: int = -1) -> None:
        """``bytes`` bytes have landed."""
        barrier = self.get(place)
        self.machine.event("mbarrier.complete_tx", lane, bytes=bytes, **self._where(place))
        self._change(place, barrier, 0, -bytes)

    def arrive(
        self,
        place: int,
        count: int = 1,
        *,
        bytes: int = 0,
        drop: bool = False,
        completes: bool = True,
        lane: int = -1,
    ) -> int:
        """``count`` arrivals, behind an expect-tx of ``bytes``. Returns the state before them.

        ``drop``: later phases expect ``count`` less. ``completes``: False where the instruction
        says that it does not complete the phase. Raises Fault for more arrivals than are pending.
        """
        barrier = self.get(place)
        state = barrier.state
        if not 1 <= count <= MAX_COUNT:
            raise Fault(
                f"an arrival at the {self.name(place)} with a count of {count}: it is 1 to "
                f"{MAX_COUNT}"
            )
        if count > barrier.pending:
            raise Fault(
                f"{count} arrivals at the {self.name(place)}: {_lacks(barrier)}, so nobody else "
                f"may arrive before it completes; initialise it with the number of arrivals"
            )
        if drop:
            barrier.count -= count
        self.machine.event(
            "mbarrier.arrive", lane, count=count, bytes=bytes, drop=drop, **self._where(place)
        )
        completed = self._change(place, barrier, count, bytes)
        if completed and not completes:
            raise Fault(
                f"{count} arrivals .noComplete completed the phase of the {self.name(place)}; "
                f"leave .noComplete away, or count the arrivals"
            )
        return state

    def add_pending(self, place: int) -> None:
        """The phase that runs waits for one arrival more (``cp.async.mbarrier.arrive``)."""
        barrier = self.get(place)
        if barrier.pending == MAX_COUNT:
            raise Fault(f"the {self.name(place)} waits for {MAX_COUNT} arrivals, and has no more")
        barrier.pending += 1
        self._store(place, barrier)

    # ---- waiting

    def completed(self, places: numpy.ndarray, parity: numpy.ndarray) -> numpy.ndarray:
        """Whether the phase of ``parity``, the running one or that before it, has completed."""
        running = self._parity[places >> 3]
        if running.min() < 0:
            self.get(int(places[running < 0][0]))
        return running != parity

    def wait(
        self, lanes: numpy.ndarray, places: numpy.ndarray, parity: numpy.ndarray
    ) -> numpy.ndarray:
        """Park lanes until the phases complete that they wait for. Returns those that give up."""
        gave_up = [lanes[:0]]
        for place in dict.fromkeys(places.tolist()):
            self.get(place)
            mine = places == place
            if self._gives_up and self._random.random() < _GIVES_UP:
                gave_up.append(lanes[mine])
                continue
            wanted = int(parity[mine][0])
            first = int(lanes[mine][0])
            self.machine.event("mbarrier.wait", first, parity=wanted, **self._where(place))
            self.machine.park(
                lanes[mine],
                Wait(
                    ("mbarrier", place),
                    lambda p=place, w=wanted: self.words(p, w),
                    lambda p=place: self._blame(p),
                ),
            )
        return numpy.concatenate(gave_up)

    # ---- words

    def get(self, place: int) -> Barrier:
        """The barrier at a place. Raises Fault where none is, or no longer."""
        barrier = self._objects.get(place)
        if barrier is None:
            raise Fault(
                f"there is no {self.name(place)}: it was never initialised, or was invalidated; "
                f"one thread executes mbarrier.init, and the others come behind a barrier",
                "barrier-not-visible",
            )
        if int(self._words[place >> 3]) != barrier.word:
            raise Fault(
                f"the {self.name(place)} was overwritten: its 8 bytes hold "
                f"{int(self._words[place >> 3]):#018x}; keep data out of its memory, or execute "
                f"mbarrier.inval before the memory is used for something else",
                "barrier-overwritten",
            )
        return barrier

    def name(self, place: int) -> str:
        """A barrier in words: address, and block."""
        block, address = divmod(place, self.machine.shared.window)
        index = self.machine.launch.block_index(self.machine.blocks[block])
        return f"mbarrier at shared address {address:#x} of block {index}"

    def words(self, place: int, parity: int) -> str:
        """What a waiting thread waits for: the phase, and the arrivals and bytes that it lacks."""
        barrier = self._objects[place]
        return (
            f"{self.name(place)}: waits for phase {barrier.phase} (parity {parity}); "
            f"{_lacks(barrier)}"
        )

    def _blame(self, place: int) -> tuple[str, Instruction | None, int | None] | None:
        """Why a phase never completes: all have arrived, and the bytes do not come out even."""
        barrier = self._objects[place]
        if barrier.pending or not barrier.tx:
            return None
        watch = self.machine.watch
        return ("expect-tx", *(watch.announcer(place) if watch else (None, None)))

    def _where(self, place: int) -> dict[str, int]:
        block, address = divmod(place, self.machine.shared.window)
        return {"address": address, "owner": block}

    # ---- the counts

    def _change(self, place: int, barrier: Barrier, arrivals: int, bytes: int) -> bool:
        """Count arrivals and bytes; whether that completed the phase."""
        barrier.tx += bytes
        if abs(barrier.tx) > MAX_COUNT:
            raise Fault(
                f"the {self.name(place)} has a tx-count of {barrier.tx}: it is at most {MAX_COUNT} "
                f"bytes either way; announce and copy less in a phase"
            )
        if bytes and self.machine.watch:
            self.machine.watch.counted(place, barrier.tx)
        barrier.pending -= arrivals
        completed = barrier.pending == 0 and barrier.tx == 0
        if completed:
            barrier.phase += 1
            barrier.pending = barrier.count
        self._store(place, barrier)
        if completed:
            self.machine.event("mbarrier.phase", phase=barrier.phase - 1, **self._where(place))
            if self.machine.watch:
                self.machine.watch.phase(place, barrier.phase)
            self.machine.wake(("mbarrier", place))
        return completed

    def _store(self, place: int, barrier: Barrier) -> None:
        self._words[place >> 3] = barrier.word
        self._parity[place >> 3] = barrier.phase & 1


def _lacks(barrier: Barrier) -> str:
    said = f"{barrier.pending} of {barrier.count} arrivals and {barrier.tx} bytes are missing"
    if barrier.tx < 0:
        said += " (more bytes have landed than expect_tx announced)"
    return said
