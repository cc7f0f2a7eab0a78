"""An epilogue in which consumers take turns on one buffer: who waits, and who stores."""

from __future__ import annotations

from dataclasses import replace

from .ring_run import ring_run
from .run_timeline import RunTimeline, run_timeline

_BUFFER = "the buffer"
_STEPS = 2  # along K: what comes before the epilogue does not matter


def turns(kernel: str, *, title: str, alt: str, caption: str = "", **defines: int) -> RunTimeline:
    """The end of one block of a kernel that stores by TMA, in the emulator.

    From the first consumer's last product on: a lane for each consumer, the stores, the buffer.
    ``defines``: as for the compiler; others as for ``run_timeline``.
    """
    run, program = ring_run(kernel, _STEPS, **defines)
    stores = [event for event in run.trace.of("tma.issue") if event.detail["what"] == "store"]
    done = min(event.step for event in run.trace.of("wgmma.wait") if not event.detail["pending"])
    consumers = range(program.facts.threads // 128 - 1)
    timeline = run_timeline(
        run,
        program,
        title=title,
        alt=alt,
        caption=caption,
        steps=(done, run.trace.events[-1].step),
        warps={f"consumer {number}": range(4 * number, 4 * number + 4) for number in consumers},
        names={stores[0].detail["source"]: _BUFFER},
    )
    lanes = tuple(
        lane
        for lane in timeline.model.lanes
        if lane.unit == "warps" or lane.label == _BUFFER or (lane.unit == "tma" and lane.spans)
    )
    return replace(timeline, model=replace(timeline.model, lanes=lanes))
