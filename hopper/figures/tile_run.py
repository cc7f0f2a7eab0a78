"""The timeline of a persistent kernel, tile by tile: who is in which tile, in an emulated run.

One block takes several tiles. A lane of the producer, one of each consumer, one of the warp that
stores; where a consumer packs, and where TMA reads what it packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

from .run_copies import copies
from .run_model import run_model
from .run_parts import Lane, Moment, RunModel, Span, Timed
from .run_tensor import groups
from .run_timeline import RunTimeline

_LOADS = 2  # copies a step: a tile of A and one of B
_CONSUMERS = 2
_WARPS = 4  # of a consumer
_SLOTS = 2


@dataclass(frozen=True)
class TileRun:
    """One block of a persistent kernel on ``tiles`` tiles of C of ``steps`` steps each."""

    run: Run
    program: Program
    tiles: int
    steps: int

    def lanes(self, timed: Sequence[Timed], end: int) -> list[Lane]:
        """Lanes of a timeline, from what happened and the moment behind the last."""
        every = copies(timed, end)
        loads = [one for one in every if one.writes]
        stores = [one for one in every if one.reads]
        products = [one for one in groups(timed, end, 0, 1 << 20) if one.reader == "wgmma"]
        packed = self._packed(timed)
        asked, landed = [], []
        for tile in range(self.tiles):
            mine = loads[tile * self.steps * _LOADS : (tile + 1) * self.steps * _LOADS]
            first, last = mine[0].begin, mine[-1].begin + 1
            words = f"the producer asks for what tile {tile} needs, {self.steps} steps"
            asked.append(_span(first, last, "run", tile, words))
            done = max(one.end for one in mine)
            words = f"copies for tile {tile} are under way, or have landed in part"
            landed.append(_span(first, done, "copy", tile, words))
        waits = "waits for a free stage, or has asked for everything"
        states = [(0, "has not asked for anything")]
        for span in asked:
            states += [(span.begin, span.words), (span.end, waits)]
        lanes = [Lane("producer asks", "warps", tuple(asked), (), tuple(states))]
        lanes += [
            Lane(f"TMA loads{' · 2' * row}", "tma", tuple(landed[row::2])) for row in range(2)
        ]
        for consumer in range(_CONSUMERS):
            own = [one for one in products if one.warps[0] == consumer * _WARPS]
            spans = []
            for tile in range(self.tiles):
                begin = own[tile * self.steps].begin
                stop = own[(tile + 1) * self.steps - 1].end
                words = f"consumer {consumer} multiplies tile {tile}"
                spans.append(_span(begin, stop, "product", tile, words))
                words = f"consumer {consumer} packs tile {tile} into the outbox"
                spans.append(
                    Span(stop, packed[consumer][tile], "holds", (f"packs {tile}", "p"), words)
                )
            lanes.append(Lane(f"consumer {consumer}", "tensor", tuple(spans)))
        per_use = len(stores) // (self.tiles * _CONSUMERS * _SLOTS)
        slots: list[list[Span]] = [[] for _ in range(_SLOTS)]
        for use in range(self.tiles * _CONSUMERS * _SLOTS):
            mine = stores[use * per_use : (use + 1) * per_use]
            tile, consumer, slot = use // 4, use // 2 % 2, use % 2
            words = f"TMA reads slot {slot}: tile {tile}, of consumer {consumer}"
            texts = (f"{tile} of consumer {consumer}", f"{tile} of {consumer}", f"{tile}")
            slots[slot].append(Span(mine[0].begin, mine[-1].read, "read", texts, words))
        lanes += [
            Lane(f"TMA stores slot {slot}", "tma", tuple(spans)) for slot, spans in enumerate(slots)
        ]
        return lanes

    def _packed(self, timed: Sequence[Timed]) -> list[list[int]]:
        """By consumer and tile: the moment behind its last arrival at the outbox."""
        inits = [t.event.detail["address"] for t in timed if t.event.kind == "mbarrier.init"]
        # Behind those of the ring, slot by slot: staged, and drained of either consumer.
        staged = inits[2 * self.program.facts.stages + 3]  # of slot 1, the second half
        found: list[list[int]] = [[] for _ in range(_CONSUMERS)]
        arrived = [0] * _CONSUMERS
        for t in timed:
            event = t.event
            if event.kind == "mbarrier.arrive" and event.detail["address"] == staged:
                consumer = event.warp // _WARPS
                if consumer >= _CONSUMERS:
                    continue
                arrived[consumer] += event.detail["count"]
                if arrived[consumer] == _WARPS * (len(found[consumer]) + 1):
                    found[consumer].append(t.moment)
        return found


def _span(begin: int, end: int, kind: str, tile: int, words: str) -> Span:
    return Span(begin, end, kind, (f"tile {tile}", f"{tile}"), words)


def tile_run(
    kernel: str, *, tiles: int, steps: int, emulator: Emulator | None = None, **defines: int
) -> TileRun:
    """Run one block of a persistent kernel on a column of ``tiles`` tiles of C."""
    program = compile_cuda(KERNELS / f"{kernel}.cu", kernel, defines=defines, lineinfo=True)
    facts = program.facts
    problem = Problem(tiles * facts.tile_m, facts.tile_n, steps * facts.tile_k)
    c = numpy.full((problem.m, problem.n), numpy.nan, facts.dtype)
    launch = plan(program, *problem.inputs(), c, blocks=1)
    run = (emulator or Emulator()).launch(
        program.ptx,
        kernel,
        launch.grid,
        launch.block,
        args=launch.args,
        shared_bytes=facts.shared_bytes,
    )
    return TileRun(run, program, tiles, steps)


def tile_timeline(
    kernel: str,
    *,
    tiles: int,
    steps: int,
    title: str,
    alt: str,
    caption: str = "",
    **defines: int,
) -> RunTimeline:
    """Who is in which tile, in the emulator: one block of v7 on ``tiles`` tiles of C.

    ``defines``: as for the compiler. Others as for ``run_timeline``.
    """
    found = tile_run(kernel, tiles=tiles, steps=steps, **defines)
    model = condensed(run_model(found.run, found.program, lanes_of=found.lanes))
    return RunTimeline(model, title, alt, caption)


def condensed(model: RunModel) -> RunModel:
    """Only the moments at which a span begins or ends, which are told in its words."""
    spans = [span for lane in model.lanes for span in lane.spans]
    kept = sorted({0, *(moment for one in spans for moment in (one.begin, one.end))})
    place = {moment: index for index, moment in enumerate(kept)}
    lanes = tuple(
        replace(
            lane,
            spans=tuple(
                replace(one, begin=place[one.begin], end=place[one.end]) for one in lane.spans
            ),
            states=tuple((place[moment], words) for moment, words in lane.states),
        )
        for lane in model.lanes
    )
    moments = []
    for moment in kept:
        begun = [f"Begins: {one.words}." for one in spans if one.begin == moment]
        ended = [f"Ends: {one.words}." for one in spans if one.end == moment]
        words = (*ended, *begun) or ("The block starts.",)
        moments.append(Moment(model.moments[moment].step, words))
    return replace(model, moments=tuple(moments), lanes=lanes)
