"""Loads and stores, in every state space (PTX ISA, "ld", "ld.global.nc", "ldu", "st").

Where an address lies is found by ``locate``. Memory orders, scopes and cache operators change no
result here: the emulator performs one instruction at a time, for all lanes that execute it. Where
several of those lanes store to one address the highest lane wins (undefined on the GPU).

Left out: 128-bit scalars (.b128), and the 256-bit vectors that only sm_100 has.
"""

from __future__ import annotations

import numpy

from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import SPACES, locator
from hopper.emulator.machine import Machine
from hopper.emulator.opcodes import SCOPES, slots
from hopper.emulator.ptx import Instruction, Operand, Symbol, Vector
from hopper.emulator.types import numpy_type

TYPES = tuple(f"{letter}{bits}" for letter in "bus" for bits in (8, 16, 32, 64)) + ("f32", "f64")
_VECTORS = ("v2", "v4")
_L1 = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
_EVICTION = tuple(f"L1::{word}" for word in _L1)
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
# A vector is moved as one item of its size; 16 bytes as two halves of a number that is never used.
_WHOLE = {size: numpy.dtype(f"u{size}") for size in (2, 4, 8)} | {16: numpy.dtype("c16")}
_READ_ONLY = ("const", "param", "param::entry")


@executes("ld", "ldu")
def load(machine: Machine, x: Instruction) -> Step:
    """One value a lane, or a vector of two or four; narrow values are extended to the register."""
    space, vector, kind = _form(x, ("ca", "cg", "cs", "lu", "cv"), "acquire")
    operand = x.operands[1]
    targets = _elements(x, x.operands[0], vector)
    puts = [machine.write(target, kind) for target in targets]
    dtype, count = numpy_type(kind), len(puts)
    size = dtype.itemsize * count
    whole = dtype if count == 1 else _WHOLE[size]
    where = locator(machine, space, size)
    address = machine.address(operand)
    if space in _READ_ONLY and isinstance(operand.base, Symbol):
        # Neither the address nor the value ever changes.
        start = slice(0, 1)
        buffer, places, _ = where(start, address(start))[0]
        row = buffer.bytes[int(places[0]) :][:size].view(dtype)
        fixed = list(zip(puts, row, strict=True))

        def constant(lanes: Lanes) -> None:
            for put, value in fixed:
                put(lanes, value)

        return constant
    shift = size.bit_length() - 1
    put = puts[0]

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        pieces = where(lanes, at)
        if len(pieces) == 1:
            memory, places, _ = pieces[0]
            items = memory.view(whole)[places >> shift]
        else:
            items = numpy.empty(at.size, whole)
            for memory, places, which in pieces:
                items[which] = memory.view(whole)[places >> shift]
        if count == 1:
            put(lanes, items)
        else:
            columns = items.view(dtype).reshape(-1, count)
            for number, each in enumerate(puts):
                each(lanes, columns[:, number])

    return step


@executes("st")
def store(machine: Machine, x: Instruction) -> Step:
    """One value a lane, or a vector of two or four."""
    space, vector, kind = _form(x, ("wb", "cg", "cs", "wt"), "release")
    if space in _READ_ONLY:
        raise unsupported(x, f".{space} memory of a kernel is read-only; store elsewhere")
    gets = [machine.read(source, kind) for source in _elements(x, x.operands[1], vector)]
    dtype, count = numpy_type(kind), len(gets)
    size = dtype.itemsize * count
    whole = dtype if count == 1 else _WHOLE[size]
    where = locator(machine, space, size, writes=True)
    address = machine.address(x.operands[0])
    shift = size.bit_length() - 1
    get = gets[0]

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        if count == 1:
            items = get(lanes)
        else:
            columns = numpy.empty((at.size, count), dtype)
            for number, each in enumerate(gets):
                columns[:, number] = each(lanes)
            items = columns.view(whole).reshape(-1)
        pieces = where(lanes, at)
        if len(pieces) == 1:
            memory, places, _ = pieces[0]
            memory.view(whole)[places >> shift] = items
            return
        items = numpy.broadcast_to(items, at.shape)
        for memory, places, which in pieces:
            memory.view(whole)[places >> shift] = items[which]

    return step


def _form(x: Instruction, operators: tuple[str, ...], synchronises: str) -> tuple[str, str, str]:
    """State space, vector and type of a load or store, its form checked."""
    order, relaxed, scope, space, operator, nc, eviction, hint, prefetch, vector, kind = slots(
        x,
        1,
        ("weak", "volatile", "relaxed", synchronises, "mmio"),
        ("relaxed",),
        SCOPES,
        SPACES,
        operators,
        ("nc",),
        _EVICTION,
        ("L2::cache_hint",),
        _PREFETCH,
        _VECTORS,
        TYPES,
    )
    plain = order in ("", "weak")
    if not kind:
        raise unsupported(x, "no type, or one that is not loaded and stored on sm_90a")
    if numpy_type(kind).itemsize * int(vector[1:] or 1) > 16:
        raise unsupported(x, "more than 16 bytes, which only sm_100 accesses at once; use two")
    if bool(relaxed) != (order == "mmio") or bool(scope) != (
        order in ("relaxed", synchronises, "mmio")
    ):
        raise unsupported(x, f".relaxed and .{synchronises} need a scope, others have none")
    if operator and (not plain or eviction):
        raise unsupported(x, f".{operator} goes with weak accesses without an eviction priority")
    if nc and not (plain and space == "global" and synchronises == "acquire"):
        raise unsupported(x, ".nc is a weak load of .global memory")
    if len(x.operands) != 2 + bool(hint):
        raise unsupported(x, "a cache policy comes with .L2::cache_hint, and only with it")
    return space, vector, kind


def _elements(x: Instruction, operand: Operand, vector: str) -> tuple[Operand, ...]:
    """The registers of a scalar or of a vector."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != int(vector[1:] or 1) or isinstance(operand, Vector) != bool(vector):
        raise unsupported(x, f"{len(items)} registers for {vector or 'a scalar'}")
    return items
