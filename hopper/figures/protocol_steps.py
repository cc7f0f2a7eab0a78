"""The steps of ``protocol_loop``: two roles, what each step says, and the two barriers between."""

from __future__ import annotations

from .canvas import BODY, Canvas
from .figure import Figure

#: Of each part: name of a step, and what it says to the others or to the machine.
BRING = (
    ("wait for empty", "the stage is free"),
    ("ask TMA for A", "bytes land later"),
    ("store B", "ordinary stores"),
    ("fence.proxy.async", "memory in order"),
    ("arrive at full", "B is stored"),
)
MULTIPLY = (
    ("wait for full", "both tiles are there"),
    ("wgmma.fence", "registers in order"),
    ("four wgmmas", "will run"),
    ("commit_group", "closes a group"),
    ("wait_group<1>", "older groups ended"),
    ("arrive at empty", "their stage is free"),
)
END = (("wait_group<0>", "all groups ended"), ("store the sums", ""))
_LEFT, _RIGHT, _WIDTH, _HEIGHT, _GAP = 10.0, 228.0, 182.0, 44.0, 8.0
_TOP = 66.0


def protocol_steps(title: str = "Two roles, two barriers, and the steps in each loop") -> Figure:
    """What warps 4–7 and warps 0–3 do in a step, and who waits for whom."""
    sheet = Canvas()
    for x, who, does in (
        (_LEFT, "warps 4–7", "bring the tiles"),
        (_RIGHT, "warps 0–3", "multiply"),
    ):
        middle = x + _WIDTH / 2
        sheet.text(middle, 18, who, size=BODY, bold=True)
        sheet.text(middle, 40, does, fill="muted")
    height = _TOP + 6 * (_HEIGHT + _GAP)
    for x, steps in ((_LEFT, BRING), (_RIGHT, MULTIPLY)):
        rows = len(steps) * (_HEIGHT + _GAP)
        sheet.box(x - 6, _TOP - 8, _WIDTH + 12, rows + 8, fill="paper", dashed=True)
        for number, step in enumerate(steps):
            _box(sheet, x, _top(number), *step)
    for number, step in enumerate(END):
        _box(sheet, _RIGHT, height + 10 + number * (_HEIGHT + _GAP), *step)
    sheet.text(_LEFT + 4, _top(5) + 12, "A dashed frame is a", anchor="start", fill="muted")
    sheet.text(_LEFT + 4, _top(5) + 32, "loop over steps of K.", anchor="start", fill="muted")
    left, right = _LEFT + _WIDTH, _RIGHT
    _arrow(sheet, _middle(4) - 8, _middle(0) - 12, left, right, 202, "leaf")
    _arrow(sheet, _middle(1) - 8, _middle(0) - 2, left, right, 210, "accent")
    _arrow(sheet, _middle(5) + 8, _middle(0) + 12, right, left, 218, "warm", dashed=True)
    _key(sheet, height + 22)
    return sheet.figure(
        height + 10 + len(END) * (_HEIGHT + _GAP) + 4,
        title=title,
        alt="Two columns of steps. Warps 4 to 7 wait for empty, ask TMA for A, store B, execute "
        "fence.proxy.async and arrive at full. Warps 0 to 3 wait for full, execute wgmma.fence, "
        "issue four wgmmas, commit a group, wait until older groups have ended, and arrive at "
        "empty; behind their loop they wait for all groups and store the sums. Two arrows lead "
        "to the wait for full: one from the arrival at full, one from the request to TMA, whose "
        "bytes are the other half. One leads from the arrival at empty to the wait for empty.",
    )


def _top(number: int) -> float:
    return _TOP + number * (_HEIGHT + _GAP)


def _middle(number: int) -> float:
    return _top(number) + _HEIGHT / 2


def _box(sheet: Canvas, x: float, y: float, name: str, says: str) -> None:
    waits = name.startswith("wait")
    fill, stroke = ("plum-soft", "plum") if waits else ("panel", "line")
    sheet.box(x, y, _WIDTH, _HEIGHT, fill=fill, stroke=stroke)
    if says:
        sheet.text(x + _WIDTH / 2, y + 14, name, bold=True, fit=_WIDTH)
        sheet.text(x + _WIDTH / 2, y + 32, says, fit=_WIDTH)
    else:
        sheet.text(x + _WIDTH / 2, y + _HEIGHT / 2, name, bold=True, fit=_WIDTH)


def _arrow(
    sheet: Canvas,
    y0: float,
    y1: float,
    x0: float,
    x1: float,
    track: float,
    stroke: str,
    *,
    dashed: bool = False,
) -> None:
    """From a box's side along a track between the columns to another box's side."""
    width = 3.5 if stroke == "accent" else 2
    sheet.line([(x0, y0), (track, y0), (track, y1)], stroke=stroke, width=width, dashed=dashed)
    sheet.arrow((track, y1), (x1, y1), stroke=stroke)


def _key(sheet: Canvas, y: float) -> None:
    for number, (name, stroke, width, dashed) in enumerate(
        (
            ("arrivals, to full", "leaf", 2, False),
            ("bytes of A, to full", "accent", 3.5, False),
            ("arrivals, to empty", "warm", 2, True),
        )
    ):
        at = y + 4 + 26 * number
        sheet.line([(_LEFT + 2, at), (_LEFT + 34, at)], stroke=stroke, width=width, dashed=dashed)
        sheet.text(_LEFT + 42, at, name, anchor="start")
