"""ldmatrix, stmatrix, movmatrix: 8 × 8 matrices of 16 bits between shared memory and registers.

PTX ISA, "Warp-level matrix load instruction: ldmatrix" and its two neighbours. Lane 8i + r brings
the address of row r of matrix i; ``hopper.fragment`` says which element each lane then holds.
Left out, because ptxas refuses it for sm_90a: matrices of 8-, 6- and 4-bit elements.
"""

from __future__ import annotations

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.fragments import first_lanes
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import WARP, Machine
from hopper.emulator.ptx import Address, Instruction, Operand, Register, Sink, Vector
from hopper.emulator.spaces import RANK_SHIFT, SHARED_WINDOW, SYSTEM_SHARED_BYTES
from hopper.emulator.types import width
from hopper.fragment import matrix_held_by

ROWS, ROW_BYTES = 8, 16
TILE_UNIT = 128  # bytes: the trace tells reads of shared memory in units of TMA's alignment
_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def _elements(transposed: bool) -> numpy.ndarray:
    """Of each of the 64 halves of a warp's registers: which element of the matrix it holds."""
    lane, half = numpy.indices((WARP, 2))
    row, column = matrix_held_by(lane, half, transposed=transposed)
    return (row * ROWS + column).reshape(-1)


# Keyed by "transposed". The inverse gives, for each element, the half that holds it.
_ELEMENT = {transposed: _elements(transposed) for transposed in (False, True)}
_HALF = {transposed: numpy.argsort(held) for transposed, held in _ELEMENT.items()}


