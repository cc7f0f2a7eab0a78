"""Bulk copies of contiguous bytes, and the groups in which a thread waits for its own.

PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.commit_group" and ".wait_group".
Sizes and addresses are multiples of 16 bytes. A cache hint changes nothing here, nor does a
prefetch. Left out: ``.cp_mask`` and ``.ignore_oob``, which sm_90a has not.
"""

from __future__ import annotations

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import Machine, Wait
from hopper.emulator.ptx import Immediate, Instruction
from hopper.emulator.reduction import Reduction, reduction, types_of
from hopper.emulator.transfers import (
    BULK_GROUP,
    CACHE_HINT,
    COMPLETE_TX,
    MULTICAST,
    Transfers,
    barrier_place,
    copies_to,
    global_bytes,
    require_form,
    require_own,
    shared_place,
)
from hopper.emulator.types import numpy_type

_UNIT = 16
_CLUSTER, _OWN, _GLOBAL = "shared::cluster", "shared::cta", "global"


@executes("cp.async.bulk")
def copy(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.dst.src…``."""
    target, source, parts = x.parts[3], x.parts[4], x.parts[5:]
    if source == _GLOBAL and target in (_CLUSTER, _OWN):
        return _from_global(machine, x, parts)
    if source == _OWN and target == _CLUSTER:
        return _to_peer(machine, x, parts, None)
    if source == _OWN and target == _GLOBAL:
        return _to_global(machine, x, parts, None)
    raise unsupported(x, f"there is no bulk copy from .{source} to .{target}")


@executes("cp.reduce.async.bulk")
def reduce(machine: Machine, x: Instruction) -> Step:
    """``cp.reduce.async.bulk.dst.src….op.type``: element by element into the destination.

    Raises Unsupported for what ptxas refuses.
    """
    target, source, parts, kind = x.parts[4], x.parts[5], x.parts[6:-1], x.parts[-1]
    no_flush = parts[-1:] == ("noftz",)
    parts = parts[:-1] if no_flush else parts
    op, parts = parts[-1], parts[:-1]
    if source != _OWN or target not in (_CLUSTER, _GLOBAL):
        raise unsupported(x, f"there is no bulk reduction from .{source} to .{target}")
    halves = op == "add" and kind in ("f16", "bf16")
    if kind not in types_of(op, target) or no_flush != halves:
        raise unsupported(x, f"there is no such reduction to .{target}; ptxas refuses it")
    direction = _to_peer if target == _CLUSTER else _to_global
    return direction(machine, x, parts, _on_bytes(reduction(op, kind), kind))


def _on_bytes(combine: Reduction, kind: str) -> Reduction:
    """A reduction of elements, on uint8 arrays."""
    bits = numpy.dtype(f"u{numpy_type(kind).itemsize}")
    return lambda memory, value: combine(memory.view(bits), value.view(bits)).view(numpy.uint8)


def _from_global(machine: Machine, x: Instruction, parts: tuple[str, ...]) -> Step:
    own = x.parts[3] == _OWN
    require_form(x, parts, COMPLETE_TX, {CACHE_HINT} if own else {CACHE_HINT, MULTICAST}, 4)
    operands = _Operands(machine, x, barrier=3)
    mask = machine.read(x.operands[4], "u16") if MULTICAST in parts else None
    transfers, shared = machine.unit(Transfers), machine.shared.bytes

    def step(lanes: Lanes) -> None:
        masks = machine.each(mask, lanes).tolist() if mask else None
        for i, (lane, target, address, size, report) in enumerate(operands(lanes)):
            if own:
                require_own(machine, lane, target, "destination")
            source = global_bytes(machine, lane, address, size, "source")
            machine.event("tma.issue", lane, what="bulk load", to=target, bytes=size)
            for data, told in copies_to(machine, lane, target, report, masks and masks[i]):
                place = shared_place(machine, lane, data, size, _UNIT, "destination")
                at = barrier_place(machine, lane, told, data)

                def move(place=place, size=size, source=source) -> None:
                    shared[place : place + size] = source

                transfers.incoming(x, lane, (place, place + size), at, size, move)

    return step


def _to_peer(
    machine: Machine, x: Instruction, parts: tuple[str, ...], combine: Reduction | None
) -> Step:
    """From the thread's own shared memory to that of another block of the cluster."""
    require_form(x, parts, COMPLETE_TX, set(), 4)
    operands = _Operands(machine, x, barrier=3)
    transfers, shared = machine.unit(Transfers), machine.shared.bytes

    def step(lanes: Lanes) -> None:
        for lane, target, address, size, report in operands(lanes):
            require_own(machine, lane, address, "source")
            source = shared_place(machine, lane, address, size, _UNIT, "source")
            place = shared_place(machine, lane, target, size, _UNIT, "destination")
            at = barrier_place(machine, lane, report, target)
            machine.event("tma.issue", lane, what="bulk to peer", to=target, bytes=size)

            def move(place=place, size=size, source=source) -> None:
                value, memory = shared[source : source + size], shared[place : place + size]
                memory[:] = combine(memory, value) if combine else value

            transfers.incoming(
                x, lane, (place, place + size), at, size, move, reads=(source, source + size)
            )

    return step


def _to_global(
    machine: Machine, x: Instruction, parts: tuple[str, ...], combine: Reduction | None
) -> Step:
    require_form(x, parts, BULK_GROUP, {CACHE_HINT}, 3)
    operands = _Operands(machine, x)
    transfers, shared = machine.unit(Transfers), machine.shared.bytes

    def step(lanes: Lanes) -> None:
        for lane, target, address, size, _ in operands(lanes):
            require_own(machine, lane, address, "source")
            place = shared_place(machine, lane, address, size, _UNIT, "source")
            memory = global_bytes(machine, lane, target, size, "destination")
            machine.event("tma.issue", lane, what="bulk store", source=address, bytes=size)

            def take(place=place, size=size) -> numpy.ndarray:
                return shared[place : place + size].copy()

            def put(data, memory=memory) -> None:
                memory[:] = combine(memory, data) if combine else data

            transfers.outgoing(x, lane, (place, place + size), take, put)

    return step


class _Operands:
    """``[dst], [src], size{, [mbar]}`` of the lanes, the size checked."""

    def __init__(self, machine: Machine, x: Instruction, barrier: int | None = None) -> None:
        self.machine = machine
        self.target, self.source = (machine.address(operand) for operand in x.operands[:2])
        self.size = machine.read(x.operands[2], "u32")
        self.barrier = machine.address(x.operands[barrier]) if barrier else None

    def __call__(self, lanes: Lanes) -> list[tuple[int, int, int, int, int]]:
        """Lane, destination, source, size and mbarrier (0 where there is none)."""
        machine = self.machine
        numbers = machine.lane[lanes].tolist()
        sizes = machine.each(self.size, lanes).tolist()
        for lane, size in zip(numbers, sizes, strict=True):
            if size % _UNIT:
                raise Fault(
                    f"size {size}: a bulk copy moves a multiple of {_UNIT} bytes; round it up, and "
                    f"pad the arrays ({machine.place(lane)})",
                    "misaligned",
                )
        target, source = self.target(lanes).tolist(), self.source(lanes).tolist()
        barrier = self.barrier(lanes).tolist() if self.barrier else [0] * len(numbers)
        return list(zip(numbers, target, source, sizes, barrier, strict=True))


@executes("cp.async.bulk.prefetch")
def prefetch(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.prefetch.L2.global [src], size``: brings data to L2; nothing to compute."""
    return lambda lanes: None


@executes("cp.async.bulk.commit_group")
def commit_group(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.commit_group``: what the thread issued since the last one is a group."""
    transfers = machine.unit(Transfers)

    def step(lanes: Lanes) -> None:
        if not transfers.none_out:
            for lane in machine.lane[lanes].tolist():
                transfers.commit(lane)

    return step


@executes("cp.async.bulk.wait_group", control=True)
def wait_group(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.wait_group{.read} N``: until only the last N groups are pending."""
    (operand,) = x.operands
    if not isinstance(operand, Immediate):
        raise unsupported(x, "the number of groups is a constant")
    allowed, reads_only = operand.value, x.has("read")
    transfers = machine.unit(Transfers)

    def step(lanes: Lanes) -> None:
        if transfers.none_out and not machine.watch:
            return
        for lane in machine.lane[lanes].tolist():
            if transfers.missing(lane, allowed, reads_only):
                machine.park(
                    numpy.array([lane]),
                    Wait(("bulk group", lane), lambda lane=lane: words(lane)),
                )
            else:
                transfers.waited(lane, allowed)

    def words(lane: int) -> str:
        what = "read their source" if reads_only else "finished"
        return f"{transfers.missing(lane, allowed, reads_only)} of its bulk copies have not {what}"

    return step
