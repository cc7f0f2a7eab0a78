"""Runs of ``protocol_loop`` whose timelines also show ordinary stores and ``fence.proxy.async``.

A trace knows no ordinary stores: most kernels have too many. This one stores a tile of B in each
step, and that is half of its story. So its machine is watched here while it runs, and the timeline
gets the letters s and p, and a lane for each tile of B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy

from hopper.compile import Program
from hopper.emulator import Emulator, Run, Stopped
from hopper.emulator.hazards import Hazards
from hopper.emulator.instructions import Lanes
from hopper.emulator.launch import prepare
from hopper.emulator.machine import WARP, Machine
from hopper.emulator.ptx import Instruction, parse
from hopper.emulator.trace import Event, Trace, counted
from hopper.experiments.protocol_variants import KERNEL, ROWS, THREADS, inputs
from hopper.tensormap import TensorMap

from .run_model import run_model
from .run_names import Names, plain_name, warps_in_words
from .run_parts import Lane, Mark, Moment, RunModel, Span, Timed
from .run_tensor import Group, groups
from .run_timeline import LEGEND, RunTimeline

STORE, FENCE = "shared.store", "proxy.fence"
LETTERS = {STORE: "s", FENCE: "p"}
MEANINGS = {"s": "store to shared memory", "p": "fence.proxy.async"}
#: What the tiles are called that threads store.
STORED = "tile_b"


class _Observed(Machine):
    """A machine whose trace also has STORE, with the addresses ``low`` and ``high``, and FENCE."""

    def _operation(self, x: Instruction):  # noqa: ANN202  (private to the machine)
        operation = super()._operation(x)
        run = operation.run
        if x.opcode.startswith("st.shared"):
            address = self.address(x.operands[0])
            size = _bytes(x.opcode)

            def stores(lanes: Lanes) -> None:
                at = address(lanes)
                self._tell_of(STORE, lanes, low=int(at.min()), high=int(at.max()) + size)
                run(lanes)

            operation.run = stores
        elif x.opcode.startswith("fence.proxy.async"):

            def fences(lanes: Lanes) -> None:
                self._tell_of(FENCE, lanes)
                run(lanes)

            operation.run = fences
        return operation

    def _tell_of(self, kind: str, lanes: Lanes, **detail: object) -> None:
        mine = self.lanes(lanes)
        warps = numpy.unique(mine // WARP).tolist()
        self.event(kind, int(mine[0]), warps=warps, **detail)


def _bytes(opcode: str) -> int:
    """Bytes that a thread stores: "st.shared.v2.u32" stores 8."""
    *parts, kind = opcode.split(".")
    count = next((int(part[1:]) for part in parts if part in ("v2", "v4")), 1)
    return count * int(kind[1:]) // 8


@dataclass(frozen=True)
class Observed:
    """A run, and by address what the tiles of shared memory are called, and their bytes."""

    run: Run
    tiles: Mapping[int, tuple[str, int]]


def observed_run(program: Program, k: int, emulator: Emulator) -> Observed:
    """As ``protocol_variants.run``, one block, ``k`` deep; with stores and fences in the trace."""
    facts = program.facts
    a, b = inputs(1, facts.tile_n, k)
    c = numpy.full((ROWS, facts.tile_n), numpy.nan, "float32")
    kernel = parse(program.ptx, KERNEL)
    launch = prepare(
        kernel,
        1,
        THREADS,
        cluster=None,
        shared_bytes=0,
        args=(TensorMap(a, facts.a_box), b, c, numpy.int32(k)),
        schedule=emulator.schedule,
        seed=emulator.seed,
        tma=emulator.tma,
        step_limit=emulator.step_limit,
    )
    trace, executed = Trace(), numpy.zeros(len(kernel.code), numpy.int64)
    hazards = Hazards(collect=True)
    machine = _Observed(launch, range(1), trace, executed, hazards)
    try:
        machine.run()
    except Stopped as error:
        hazards.last = error.hazard
    counts = counted([x.opcode for x in kernel.code], executed)
    run = Run(counts, executed, trace, machine.steps, hazards.all, hazards.last is None)
    tiles = {}
    for variable, start in launch.shared_offsets.items():
        name = plain_name(variable)
        if name.startswith("tile_"):
            whole = next(one.bytes for one in kernel.variables if one.name == variable)
            size = whole // facts.stages
            tiles |= {
                start + stage * size: (f"{name}[{stage}]", size) for stage in range(facts.stages)
            }
    return Observed(run, tiles)


@dataclass(frozen=True)
class StoresTimeline(RunTimeline):
    """A timeline with two letters more."""

    def _letters(self) -> str:
        used = {mark.letter for lane in self.model.lanes for mark in lane.marks}
        letters = LEGEND | MEANINGS
        told = ", ".join(f"<b>{one}</b> {letters[one]}" for one in letters if one in used)
        return f'<p class="wb-run-letters">Letters: {told}.</p>' if told else ""


def stores_timeline(
    seen: Observed, program: Program, *, title: str, alt: str, roles: Mapping[str, Sequence[int]]
) -> StoresTimeline:
    """The timeline of an observed run. ``roles``: a lane for each, label -> warps."""
    names = {address: name for address, (name, _) in seen.tiles.items()}
    model = run_model(seen.run, program, warps=roles, names=names)
    return StoresTimeline(_with_stores(model, seen, program, roles), title, alt)


def _with_stores(
    model: RunModel, seen: Observed, program: Program, roles: Mapping[str, Sequence[int]]
) -> RunModel:
    """The model with marks, sentences, and lanes for tiles that threads store."""
    # A step of the machine is one instruction, and its first moment is that of the instruction:
    # what a unit does by itself comes behind it.
    moment_of: dict[int, int] = {}
    for number, moment in enumerate(model.moments):
        moment_of.setdefault(moment.step, number)
    known = Names(program, {at: name for at, (name, _) in seen.tiles.items()}, 1 << 20)
    timed = [
        Timed(moment_of[event.step], event)
        for event in seen.run.trace
        if event.step in moment_of and (event.kind in LETTERS or event.kind.startswith("wgmma"))
    ]
    deeds = [one for one in timed if one.event.kind in LETTERS]
    words = {one.moment: _sentence(one.event, seen.tiles) for one in deeds}
    moments = tuple(
        replace(moment, words=(words[number], *moment.words)) if number in words else moment
        for number, moment in enumerate(model.moments)
    )
    end = len(moments) - 1
    every = groups([one for one in timed if one.event.kind not in LETTERS], end, 0, 1 << 20)
    tiles = [
        Lane(name, "memory", tuple(_spans(deeds, every, address, size, end, known)))
        for address, (name, size) in sorted(seen.tiles.items())
        if name.startswith(STORED)
    ]
    lanes = []
    for lane in model.lanes:
        if lane.unit == "mbarrier":
            lanes += tiles
            tiles = []
        more = _marks(deeds, roles.get(lane.label, ()), moments, known)
        marks = sorted((*lane.marks, *more), key=lambda mark: mark.moment)
        lanes.append(replace(lane, marks=tuple(marks)))
    return replace(model, moments=moments, lanes=(*lanes, *tiles))


def _marks(
    deeds: Sequence[Timed], warps: Sequence[int], moments: Sequence[Moment], known: Names
) -> Iterator[Mark]:
    for one in deeds:
        if set(one.event.detail["warps"]) & set(warps):
            letter, words = LETTERS[one.event.kind], moments[one.moment].words[0]
            yield Mark(one.moment, letter, words, known.source(one.event.line))


def _sentence(event: Event, tiles: Mapping[int, tuple[str, int]]) -> str:
    warps = event.detail["warps"]
    who, ending = warps_in_words(warps), "s" if len(warps) == 1 else ""
    if event.kind == FENCE:
        return f"{who} execute{ending} fence.proxy.async."
    where = next(
        (name for address, (name, size) in tiles.items() if _meets(event, address, size)),
        "shared memory",
    )
    return f"{who} store{ending} to {where}."


def _meets(event: Event, address: int, size: int) -> bool:
    """Whether it is a store to these bytes."""
    if event.kind != STORE:
        return False
    return event.detail["low"] < address + size and address < event.detail["high"]


@dataclass(frozen=True)
class _State:
    """What is the case with a tile. Fields as those of a Span."""

    kind: str
    texts: tuple[str, ...]
    words: str


_STORED = _State("copy", ("stored", "s"), "threads store it")
_UNFENCED = _State(
    "copy",
    ("stored, no fence yet", "no fence", "…"),
    "threads have stored it, and not executed fence.proxy.async since",
)
_HOLDS = _State("holds", ("holds data", "data", "d"), "stored, and a fence.proxy.async behind it")
_READ = _State("read", ("wgmma reads it", "read", "r"), "wgmma reads it")
_CLASH = _State(
    "clash", ("stored while read", "clash", "!"), "stored while wgmma may still read it"
)
_TOO_EARLY = _State(
    "clash",
    ("read without a fence", "no fence", "!"),
    "wgmma may read it, and who stored it has executed no fence.proxy.async in between",
)
_UNWRITTEN = _State(
    "clash", ("read, never stored", "empty", "!"), "wgmma may read it, and nobody has stored it"
)
_BY_WGMMA = (_READ, _TOO_EARLY, _UNWRITTEN)


def _spans(
    deeds: Sequence[Timed],
    every: Sequence[Group],
    address: int,
    size: int,
    end: int,
    known: Names,
) -> Iterator[Span]:
    """Spans of one tile, moment by moment, equal neighbours joined."""
    reads = [
        group
        for group in every
        if any(low < address + size and address < high for low, high in group.reads)
    ]
    stores = [one for one in deeds if _meets(one.event, address, size)]
    states = [_state(moment, deeds, stores, reads) for moment in range(end)]
    begin = 0
    for state, alike in groupby(states):
        stop = begin + len(list(alike))
        if state:
            line = reads[0].line if state in _BY_WGMMA else stores[0].event.line
            yield Span(begin, stop, state.kind, state.texts, state.words, known.source(line))
        begin = stop


def _state(
    moment: int, deeds: Sequence[Timed], stores: Sequence[Timed], reads: Sequence[Group]
) -> _State | None:
    reading = [group for group in reads if group.begin <= moment < group.end]
    if any(group.begin <= one.moment <= moment for group in reading for one in stores):
        return _CLASH
    if any(one.moment == moment for one in stores):
        return _STORED
    if reading and not any(one.moment <= moment for one in stores):
        return _UNWRITTEN
    if reading:
        return _TOO_EARLY if _unfenced(deeds, stores, reading[-1].begin) else _READ
    if not any(one.moment <= moment for one in stores):
        return None
    return _UNFENCED if _unfenced(deeds, stores, moment) else _HOLDS


def _unfenced(deeds: Sequence[Timed], stores: Sequence[Timed], moment: int) -> bool:
    """Whether a warp has stored before, or in, a moment and not fenced since."""
    last: dict[int, int] = {}
    for one in stores:
        if one.moment <= moment:
            last |= dict.fromkeys(one.event.detail["warps"], one.moment)
    for one in deeds:
        if one.event.kind == FENCE and one.moment <= moment:
            for warp in one.event.detail["warps"]:
                if last.get(warp, one.moment) < one.moment:
                    del last[warp]
    return bool(last)
