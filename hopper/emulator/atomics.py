"""Atomic operations on memory (PTX ISA, "atom", "red").

Lanes that meet at one address take their turns in lane order (on the GPU the order is undefined);
where they do not meet, one NumPy operation serves them all.

Two sums depend on the memory. That of f32 flushes subnormal numbers in global memory and keeps them
in shared memory, as the PTX ISA says. That of f64 leaves a NaN as it is in global memory, the
arriving one before the one that is there; in shared memory the NaN that is there goes first, and
becomes quiet (observed on an H200: ``memory.atomic.add.f64``).

Left out: 128-bit exch and cas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import locator
from hopper.emulator.machine import Machine
from hopper.emulator.opcodes import CACHE_HINT, SCOPES, address_at, elements, expect, slots
from hopper.emulator.ptx import Instruction, Sink
from hopper.emulator.reduction import reduction
from hopper.emulator.spaces import LOCAL_WINDOW, Shared
from hopper.emulator.types import bits_type, numpy_type

#: ``operation(memory, *values)``: all as unsigned integers, a column an element.
Operation = Callable[..., numpy.ndarray]

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")
_WORDS = ("u32", "s32", "u64", "s64")
_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", *_HALVES),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "min": _WORDS,
    "max": _WORDS,
    "inc": ("u32",),
    "dec": ("u32",),
}
_ALL_TYPES = tuple(dict.fromkeys(kind for kinds in _TYPES.values() for kind in kinds))
# What a vector may hold, by its operation; 16 bytes at most.
_VECTOR_TYPES = {"add": ("f32", *_HALVES), "min": _HALVES, "max": _HALVES}
_F64_QUIET = 1 << 51
_SPACES = ("global", "shared", "shared::cta", "shared::cluster")


@executes("atom")
def atomic(machine: Machine, x: Instruction) -> Step:
    """Read, modify, write; the value read goes to the first operand."""
    form = _form(x, ("relaxed", "acquire", "release", "acq_rel"), tuple(_TYPES))
    expect(x, 4 if form["op"] == "cas" else 3, form["hint"])
    sink = isinstance(x.operands[0], Sink)
    targets = () if sink else elements(x, x.operands[0], form["vector"])
    # What was in memory is bits: no number is converted on its way to a register.
    bits = f"b{8 * bits_type(form['type']).itemsize}"
    puts = [machine.write(target, bits) for target in targets]
    perform = _performer(machine, x, form, 1)

    def step(lanes: Lanes) -> None:
        old = perform(lanes)
        for number, put in enumerate(puts):
            put(lanes, old[:, number])

    return step


@executes("red")
def reduce(machine: Machine, x: Instruction) -> Step:
    """The same without a result."""
    form = _form(x, ("relaxed", "release"), tuple(op for op in _TYPES if op not in ("exch", "cas")))
    expect(x, 2, form["hint"])
    return _performer(machine, x, form, 0)


def _form(x: Instruction, orders: tuple[str, ...], operations: tuple[str, ...]) -> dict[str, str]:
    """The parts of an opcode, checked as ptxas does."""
    form = slots(
        x,
        1,
        order=orders,
        scope=SCOPES,
        space=_SPACES,
        op=operations,
        noftz=("noftz",),
        hint=(CACHE_HINT,),
        vector=("v2", "v4", "v8"),
        type=_ALL_TYPES,
    )
    op, kind, vector = form["op"], form["type"], form["vector"]
    allowed = (_VECTOR_TYPES if vector else _TYPES).get(op, ())
    if kind not in allowed:
        words = ", ".join(allowed) or "no type"
        raise unsupported(x, f".{op} of {vector or 'scalars'} exists for {words}")
    if bool(form["noftz"]) != (kind in _HALVES):
        raise unsupported(x, ".noftz belongs to f16 and bf16, and is not left out there")
    if vector and bits_type(kind).itemsize * int(vector[1:]) > 16:
        raise unsupported(x, "a vector has 16 bytes at most")
    if form["space"].startswith("shared") and (vector or form["hint"]):
        raise unsupported(x, "vectors and cache policies are for global memory")
    if form["hint"] and op == "cas":
        raise unsupported(x, "cas takes no cache policy")
    return form


def _performer(
    machine: Machine, x: Instruction, form: dict[str, str], first: int
) -> Callable[[Lanes], numpy.ndarray]:
    """A function that performs the operation for lanes, and returns what was in memory before.

    ``first``: position of the address among the operands. The result has a column an element.
    """
    kind, vector = form["type"], form["vector"]
    sources = x.operands[first + 1 : first + (3 if form["op"] == "cas" else 2)]
    reads = [
        [machine.read(item, kind) for item in elements(x, source, vector)] for source in sources
    ]
    count, dtype = len(reads[0]), bits_type(kind)
    size = dtype.itemsize * count
    where = locator(machine, form["space"], size, writes=True)
    address = machine.address(address_at(x, first))
    in_global, in_shared = _operation(form["op"], kind, False), _operation(form["op"], kind, True)

    def perform(lanes: Lanes) -> numpy.ndarray:
        at = address(lanes)
        values = [columns(registers, lanes, at.size, kind) for registers in reads]
        old = numpy.empty((at.size, count), dtype)
        for memory, places, which in where(lanes, at):
            if isinstance(memory, Shared):
                operation = in_shared
                if machine.watch:
                    machine.watch.updated(machine.lane[lanes][which], places, size)
            elif memory.address == LOCAL_WINDOW:
                raise Fault(
                    f"{x.parts[0]} on local memory, which only its thread sees: atomic operations "
                    f"are for global and shared memory; use ld and st"
                )
            else:
                operation = in_global
            items = memory.view(dtype)
            cells = places[:, None] // dtype.itemsize + numpy.arange(count)
            old[which] = in_turns(items, cells, [value[which] for value in values], operation)
        return old

    return perform


def columns(reads: list, lanes: Lanes, size: int, kind: str) -> numpy.ndarray:
    """Values of some registers as bits, a row a lane."""
    values = numpy.empty((size, len(reads)), numpy_type(kind))
    for number, read in enumerate(reads):
        values[:, number] = read(lanes)
    return values.view(bits_type(kind))


def in_turns(
    items: numpy.ndarray, cells: numpy.ndarray, values: list[numpy.ndarray], operation: Operation
) -> numpy.ndarray:
    """Apply the operation row by row; rows that share no cell go together. Returns the old values.

    ``cells``: indices into ``items``, equal or disjoint between rows.
    """
    first = cells[:, 0]
    if (first[1:] > first[:-1]).all():
        old = items[cells]
        items[cells] = operation(old, *values)
        return old
    order = numpy.argsort(first, kind="stable")
    placed = first[order]
    starts = numpy.flatnonzero(numpy.concatenate(([True], placed[1:] != placed[:-1])))
    lengths = numpy.diff(starts, append=placed.size)
    # How many rows before this one have the same cells: its turn.
    turn = numpy.arange(placed.size) - numpy.repeat(starts, lengths)
    order = order[numpy.argsort(turn, kind="stable")]
    cells, values = cells[order], [value[order] for value in values]
    before = numpy.empty(cells.shape, items.dtype)
    start = 0
    for stop in numpy.cumsum(numpy.bincount(turn)).tolist():
        rows = slice(start, stop)
        before[rows] = now = items[cells[rows]]
        items[cells[rows]] = operation(now, *[value[rows] for value in values])
        start = stop
    old = numpy.empty_like(before)
    old[order] = before
    return old


def _operation(op: str, kind: str, shared: bool) -> Operation:
    """What an atomic operation computes in global or in shared memory."""
    if op == "exch":
        return lambda memory, value: value
    if op == "cas":
        return lambda memory, compared, value: numpy.where(memory == compared, value, memory)
    if op == "add" and kind == "f32" and not shared:
        return _sum_flushing_subnormals
    if op == "add" and kind == "f64" and shared:
        return _sum_of_doubles_in_shared
    if not kind.endswith("x2"):
        return reduction(op, kind)
    single = reduction(op, kind.removesuffix("x2"))
    return lambda memory, value: single(memory.view("u2"), value.view("u2")).view("u4")


def _sum_flushing_subnormals(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    return _flushed(reduction("add", "f32")(_flushed(memory), _flushed(value)))


def _flushed(bits: numpy.ndarray) -> numpy.ndarray:
    """f32 as bits, with subnormal numbers made zeros of their sign."""
    return numpy.where(bits & 0x7F800000, bits, bits & numpy.uint32(0x80000000))


def _sum_of_doubles_in_shared(memory: numpy.ndarray, value: numpy.ndarray) -> numpy.ndarray:
    total = reduction("add", "f64")(value, memory)
    return numpy.where(numpy.isnan(total.view("f8")), total | numpy.uint64(_F64_QUIET), total)
