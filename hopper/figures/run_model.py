"""What a timeline of an emulated run shows, read from its trace: moments, lanes, broken rules.

The emulator knows no time. Its trace knows an order: every event carries the number of steps that
the machine had taken. A *moment* is a place in that order at which something happens; what an
asynchronous unit does is a moment of its own, also where the machine took no step for it. A lane is
a row of the drawing: who, or what, is in which state from one moment to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from hopper.compile import Program
from hopper.emulator import Run
from hopper.emulator.trace import Event
from hopper.errors import ProblemError

from .run_copies import copy_lanes, memory_lanes
from .run_mbarriers import mbarrier_lanes
from .run_names import Names
from .run_parts import Broken, Lane, Moment, RunModel, Span, Timed
from .run_tensor import tensor_lanes
from .run_warps import warp_lanes

#: What an asynchronous unit does by itself begins a moment; what follows from it belongs to it.
_ASYNCHRONOUS = ("tma.complete", "tma.read")
_FOLLOWS = ("mbarrier.complete_tx", "mbarrier.phase", "warp.wake", "cluster.phase")
#: As many are drawn at most: v1 has 53 for three steps along K.
MOMENTS = 1200


def run_model(
    run: Run,
    program: Program,
    *,
    blocks: Sequence[int] = (0,),
    steps: tuple[int, int] | None = None,
    warps: Mapping[str, Sequence[int]] | None = None,
    names: Mapping[int, str] | None = None,
    lanes_of: Callable[[Sequence[Timed], int], list[Lane]] | None = None,
) -> RunModel:
    """The model of a run. Parameters as those of ``run_timeline``; raises ProblemError as it does.

    ``lanes_of``: makes lanes of a figure's own, in place of all others, from what happened and the
    moment behind the last. Only the first wave of blocks is looked at: those that are resident
    together from the start.
    """
    events = list(_first_wave(run.trace.events))
    last = events[-1].step if events else 0
    first_step, last_step = steps or (0, max(last, run.steps))
    if first_step >= last_step:
        raise ProblemError(f"steps={steps}: a window needs its first step before its last")
    per_block = _warps_a_block(events)
    known = Names(program, names or {}, per_block)
    known.learn(events)
    mine = [event for event in events if _concerns(event, blocks, per_block)]
    mine = _once(_landings_of_known_copies(mine), known)
    seen = [event for event in mine if event.step <= last_step]
    if not seen:
        raise ProblemError(
            f"blocks={tuple(blocks)}, steps={steps}: nothing in the trace of this run; blocks are "
            f"numbered by their place in the first wave, from 0"
        )
    timed = _timed(seen)
    end = timed[-1].moment + 1
    if end > MOMENTS:
        raise ProblemError(
            f"steps={steps}: {end:,} moments; a timeline shows {MOMENTS:,} at most; choose a "
            f"window with steps=(first, last), fewer blocks, or a smaller problem"
        )
    lanes = lanes_of(timed, end) if lanes_of else []
    for block in () if lanes_of else blocks:
        prefix = f"block {block} " if len(blocks) > 1 else ""
        lanes += warp_lanes(timed, end, block, per_block, warps, known, prefix)
        lanes += copy_lanes(timed, end, block, known, prefix)
        lanes += tensor_lanes(timed, end, block, per_block, known, prefix)
        lanes += memory_lanes(timed, end, block, per_block, known, prefix)
        lanes += mbarrier_lanes(timed, end, block, known, prefix)
    moments = [*_moments(timed, known, len(blocks) > 1), _last_moment(run, seen, last_step)]
    elsewhere = {_found(event) for event in events if event.kind == "hazard"}
    if last_step < run.steps:
        elsewhere |= {(hazard.kind, hazard.ptx_line) for hazard in run.hazards}
    broken = _broken(run, timed, end, known, elsewhere)
    for one in broken:
        said = f"{one.heading}: {one.words.split('; ')[0]}."
        moments[one.moment] = replace(
            moments[one.moment], words=(*moments[one.moment].words, said), source=one.source
        )
    model = RunModel(
        program.kernel, run.steps, tuple(moments), tuple(lanes), broken, run.trace.dropped
    )
    return _from(model, first_step)


def _first_wave(events: Sequence[Event]) -> Iterator[Event]:
    """Events until the machine of the next wave starts to count its steps anew."""
    before = 0
    for event in events:
        if event.step < before:
            return
        before = event.step
        yield event


def _landings_of_known_copies(events: Sequence[Event]) -> list[Event]:
    copies = {event.detail["copy"] for event in events if event.kind == "tma.copy"}
    return [
        event
        for event in events
        if event.kind not in _ASYNCHRONOUS or event.detail["copy"] in copies
    ]


def _once(events: Sequence[Event], known: Names) -> list[Event]:
    """Events with each broken rule once a line of source: a rule is often broken by many."""
    kept, told = [], set()
    for event in events:
        if event.kind == "hazard":
            rule = (event.detail["hazard"], known.place(event.detail["found_at"]))
            if rule in told:
                continue
            told.add(rule)
        kept.append(event)
    return kept


def _warps_a_block(events: Sequence[Event]) -> int:
    """Places that a block has for warps, from any event of a block other than the first."""
    for event in events:
        warps = event.detail.get("warps")
        if warps and event.block > 0:
            return (warps[0] - event.warp) // event.block
    return 1 << 20  # all events are of block 0


def _concerns(event: Event, blocks: Sequence[int], per_block: int) -> bool:
    detail = event.detail
    if "warps" in detail:
        return any(warp // per_block in blocks for warp in detail["warps"])
    if "owner" in detail:
        return detail["owner"] in blocks
    if "writes" in detail:
        return event.block in blocks or detail["writes"][0] in blocks
    return event.block in blocks or event.kind in _ASYNCHRONOUS


def _timed(events: Sequence[Event]) -> list[Timed]:
    timed: list[Timed] = []
    step, moment, by_itself = -1, -1, False
    for event in events:
        follows = event.kind in _FOLLOWS
        begins = event.kind in _ASYNCHRONOUS
        if event.step != step or begins or (by_itself and not follows):
            moment += 1
            by_itself = begins
        step = event.step
        timed.append(Timed(moment, event))
    return timed


def _moments(timed: Sequence[Timed], known: Names, many: bool) -> Iterator[Moment]:
    grouped: dict[int, list[Event]] = {}
    copies = {t.event.detail["copy"]: t.event for t in timed if t.event.kind == "tma.copy"}
    for t in timed:
        grouped.setdefault(t.moment, []).append(t.event)
    for events in grouped.values():
        words = []
        for event in _woken_together(events):
            if said := known.sentence(event, copies):
                one_block = many and event.block >= 0 and "warps" not in event.detail
                words.append(f"Block {event.block}: {said}" if one_block else said)
        line = next((line for event in events if (line := _line(event))), 0)
        yield Moment(events[0].step, tuple(dict.fromkeys(words)), known.source(line))


def _woken_together(events: Sequence[Event]) -> list[Event]:
    """Events of a moment, with warps that were parked one by one and go on as one."""
    woken = [event for event in events if event.kind == "warp.wake"]
    if len(woken) < 2:
        return list(events)
    warps = sorted(warp for event in woken for warp in event.detail["warps"])
    together = replace(woken[0], detail={"warps": warps})
    return [*(event for event in events if event.kind != "warp.wake"), together]


def _line(event: Event) -> int:
    """The line of PTX that an event comes from, also where an asynchronous unit caused it."""
    return event.line or int(event.detail.get("issued_at", 0))


def _last_moment(run: Run, seen: Sequence[Event], last_step: int) -> Moment:
    if last_step < run.steps:
        return Moment(last_step, ("The drawing ends here, the run does not.",))
    if not run.completed:
        return Moment(max(seen[-1].step, run.steps), ("The run stops here.",))
    return Moment(max(seen[-1].step, run.steps), ("The last thread has left.",))


def _found(event: Event) -> tuple[str, int]:
    return event.detail["hazard"], event.detail["found_at"]


def _broken(
    run: Run,
    timed: Sequence[Timed],
    end: int,
    known: Names,
    elsewhere: set[tuple[str, int]],
) -> tuple[Broken, ...]:
    """Broken rules of the moments that are drawn; ``elsewhere``: found outside, left out."""
    at = {_found(t.event): t.moment for t in timed if t.event.kind == "hazard"}
    found: dict[tuple[str, str], Broken] = {}
    for hazard in run.hazards:
        mark, key = (hazard.kind, hazard.ptx_line), (hazard.kind, known.place(hazard.ptx_line))
        if key in found:
            found[key] = replace(found[key], more=found[key].more + 1)
        elif mark in at or mark not in elsewhere:
            # What ends a run is no event of its trace: it is the last thing that happens.
            found[key] = Broken(
                at.get(mark, end),
                hazard.kind,
                _first_line(hazard.message),
                known.source(hazard.ptx_line),
                hazard.threads,
                warning=hazard.warning,
            )
    return tuple(sorted(found.values(), key=lambda one: one.moment))


def _first_line(message: str) -> str:
    """Without the lines behind it, which repeat where it happened."""
    return message.split("\n")[0]


def _from(model: RunModel, first_step: int) -> RunModel:
    """The model without the moments before a step; what lasts into the window is cut there."""
    skip = next((i for i, m in enumerate(model.moments) if m.step >= first_step), 0)
    if not skip:
        return model

    def span(one: Span) -> Span:
        return replace(one, begin=max(one.begin - skip, 0), end=one.end - skip)

    lanes = (
        replace(
            lane,
            spans=tuple(span(one) for one in lane.spans if one.end > skip),
            marks=tuple(
                replace(one, moment=one.moment - skip) for one in lane.marks if one.moment >= skip
            ),
            states=_states_from(lane.states, skip),
        )
        for lane in model.lanes
    )
    broken = (replace(one, moment=one.moment - skip) for one in model.broken if one.moment >= skip)
    return replace(model, moments=model.moments[skip:], lanes=tuple(lanes), broken=tuple(broken))


def _states_from(states: tuple[tuple[int, str], ...], skip: int) -> tuple[tuple[int, str], ...]:
    before = [words for moment, words in states if moment <= skip][-1:]
    after = [(moment - skip, words) for moment, words in states if moment > skip]
    return (*((0, words) for words in before), *after)
