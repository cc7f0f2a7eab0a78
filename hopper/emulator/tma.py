"""TMA's tensor copies: a box of a tensor to shared memory and back.

PTX ISA, "cp.async.bulk.tensor" and "cp.reduce.async.bulk.tensor". Executed: tile mode of every
rank, loads with multicast, stores and reductions. Left out: im2col, and maps that a kernel makes or
changes itself (``tensormap.replace``). A cache hint changes nothing here, nor does a prefetch.
"""

from __future__ import annotations

import numpy

from hopper.emulator.boxes import PIECE, Boxes
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.launch import MAP_MARK
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import Address, Instruction
from hopper.emulator.reduction import Reduction, reduction, types_of
from hopper.emulator.spaces import LOCAL_WINDOW, PARAM_WINDOW
from hopper.emulator.transfers import (
    BULK_GROUP,
    CACHE_HINT,
    COMPLETE_TX,
    MULTICAST,
    Transfers,
    barrier_place,
    copies_to,
    require_form,
    require_own,
    shared_place,
)
from hopper.swizzle import atom_bytes

# Bytes that a box's place in shared memory is a multiple of (CUDA Programming Guide, "Alignment
# requirements for multi-dimensional bulk tensor asynchronous copy operations"; so it is without a
# swizzle, too: ``hopper.conformance.tma_stops``).
ALIGNMENT = 128
_PTX_TYPE = {
    "uint32": ("u32", "b32"),
    "int32": ("s32", "b32"),
    "uint64": ("u64", "b64"),
    "int64": ("s64",),
    "float16": ("f16",),
    "bfloat16": ("bf16",),
    "float32": ("f32",),
    "float64": ("f64",),
}


class TensorMaps:
    """The tensor maps of a launch, by the generic address of the parameter that holds one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._found: dict[int, Boxes] = {}

    def at(self, lane: int, address: int, rank: int) -> Boxes:
        """The boxes of the map at ``address``, which an instruction takes for one of ``rank`` axes.

        Raises Fault where no map is, and for another rank.
        """
        if address not in self._found:
            self._found[address] = self._find(lane, address)
        boxes = self._found[address]
        if boxes.rank != rank:
            raise Fault(
                f"a map of {boxes.rank} axes is used with {rank} coordinates (.{rank}d): both "
                f"are the tensor's rank; change the opcode, or the array that the host mapped",
                "tensor-map",
            )
        return boxes

    def _find(self, lane: int, address: int) -> Boxes:
        launch, offset = self.machine.launch, address - PARAM_WINDOW
        if 0 <= offset < launch.parameters.size:
            block = launch.parameters[offset : offset + len(MAP_MARK) + 4].tobytes()
            if block.startswith(MAP_MARK):
                return Boxes(launch.maps[int.from_bytes(block[len(MAP_MARK) :], "little")])
            why = f"parameter byte {offset} is not where a map starts; take the parameter's address"
        elif address >> 56 == LOCAL_WINDOW >> 56:
            why = "the kernel copied the map to its stack; declare it const __grid_constant__"
        else:
            why = (
                f"the map was passed by pointer ({launch.memory.place(address)}); pass it by "
                f"value, as const __grid_constant__"
            )
        place = self.machine.place(lane)
        raise Fault(f"no tensor map at {address:#x}: {why} ({place})", "tensor-map")


class _Box:
    """The operand ``[map, {coordinates}]``, as a function of the lanes."""

    def __init__(self, machine: Machine, x: Instruction, position: int, dim: str) -> None:
        operand = x.operands[position]
        if not isinstance(operand, Address) or operand.coordinates is None:
            raise unsupported(x, f"operand {position} is not [map, {{coordinates}}]")
        self.machine, self.maps = machine, machine.unit(TensorMaps)
        self.address = machine.address(operand)
        self.items = [machine.read(item, "s32") for item in operand.coordinates.items]
        self.rank = len(self.items)
        if dim != f"{self.rank}d":
            raise unsupported(x, f"{self.rank} coordinates for .{dim}; ptxas refuses it")

    def __call__(self, lanes: Lanes) -> list[tuple[int, Boxes, tuple[int, ...]]]:
        """Lane, boxes of its map, and corner in the array's order, for each lane."""
        machine = self.machine
        numbers = machine.lane[lanes].tolist()
        # PTX names the contiguous axis first, an array's shape last.
        axes = [machine.each(item, lanes).tolist() for item in reversed(self.items)]
        corners = zip(*axes, strict=True)
        return [
            (lane, self.maps.at(lane, address, self.rank), corner)
            for lane, address, corner in zip(
                numbers, self.address(lanes).tolist(), corners, strict=True
            )
        ]


