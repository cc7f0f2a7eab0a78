"""The road of the operands: through registers for mma.sync, straight from shared memory for wgmma.

Counts follow from the tile alone. What ldmatrix loads is a lower bound, since warps load the
operand rows that they share once each. What the tensor core reads is what the instructions name:
every one of them its own A and B.
"""

from __future__ import annotations

from dataclasses import dataclass

from hopper.errors import ProblemError
from hopper.mma_sync import LDMATRIX_X4_BYTES, MMA_K, MMA_M, MMA_N, MMA_OPERAND_BYTES

from .canvas import BODY, MARGIN, WIDTH, Canvas
from .figure import Figure
from .warpgroup import K, M, require_legal_n

ITEM_BYTES = 2  # fp16


@dataclass(frozen=True)
class OperandTraffic:
    """What one K step of a block tile costs on either road. Sizes in bytes, the rest counts.

    ``mma_sync_bytes`` and ``wgmma_bytes``: A and B of every instruction, added up; the former are
    read from registers, the latter from shared memory.
    """

    a_bytes: int
    b_bytes: int
    ldmatrix: int
    mma_sync: int
    wgmma: int
    mma_sync_bytes: int
    wgmma_bytes: int

    @property
    def bytes(self) -> int:
        """A and B together: what crosses the registers at least once for mma.sync."""
        return self.a_bytes + self.b_bytes


def operand_traffic(tile_m: int, tile_n: int, tile_k: int) -> OperandTraffic:
    """Operand bytes and instruction counts of one tile_m × tile_n × tile_k step.

    Raises ProblemError unless tile_m is a multiple of 64, tile_k of 16 and tile_n a legal N.
    """
    require_legal_n(tile_n)
    for name, value, unit in (("tile_m", tile_m, M), ("tile_k", tile_k, K)):
        if value <= 0 or value % unit:
            raise ProblemError(f"{name}={value}: must be a positive multiple of {unit}")
    a_bytes, b_bytes = tile_m * tile_k * ITEM_BYTES, tile_n * tile_k * ITEM_BYTES
    mma_sync = (tile_m // MMA_M) * (tile_n // MMA_N) * (tile_k // MMA_K)
    wgmma = (tile_m // M) * (tile_k // K)
    return OperandTraffic(
        a_bytes=a_bytes,
        b_bytes=b_bytes,
        ldmatrix=(a_bytes + b_bytes) // LDMATRIX_X4_BYTES,
        mma_sync=mma_sync,
        wgmma=wgmma,
        mma_sync_bytes=mma_sync * MMA_OPERAND_BYTES,
        wgmma_bytes=wgmma * (M + tile_n) * K * ITEM_BYTES,
    )


def operand_path(tile_m: int, tile_n: int, tile_k: int) -> Figure:
    """Two roads from global memory to the tensor core, with the bytes of one 16-bit K step."""
    traffic = operand_traffic(tile_m, tile_n, tile_k)
    size = f"{traffic.bytes / 1024:g} KiB"
    named = f"{traffic.mma_sync_bytes / 1024:g} KiB"
    direct_size = f"{traffic.wgmma_bytes / 1024:g} KiB"
    gap = 20
    column = (WIDTH - 2 * MARGIN - gap) / 2
    sheet = Canvas()
    sheet.text(WIDTH / 2, 24, f"one K step of a {tile_m}×{tile_n}×{tile_k} tile", fill="muted")

    top, box, step = 72, 46, 88
    places = ("global memory", "shared memory", "registers", "tensor core")
    height = box + 3 * step
    for index, name in enumerate(("mma.sync", "wgmma")):
        x = MARGIN + index * (column + gap)
        centre = x + column / 2
        direct = name == "wgmma"
        sheet.text(centre, 52, name, size=BODY, bold=True)
        for row, place in enumerate(places):
            skipped = direct and place == "registers"
            y = top + row * step
            if skipped:
                continue
            fill, stroke = {
                "registers": ("warm-soft", "warm"),
                "tensor core": ("leaf-soft", "leaf"),
            }.get(place, ("panel", "muted"))
            sheet.box(
                x,
                y,
                column,
                box,
                fill=fill,
                stroke=stroke,
                hatch="diagonal" if place == "registers" else None,
                stroke_width=2,
            )
            sheet.text(centre, y + box / 2, place, size=BODY, halo=fill, fit=column)
        _labelled_arrow(sheet, centre, top + box, top + step, f"{size}", "muted")
        if direct:
            _labelled_arrow(sheet, centre, top + step + box, top + 3 * step, direct_size, "leaf")
            sheet.box(
                x + column / 2 + 14,
                top + 2 * step + 3,
                column / 2 - 14,
                box - 6,
                fill="paper",
                stroke="line",
                dashed=True,
            )
            sheet.text(
                x + column * 0.75 + 7,
                top + 2 * step + box / 2,
                "skipped",
                fill="muted",
                italic=True,
                fit=column / 2 - 14,
            )
        else:
            _labelled_arrow(sheet, centre, top + step + box, top + 2 * step, f"≥ {size}", "warm")
            _labelled_arrow(sheet, centre, top + 2 * step + box, top + 3 * step, named, "warm")

    y = top + height + 34
    rows = (
        ("operands read from registers", named, "0"),
        ("ldmatrix.x4 to load them", f"≥ {traffic.ldmatrix}", "0"),
        ("instructions that multiply", f"{traffic.mma_sync}", f"{traffic.wgmma}"),
    )
    for label, old, new in rows:
        sheet.line([(MARGIN, y - 14), (WIDTH - MARGIN, y - 14)], stroke="line", width=1)
        sheet.text(WIDTH / 2, y + 4, label, fill="muted")
        sheet.text(MARGIN + column / 2, y + 28, old, size=BODY, bold=True)
        sheet.text(MARGIN + column * 1.5 + gap, y + 28, new, size=BODY, bold=True)
        y += 58
    return sheet.figure(
        y - 8,
        title="Operands go through registers, or they do not",
        alt=(
            f"Two data paths for one K step of a {tile_m} by {tile_n} by {tile_k} fp16 tile. For "
            f"mma.sync, {size} go from global to shared memory and at least {size} from there to "
            f"registers, with at least {traffic.ldmatrix} ldmatrix.x4; {traffic.mma_sync} mma "
            f"instructions then read {named} of operands from registers. For wgmma, {size} go to "
            f"shared memory, and {traffic.wgmma} instructions read {direct_size} of operands "
            f"there; registers are skipped."
        ),
    )


def _labelled_arrow(
    sheet: Canvas, x: float, top: float, bottom: float, label: str, stroke: str
) -> None:
    """A downward arrow with its label to the right of the shaft's upper part."""
    sheet.arrow((x, top + 3), (x, bottom - 3), stroke=stroke)
    sheet.text(x + 12, top + 20, label, anchor="start")
