"""The stepper of mbarriers: a recorded run, an operation at a time, with what each barrier lacks.

The runs are the emulator's, made when the page is built: a kernel with one barrier, a ring of two
stages, and rings with one thing changed that never end. From a trace the stepper takes what touches
mbarriers; ``_static/mbarrier_stepper.js`` replays it by the arithmetic of ``Barrier`` below, which
tests/test_browser_mbarrier.py compares with the emulator and with what an H200 returned.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.emulator.backend import EmulatedGpu
from hopper.emulator.machine import WARP
from hopper.emulator.mbarrier import Mbarriers
from hopper.emulator.watch import Watch
from hopper.experiments.tma_launches import Ring, random_words
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

from .explorer import Explorer, select
from .figure import Figure
from .run_names import Names, warps_in_words
from .tma_pictures import mbarrier_phase

#: Of the ring that is shown: 2 KB a box, three turns of a stage.
RING, BOXES = Ring(stages=2, box_rows=16), 5
# Warps arrive one by one, copies land as late as they can.
EMULATOR = Emulator(schedule="random", seed=3, tma="lazy", on_hazard="collect")


@dataclass
class Barrier:
    """An mbarrier as PTX describes it. ``count``: arrivals of a phase; ``pending``: still missing
    in the phase that runs; ``tx``: bytes still missing; ``waiting``: (warp, parity).
    """

    count: int
    pending: int
    tx: int = 0
    phase: int = 0
    waiting: list[tuple[int, int]] = field(default_factory=list)

    def passes(self, parity: int) -> bool:
        """Whether a wait for the phase of this parity returns at once."""
        return parity != self.phase & 1

    def change(self, arrivals: int, bytes: int) -> bool:
        """Count arrivals, and bytes announced (or, negative, landed); whether the phase is over."""
        self.pending -= arrivals
        self.tx += bytes
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.count
        self.waiting = [one for one in self.waiting if not self.passes(one[1])]
        return True


@dataclass(frozen=True)
class Moment:
    """Something that happens to barrier ``barrier``; -1 for what changes none.

    ``kind``: "init" (``amount`` arrivals a phase), "arrive" (``amount`` arrivals and ``bytes``
    announced), "land" (``bytes``), "wait" (``warps`` for ``amount``, a parity), "pass" (the same,
    but the phase is over and they go on at once), "note", "end".
    """

    kind: str
    barrier: int
    words: str
    source: str = ""
    amount: int = 0
    bytes: int = 0
    warps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Story:
    """A run to step through. ``name``: in the list; ``barriers``: their names."""

    name: str
    barriers: tuple[str, ...]
    moments: tuple[Moment, ...]


def replay(story: Story) -> list[list[Barrier | None]]:
    """The barriers behind each moment, in the order of ``story.barriers``; None before init."""
    now: list[Barrier | None] = [None] * len(story.barriers)
    seen = []
    for moment in story.moments:
        apply(now, moment)
        seen.append([one and Barrier(**asdict(one)) for one in now])
    return seen


def apply(now: list[Barrier | None], moment: Moment) -> bool:
    """Let a moment happen; whether it completed a phase."""
    if moment.kind == "init":
        now[moment.barrier] = Barrier(moment.amount, moment.amount)
    elif moment.kind == "arrive":
        return now[moment.barrier].change(moment.amount, moment.bytes)
    elif moment.kind == "land":
        return now[moment.barrier].change(0, -moment.bytes)
    elif moment.kind == "wait":
        now[moment.barrier].waiting += [(warp, moment.amount) for warp in moment.warps]
    return False


# ---- from a trace -------------------------------------------------------------------------------


@contextmanager
def passes_told() -> Iterator[None]:
    """While it lasts, a trace also has "mbarrier.pass" for waits that return without waiting.

    Traces leave these out, because most of what reads them asks who waited. The watch is told of
    each, whatever comes of it.
    """
    plain = Watch.waited

    def waited(watch, lanes, places, done, *, relaxed: bool) -> None:
        plain(watch, lanes, places, done, relaxed=relaxed)
        barriers = watch.machine.unit(Mbarriers)
        seen = {}
        for lane, place in zip(lanes[done].tolist(), places[done].tolist(), strict=True):
            seen.setdefault((lane // WARP, place), lane)
        for (_, place), lane in seen.items():
            block, address = divmod(place, watch.machine.shared.window)
            parity = 1 - barriers.get(place).phase % 2
            watch.machine.event("mbarrier.pass", lane, parity=parity, address=address, owner=block)

    Watch.waited = waited
    try:
        yield
    finally:
        Watch.waited = plain


def _events(run: Run) -> list:
    """The first block's events. Of passes only those that nobody waited for before."""
    kept, waiting = [], set()
    for event in run.trace:
        if event.block > 0:
            continue
        if event.kind == "mbarrier.wait":
            waiting.add((event.warp, event.detail["address"]))
        elif event.kind == "warp.wait" and kept and kept[-1].kind == "mbarrier.wait":
            at = kept[-1].detail["address"]
            waiting |= {(warp, at) for warp in event.detail["warps"]}
        elif event.kind == "mbarrier.pass":
            who = event.warp, event.detail["address"]
            if who in waiting:  # it has waited, and now goes on
                waiting.remove(who)
                continue
        kept.append(event)
    return kept


