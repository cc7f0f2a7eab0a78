"""Names of a ring's stages in shared memory, for a timeline of a run."""

from __future__ import annotations

from hopper.compile import Program
from hopper.emulator.spaces import SYSTEM_SHARED_BYTES

_ALIGNED = 1024  # where the kernels round the start of their ring up to
_ELEMENT = 2  # bytes


def ring_names(program: Program) -> dict[int, str]:
    """Shared address -> "A, stage 0": what a kernel with a ring of ``Stage``, v2 and later, has.

    A stage is the tile of A and behind it that of B; the ring begins behind the static variables.
    """
    facts = program.facts
    static = SYSTEM_SHARED_BYTES + program.resources.static_shared_bytes
    at = -(-static // _ALIGNED) * _ALIGNED
    names = {}
    for stage in range(facts.stages):
        for matrix, rows in (("A", facts.tile_m), ("B", facts.tile_n)):
            names[at] = f"{matrix}, stage {stage}"
            at += -(-rows * facts.tile_k * _ELEMENT // _ALIGNED) * _ALIGNED
    return names
