"""Who is busy when: lanes side by side, time running down the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure

#: kind -> (fill, outline, hatch). A wait is drawn with a dashed outline.
KINDS: dict[str, tuple[str, str, str | None]] = {
    "load": ("warm-soft", "warm", "diagonal"),
    "compute": ("accent-soft", "accent", None),
    "store": ("leaf-soft", "leaf", "rows"),
    "issue": ("plum-soft", "plum", "dots"),
    "wait": ("paper", "line", None),
}

Block = tuple[float, float, str, str]
_AXIS = 26
_GAP = 10
_BLOCK = 30
_TOP = 52


def timeline(
    lanes: Sequence[tuple[str, Sequence[Block]]],
    *,
    title: str,
    alt: str,
    caption: str = "",
) -> Figure:
    """Lanes of blocks over time.

    lanes    (label, blocks); a block is (start, length, text, kind), in any unit of time.
             Kinds are those of `KINDS`. Every block carries its text, and each kind its hatch,
             so the picture does not depend on colour.
    Raises ProblemError for no lanes, an unknown kind, a length that is not positive, blocks of a
    lane that overlap, and text wider than its lane.
    """
    if not lanes:
        raise ProblemError("lanes=[]: a timeline needs at least one (label, blocks) lane")
    for label, blocks in lanes:
        _validate(label, blocks)
    every = [block for _, blocks in lanes for block in blocks]
    if not all(math.isfinite(start + length) for start, length, *_ in every):
        return _unknown(title, alt)
    scale = _BLOCK / min(length for _, length, _, _ in every)
    begin = min(start for start, *_ in every)
    end = max(start + length for start, length, *_ in every)
    height = _TOP + (end - begin) * scale + MARGIN
    lane_width = (WIDTH - MARGIN - _AXIS - MARGIN - _GAP * (len(lanes) - 1)) / len(lanes)

    sheet = Canvas()
    sheet.text(MARGIN + 6, _TOP - 20, "time", fill="muted", anchor="start", italic=True)
    sheet.arrow((MARGIN + 8, _TOP), (MARGIN + 8, height - MARGIN))
    for index, (label, blocks) in enumerate(lanes):
        x = MARGIN + _AXIS + index * (lane_width + _GAP)
        centre = x + lane_width / 2
        shift = text_width("time", SMALL) - _AXIS + 6 if index == 0 else 0
        sheet.text(
            centre + shift / 2,
            _TOP - 20,
            label,
            size=_largest(label, lane_width - shift),
            bold=True,
            fit=lane_width - shift,
        )
        sheet.box(x, _TOP, lane_width, height - _TOP - MARGIN, fill="panel", stroke="panel")
        for start, length, text, kind in blocks:
            fill, stroke, hatch = KINDS[kind]
            top = _TOP + (start - begin) * scale
            sheet.box(
                x + 3,
                top + 2,
                lane_width - 6,
                length * scale - 4,
                fill=fill,
                stroke=stroke,
                hatch=hatch,
                dashed=kind == "wait",
            )
            sheet.text(
                centre,
                top + length * scale / 2,
                text,
                fit=lane_width - 8,
                fill="muted" if kind == "wait" else "ink",
                italic=kind == "wait",
                halo=fill if hatch else None,
            )
    return sheet.figure(height, title=title, alt=alt, caption=caption)


def _largest(label: str, room: float) -> float:
    return BODY if text_width(label, BODY) <= room else SMALL


def _unknown(title: str, alt: str) -> Figure:
    """In place of a timeline whose times were computed from a recording that is not there."""
    sheet = Canvas()
    sheet.text(WIDTH / 2, _TOP, "not recorded, so not drawn", fill="muted", italic=True)
    return sheet.figure(_TOP + MARGIN, title=title, alt=f"Not recorded, so not drawn. {alt}")


def _validate(label: str, blocks: Sequence[Block]) -> None:
    previous_end = float("-inf")
    for start, length, text, kind in sorted(blocks):
        if kind not in KINDS:
            raise ProblemError(
                f"kind={kind!r} in lane {label!r}: a block is one of {', '.join(KINDS)}"
            )
        if length <= 0:  # NaN, of what was not recorded, passes here and is drawn as unknown
            raise ProblemError(f"{text!r} in lane {label!r} has length {length}; give it time")
        if start < previous_end - 1e-9:
            raise ProblemError(
                f"{text!r} in lane {label!r} starts at {start}, before the block above it ends "
                f"at {previous_end}; use a second lane"
            )
        previous_end = start + length