def story(name: str, run: Run, program: Program) -> Story:
    """What the first block's mbarriers saw of a run."""
    events = _events(run)
    warps = program.facts.threads // 32
    known = Names(program, {}, warps)
    addresses = sorted({e.detail["address"] for e in events if e.kind == "mbarrier.init"})
    moments = []
    now: list[Barrier | None] = [None] * len(addresses)
    for event, behind in zip_longest(events, events[1:]):
        moment = _moment(event, behind, addresses, known)
        if moment is None:
            continue
        moments.append(_with_consequence(moment, now))
    for hazard in run.hazards[-1:]:
        moments.append(_ending(hazard, known))
    return Story(name, tuple(known.barrier(address) for address in addresses), tuple(moments))


def _moment(event, behind, addresses: Sequence[int], known: Names) -> Moment | None:
    detail, source = event.detail, known.source(event.line)
    if event.kind == "tma.copy" and "barrier" in detail:
        told = known.barrier(detail["barrier"][1])
        words = f"Warp {event.warp} asks TMA for {detail['bytes']:,} bytes, reported to {told}."
        return Moment("note", -1, words, source)
    if not event.kind.startswith("mbarrier.") or event.kind == "mbarrier.phase":
        return None
    barrier, name = addresses.index(detail["address"]), known.barrier(detail["address"])
    if event.kind == "mbarrier.complete_tx":
        words = f"TMA reports {detail['bytes']:,} bytes to {name}."
        return Moment("land", barrier, words, bytes=detail["bytes"])
    if event.kind == "mbarrier.wait":
        warps = [event.warp]
        if behind is not None and behind.kind == "warp.wait":
            warps = behind.detail["warps"]
        who = warps_in_words(sorted(warps))
        verb = "wait" if len(warps) > 1 else "waits"
        words = f"{who} {verb} for the phase of parity {detail['parity']} of {name}."
        return Moment("wait", barrier, words, source, detail["parity"], warps=tuple(warps))
    if event.kind == "mbarrier.pass":
        parity = detail["parity"]
        words = (
            f"Warp {event.warp} asks for parity {parity} of {name}. A phase of parity {1 - parity} "
            f"runs: it goes on at once."
        )
        return Moment("pass", barrier, words, source, parity, warps=(event.warp,))
    words = known.sentence(event, {})
    if event.kind == "mbarrier.init":
        return Moment("init", barrier, f"{words} Phase 0 begins.", source, detail["count"])
    return Moment("arrive", barrier, words, source, detail["count"], detail["bytes"])


