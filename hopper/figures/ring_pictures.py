"""A ring of stages in pictures: what each holds step by step, two roles, one stage's barriers."""

from __future__ import annotations

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

_MOST_STAGES = 5
_LEFT, _RIGHT, _WIDTH, _HEIGHT, _GAP = 10.0, 224.0, 186.0, 44.0, 8.0


def asked_in_step(step: int, stages: int, steps: int) -> range:
    """Steps whose tiles v2 asks for at the start of ``step``: first all stages, then one more."""
    first = 0 if step == 0 else step - 1 + stages
    return range(min(first, steps), min(step + stages, steps))


def ring_schedule(stages: int, steps: int) -> Figure:
    """Which tiles each stage of v2 holds in each step: asked for, under way, multiplied.

    Raises ProblemError for more stages than the sheet has room for, or none.
    """
    if not 1 <= stages <= _MOST_STAGES:
        raise ProblemError(f"stages={stages}: the drawing has room for 1 to {_MOST_STAGES}")
    sheet = Canvas()
    label, height, top = 74.0, 38.0, 62.0
    wide = (WIDTH - 2 * MARGIN - label) / stages
    for stage in range(stages):
        middle = MARGIN + label + (stage + 0.5) * wide
        sheet.text(middle, 40, f"stage {stage}", bold=True, fit=wide)
    sheet.text(MARGIN, 40, "step", bold=True, anchor="start")
    sheet.text(MARGIN, 16, "numbers are steps of K: whose tiles a stage holds", anchor="start")
    told = []
    for step in range(steps):
        y = top + step * height
        sheet.text(MARGIN + 20, y + height / 2, str(step), size=BODY, bold=True)
        asked = asked_in_step(step, stages, steps)
        for stage in range(stages):
            held = step + (stage - step) % stages
            _cell(sheet, MARGIN + label + stage * wide, y, wide, height, held, step, asked, steps)
        words = f"asks for {' and '.join(map(str, asked))}" if asked else "asks for nothing"
        told.append(f"step {step} {words} and multiplies {step} in stage {step % stages}")
    y = top + steps * height + 16
    keys = (
        ("asked for now", "warm-soft", "warm", "diagonal", False),
        ("multiplied now", "accent-soft", "accent", None, False),
        ("under way or there", "panel", "muted", None, True),
    )
    for row, (words, fill, stroke, hatch, dashed) in enumerate(keys):
        at = y + 26 * row
        sheet.box(MARGIN, at - 9, 40, 18, fill=fill, stroke=stroke, hatch=hatch, dashed=dashed)
        sheet.text(MARGIN + 52, at, words, anchor="start")
    return sheet.figure(
        y + 26 * len(keys),
        title=f"v2 with {stages} stages: who is filled, and who is used",
        alt=f"A table of {steps} steps and {stages} stages. " + "; ".join(told) + ".",
    )


def _cell(
    sheet: Canvas, x: float, y: float, wide: float, height: float, held: int, step: int,
    asked: range, steps: int,
) -> None:  # fmt: skip
    """A stage in a step. Both what is asked for and what is multiplied, where a stage is both."""
    if held >= steps:
        sheet.text(x + wide / 2, y + height / 2, "–", fill="muted")
        return
    fill, stroke, hatch, dashed = "panel", "muted", None, True
    if held in asked:
        fill, stroke, hatch, dashed = "warm-soft", "warm", "diagonal", False
    place = (x + 2, y + 2, wide - 4, height - 4)
    if held == step and held in asked:
        sheet.box(*place, fill=fill, stroke=stroke, hatch=hatch)
        fill, stroke, hatch = "accent-soft", "accent", None
        place = (x + wide / 2, y + 5, wide / 2 - 5, height - 10)
        sheet.text(x + wide / 4, y + height / 2, str(held), halo="warm-soft")
        sheet.box(*place, fill=fill, stroke=stroke)
        sheet.text(x + 3 * wide / 4 - 2, y + height / 2, str(held), bold=True)
        return
    if held == step:
        fill, stroke, hatch, dashed = "accent-soft", "accent", None, False
    sheet.box(*place, fill=fill, stroke=stroke, hatch=hatch, dashed=dashed)
    sheet.text(
        x + wide / 2, y + height / 2, str(held), bold=held == step, halo=fill if hatch else None
    )


#: Of each role: name of a step, and what it says.
PRODUCE = (
    ("wait for empty", "the stage is free"),
    ("arrive at full", "so many bytes come"),
    ("ask TMA for A", "lands later"),
    ("ask TMA for B", "lands later"),
)
MULTIPLY = (
    ("wait for full", "both tiles are there"),
    ("wgmma.fence", "registers in order"),
    ("eight wgmmas", "will run"),
    ("commit_group", "closes a group"),
    ("wait_group<0>", "all have ended"),
    ("arrive at empty", "the stage is free"),
)


