"""Addresses between state spaces: cvta, isspacep, mapa, getctarank (PTX ISA, "Data Movement").

A generic address is an address of a space with its window in the upper bits; see ``spaces``.
"""

from __future__ import annotations

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.locate import WINDOW_SHIFT
from hopper.emulator.machine import Machine
from hopper.emulator.opcodes import expect, slots
from hopper.emulator.ptx import Instruction
from hopper.emulator.spaces import (
    CONST_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
)

_WINDOWS = {
    "global": 0,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "const": CONST_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}
_SHARED = ("shared", "shared::cta", "shared::cluster")
_IN_WINDOW = numpy.uint64((1 << WINDOW_SHIFT) - 1)


@executes("cvta")
def convert(machine: Machine, x: Instruction) -> Step:
    """To a generic address, or with .to from one.

    Addresses of variables outside shared memory carry their window already, so only shared ones
    change.
    """
    form = slots(x, 1, to=("to",), space=tuple(_WINDOWS), size=("u64",))
    to, space = form["to"], form["space"]
    if not (space and form["size"]):
        raise unsupported(x, "it names a state space and .u64: addresses have 64 bits")
    expect(x, 2)
    get, put = machine.read(x.operands[1], "u64"), machine.write(x.operands[0], "u64")
    window = numpy.uint64(_WINDOWS[space])
    if to and space in _SHARED:
        # A pointer of another space keeps bits above 32: the access that uses it finds them.
        return lambda lanes: put(lanes, get(lanes) & _IN_WINDOW)
    if to or not window:
        return lambda lanes: put(lanes, get(lanes))
    return lambda lanes: put(lanes, get(lanes) | window)


@executes("isspacep")
def is_in_space(machine: Machine, x: Instruction) -> Step:
    """Whether generic addresses lie in a state space."""
    space = slots(x, 1, space=tuple(_WINDOWS))["space"]
    if not space:
        raise unsupported(x, "it names a state space")
    expect(x, 2)
    get, put = machine.read(x.operands[1], "u64"), machine.write(x.operands[0], "pred")
    window = numpy.uint64(_WINDOWS[space] >> WINDOW_SHIFT)
    parameters = numpy.uint64(PARAM_WINDOW >> WINDOW_SHIFT)
    shift, own = numpy.uint64(WINDOW_SHIFT), machine.rank

    def step(lanes: Lanes) -> None:
        address = get(lanes)
        number = address >> shift
        inside = number == window
        if space == "global":
            # Parameters lie in global memory as well (observed on an H200: memory.addresses).
            inside = inside | (number == parameters)
        if space in ("shared", "shared::cta"):
            inside = inside & ((address & _IN_WINDOW) >> numpy.uint64(RANK_SHIFT) == own[lanes])
        put(lanes, inside)

    return step


@executes("mapa")
def map_address(machine: Machine, x: Instruction) -> Step:
    """The place of a shared variable in another block of the cluster."""
    kind = slots(x, 1, space=("shared::cluster",), type=("u32", "u64"))["type"]
    if not kind:
        raise unsupported(x, "it names the address's type, .u32 or .u64")
    expect(x, 3)
    get, rank = machine.read(x.operands[1], kind), machine.read(x.operands[2], "u32")
    put = machine.write(x.operands[0], kind)
    blocks = machine.launch.cluster_size
    dtype = numpy.dtype(kind[0] + str(int(kind[1:]) // 8))
    keep = dtype.type(((1 << 8 * dtype.itemsize) - 1) ^ 0xFF << RANK_SHIFT)

    def step(lanes: Lanes) -> None:
        target = machine.each(rank, lanes)
        if int(target.max()) >= blocks:
            at = int(target.argmax())
            raise Fault(
                f"rank {int(target[at])} of a cluster of {blocks}: ranks are below the number of "
                f"blocks; correct the rank ({machine.place(int(machine.lane[lanes][at]))})"
            )
        put(lanes, get(lanes) & keep | target.astype(dtype) << dtype.type(RANK_SHIFT))

    return step


@executes("getctarank")
def rank_of(machine: Machine, x: Instruction) -> Step:
    """Rank of the block that a shared address lies in."""
    kind = slots(x, 1, space=("shared::cluster",), type=("u32", "u64"))["type"]
    if not kind:
        raise unsupported(x, "it names the address's type, .u32 or .u64")
    expect(x, 2)
    get, put = machine.read(x.operands[1], kind), machine.write(x.operands[0], "u32")

    def step(lanes: Lanes) -> None:
        rank = numpy.asarray(get(lanes)).astype(numpy.uint64) >> numpy.uint64(RANK_SHIFT)
        put(lanes, (rank & numpy.uint64(0xFF)).astype(numpy.uint32))

    return step