def _with_consequence(moment: Moment, now: list[Barrier | None]) -> Moment:
    """The moment, with what follows from it in words."""
    it = now[moment.barrier] if moment.barrier >= 0 else None
    before = list(it.waiting) if it else []
    if not apply(now, moment):
        return moment
    gone = sorted({warp for warp, parity in before if (warp, parity) not in it.waiting})
    words = (
        f"{moment.words} Nothing is missing: phase {it.phase - 1} is complete, and phase "
        f"{it.phase} begins."
    )
    if gone:
        words += f" {warps_in_words(gone)} {'go' if len(gone) > 1 else 'goes'} on."
    return Moment(**(vars(moment) | {"words": words}))


def _ending(hazard, known: Names) -> Moment:
    """What the emulator says at last, and, where it knows better, the rule behind a deadlock."""
    kind, first = hazard.message.split(": ", 1)
    first = first.splitlines()[0].rstrip(".;")
    words = f"The emulator stops: {kind}. {first[0].upper()}{first[1:]}."
    if hazard.kind not in kind:
        words += f" The rule that was broken is {hazard.kind}."
    return Moment("end", -1, words, known.source(hazard.ptx_line))


_STUCK = re.compile(
    r"  block (?P<block>\(.*?\)) warp (?P<warp>\d+) .*?at PTX line (?P<line>\d+).*"
    r": mbarrier at shared address (?P<address>0x[0-9a-f]+) of .*?: waits for (?P<what>.*)"
)


