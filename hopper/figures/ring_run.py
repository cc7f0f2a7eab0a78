"""The timeline of a kernel with a ring of stages, its stages named: one block, a few steps of K."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.emulator.trace import Event
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

from .ring_names import ring_names
from .run_parts import RunModel
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
    timeline = run_timeline(
        replace(run, trace=replace(run.trace, events=with_waits(run.trace.events))),
        program,
        title=title,
        alt=alt,
        caption=caption,
        steps=window,
        warps=warps,
        names=ring_names(program),
    )
    return replace(timeline, model=_arriving_together(timeline.model))


def with_waits(events: Sequence[Event]) -> list[Event]:
    """Events with a ``warp.wait`` for each elected lane that waits.

    The emulator tells that a warp waits when all of its lanes do or have left. The lanes that were
    not elected may leave a step later, and then nothing is told until the warp goes on.
    """
    found: list[Event] = []
    looked: dict[tuple[int, int], int] = {}  # warp -> its last look at an mbarrier, in ``found``
    for event in events:
        warp = event.block, event.warp
        if event.kind == "mbarrier.wait":
            looked[warp] = len(found)
        elif event.kind == "warp.wake" and event.detail["warps"] == [event.warp] and warp in looked:
            at = looked.pop(warp)
            look = found[at]
            key = ("mbarrier", look.detail["address"])
            detail = {"warps": [event.warp], "on": key}
            found.insert(at + 1, replace(look, kind="warp.wait", detail=detail))
            looked = {one: place + (place > at) for one, place in looked.items()}
        elif event.kind in ("warp.wait", "warp.exit") or event.kind.startswith("tma"):
            looked.pop(warp, None)
        found.append(event)
    return found


_ARRIVES = re.compile(r"Warp (\d+) arrives at (empty\[\d+\])\.")


def _arriving_together(model: RunModel) -> RunModel:
    """The four warps of a consumer release a stage in one step; the trace names the first."""

    def said(words: str) -> str:
        return _ARRIVES.sub(lambda m: f"Warps {m[1]}–{int(m[1]) + 3} arrive at {m[2]}.", words)

    moments = tuple(
        replace(moment, words=tuple(map(said, moment.words))) for moment in model.moments
    )
    lanes = tuple(
        replace(lane, marks=tuple(replace(mark, words=said(mark.words)) for mark in lane.marks))
        for lane in model.lanes
    )
    return replace(model, moments=moments, lanes=lanes)
