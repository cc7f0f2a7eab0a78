"""TMA and mbarrier in pictures: a box cut from a tensor, the phases of a barrier, a multicast."""

from __future__ import annotations

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure

_RIGHT = WIDTH - MARGIN
_FULL = _RIGHT - MARGIN


def tensor_map_fields() -> Figure:
    """A tensor in global memory, a box over its edge, and the tile that it becomes."""
    sheet = Canvas()
    sheet.text(MARGIN, 20, "the tensor, in global memory", bold=True, anchor="start", size=BODY)
    x, y, wide, tall = 96.0, 62.0, 210.0, 150.0
    box_x, box_y, box_w, box_h = x + 140, y + 62, 116.0, 60.0
    inside = x + wide - box_x
    sheet.box(x, y, wide, tall, fill="panel", stroke="muted", radius=2)
    for row in range(1, 5):
        at = y + row * tall / 5
        sheet.line([(x, at), (x + wide, at)], stroke="line", width=1)
    sheet.box(box_x, box_y, inside, box_h, fill="accent-soft", stroke="accent", radius=0)
    sheet.box(
        x + wide, box_y, box_w - inside, box_h, fill="warm-soft", stroke="warm", radius=0,
        dashed=True, hatch="diagonal",
    )  # fmt: skip
    sheet.text(box_x + inside / 2, box_y + box_h / 2, "the box", bold=True, halo="accent-soft")
    sheet.text(x + wide / 2, y - 14, "shape[1] elements, side by side", fit=wide + 90)
    sheet.text(x - 8, y + tall / 2 - 10, "shape[0]", anchor="end")
    sheet.text(x - 8, y + tall / 2 + 10, "rows", anchor="end")
    sheet.arrow((x + 12, y + 14), (x + 12, y + 48), stroke="leaf")
    sheet.text(x + 22, y + 32, "stride, in bytes", anchor="start", halo="panel", fill="leaf")
    sheet.text(x + wide + 10, y + 26, "outside:", anchor="start", fill="warm")
    sheet.text(x + wide + 10, y + 44, "the fill", anchor="start", fill="warm")
    sheet.box(box_x - 4, box_y - 4, 8, 8, fill="accent", stroke="accent", radius=4)
    sheet.text(box_x - 10, box_y + 2, "corner", anchor="end", halo="panel", fill="accent")
    sheet.text(x + wide - 8, box_y + box_h + 16, "box[0] × box[1]", halo="panel", anchor="end")
    middle, lower = WIDTH / 2, 286.0
    sheet.arrow((middle, y + tall + 12), (middle, lower - 30), stroke="muted")
    sheet.text(middle + 12, y + tall + 28, "one thread asks TMA", anchor="start")
    sheet.text(MARGIN, lower - 14, "the tile", bold=True, anchor="start", size=BODY)
    tile_x, tile_w = 96.0, 228.0
    for row in range(4):
        top = lower + row * 24
        sheet.box(tile_x, top, tile_w, 24, fill="accent-soft", stroke="accent", radius=0)
        cut = tile_w * inside / box_w
        sheet.box(
            tile_x + cut, top, tile_w - cut, 24, fill="warm-soft", stroke="warm", radius=0,
            hatch="diagonal",
        )  # fmt: skip
        sheet.text(tile_x + cut / 2, top + 12, f"row {row}", halo="accent-soft")
        sheet.text(tile_x + cut + (tile_w - cut) / 2, top + 12, "zeros", halo="warm-soft")
    sheet.text(tile_x, lower + 116, "in shared memory, rows one behind", anchor="start")
    sheet.text(tile_x, lower + 135, "another; swizzled if the map says so", anchor="start")
    return sheet.figure(
        lower + 154,
        title="What a tensor map says, and what becomes of a box",
        alt=(
            "Above, a tensor in global memory: shape[0] rows of shape[1] elements, a stride in "
            "bytes from row to row. A box of box[0] by box[1] elements begins at its corner and "
            "sticks out over the right edge; what lies outside is hatched and gets the fill. An "
            "arrow, one thread asks with map and corner, leads to the tile in shared memory: the "
            "rows of the box one behind another, each ending in zeros."
        ),
    )