def two_roles() -> Figure:
    """What v3's producer warp and its consumer warpgroup do in a step, and who waits for whom."""
    sheet = Canvas()
    for x, who, does in (
        (_LEFT, "warp 4", "one lane: the producer"),
        (_RIGHT, "warps 0–3", "the consumer"),
    ):
        sheet.text(x + _WIDTH / 2, 18, who, size=BODY, bold=True)
        sheet.text(x + _WIDTH / 2, 40, does, fill="muted", fit=_WIDTH + 16)
    for x, steps in ((_LEFT, PRODUCE), (_RIGHT, MULTIPLY)):
        rows = len(steps) * (_HEIGHT + _GAP)
        sheet.box(x - 6, 58, _WIDTH + 12, rows + 8, fill="paper", dashed=True)
        for number, step in enumerate(steps):
            _step(sheet, x, _top(number), *step)
    # full: completed by the bytes, so the arrow leaves from where they are asked for.
    _across(sheet, _middle(3) - 8, _middle(0) - 8, _LEFT + _WIDTH, _RIGHT, 204, "leaf", False)
    _across(sheet, _middle(5), _middle(0) + 10, _RIGHT, _LEFT + _WIDTH, 216, "warm", True)
    y = _top(4) + 14
    for row, (words, stroke, dashed) in enumerate(
        (("full: bytes landed", "leaf", False), ("empty: all released", "warm", True))
    ):
        at = y + 26 * row
        sheet.line([(_LEFT, at), (_LEFT + 26, at)], stroke=stroke, width=2, dashed=dashed)
        sheet.text(_LEFT + 32, at, words, anchor="start")
    sheet.text(_LEFT, y + 52, "Each dashed frame", anchor="start", fill="muted")
    sheet.text(_LEFT, y + 70, "is a loop over K.", anchor="start", fill="muted")
    return sheet.figure(
        _top(6) + 14,
        title="Two roles, two loops, two barriers for each stage",
        alt="Two columns. The producer, one lane of warp 4, waits for empty, arrives at full and "
        "announces bytes, asks TMA for A and for B. The consumer, warps 0 to 3, waits for full, "
        "executes wgmma.fence, issues eight wgmmas, commits the group, waits until all have ended, "
        "and arrives at empty. One arrow leads from the asking, by the bytes that land, to the "
        "wait for full; one from the arrival at empty to the wait for empty. No other tie holds "
        "the two loops together.",
    )


def _top(number: int) -> float:
    return 66 + number * (_HEIGHT + _GAP)


def _middle(number: int) -> float:
    return _top(number) + _HEIGHT / 2


def _step(sheet: Canvas, x: float, y: float, name: str, says: str, stroke: str = "") -> None:
    fill, usual = ("plum-soft", "plum") if name.startswith("wait") else ("panel", "line")
    sheet.box(x, y, _WIDTH, _HEIGHT, fill=fill, stroke=stroke or usual)
    sheet.text(x + _WIDTH / 2, y + 14, name, bold=True, fit=_WIDTH)
    sheet.text(x + _WIDTH / 2, y + 32, says, fit=_WIDTH)


def _across(
    sheet: Canvas, y0: float, y1: float, x0: float, x1: float, track: float, stroke: str,
    dashed: bool,
) -> None:  # fmt: skip
    """From a box's side along a track between the columns to another box's side."""
    sheet.line([(x0, y0), (track, y0), (track, y1)], stroke=stroke, width=2, dashed=dashed)
    sheet.arrow((track, y1), (x1, y1), stroke=stroke)


def stage_life(turns: int, announced: int) -> Figure:
    """One stage of v3 through its turns: who waits for which parity, what ends which phase.

    ``announced``: bytes of a stage.
    """
    sheet = Canvas()
    for x, who in ((_LEFT, "producer"), (_RIGHT, "consumer")):
        sheet.text(x + _WIDTH / 2, 18, who, size=BODY, bold=True)
    told, row = [], 0
    for turn in range(turns):
        parity = turn % 2
        free = "passes at once" if turn == 0 else f"phase {turn - 1} ended"
        cells = (
            (_LEFT, f"wait empty, {1 - parity}", free),
            (_LEFT, "announce, ask", f"1 arrival, {announced // 1024} KB"),
            (_RIGHT, f"wait full, {parity}", f"phase {turn} ended"),
            (_RIGHT, "multiply, release", "4 arrivals"),
        )
        for number, (x, name, says) in enumerate(cells):
            y = 40 + row * (_HEIGHT + _GAP)
            _step(sheet, x, y, name, says)
            if number in (1, 3):
                _ends(sheet, x, y, "full" if number == 1 else "empty", turn)
            row += 1
        told.append(
            f"Turn {turn}: the producer waits for empty with parity {1 - parity}, which "
            f"{'passes at once' if turn == 0 else f'waits until phase {turn - 1} has ended'}; it "
            f"announces {announced:,} bytes and asks; its arrival and the bytes end phase {turn} "
            f"of full; the consumer waits for full with parity {parity}, multiplies, and four "
            f"arrivals end phase {turn} of empty."
        )
    bottom = 40 + row * (_HEIGHT + _GAP)
    return sheet.figure(
        bottom + 8,
        title=f"One stage, {turns} turns: the parity in each wait, and what ends each phase",
        alt=" ".join(told),
        caption="Time runs down. Behind each wait stands the parity that it names.",
    )


def _ends(sheet: Canvas, x: float, y: float, barrier: str, phase: int) -> None:
    """An arrow from a box to the other column, with the phase that it ends."""
    rightwards = x < WIDTH / 2
    start, end = (x + _WIDTH, x + _WIDTH + 20) if rightwards else (x, x - 20)
    stroke = "leaf" if rightwards else "warm"
    sheet.arrow((start, y + _HEIGHT / 2), (end, y + _HEIGHT / 2), stroke=stroke)
    at = end + 6 if rightwards else end - 6
    anchor = "start" if rightwards else "end"
    words = f"ends {barrier}, phase {phase}"
    sheet.text(at, y + _HEIGHT / 2, words, anchor=anchor, fill=stroke, fit=_WIDTH)
