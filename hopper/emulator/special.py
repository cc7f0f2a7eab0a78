"""Special registers: who a thread is (PTX ISA, "Special Registers")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from hopper.emulator.errors import Fault
from hopper.emulator.registers import Read
from hopper.emulator.types import numpy_type

if TYPE_CHECKING:
    from hopper.emulator.machine import Machine

# They count the machine's steps: the emulator has no time.
_CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def special_register(machine: Machine, name: str, kind: str) -> Read:
    """A special register as a function of the lanes. Raises Fault for one that is not known."""
    wanted = numpy_type(kind)
    if name in _CLOCKS:
        shift = 32 if name.endswith("_hi") else 0
        mask = (1 << 8 * wanted.itemsize) - 1
        return lambda lanes: wanted.type(machine.steps >> shift & mask)
    values = numpy.asarray(_value(machine, name)).astype(wanted)
    if values.ndim == 0:
        value = values[()]
        return lambda lanes: value
    return lambda lanes: values[lanes]


def _value(machine: Machine, name: str) -> numpy.ndarray | int:
    launch = machine.launch
    base, _, axis = name[1:].partition(".")
    if axis and axis in "xyz":
        at = "xyz".index(axis)
        if base in ("tid", "ntid"):
            x, y, _ = launch.block
            thread = machine.thread
            place = (thread % x, thread // x % y, thread // (x * y))
            return place[at] if base == "tid" else launch.block[at]
        blocks = numpy.array([launch.block_index(block) for block in machine.blocks])
        cluster = launch.cluster[at]
        if base == "ctaid":
            return blocks[machine.block, at]
        if base == "clusterid":
            return blocks[machine.block, at] // cluster
        if base == "cluster_ctaid":
            return blocks[machine.block, at] % cluster
        if base == "nctaid":
            return launch.grid[at]
        if base == "nclusterid":
            return launch.grid[at] // cluster
        if base == "cluster_nctaid":
            return cluster
    lane = machine.lane % 32
    one = numpy.uint64(1)
    bit = one << lane.astype(numpy.uint64)
    simple = {
        "laneid": lane,
        "warpid": machine.thread // 32,
        "nwarpid": -(-launch.threads // 32),
        "smid": machine.block,
        "nsmid": len(machine.blocks),
        "gridid": 0,
        "cluster_ctarank": machine.rank,
        "cluster_nctarank": launch.cluster_size,
        "is_explicit_cluster": int(launch.kernel.explicit_cluster),
        "dynamic_smem_size": launch.shared_bytes,
        "total_smem_size": launch.shared_end,
        "aggr_smem_size": launch.shared_end,
        "reserved_smem_offset_begin": 0,
        "reserved_smem_offset_end": 1024,
        "lanemask_eq": bit,
        "lanemask_lt": bit - one,
        "lanemask_le": bit * numpy.uint64(2) - one,
        "lanemask_ge": numpy.uint64(0xFFFFFFFF) - (bit - one),
        "lanemask_gt": numpy.uint64(0xFFFFFFFF) - (bit * numpy.uint64(2) - one),
    }
    if base in simple and not axis:
        return simple[base]
    raise Fault(f"special register {name} is not known to the emulator")
