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
from hopper.emulator.opcodes import CACHE_HINT, SCOPES, address_at, elements, expect, slots
from hopper.emulator.ptx import Instruction, Symbol
from hopper.emulator.types import numpy_type

TYPES = tuple(f"{letter}{bits}" for letter in "bus" for bits in (8, 16, 32, 64)) + ("f32", "f64")
_VECTORS = ("v2", "v4")
_L1 = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
_EVICTION = tuple(f"L1::{word}" for word in _L1)
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
# A vector is moved as one item of its size; 16 bytes as two halves of a number that is never used.
_WHOLE = {size: numpy.dtype(f"u{size}") for size in (2, 4, 8)} | {16: numpy.dtype("c16")}
_READ_ONLY = ("const", "param", "param::entry")


@executes("ldu")
def load_uniform(machine: Machine, x: Instruction) -> Step:
    """A load whose address is the same in all lanes of a warp; here a load as any other."""
    slots(x, 1, space=("global",), vector=_VECTORS, type=TYPES)
    return load(machine, x)


@executes("ld")
def load(machine: Machine, x: Instruction) -> Step:
    """One value a lane, or a vector of two or four; narrow values are extended to the register."""
    form = _form(
        x,
        order=("weak", "volatile", "relaxed", "acquire"),
        operator=("ca", "cg", "cs", "lu", "cv"),
        nc=("nc",),
        prefetch=_PREFETCH,
    )
    space, kind = form["space"], form["type"]
    operand = address_at(x, 1)
    targets = elements(x, x.operands[0], form["vector"])
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
    put, strong = puts[0], form["order"] not in ("", "weak")
    told = machine.watch and (machine.watch.loaded_strongly if strong else machine.watch.loaded)

    def step(lanes: Lanes) -> None:
        at = address(lanes)
        pieces = where(lanes, at)
        if told:
            told(lanes, pieces, size)
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
    form = _form(
        x,
        order=("weak", "volatile", "relaxed", "release"),
        operator=("wb", "cg", "cs", "wt"),
    )
    space, kind = form["space"], form["type"]
    if space in _READ_ONLY:
        raise unsupported(x, f".{space} memory of a kernel is read-only; store elsewhere")
    gets = [machine.read(source, kind) for source in elements(x, x.operands[1], form["vector"])]
    dtype, count = numpy_type(kind), len(gets)
    size = dtype.itemsize * count
    whole = dtype if count == 1 else _WHOLE[size]
    where = locator(machine, space, size, writes=True)
    address = machine.address(address_at(x, 0))
    shift = size.bit_length() - 1
    get, strong = gets[0], form["order"] not in ("", "weak")
    told = machine.watch and (machine.watch.stored_strongly if strong else machine.watch.stored)

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
        if told:
            told(lanes, pieces, size)
        if len(pieces) == 1:
            memory, places, _ = pieces[0]
            memory.view(whole)[places >> shift] = items
            return
        items = numpy.broadcast_to(items, at.shape)
        for memory, places, which in pieces:
            memory.view(whole)[places >> shift] = items[which]

    return step


def _form(x: Instruction, **more: tuple[str, ...]) -> dict[str, str]:
    """The parts of a load or store, checked as ptxas does. ``more``: those that only one of the
    two has.
    """
    form = slots(
        x,
        1,
        mmio=("mmio",),
        scope=SCOPES,
        space=SPACES,
        eviction=_EVICTION,
        hint=(CACHE_HINT,),
        vector=_VECTORS,
        type=TYPES,
        **more,
    )
    order, operator, nc = form["order"], form["operator"], form.get("nc")
    weak = order in ("", "weak")
    if not form["type"]:
        raise unsupported(x, "no type, or one that sm_90a does not load and store")
    if numpy_type(form["type"]).itemsize * int(form["vector"][1:] or 1) > 16:
        raise unsupported(x, "more than 16 bytes at once, which only sm_100 has; use two")
    if bool(form["scope"]) != (order in ("relaxed", "acquire", "release")):
        raise unsupported(x, "relaxed, acquire and release need a scope, and others have none")
    if form["mmio"] and (order, form["scope"]) != ("relaxed", "sys"):
        raise unsupported(x, ".mmio goes with .relaxed.sys")
    if not weak and form["space"] in ("local", *_READ_ONLY):
        raise unsupported(x, f".{order} memory accesses are of global or shared memory")
    if operator and (not weak or form["eviction"]):
        raise unsupported(x, f".{operator} goes with no memory order and no eviction priority")
    if form["eviction"] and order == "volatile":
        raise unsupported(x, "a volatile access has no eviction priority")
    cached = form["eviction"] or form["hint"] or form.get("prefetch")
    if cached and form["space"] not in ("", "global"):
        raise unsupported(x, f".{cached} is for global memory")
    if nc and (order or form["space"] != "global" or operator in ("lu", "cv")):
        raise unsupported(x, ".nc is a plain load of global memory")
    expect(x, 2, form["hint"])
    return form