def deadlock_in_words(program: Program, message: str) -> str:
    """The emulator's message of a deadlock with the barriers' names, alike warps in one line.

    Lines that tell of other things than an mbarrier, and other messages, stay as they are.
    """
    known = Names(program, {}, program.facts.threads // 32)
    lines: list[str] = []
    stuck: dict[tuple[str, str], list[int]] = {}
    for line in message.splitlines():
        found = _STUCK.match(line)
        if not found:
            lines.append(line)
            continue
        name = known.barrier(int(found["address"], 16))
        phase, _, lacks = found["what"].partition("; ")
        told = f"for {phase} of {name}: {lacks}\n    {known.source(int(found['line']))}"
        stuck.setdefault((found["block"], told), []).append(int(found["warp"]))
    for (block, told), warps in stuck.items():
        verb = "wait" if len(warps) > 1 else "waits"
        lines.append(f"  block {block}: {warps_in_words(sorted(warps)).lower()} {verb} {told}")
    return "\n".join(lines)


# ---- the runs -----------------------------------------------------------------------------------


#: Name, which a telephone shows whole in the list -> a piece of tma_ring.cu, and its replacement.
BROKEN = {
    "producer at parity 0": ("unsigned parity = 1;", "unsigned parity = 0;"),
    "16 bytes too many": (
        "mbarrier_arrive_expect_tx(&full[stage], BOX_BYTES);",
        "mbarrier_arrive_expect_tx(&full[stage], BOX_BYTES + 16);",
    ),
    "an arrival too many": (
        "mbarrier_init(&empty[stage], WARPS);",
        "mbarrier_init(&empty[stage], WARPS + 1);",
    ),
}


def changed_ring(change: tuple[str, str] | None = None) -> Program:
    """``tma_ring`` as RING has it, with one piece of its text replaced."""
    text = (KERNELS / "tma_ring.cu").read_text(encoding="utf-8")
    if change:
        assert text.count(change[0]) == 1, f"tma_ring.cu must have {change[0]!r} once"
        text = text.replace(*change)
    return compile_cuda(text, "tma_ring", defines=RING.defines, lineinfo=True)


def ring_run(program: Program, emulator: Emulator = EMULATOR) -> Run:
    """One block of it, BOXES boxes."""
    start, *_ = RING.launch(EmulatedGpu(emulator), program, random_words(40, 40), BOXES, 1)
    with passes_told():
        return start()


def single_run() -> tuple[Run, Program]:
    """``v1_wgmma``, one small tile and three steps along K: one barrier for all."""
    program = compile_cuda(
        KERNELS / "v1_wgmma.cu", defines={"TILE_M": 64, "TILE_N": 64}, lineinfo=True
    )
    a, b = Problem(64, 64, 192, distribution="integers").inputs()
    launch = plan(program, a, b, numpy.empty((64, 64), "float16"))
    with passes_told():
        run = EMULATOR.launch(
            program.ptx,
            program.kernel,
            launch.grid,
            launch.block,
            shared_bytes=program.facts.shared_bytes,
            args=launch.args,
        )
    return run, program


@cache
def stories() -> dict[str, Story]:
    """Every run to choose from, by a short key."""
    found = {}
    run, program = single_run()
    found["one"] = story("v1, three steps", run, program)
    program = changed_ring()
    found["ring"] = story("tma_ring, five boxes", ring_run(program), program)
    for number, (name, change) in enumerate(BROKEN.items()):
        program = changed_ring(change)
        found[f"broken{number}"] = story(f"{name}: hangs", ring_run(program), program)
    return found


# ---- the figure ---------------------------------------------------------------------------------

_CAPTION = (
    "Choose a run, then step through it. Each box is an mbarrier: the phase that runs, the "
    "arrivals and bytes that it still lacks, who waits, and what a wait for either parity would do "
    "now. The runs are the emulator's; it knows an order, and no time. In the last three, "
    "tma_ring has one thing changed."
)
_BUTTONS = (
    '<button type="button" name="back" aria-label="Step back">◀</button>'
    '<button type="button" name="forward" aria-label="Step forward">▶</button>'
    '<button type="button" name="play">Play</button>'
    '<input type="range" name="moment" min="0" value="0" step="1" aria-label="Moment">'
)
_COLUMNS = ("what happens", "phase", "arrivals missing", "bytes missing", "waiting")


def mbarrier_stepper(chosen: str = "ring") -> Explorer:
    """Step through what happens to the mbarriers of a run. ``chosen``: a key of ``stories``."""
    told = stories()
    drawing = mbarrier_phase()
    figure = Figure(
        title="mbarriers, one operation at a time",
        alt=drawing.alt,
        body=drawing.body,
        width=drawing.width,
        height=drawing.height,
        columns=_COLUMNS,
        rows=tuple(_rows(told[chosen])),
        caption=_CAPTION,
    )
    controls = select("story", "Run", {key: one.name for key, one in told.items()}, chosen)
    data = {"stories": {key: _plain(one) for key, one in told.items()}}
    return Explorer(
        "mbarrier_stepper", figure, data, controls + _BUTTONS, _after(told[chosen], figure)
    )


def _plain(one: Story) -> dict[str, Any]:
    keys = ("kind", "barrier", "words", "source", "amount", "bytes", "warps")
    moments = [[getattr(moment, key) for key in keys] for moment in one.moments]
    return {"name": one.name, "barriers": one.barriers, "moments": moments}


def _rows(one: Story) -> list[tuple[str, ...]]:
    """Each moment and the barrier that it concerns, in words."""
    rows = []
    for moment, barriers in zip(one.moments, replay(one), strict=True):
        it = barriers[moment.barrier] if moment.barrier >= 0 else None
        if it is None:
            rows.append((moment.words, "", "", "", ""))
            continue
        waiting = ", ".join(f"warp {warp} (parity {parity})" for warp, parity in it.waiting)
        name = one.barriers[moment.barrier]
        missing = (f"{it.pending} of {it.count}", f"{it.tx:,}".replace("-", "−"))
        rows.append((moment.words, f"{name}: {it.phase}", *missing, waiting or "nobody"))
    return rows


def _after(one: Story, figure: Figure) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in figure.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in figure.rows
    )
    label = html.escape(f"{one.name}, as a table")
    return (
        '<div class="wb-mbarrier-cards" hidden></div>'
        f"<details><summary>{label}</summary>"
        '<div class="wb-explorer-table wb-mbarrier-table" role="group" tabindex="0" '
        f'aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
