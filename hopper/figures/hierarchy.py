"""Where wgmma sits: thread, warp, warpgroup, CTA, cluster, grid, one inside the other."""

from __future__ import annotations

from hopper.architecture import constant

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure
from .warpgroup import (
    LANES,
    WARPS,
    K,
    M,
    accumulator_registers,
    require_legal_n,
    rows_of_warp,
)

#: Name, what it is, fill and outline, from the outside in.
LEVELS = (
    ("grid", "every CTA of a launch", "paper", "muted"),
    ("cluster", "CTAs that reach each other", "panel", "peer"),
    ("CTA", "on one SM: shared memory", "paper", "accent"),
    ("warpgroup", "issues wgmma", "panel", "warm"),
)
_INSET = 10
_HEAD = 32
_TINTS = (
    ("accent-soft", "accent"),
    ("warm-soft", "warm"),
    ("leaf-soft", "leaf"),
    ("plum-soft", "plum"),
)


def hierarchy(n: int) -> Figure:
    """Six levels in one another; four warps become one warpgroup and issue one m64nNk16.

    Raises ProblemError for an n that the instruction does not have.
    """
    require_legal_n(n)
    sheet = Canvas()
    inner = MARGIN + len(LEVELS) * _INSET
    width = WIDTH - 2 * inner
    gap, warp_height, band = 6, 58, 30
    warps_top = MARGIN + len(LEVELS) * _HEAD + 2
    below_warps = warps_top + warp_height
    issue_top = below_warps + 76
    tile_top = issue_top + 40 + 22
    tile_bottom = tile_top + WARPS * band
    content_bottom = tile_bottom + 34

    for depth, (name, what, fill, stroke) in enumerate(LEVELS):
        x, y = MARGIN + depth * _INSET, MARGIN + depth * _HEAD
        room = WIDTH - 2 * x
        height = content_bottom + (len(LEVELS) - depth) * _INSET - y
        sheet.box(x, y, room, height, fill=fill, stroke=stroke, radius=9)
        sheet.text(x + 9, y + _HEAD / 2 + 1, name, size=BODY, bold=True, anchor="start")
        sheet.text(x + room - 9, y + _HEAD / 2 + 1, what, anchor="end", fit=room - 100)

    warp_width = (width - gap * (WARPS - 1)) / WARPS
    for warp, (fill, stroke) in enumerate(_TINTS):
        x = inner + warp * (warp_width + gap)
        sheet.box(x, warps_top, warp_width, warp_height, fill=fill, stroke=stroke)
        sheet.text(x + warp_width / 2, warps_top + 16, f"warp {warp}", bold=True, fit=warp_width)
        for lane in range(LANES):
            sheet.box(
                x + 7 + (lane % 16) * (warp_width - 13) / 16,
                warps_top + 32 + (lane // 16) * 10,
                2,
                6,
                fill=stroke,
                stroke=stroke,
                radius=1,
                stroke_width=0.5,
            )
        middle = x + warp_width / 2
        sheet.arrow((middle, below_warps + 56), (middle, issue_top - 2), stroke=stroke)
    threads = int(constant("registers_per_thread").value)
    sheet.text(WIDTH / 2, below_warps + 17, f"warp: {LANES} threads, issues mma.sync", fit=width)
    sheet.text(WIDTH / 2, below_warps + 38, f"thread: up to {threads} registers", fit=width)

    sheet.box(inner, issue_top, width, 36, fill="warm-soft", stroke="warm", radius=9)
    sheet.text(WIDTH / 2, issue_top + 18, f"one wgmma, m{M}n{n}k{K}", size=BODY, bold=True)
    sheet.arrow((WIDTH / 2, issue_top + 38), (WIDTH / 2, tile_top - 2))
    for warp, (fill, stroke) in enumerate(_TINTS):
        top = tile_top + warp * band
        first, last = rows_of_warp(warp)
        sheet.box(inner, top + 1, width, band - 2, fill=fill, stroke=stroke)
        sheet.text(inner + 10, top + band / 2, f"warp {warp}", bold=True, anchor="start")
        sheet.text(inner + width - 10, top + band / 2, f"D, rows {first}–{last}", anchor="end")
    held = accumulator_registers(n)
    sheet.text(WIDTH / 2, tile_bottom + 17, f"{M}×{n} fp32, {held} values a thread", fit=width)
    return sheet.figure(
        content_bottom + len(LEVELS) * _INSET + MARGIN,
        title="From thread to grid, and the level that issues wgmma",
        alt=(
            "Boxes in one another. Outermost the grid, every CTA of a launch; in it the cluster, "
            "CTAs that reach each other; in it the CTA, on one SM, with its shared memory; in it "
            f"the warpgroup. A warpgroup is {WARPS} warps of {LANES} threads. A warp can issue "
            f"mma.sync; the {WARPS} warps together issue one wgmma m{M}n{n}k{K}, whose result, "
            f"{M} by {n} in fp32, lies in their registers: each warp holds {M // WARPS} rows, each "
            f"thread {held} values."
        ),
    )