@executes("ldmatrix", together=WARP)
def ldmatrix(machine: Machine, x: Instruction) -> Step:
    """Shared memory to registers."""
    count, element = _form(x), _ELEMENT[x.has("trans")]
    items = _items(x, x.operands[0], count)
    kept = [i for i, item in enumerate(items) if isinstance(item, Register)]
    if not kept:
        raise unsupported(x, "it loads nothing: name a register")
    matrix, rows = machine.registers.block([items[i] for i in kept])
    places = _rows_of_matrices(machine, x, x.operands[1], count)

    def step(lanes: Lanes) -> None:
        first = first_lanes(machine, lanes, WARP)
        warps, pieces = first.size, places(lanes, first.size)
        if machine.watch:
            machine.watch.rows(first, pieces, machine.watch.read)
        rows_read = numpy.unique(pieces * ROW_BYTES % machine.shared.window // TILE_UNIT)
        machine.keeps("ldmatrix", first, (rows_read * TILE_UNIT).tolist())
        found = machine.shared.view(numpy.dtype("u8")).reshape(-1, 2)[pieces]
        halves = found.view("u2").reshape(warps, count, ROWS * ROWS).take(element, axis=-1)
        held = halves.view("u4").transpose(1, 0, 2).reshape(count, -1)
        matrix[_block(rows, lanes)] = held if len(kept) == count else held[kept]

    return step


@executes("stmatrix", together=WARP)
def stmatrix(machine: Machine, x: Instruction) -> Step:
    """Registers to shared memory."""
    count, half = _form(x), _HALF[x.has("trans")]
    items = _items(x, x.operands[1], count)
    if any(isinstance(item, Sink) for item in items):
        raise unsupported(x, "every matrix that is stored comes from a register")
    matrix, rows = machine.registers.block(items)
    places = _rows_of_matrices(machine, x, x.operands[0], count)

    def step(lanes: Lanes) -> None:
        first = first_lanes(machine, lanes, WARP)
        warps, where = first.size, places(lanes, first.size)
        if machine.watch:
            machine.watch.rows(first, where, machine.watch.write)
        held = matrix[_block(rows, lanes)].reshape(count, warps, WARP).transpose(1, 0, 2)
        halves = numpy.ascontiguousarray(held).view("u2").take(half, axis=-1)
        pieces = halves.view("u8").reshape(warps, count * ROWS, 2)
        machine.shared.view(numpy.dtype("u8")).reshape(-1, 2)[where] = pieces

    return step


@executes("movmatrix", together=WARP)
def movmatrix(machine: Machine, x: Instruction) -> Step:
    """Transposes an 8 × 8 matrix that lies in one register of each lane."""
    if x.parts != ("movmatrix", "sync", "aligned", "m8n8", "trans", "b16"):
        raise unsupported(x, "the only form is movmatrix.sync.aligned.m8n8.trans.b16")
    read, write = machine.read(x.operands[1], "b32"), machine.write(x.operands[0], "b32")
    half = _HALF[False][_ELEMENT[True]]

    def step(lanes: Lanes) -> None:
        warps = first_lanes(machine, lanes, WARP).size
        halves = numpy.ascontiguousarray(machine.each(read, lanes)).view("u2")
        moved = halves.reshape(warps, 2 * WARP).take(half, axis=-1)
        write(lanes, moved.reshape(-1).view("u4"))

    return step


def _form(x: Instruction) -> int:
    """How many matrices it moves. Raises Unsupported for other shapes and types."""
    known = {x.parts[0], "sync", "aligned", "m8n8", "trans", "shared", "shared::cta", "b16"}
    counts = [_COUNTS[part] for part in x.parts if part in _COUNTS]
    if len(counts) != 1 or not {"m8n8", "b16"} <= set(x.parts) or set(x.parts) - known - {*_COUNTS}:
        raise unsupported(x, "sm_90a has .m8n8 .b16 in .x1, .x2 and .x4, with or without .trans")
    return counts[0]


def _items(x: Instruction, operand: Operand, count: int) -> tuple[Register | Sink, ...]:
    """The registers of a vector, or ``_``."""
    items = operand.items if isinstance(operand, Vector) else ()
    if len(items) != count or not all(
        isinstance(item, Sink) or (isinstance(item, Register) and width(item.type) == 32)
        for item in items
    ):
        raise unsupported(x, f".x{count} takes a vector of {count} 32-bit registers")
    return items


def _block(rows: numpy.ndarray, lanes: Lanes) -> tuple[numpy.ndarray, Lanes]:
    """The index of whole rows at some lanes."""
    return (rows, lanes) if isinstance(lanes, slice) else (rows[:, None], lanes)


def _rows_of_matrices(machine: Machine, x: Instruction, operand: Operand, count: int):
    """Where each row lies, in units of 16 bytes: a function of lanes to (warps, 8 · count)."""
    if not isinstance(operand, Address):
        raise unsupported(x, "the rows' address is written in brackets")
    address = machine.address(operand)
    generic = not (x.has("shared") or x.has("shared::cta"))
    window = numpy.uint64(SHARED_WINDOW if generic else 0)
    own = machine.rank << RANK_SHIFT
    block = machine.block * machine.shared.window
    used, end = slice(ROWS * count), machine.launch.shared_end - ROW_BYTES

    def places(lanes: Lanes, warps: int) -> numpy.ndarray:
        given = (address(lanes) - window).view(numpy.int64) - own[lanes]
        offset = given.reshape(warps, WARP)[:, used]
        low, high = int(offset.min()), int(offset.max())
        if low < SYSTEM_SHARED_BYTES or high > end or numpy.bitwise_or.reduce(offset, None) & 15:
            raise _no_row(machine, x, machine.lanes(lanes).reshape(warps, WARP)[:, used], offset)
        return (offset + block[lanes].reshape(warps, WARP)[:, used]) >> 4

    return places


def _no_row(machine: Machine, x: Instruction, lanes: numpy.ndarray, offset: numpy.ndarray) -> Fault:
    """What is wrong with the first of the offsets in a block's shared memory that is wrong."""
    end = machine.launch.shared_end
    outside = (offset < 0) | (offset >= 1 << RANK_SHIFT)
    wrong = outside | (offset % ROW_BYTES > 0) | (offset < SYSTEM_SHARED_BYTES)
    wrong |= offset > end - ROW_BYTES
    lane, bad = int(lanes[wrong][0]), int(offset[wrong][0])
    who = machine.place(lane)
    if outside[wrong][0]:
        return Fault(
            f"an address is not in this block's own shared memory ({who}), the only place that "
            f"{x.parts[0]} reaches; pass __cvta_generic_to_shared of a __shared__ array"
        )
    if bad % ROW_BYTES:
        return Fault(
            f"shared address {bad:#x} ({who}) is not a multiple of 16, and a row of a matrix is 16 "
            f"bytes; align the array, and keep the pitch of its rows a multiple of 16 bytes",
            "misaligned",
        )
    return Fault(
        f"a row of 16 bytes at shared address {bad:#x} ({who}): the block owns "
        f"{SYSTEM_SHARED_BYTES:#x} up to {end:#x}; correct the address, or give it more rows",
        "shared-out-of-bounds",
    )