def _require_corner(
    machine: Machine, lane: int, boxes: Boxes, corner: tuple[int, ...], writes: bool
) -> None:
    """Raise Fault for a corner of a box that TMA stops at.

    The documents say neither rule; an H200 keeps both (``hopper.conformance.tma_stops``).
    """
    itemsize = boxes.tensor.array.itemsize
    last = corner[-1] * itemsize
    if last % PIECE.itemsize:
        raise Fault(
            f"corner {corner}: the last coordinate is byte {last} of a row, and TMA requires a "
            f"multiple of {PIECE.itemsize}; begin at a multiple of {PIECE.itemsize // itemsize} "
            f"elements ({machine.place(lane)})",
            "tensor-map",
        )
    if writes and min(corner) < 0:
        raise Fault(
            f"corner {corner}: a store or a reduction begins at no negative coordinate, as a load "
            f"may; begin at 0, with a smaller box ({machine.place(lane)})",
            "tensor-map",
        )


def _refuse_modes(x: Instruction) -> None:
    for part in x.parts:
        if part.startswith("im2col"):
            raise unsupported(x, "the emulator has no im2col; it executes .tile")
        if part.startswith("tile::"):
            raise unsupported(x, f".{part} does not exist on sm_90a")


@executes("cp.async.bulk.tensor")
def copy(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.tensor.Nd.dst.src…``: a load, or a store."""
    _refuse_modes(x)
    if x.parts[5:7] == ("global", "shared::cta"):
        return _store(machine, x, x.parts[4], x.parts[7:], None)
    if x.parts[5] in ("shared::cluster", "shared::cta") and x.parts[6] == "global":
        return _load(machine, x)
    raise unsupported(x, "a tensor copy goes from .global to .shared::cluster or back")


def _load(machine: Machine, x: Instruction) -> Step:
    own = x.parts[5] == "shared::cta"
    optional = {"tile", CACHE_HINT} if own else {"tile", CACHE_HINT, MULTICAST}
    require_form(x, x.parts[7:], COMPLETE_TX, optional, 3)
    destination, box = machine.address(x.operands[0]), _Box(machine, x, 1, x.parts[4])
    barrier = machine.address(x.operands[2])
    mask = machine.read(x.operands[3], "u16") if x.has(MULTICAST) else None
    transfers, pieces = machine.unit(Transfers), machine.shared.view(PIECE)

    def issue(lane, boxes, corner, data, report, masked) -> None:
        _require_corner(machine, lane, boxes, corner, writes=False)
        if own:
            require_own(machine, lane, data, "destination")
        machine.event("tma.issue", lane, what="load", corner=corner, to=data, bytes=boxes.bytes)
        for target, told in copies_to(machine, lane, data, report, masked):
            size = boxes.span
            place = shared_place(machine, lane, target, size, ALIGNMENT, "destination")
            at = barrier_place(machine, lane, told, target)
            if machine.watch and boxes.tensor.swizzle:
                machine.watch.placed(lane, target, atom_bytes(boxes.tensor.swizzle))

            def move(boxes=boxes, corner=corner, place=place) -> None:
                boxes.scatter(pieces, place, boxes.read(corner))

            transfers.incoming(x, lane, (place, place + size), at, boxes.bytes, move)

    def step(lanes: Lanes) -> None:
        masks = machine.each(mask, lanes).tolist() if mask else None
        data, report = destination(lanes).tolist(), barrier(lanes).tolist()
        for i, (lane, boxes, corner) in enumerate(box(lanes)):
            issue(lane, boxes, corner, data[i], report[i], masks[i] if masks else None)

    return step


def _store(
    machine: Machine, x: Instruction, dim: str, parts: tuple[str, ...], op: str | None
) -> Step:
    """A store, or with ``op`` a reduction; ``parts``: of the opcode, behind the spaces (and op)."""
    require_form(x, parts, BULK_GROUP, {"tile", CACHE_HINT}, 2)
    box, source = _Box(machine, x, 0, dim), machine.address(x.operands[1])
    transfers, pieces = machine.unit(Transfers), machine.shared.view(PIECE)

    def step(lanes: Lanes) -> None:
        addresses = source(lanes).tolist()
        for (lane, boxes, corner), address in zip(box(lanes), addresses, strict=True):
            _require_corner(machine, lane, boxes, corner, writes=True)
            require_own(machine, lane, address, "source")
            size = boxes.span
            place = shared_place(machine, lane, address, size, ALIGNMENT, "source")
            if machine.watch and boxes.tensor.swizzle:
                machine.watch.placed(lane, address, atom_bytes(boxes.tensor.swizzle))
            combine = _reduction(machine, lane, boxes, op) if op else None
            what = f"reduce.{op}" if op else "store"
            machine.event(
                "tma.issue", lane, what=what, corner=corner, source=address, bytes=boxes.bytes
            )

            def take(boxes=boxes, place=place) -> numpy.ndarray:
                return boxes.gather(pieces, place)

            def put(data, boxes=boxes, corner=corner, combine=combine) -> None:
                boxes.write(corner, data, combine)

            transfers.outgoing(x, lane, (place, place + size), take, put)

    return step


@executes("cp.reduce.async.bulk.tensor")
def reduce(machine: Machine, x: Instruction) -> Step:
    """``cp.reduce.async.bulk.tensor.Nd.global.shared::cta.op…``; the map knows the type."""
    _refuse_modes(x)
    op = x.parts[8] if len(x.parts) > 8 else ""
    if x.parts[6:8] != ("global", "shared::cta") or not types_of(op, "global"):
        raise unsupported(x, "a reduction goes from .shared::cta to .global, and names its .op")
    return _store(machine, x, x.parts[5], x.parts[9:], op)


def _reduction(machine: Machine, lane: int, boxes: Boxes, op: str) -> Reduction:
    """What ``op`` does to elements of a map. Raises Fault where the PTX ISA's table has nothing."""
    element, types = boxes.tensor.element_type, types_of(op, "global")
    kinds = [kind for kind in _PTX_TYPE.get(element, ()) if kind in types]
    if not kinds:
        able = [name for name, known in _PTX_TYPE.items() if set(known) & set(types)]
        raise Fault(
            f"reduction {op} on a map of {element}: it exists for {', '.join(able)}; map the "
            f"array as one of them ({machine.place(lane)})"
        )
    return reduction(op, kinds[0])


@executes("cp.async.bulk.prefetch.tensor")
def prefetch(machine: Machine, x: Instruction) -> Step:
    """``cp.async.bulk.prefetch.tensor``: brings data to L2; nothing to compute."""
    _refuse_modes(x)
    box = _Box(machine, x, 0, x.parts[5])

    def step(lanes: Lanes) -> None:
        for lane, boxes, corner in box(lanes):
            _require_corner(machine, lane, boxes, corner, writes=False)

    return step


@executes("tensormap.replace", "tensormap.cp_fenceproxy", "fence.proxy.tensormap::generic")
def device_side_map(machine: Machine, x: Instruction) -> Step:
    """A map that the kernel changes: not executed."""
    raise unsupported(x, "the emulator knows the maps that the host made, not those of a kernel")
