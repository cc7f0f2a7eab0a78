"""Threads of a warp that exchange values: shuffles, votes, matches, reductions.

PTX ISA, "Parallel Synchronization and Communication Instructions". The machine brings together the
lanes that the membermask names before a step runs; lanes of a warp with different masks are
different groups of one call. Whether the elected lane is the lowest is the hardware's choice, shown
by ``kernels/probes/warps.cu``.
"""

from __future__ import annotations

import numpy

from hopper.emulator.instructions import Lanes, Step, executes, unsupported
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import Instruction, Pair, Sink

WARP = 32


@executes("shfl.sync", together=32, mask=4)
def shfl(machine: Machine, x: Instruction) -> Step:
    """``shfl.sync.mode.b32 d|p, a, b, c, mask``: read register a of another lane.

    ``c`` holds a clamp (bits 0–4) and a segment mask (bits 8–12); p says whether the lane that b
    names lies in the segment; a lane without a partner gets its own a.
    """
    mode = x.parts[2]
    if mode not in ("idx", "up", "down", "bfly") or x.parts[3:] != ("b32",) or len(x.operands) != 5:
        raise unsupported(x, "shfl.sync has modes up, down, bfly and idx, type .b32 and a mask")
    target = x.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    put, put_valid = machine.write(first, "b32"), machine.write(second, "pred")
    value, b, c = (machine.read(operand, "b32") for operand in x.operands[1:4])
    values = numpy.zeros(machine.lane_count, numpy.uint32)

    def step(lanes: Lanes) -> None:
        lane = machine.lane[lanes]
        values[lanes] = value(lanes)
        here = lane & 31
        control = numpy.asarray(c(lanes)).astype(numpy.int64)
        clamp, segment = control & 31, control >> 8 & 31
        limit = here & segment | clamp & ~segment
        wanted = numpy.asarray(b(lanes)).astype(numpy.int64) & 31
        if mode == "idx":
            source = here & segment | wanted & ~segment
            valid = source <= limit
        elif mode == "up":
            source = here - wanted
            valid = source >= limit
        elif mode == "down":
            source = here + wanted
            valid = source <= limit
        else:
            source = here ^ wanted
            valid = source <= limit
        source = numpy.where(valid, source, here) + (lane - here)
        put(lanes, values[source])
        put_valid(lanes, valid)

    return step
