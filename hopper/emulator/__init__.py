"""Run the book's kernels without a Hopper GPU: an interpreter of their PTX, in NumPy.

``Emulator().launch(program.ptx, "v1_wgmma", grid, block, args=…)`` executes the PTX that NVRTC made
of a kernel and changes the NumPy arrays that were passed, as the GPU would: every bit is the bit
that an H200 returns. It is no performance model: it knows no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from hopper.emulator import units  # noqa: F401  (enters the instructions)
from hopper.emulator.errors import (
    Deadlock,
    EmulatorError,
    Fault,
    LaunchError,
    PtxError,
    StepLimit,
    Stopped,
    Unsupported,
)
from hopper.emulator.hazards import ON_HAZARD, Hazard, HazardError, Hazards
from hopper.emulator.launch import Dim, prepare
from hopper.emulator.machine import Machine
from hopper.emulator.ptx import parse
from hopper.emulator.trace import Trace, counted

__all__ = [
    "Deadlock",
    "Emulator",
    "EmulatorError",
    "Fault",
    "Hazard",
    "HazardError",
    "LaunchError",
    "PtxError",
    "Run",
    "StepLimit",
    "Stopped",
    "Unsupported",
]

#: Lanes that are resident together at most: bounds the memory of a run.
WAVE_LANES = 132 * 1024
#: Bytes of registers and shared memory that a wave may take.
WAVE_BYTES = 1 << 30


@dataclass(frozen=True)
class Run:
    """What a launch leaves behind.

    ``counts``: executions of each opcode, counted once a warp. ``executed``: the same for each
    instruction of the kernel, in order. ``trace``: what happened, in order. ``steps``: NumPy
    operations on groups of warps that it took. ``hazards``: broken rules, where they are collected,
    and warnings. ``completed``: False where one of them ended the run, as Fault, Deadlock and
    StepLimit do: it is the last of ``hazards``, and arrays hold what was written until then.
    """

    counts: Counter[str]
    executed: numpy.ndarray
    trace: Trace
    steps: int
    hazards: tuple[Hazard, ...] = ()
    completed: bool = True


@dataclass(frozen=True)
class Emulator:
    """How to run.

    ``schedule``: "fixed" runs warps in step as far as they allow; "random" picks a warp and how far
    it runs, by ``seed``; "starved" is random too, but one warpgroup or one warp of every block,
    which the seed picks, hardly runs unless all others wait. ``tma``: when asynchronous copies
    land, "lazy" (as late as possible; the starved come still later), "eager" (at once) or "random".
    ``shared_skew``: bytes by which dynamic shared memory starts later, a multiple of 16: a kernel
    that needs more alignment than it asks for fails. A kernel is right only if every choice gives
    the same result. ``step_limit``: stops a kernel that spins. ``on_hazard``: a broken rule is
    raised ("raise"), gathered into ``Run.hazards`` ("collect"; also one that ends the run), or not
    looked for ("ignore"). Warnings are gathered and never raised.
    """

    schedule: str = "fixed"
    seed: int = 0
    tma: str = "lazy"
    shared_skew: int = 0
    step_limit: int = 5_000_000
    on_hazard: str = "raise"

    def launch(
        self,
        ptx: str,
        kernel: str,
        grid: Dim,
        block: Dim,
        cluster: Dim | None = None,
        shared_bytes: int = 0,
        args: Sequence[object] = (),
    ) -> Run:
        """Execute a kernel to its end.

        ``args``: C-contiguous NumPy arrays (changed in place), ``TensorMap`` over such arrays, and
        NumPy scalars, in the kernel's order. ``cluster``: as the kernel states it if left out.
        ``shared_bytes``: dynamic shared memory of a block.

        Raises PtxError, Unsupported and LaunchError before anything is executed; Fault, Deadlock,
        StepLimit and HazardError from an instruction, which they name and have as ``hazard``,
        unless hazards are collected.
        """
        if self.on_hazard not in ON_HAZARD:
            raise LaunchError(
                f"on_hazard={self.on_hazard!r}: choose one of {', '.join(map(repr, ON_HAZARD))}"
            )
        parsed = parse(ptx, kernel)
        launch = prepare(
            parsed,
            grid,
            block,
            cluster=cluster,
            shared_bytes=shared_bytes,
            args=args,
            shared_skew=self.shared_skew,
            schedule=self.schedule,
            seed=self.seed,
            tma=self.tma,
            step_limit=self.step_limit,
        )
        trace, executed = Trace(), numpy.zeros(len(parsed.code), numpy.int64)
        hazards = Hazards(self.on_hazard == "collect")
        watched = None if self.on_hazard == "ignore" else hazards
        steps = 0
        size = launch.cluster_size
        wave = max(1, _wave_blocks(launch) // size) * size
        for first in range(0, launch.block_count, wave):
            blocks = range(first, min(first + wave, launch.block_count))
            machine = Machine(launch, blocks, trace, executed, watched)
            try:
                machine.run()
            except Stopped as error:
                if not hazards.collect:
                    raise
                hazards.last = error.hazard
            steps += machine.steps
            if hazards.last:
                break
        counts = counted([x.opcode for x in parsed.code], executed)
        return Run(counts, executed, trace, steps, hazards.all, hazards.last is None)


def _wave_blocks(launch) -> int:
    """Blocks that are resident together: as many as a GPU's SMs hold, within the memory bounds."""
    lanes = -(-launch.threads // 128) * 128
    rows = sum(max(bits, 8) // 8 * count for bits, count in launch.kernel.rows.items())
    block_bytes = lanes * (rows + launch.local_bytes) + launch.shared_end
    return max(1, min(WAVE_LANES // lanes, WAVE_BYTES // block_bytes))
