"""The registers of a block before and after its warpgroups traded them."""

from __future__ import annotations

from collections.abc import Sequence

from hopper.architecture import constant
from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure

_KINDS = (
    ("accent-soft", "accent", None),
    ("warm-soft", "warm", "diagonal"),
    ("leaf-soft", "leaf", "rows"),
    ("plum-soft", "plum", "dots"),
)


def register_pool(launched: int, kept: Sequence[tuple[str, int]]) -> Figure:
    """Registers a thread of each warpgroup, at launch and after setmaxnreg.

    launched  of every thread at launch
    kept      (role, registers a thread afterwards), a warpgroup each; at most four
    Raises ProblemError where the SM has not so many, or the block not so many to trade.
    """
    threads = constant("warpgroup_threads").value
    pool = constant("registers_per_sm").value // threads
    if len(kept) > len(_KINDS):
        raise ProblemError(f"{len(kept)} warpgroups: draw at most {len(_KINDS)}")
    before, after = launched * len(kept), sum(number for _, number in kept)
    if before > pool:
        raise ProblemError(f"{launched} registers for {len(kept)} warpgroups: an SM has {pool}")
    if after > before:
        raise ProblemError(f"{after} registers after the trade, and {before} before it")
    sheet = Canvas()
    room = WIDTH - 2 * MARGIN
    scale = room / pool
    rows = (
        ("at launch", [(role, launched) for role, _ in kept]),
        ("after setmaxnreg", list(kept)),
    )
    top = MARGIN
    for label, parts in rows:
        sheet.text(MARGIN, top + 9, label, bold=True, anchor="start", size=BODY)
        top += 26
        sheet.box(MARGIN, top, room, 56, fill="panel", stroke="line", radius=0)
        x = MARGIN
        for (role, number), (fill, stroke, hatch) in zip(parts, _KINDS, strict=False):
            width = number * scale
            sheet.box(x, top, width, 56, fill=fill, stroke=stroke, hatch=hatch, radius=0)
            halo = fill if hatch else None
            if text_width(role, SMALL) < width:
                sheet.text(x + width / 2, top + 19, role, halo=halo)
            sheet.text(x + width / 2, top + 38, str(number), bold=True, halo=halo)
            x += width
        top += 56 + 22
    told = ", ".join(f"{role} {number}" for role, number in kept)
    return sheet.figure(
        top,
        title="Registers a thread, by warpgroup",
        alt=(
            f"Two bars as long as the registers of an SM. At launch {len(kept)} equal parts of "
            f"{launched} registers a thread. After setmaxnreg: {told}; together "
            f"{after * threads:,} of {before * threads:,} registers of the block."
        ),
        caption=(
            f"The whole bar is the SM's {pool * threads:,} registers: {pool} for each of the "
            f"{threads} threads of one warpgroup. The order is the same in both bars."
        ),
    )
