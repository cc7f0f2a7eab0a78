"""Where the addresses of an instruction lie: which array, and at which byte.

A locator turns one address a lane into pieces, each an array of bytes and the places in it. Almost
always there is one piece; a generic address may lie in global memory for one lane and in shared
memory for the next. Everything an access can do wrong is found here: bounds, alignment, a space
that is not the instruction's, a block that is not in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.instructions import Lanes
from hopper.emulator.spaces import (
    CONST_WINDOW,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_WINDOW,
    SYSTEM_SHARED_BYTES,
    Buffer,
    Shared,
    Which,
)

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

WINDOW_SHIFT = 56
#: Pieces of memory: an array, bytes in it, and which of the given addresses they belong to.
Pieces = list[tuple[Buffer | Shared, numpy.ndarray, Which]]
Locate = Callable[[Lanes, numpy.ndarray], Pieces]

SPACES = (
    "global",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "const",
    "param",
    "param::entry",
)
_IN_WINDOW = numpy.uint64((1 << WINDOW_SHIFT) - 1)
_ALL = slice(None)


class Windows:
    """Memory that has a window of its own: parameters, constants, and each thread's local memory.

    ``pitch``: bytes of local memory a lane. Local memory starts as 0xFF bytes, as registers do.
    """

    def __init__(self, machine: Machine) -> None:
        launch = machine.launch
        self.pitch = -(-launch.local_bytes // 16) * 16
        local = numpy.full(self.pitch * machine.lane_count, 0xFF, numpy.uint8)
        self.local = Buffer("local memory", local, LOCAL_WINDOW)
        self.local_start = machine.lane * self.pitch
        self.const = Buffer("the constants", launch.const_bytes, CONST_WINDOW)
        self.param = Buffer("the kernel's parameters", launch.parameters, PARAM_WINDOW)


def locator(machine: Machine, space: str, size: int, *, writes: bool = False) -> Locate:
    """How to find accesses of ``size`` bytes (a power of two) in a state space.

    ``space``: one of SPACES, "" for generic addresses. ``writes``: whether the access changes what
    it finds. The locator takes lanes and their uint64 addresses, and raises Fault, naming the first
    thread whose address is wrong, the array and the rule.
    """
    if space == "global":
        return _global(machine, size)
    if space == "shared::cluster":
        return _cluster(machine, size)
    if space in ("shared", "shared::cta"):
        return _own_shared(machine, size)
    if space:
        return _window(machine, space.removesuffix("::entry"), size)
    return _generic(machine, size, writes)


def shared_locator(
    machine: Machine, space: str, size: int
) -> Callable[[Lanes, numpy.ndarray], numpy.ndarray]:
    """Places in ``machine.shared.bytes`` of addresses that must lie in shared memory.

    ``space`` as in ``locator``: a shared one, or "" for generic addresses.
    """
    find = locator(machine, space, size)

    def places(lanes: Lanes, address: numpy.ndarray) -> numpy.ndarray:
        for memory, found, which in find(lanes, address):
            if memory is machine.shared and isinstance(which, slice):
                return found
        outside = address >> numpy.uint64(WINDOW_SHIFT) != SHARED_WINDOW >> WINDOW_SHIFT
        at = int(outside.argmax())
        raise Fault(
            f"generic address {int(address[at]):#x} is not one of shared memory, which this "
            f"instruction works on ({_who(machine, lanes)(at)})"
        )

    return places


def _who(machine: Machine, lanes: Lanes) -> Callable[[int], str]:
    return lambda position: machine.place(int(machine.lane[lanes][position]))


def _global(machine: Machine, size: int) -> Locate:
    memory = machine.launch.memory

    def locate(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        one = memory.one(address, size)
        if one:
            return [(*one, _ALL)]
        return memory.locate(address, size, _who(machine, lanes))

    return locate


def _own_shared(machine: Machine, size: int) -> Locate:
    """Addresses of the block's own shared memory: one subtraction once the bounds hold."""
    shared, room = machine.shared, machine.shared.end - size - SYSTEM_SHARED_BYTES
    low = (machine.rank << RANK_SHIFT) + SYSTEM_SHARED_BYTES
    low_unsigned = low.astype(numpy.uint64)
    start = machine.block * shared.window + SYSTEM_SHARED_BYTES

    def locate(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        # An address below wraps round to a large offset.
        offset = address - low_unsigned[lanes]
        high, bits = int(numpy.maximum.reduce(offset)), int(numpy.bitwise_or.reduce(offset))
        if high <= room and not bits & (size - 1):
            return [(shared, offset.view(numpy.int64) + start[lanes], _ALL)]
        wide = _wrapped(address.view(numpy.int64))
        offset = wide - low[lanes]
        bad = (offset < 0) | (offset > room) | (offset & (size - 1) != 0)
        if bad.any():
            _refuse_shared(machine, lanes, wide, bad, size, own_only=True)
        return [(shared, offset + start[lanes], _ALL)]

    return locate


def _cluster(machine: Machine, size: int) -> Locate:
    """Addresses of shared memory of any block of the cluster."""
    shared, last = machine.shared, machine.shared.end - size
    blocks = machine.launch.cluster_size
    first = (machine.block - machine.rank) * shared.window
    in_block = (1 << RANK_SHIFT) - 1

    def locate(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        wide = _wrapped(address.view(numpy.int64))
        rank, offset = wide >> RANK_SHIFT, wide & in_block
        bad = (offset < SYSTEM_SHARED_BYTES) | (offset > last) | (offset & (size - 1) != 0)
        bad |= (rank < 0) | (rank >= blocks)
        if bad.any():
            _refuse_shared(machine, lanes, wide, bad, size, own_only=False)
        return [(shared, rank * shared.window + offset + first[lanes], _ALL)]

    return locate


def _wrapped(wide: numpy.ndarray) -> numpy.ndarray:
    """Sums of a 32-bit register and an offset wrap at 32 bits; they were added in 64."""
    carry = wide >> 32 == 1
    return numpy.where(carry, wide & 0xFFFFFFFF, wide) if carry.any() else wide


def _refuse_shared(
    machine: Machine,
    lanes: Lanes,
    wide: numpy.ndarray,
    bad: numpy.ndarray,
    size: int,
    own_only: bool,
) -> None:
    """Raise the Fault of the first bad shared address."""
    at = int(bad.argmax())
    lane = int(machine.lane[lanes][at])
    value = int(wide[at])
    rank, offset = value >> RANK_SHIFT, value & ((1 << RANK_SHIFT) - 1)
    blocks, own, end = machine.launch.cluster_size, int(machine.rank[lane]), machine.shared.end
    kind = "shared-out-of-bounds"
    if value < 0 or value >> 32:
        why = (
            "no address of shared memory; a generic pointer becomes one by cvta.to.shared "
            "(__cvta_generic_to_shared)"
        )
    elif rank >= blocks:
        why = (
            f"in the block of rank {rank}, and the cluster has {blocks}; map addresses by mapa, "
            f"and to ranks below the cluster's size"
        )
    elif own_only and rank != own:
        why = (
            f"in the block of rank {rank}, and the thread's is {own}: .shared::cta reaches only "
            f"its own; use .shared::cluster"
        )
    elif offset & (size - 1):
        kind = "misaligned"
        why = f"not a multiple of the {size} bytes that are accessed; align it"
    else:
        why = (
            f"outside: {size} bytes at {offset:#x}, and the block owns {SYSTEM_SHARED_BYTES:#x} up "
            f"to {end:#x}; pass more shared_bytes to the launch, or correct the address"
        )
    address = value & (1 << 64) - 1
    raise Fault(f"shared address {address:#x} is {why} ({machine.place(lane)})", kind)


def _window(machine: Machine, space: str, size: int) -> Locate:
    """Addresses of local memory, constants or parameters."""
    windows = machine.unit(Windows)
    buffer: Buffer = getattr(windows, space)
    local = space == "local"
    end = machine.launch.local_bytes if local else buffer.bytes.size
    base = numpy.uint64(buffer.address)

    def locate(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        offset = (address - base).view(numpy.int64)
        bad = (offset < 0) | (offset > end - size) | (offset & (size - 1) != 0)
        if bad.any():
            at = int(bad.argmax())
            who = _who(machine, lanes)(at)
            if int(address[at]) >> WINDOW_SHIFT != buffer.address >> WINDOW_SHIFT:
                raise Fault(
                    f"address {int(address[at]):#x} is not one of .{space} memory; access it in "
                    f"the space that it lies in, or as a generic address ({who})"
                )
            raise Fault(
                f"{size} bytes at byte {int(offset[at])} of {buffer.name}, of which there are "
                f"{end}: out of bounds or misaligned; access multiples of the size, inside ({who})"
            )
        return [(buffer, offset + windows.local_start[lanes] if local else offset, _ALL)]

    return locate


def _generic(machine: Machine, size: int, writes: bool) -> Locate:
    """Each address in the space whose window it lies in."""

    def read_only(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        raise Fault(
            f"address {int(address[0]):#x} is one of constants or parameters, which a kernel "
            f"cannot write; copy them first ({_who(machine, lanes)(0)})"
        )

    spaces = {0: locator(machine, "global", size)}
    for space, window in (
        ("local", LOCAL_WINDOW),
        ("const", CONST_WINDOW),
        ("param", PARAM_WINDOW),
    ):
        fixed = writes and space != "local"
        spaces[window >> WINDOW_SHIFT] = read_only if fixed else locator(machine, space, size)
    shared = locator(machine, "shared::cluster", size)
    spaces[SHARED_WINDOW >> WINDOW_SHIFT] = lambda lanes, address: shared(
        lanes, address & _IN_WINDOW
    )

    def locate(lanes: Lanes, address: numpy.ndarray) -> Pieces:
        low, high = int(numpy.minimum.reduce(address)), int(numpy.maximum.reduce(address))
        window = low >> WINDOW_SHIFT
        if window == high >> WINDOW_SHIFT:
            return spaces.get(window, spaces[0])(lanes, address)
        windows = address >> numpy.uint64(WINDOW_SHIFT)
        found: Pieces = []
        for window in numpy.unique(windows).tolist():
            mine = numpy.flatnonzero(windows == window)
            inner = spaces.get(window, spaces[0])(machine.lane[lanes][mine], address[mine])
            found += [(where, places, mine[which]) for where, places, which in inner]
        return found

    return locate
