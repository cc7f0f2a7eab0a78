"""st.async and red.async: one value into another block's shared memory, counted by an mbarrier.

PTX ISA, "st.async", "red.async". The value lands some time later, as the schedule picks; then the
mbarrier, which lies in the same block as the value, has its bytes completed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy

from hopper.emulator.atomics import columns, in_turns
from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import shared_locator
from hopper.emulator.machine import Machine
from hopper.emulator.mbarrier import Mbarriers
from hopper.emulator.opcodes import address_at, elements, expect, slots
from hopper.emulator.ptx import Instruction
from hopper.emulator.reduction import reduction
from hopper.emulator.types import bits_type

_SPACE = ("shared::cluster",)
_COMPLETION = ("mbarrier::complete_tx::bytes",)
_STORED = ("b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
_REDUCED = {
    "add": ("u32", "s32", "u64", "s64"),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
}


@executes("st.async")
def store(machine: Machine, x: Instruction) -> Step:
    """``st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes{.v2|.v4}.type``."""
    form = slots(
        x,
        2,
        order=("weak",),
        space=_SPACE,
        completion=_COMPLETION,
        vector=("v2", "v4"),
        type=_STORED,
    )
    if not (form["completion"] and form["type"]):
        raise unsupported(x, "it has .mbarrier::complete_tx::bytes and a type of 4 or 8 bytes")
    return _later(machine, x, form, lambda memory, value: value)


@executes("red.async")
def reduce(machine: Machine, x: Instruction) -> Step:
    """``red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type``."""
    form = slots(
        x,
        2,
        order=("relaxed",),
        scope=("cluster",),
        space=_SPACE,
        completion=_COMPLETION,
        op=tuple(_REDUCED),
        type=("u32", "s32", "u64", "s64", "b32"),
    )
    op, kind = form["op"], form["type"]
    if not (form["order"] and form["scope"] and form["completion"]):
        raise unsupported(x, "it has .relaxed.cluster and .mbarrier::complete_tx::bytes")
    if kind not in _REDUCED.get(op, ()):
        raise unsupported(x, f".{op} exists for {', '.join(_REDUCED.get(op, ())) or 'no type'}")
    return _later(machine, x, form | {"vector": ""}, reduction(op, kind))


def _later(
    machine: Machine, x: Instruction, form: dict[str, str], operation: Callable[..., numpy.ndarray]
) -> Step:
    """Take the values now, combine them with memory later, then complete their bytes."""
    expect(x, 3)
    kind = form["type"]
    reads = [machine.read(item, kind) for item in elements(x, x.operands[1], form["vector"])]
    dtype, count = bits_type(kind), len(reads)
    size = dtype.itemsize * count
    if size > 16:
        raise unsupported(x, "a vector has 16 bytes at most")
    to, barrier = machine.address(address_at(x, 0)), machine.address(address_at(x, 2))
    values_at = shared_locator(machine, form["space"], size)
    barriers_at = shared_locator(machine, form["space"], 8)
    barriers, items = machine.unit(Mbarriers), machine.shared.view(dtype)
    window = machine.shared.window

    def step(lanes: Lanes) -> None:
        places = values_at(lanes, to(lanes))
        counters = barriers_at(lanes, barrier(lanes))
        apart = places // window != counters // window
        if apart.any():
            lane = int(machine.lanes(lanes)[apart.argmax()])
            raise Fault(
                f"the value goes to one block and its mbarrier lies in another: map both addresses "
                f"to the same rank ({machine.place(lane)})"
            )
        values = columns(reads, lanes, places.size, kind)
        cells = places[:, None] // dtype.itemsize + numpy.arange(count)

        if machine.watch:
            who = machine.lane[lanes].tolist()
            for lane, place, counter in zip(who, places.tolist(), counters.tolist(), strict=True):
                machine.watch.stored_remotely(lane, place, place + size, counter)

        def lands() -> None:
            in_turns(items, cells, [values], operation)
            for place in counters.tolist():
                barriers.complete_tx(place, size)

        machine.later(lands)

    return step