def mbarrier_phase() -> Figure:
    """One phase of an mbarrier: what counts down, when it completes, who may go on."""
    sheet = Canvas()
    sheet.box(MARGIN, 12, _FULL, 126, fill="accent-soft", stroke="accent")
    sheet.text(MARGIN + 12, 34, "phase 0 runs, parity 0", bold=True, anchor="start", size=BODY)
    for row, (name, says) in enumerate(
        (
            ("arrivals missing", "from the count of init, down by arrive"),
            ("bytes missing", "up by expect_tx, down as TMA reports"),
        )
    ):
        y = 62 + 36 * row
        sheet.text(MARGIN + 12, y, name, bold=True, anchor="start")
        sheet.text(MARGIN + 12, y + 18, says, anchor="start", fit=_FULL - 16)
    sheet.arrow((70, 142), (70, 204), stroke="leaf")
    sheet.text(86, 160, "both are zero: the phase is complete,", anchor="start")
    sheet.text(86, 180, "and the arrivals start anew", anchor="start")
    sheet.box(MARGIN, 208, _FULL, 44, fill="accent-soft", stroke="accent")
    sheet.text(MARGIN + 12, 230, "phase 1 runs, parity 1", bold=True, anchor="start", size=BODY)
    sheet.text(_RIGHT - 12, 230, "… and so on, 0, 1, 0, 1", anchor="end")
    sheet.text(MARGIN, 282, "Who waits for a parity", bold=True, anchor="start", size=BODY)
    rows = (
        ("the parity that runs", "waits", "plum"),
        ("the other parity", "goes on at once", "leaf"),
    )
    for row, (name, says, stroke) in enumerate(rows):
        y = 298 + row * 42
        sheet.box(MARGIN, y, _FULL, 36, fill="panel", stroke=stroke)
        sheet.text(MARGIN + 12, y + 18, name, anchor="start")
        sheet.text(_RIGHT - 12, y + 18, says, anchor="end", bold=True, fill=stroke)
    sheet.text(MARGIN, 398, "At the start, parity 1 counts as past.", anchor="start")
    return sheet.figure(
        416,
        title="One phase of an mbarrier",
        alt=(
            "While phase 0, of parity 0, runs, two things count down: the arrivals that are still "
            "missing, and the bytes, which expect_tx adds and TMA's reports subtract. When both "
            "are zero the phase is complete, the arrivals start anew, and phase 1 of parity 1 "
            "runs. Who waits for the parity of the phase that runs, waits; who waits for the other "
            "parity goes on at once. Before phase 0, a phase of parity 1 counts as complete."
        ),
    )


def multicast_pair() -> Figure:
    """A cluster of two: what is asked for by two loads each, and by a half each for both."""
    sheet = Canvas()
    tops = (34.0, 254.0)
    titles = ("two loads each: four requests", "multicast, a half each: two requests")
    for top, title in zip(tops, titles, strict=True):
        sheet.text(MARGIN, top - 14, title, bold=True, anchor="start", size=BODY)
        sheet.box(MARGIN, top, _FULL, 44, fill="peer-soft", stroke="peer")
        for half in range(2):
            left = MARGIN + 76 + half * 120
            fill, stroke, hatch = _HALVES[half]
            sheet.box(left, top + 7, 120, 30, fill=fill, stroke=stroke, radius=0, hatch=hatch)
            sheet.text(left + 60, top + 22, ("upper half", "lower half")[half], halo=fill)
        sheet.text(MARGIN + 12, top + 22, "L2", bold=True, anchor="start")
        for rank in range(2):
            left = MARGIN + rank * (_FULL / 2 + 6)
            wide = _FULL / 2 - 6
            sheet.box(left, top + 116, wide, 72, fill="panel", stroke="muted")
            sheet.text(left + wide / 2, top + 132, f"block {rank}")
            for half in range(2):
                fill, stroke, hatch = _HALVES[half]
                x = left + 10 + half * (wide - 20) / 2
                sheet.box(x, top + 146, (wide - 20) / 2, 34, fill=fill, stroke=stroke, radius=0,
                          hatch=hatch)  # fmt: skip
    for rank in range(2):
        for half in range(2):
            x = MARGIN + rank * (_FULL / 2 + 6) + 52 + half * 88
            sheet.arrow((x, tops[0] + 48), (x, tops[0] + 112), stroke=_HALVES[half][1])
    for half in range(2):
        stroke = _HALVES[half][1]
        start, level = MARGIN + 136 + half * 120, tops[1] + 66 + 20 * half
        ends = [MARGIN + rank * (_FULL / 2 + 6) + 52 + half * 88 for rank in range(2)]
        sheet.line([(start, tops[1] + 40), (start, level)], stroke=stroke, width=2)
        sheet.line([(min(*ends, start), level), (max(*ends, start), level)], stroke=stroke, width=2)
        for x in ends:
            sheet.arrow((x, level), (x, tops[1] + 112), stroke=stroke)
    return sheet.figure(
        456,
        title="Two blocks need the same box",
        alt=(
            "Twice the same: a box of two halves behind the L2 cache, and two blocks of a cluster "
            "that need both. An arrow is a request. Above, two loads each: four arrows, both "
            "halves to either block. Below, multicast: block 0 asks for the upper half and block 1 "
            "for the lower one. There are two arrows, and each forks and ends in both blocks."
        ),
    )


_HALVES = (("accent-soft", "accent", None), ("warm-soft", "warm", "diagonal"))
