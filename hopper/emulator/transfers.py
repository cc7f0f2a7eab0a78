"""Asynchronous copies under way: when they happen, and how a thread learns that they have.

PTX ISA, "cp.async.bulk" and "cp.async.bulk.wait_group". A copy into shared memory reports its bytes
to an mbarrier once they have landed; a copy out of shared memory belongs to a group of the thread
that issued it. Source data are read when the copy happens, not when it is issued. A copy to global
memory reads at one moment and writes at a later one: ``wait_group.read`` waits for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import unsupported
from hopper.emulator.machine import Machine
from hopper.emulator.mbarrier import Mbarriers
from hopper.emulator.ptx import Instruction
from hopper.emulator.spaces import GLOBAL_SHIFT, RANK_SHIFT, SYSTEM_SHARED_BYTES

CACHE_HINT = "L2::cache_hint"
MULTICAST = "multicast::cluster"
COMPLETE_TX = "mbarrier::complete_tx::bytes"
BULK_GROUP = "bulk_group"

_OFFSET_IN_BLOCK = (1 << RANK_SHIFT) - 1
_OFFSET_IN_BUFFER = (1 << GLOBAL_SHIFT) - 1


@dataclass(slots=True, eq=False)
class _Outgoing:
    """A copy out of shared memory: what of it is still to be done."""

    reading: bool = True
    writing: bool = True


class Transfers:
    """Bulk copies under way in a wave, and the bulk groups of its threads."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._uncommitted: dict[int, list[_Outgoing]] = {}
        self._groups: dict[int, list[list[_Outgoing]]] = {}
        # Groups that a thread has committed, empty ones too.
        self._commits: dict[int, int] = {}
        self._started = 0

    def incoming(
        self,
        x: Instruction,
        lane: int,
        writes: tuple[int, int],
        barrier: int,
        count: int,
        move: Callable[[], None],
        reads: tuple[int, int] | None = None,
    ) -> None:
        """Queue a copy into shared memory, which ``lane`` issued.

        ``writes``, ``reads``: the shared memory that it accesses, first byte and the byte behind
        the last. ``move`` copies the data; then the mbarrier at ``barrier`` is told of ``count``
        bytes.
        """
        machine = self.machine
        if machine.watch:
            machine.watch.copy_in(lane, *writes, barrier)
            if reads:
                machine.watch.copy_from_peer(lane, *reads, barrier)
        number = self._start(lane, count, writes=writes, reads=reads, barrier=barrier)

        def lands() -> None:
            machine.at = x.index  # so that a Fault names the instruction that issued the copy
            move()
            machine.event("tma.complete", issued_at=x.line, bytes=count, copy=number)
            if machine.watch:
                machine.watch.landed(barrier)
            machine.unit(Mbarriers).complete_tx(barrier, count)

        machine.later(lands, writes[0] // machine.shared.window)

    def outgoing(
        self,
        x: Instruction,
        lane: int,
        reads: tuple[int, int],
        take: Callable[[], numpy.ndarray],
        put: Callable[[numpy.ndarray], None],
    ) -> None:
        """Queue a copy out of shared memory, for the next group that ``lane`` commits.

        ``reads``: as for ``incoming``. ``take`` reads the data, ``put`` writes them.
        """
        machine, copy = self.machine, _Outgoing()
        self._uncommitted.setdefault(lane, []).append(copy)
        if machine.watch:
            machine.watch.copy_out(lane, *reads, self._commits.get(lane, 0) + 1, x.line)
        number = self._start(lane, reads[1] - reads[0], reads=reads)

        def read() -> None:
            machine.at = x.index
            data = take()
            copy.reading = False
            machine.event("tma.read", issued_at=x.line, copy=number)
            machine.wake(("bulk group", lane))
            machine.later(lambda: write(data), lane // machine.block_lanes)

        def write(data: numpy.ndarray) -> None:
            machine.at = x.index
            put(data)
            copy.writing = False
            machine.event("tma.complete", issued_at=x.line, bytes=data.nbytes, copy=number)
            machine.wake(("bulk group", lane))

        machine.later(read, lane // machine.block_lanes)

    def _start(
        self,
        lane: int,
        count: int,
        *,
        writes: tuple[int, int] | None = None,
        reads: tuple[int, int] | None = None,
        barrier: int | None = None,
    ) -> int:
        """Tell the trace of a copy that starts, by a number that later events of it repeat.

        In its detail shared memory is (block's place in the wave, address, bytes).
        """
        self._started += 1
        window = self.machine.shared.window
        of_shared = {
            name: (*divmod(span[0], window), span[1] - span[0])
            for name, span in (("writes", writes), ("reads", reads))
            if span
        }
        if barrier is not None:
            of_shared["barrier"] = divmod(barrier, window)
        self.machine.event("tma.copy", lane, copy=self._started, bytes=count, **of_shared)
        return self._started

    @property
    def none_out(self) -> bool:
        """Whether no thread has an outgoing copy, in a group or not yet."""
        return not self._groups and not self._uncommitted

    def commit(self, lane: int) -> None:
        """Make a group of what ``lane`` has issued since its last one. It may be empty."""
        self._commits[lane] = self._commits.get(lane, 0) + 1
        copies = self._uncommitted.pop(lane, [])
        if copies or lane in self._groups:
            self._groups.setdefault(lane, []).append(copies)

    def waited(self, lane: int, allowed: int) -> None:
        """``lane`` has waited until only its last ``allowed`` groups are pending."""
        if self.machine.watch and lane in self._commits:
            self.machine.watch.copied_out(lane, self._commits[lane] - allowed)

    def missing(self, lane: int, allowed: int, reads_only: bool) -> int:
        """Copies to wait for until only the last ``allowed`` groups of ``lane`` are pending.

        ``reads_only``: until their source has been read.
        """
        groups = self._groups.get(lane, [])
        while groups and not any(copy.writing for copy in groups[0]):
            del groups[0]
        if not groups:
            self._groups.pop(lane, None)
        before = groups[: max(0, len(groups) - allowed)]
        return sum(copy.reading if reads_only else copy.writing for g in before for copy in g)


def require_form(
    x: Instruction, parts: tuple[str, ...], mechanism: str, optional: set[str], operands: int
) -> None:
    """Check what follows ``.dst.src`` in an opcode, and the number of operands.

    ``mechanism``: how completion is told, required; ``optional``: what else may stand there;
    ``operands``: without those that a multicast and a cache hint add. Raises Unsupported.
    """
    if mechanism not in parts:
        raise unsupported(x, f"it has no .{mechanism}, which this direction of a copy requires")
    for part in parts:
        if part != mechanism and part not in optional:
            raise unsupported(
                x, f".{part} does not exist on sm_90a in this form, or is not executed"
            )
    wanted = operands + (MULTICAST in parts) + (CACHE_HINT in parts)
    if len(x.operands) != wanted:
        raise unsupported(x, f"{len(x.operands)} operands, and this form takes {wanted}")


def shared_place(
    machine: Machine, lane: int, address: int, size: int, multiple: int, what: str
) -> int:
    """The place in ``shared.bytes`` of ``size`` bytes at a shared address that ``lane`` names.

    Raises Fault for an address that is not a multiple of ``multiple``, bytes that the block does
    not own, and a rank outside the cluster.
    """
    if address % multiple:
        raise Fault(
            f"{what} {address:#x} is not a multiple of {multiple} bytes, which TMA requires; "
            f"align it ({machine.place(lane)})",
            "misaligned",
        )
    offset, rank = address & _OFFSET_IN_BLOCK, address >> RANK_SHIFT
    shared, cluster = machine.shared, machine.launch.cluster_size
    if rank >= cluster:
        raise Fault(
            f"{what} {address:#x} names rank {rank} of a cluster of {cluster}: it is no shared "
            f"address; convert generic addresses with cvta.to.shared ({machine.place(lane)})",
            "shared-out-of-bounds",
        )
    if offset < SYSTEM_SHARED_BYTES or offset + size > shared.end:
        raise Fault(
            f"{what} {address:#x}: the {size} bytes from there are not all the block's, which owns "
            f"{SYSTEM_SHARED_BYTES:#x} up to {shared.end:#x}; pass more shared_bytes to the "
            f"launch, or correct the address ({machine.place(lane)})",
            "shared-out-of-bounds",
        )
    block = lane // machine.block_lanes
    return (block - block % cluster + rank) * shared.window + offset


def global_bytes(machine: Machine, lane: int, address: int, size: int, what: str) -> numpy.ndarray:
    """The ``size`` bytes (uint8, a view) at a global address.

    Raises Fault for an address that is not a multiple of 16, and for bytes that lie in no array.
    """
    if address % 16:
        raise Fault(
            f"{what} {address:#x} is not a multiple of 16 bytes, which a bulk copy requires; start "
            f"at one ({machine.place(lane)})",
            "misaligned",
        )
    memory = machine.launch.memory
    number, offset = address >> GLOBAL_SHIFT, address & _OFFSET_IN_BUFFER
    if not 1 <= number <= len(memory.buffers):
        raise Fault(
            f"{what} {address:#x} lies in no array of this launch: {memory.place(address)} "
            f"({machine.place(lane)})",
            "global-out-of-bounds",
        )
    buffer = memory.buffers[number - 1]
    if offset + size > buffer.bytes.size:
        raise Fault(
            f"{what}: {size} bytes at byte {offset} of {buffer.name}, which has "
            f"{buffer.bytes.size}: out of bounds; copy less, or pass a larger array "
            f"({machine.place(lane)})",
            "global-out-of-bounds",
        )
    return buffer.bytes[offset : offset + size]


def barrier_place(machine: Machine, lane: int, address: int, destination: int) -> int:
    """The place of the mbarrier that a copy to ``destination`` (a shared address) reports to.

    PTX ISA, "cp.async.bulk.tensor": it lies in the shared memory of the destination's block.
    Raises Fault otherwise.
    """
    if address >> RANK_SHIFT != destination >> RANK_SHIFT:
        raise Fault(
            f"mbarrier {address:#x} lies in the block of rank {address >> RANK_SHIFT}, destination "
            f"{destination:#x} in that of rank {destination >> RANK_SHIFT}: a copy reports to an "
            f"mbarrier beside its data; map both addresses with mapa ({machine.place(lane)})"
        )
    return shared_place(machine, lane, address, 8, 8, "mbarrier address")


def require_own(machine: Machine, lane: int, address: int, what: str) -> None:
    """Raise Fault unless a .shared::cta address lies in the block of ``lane``."""
    own, rank = int(machine.rank[lane]), address >> RANK_SHIFT
    if rank != own:
        raise Fault(
            f"{what} {address:#x} lies in the block of rank {rank}, and .shared::cta is the "
            f"thread's own, of rank {own}; use .shared::cluster ({machine.place(lane)})"
        )


def copies_to(
    machine: Machine, lane: int, destination: int, barrier: int, mask: int | None
) -> list[tuple[int, int]]:
    """Shared addresses (data, mbarrier) that a copy goes to: one pair, or one for each bit of mask.

    A multicast puts the data and the report at the same offset in every block that ``mask`` names.
    Raises Fault for a rank that the cluster has not.
    """
    if mask is None:
        return [(destination, barrier)]
    cluster = machine.launch.cluster_size
    if mask >> cluster or not mask:
        raise Fault(
            f"multicast mask {mask:#x} in a cluster of {cluster}: bit r stands for the block of "
            f"rank r, so it is 0x1 to {(1 << cluster) - 1:#x} ({machine.place(lane)})"
        )
    data, report = destination & _OFFSET_IN_BLOCK, barrier & _OFFSET_IN_BLOCK
    ranks = [rank << RANK_SHIFT for rank in range(cluster) if mask >> rank & 1]
    return [(data | rank, report | rank) for rank in ranks]
