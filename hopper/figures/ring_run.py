"""The timeline of a kernel with a ring of stages, its stages named: one block, a few steps of K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

from .ring_names import ring_names
from .run_timeline import RunTimeline, run_timeline


def ring_run(
    kernel: str, steps: int, emulator: Emulator | None = None, **defines: int
) -> tuple[Run, Program]:
    """A run of one block over so many steps of K, and its program with lines of CUDA C++."""
    program = compile_cuda(KERNELS / f"{kernel}.cu", kernel, defines=defines, lineinfo=True)
    facts = program.facts
    problem = Problem(facts.tile_m, facts.tile_n, steps * facts.tile_k)
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    launch = plan(program, *problem.inputs(), c)
    run = (emulator or Emulator()).launch(
        program.ptx,
        kernel,
        launch.grid,
        launch.block,
        args=launch.args,
        shared_bytes=facts.shared_bytes,
    )
    return run, program


def ring_timeline(
    kernel: str,
    *,
    steps: int,
    title: str,
    alt: str,
    caption: str = "",
    warps: Mapping[str, Sequence[int]] | None = None,
    window: tuple[int, int] | None = None,
    **defines: int,
) -> RunTimeline:
    """What one block of a kernel with a ring does in ``steps`` steps of K, in the emulator.

    ``window``: first and last step of the machine to show. ``defines``: as for the compiler.
    Others as for ``run_timeline``; raises ProblemError as it does.
    """
    run, program = ring_run(kernel, steps, **defines)
    return run_timeline(
        run,
        program,
        title=title,
        alt=alt,
        caption=caption,
        steps=window,
        warps=warps,
        names=ring_names(program),
    )
