"""One instruction of one warpgroup: where its operands lie and who holds which rows."""

from __future__ import annotations

from hopper.architecture import constant
from hopper.errors import ProblemError

from .canvas import BODY, LARGE, MARGIN, WIDTH, Canvas
from .figure import Figure

WARPS = int(constant("warpgroup_warps").value)
LANES = int(constant("warp_threads").value)
#: Rows of D of one instruction, and columns of A for a 16-bit type.
M = int(constant("wgmma_m").value)
K = int(constant("wgmma_k_fp16").value)
ITEM_BYTES = 2
_TINTS = (
    ("accent-soft", "accent"),
    ("warm-soft", "warm"),
    ("leaf-soft", "leaf"),
    ("plum-soft", "plum"),
)


def require_legal_n(n: int) -> None:
    """Raise ProblemError unless `n` is an N of wgmma for 16-bit types: 8, 16, … 256."""
    if n % 8 or not 8 <= n <= 256:
        raise ProblemError(f"N={n}: wgmma takes multiples of 8 from 8 to 256; choose one of them")


def rows_of_warp(warp: int) -> tuple[int, int]:
    """First and last row of the accumulator tile that `warp` (0–3) holds."""
    height = M // WARPS
    return warp * height, (warp + 1) * height - 1


def accumulator_registers(n: int) -> int:
    """32-bit registers a thread gives to a 64 × n fp32 accumulator tile."""
    return M * n // (WARPS * LANES)


def warpgroup_tile(n: int) -> Figure:
    """Four warps, one instruction, a 64 × n accumulator tile; A and B come from shared memory.

    Raises ProblemError for an n that the instruction does not have.
    """
    require_legal_n(n)
    registers = accumulator_registers(n)
    sheet = Canvas()
    left, right = MARGIN, WIDTH - MARGIN
    width = right - left

    sheet.text(left, 24, "One warpgroup", size=BODY, bold=True, anchor="start")
    sheet.text(right, 24, f"{WARPS} warps × {LANES} threads", fill="muted", anchor="end")
    gap = 8
    warp_width = (width - gap * (WARPS - 1)) / WARPS
    for warp, (fill, stroke) in enumerate(_TINTS):
        x = left + warp * (warp_width + gap)
        sheet.box(x, 40, warp_width, 62, fill=fill, stroke=stroke)
        sheet.text(x + warp_width / 2, 57, f"warp {warp}", bold=True)
        for lane in range(LANES):
            sheet.box(
                x + 10.5 + (lane % 16) * (warp_width - 21) / 16,
                74 + (lane // 16) * 10,
                3,
                6,
                fill=stroke,
                stroke=stroke,
                radius=1,
                stroke_width=0.5,
            )
        sheet.arrow((x + warp_width / 2, 106), (x + warp_width / 2, 128), stroke=stroke)

    sheet.box(left, 132, width, 44, fill="panel", stroke="muted", radius=10)
    sheet.text(
        WIDTH / 2, 154, f"one wgmma.mma_async, m{M}n{n}k{K}", size=BODY, bold=True, fit=width
    )

    a_width, gutter = 74, 12
    d_left = left + a_width + gutter
    d_width = right - d_left
    b_top, b_height = 222, 56
    d_top = b_top + b_height + gutter
    band = 50
    sheet.text(
        left, 202, "A and B are read from shared memory", fill="muted", anchor="start", italic=True
    )
    sheet.box(d_left, b_top, d_width, b_height, fill="peer-soft", stroke="peer", hatch="dots")
    sheet.text(d_left + d_width / 2, b_top + 19, "B", size=LARGE, bold=True, halo="peer-soft")
    sheet.text(
        d_left + d_width / 2,
        b_top + 41,
        f"N×K = {n}×{K}, {_kib(n * K)}",
        halo="peer-soft",
        fit=d_width,
    )
    sheet.box(left, d_top, a_width, band * WARPS, fill="peer-soft", stroke="peer", hatch="dots")
    middle = d_top + band * WARPS / 2
    sheet.text(left + a_width / 2, middle - 34, "A", size=LARGE, bold=True, halo="peer-soft")
    for offset, line in ((-8, "M×K ="), (12, f"{M}×{K}"), (32, _kib(M * K))):
        sheet.text(left + a_width / 2, middle + offset, line, halo="peer-soft", fit=a_width)
    for warp, (fill, stroke) in enumerate(_TINTS):
        top = d_top + warp * band
        first, last = rows_of_warp(warp)
        sheet.box(d_left, top + 1.5, d_width, band - 3, fill=fill, stroke=stroke)
        sheet.text(d_left + 14, top + band / 2, f"warp {warp}", bold=True, anchor="start")
        sheet.text(right - 14, top + band / 2, f"rows {first}–{last}", anchor="end")
    bottom = d_top + band * WARPS
    sheet.text(d_left + d_width / 2, bottom + 22, f"accumulator D, {M}×{n} fp32", bold=True)
    sheet.text(
        d_left + d_width / 2,
        bottom + 44,
        f"{registers} register{'s' if registers > 1 else ''} in each thread",
        fill="muted",
    )
    rows = "; ".join(
        f"warp {warp} holds rows {rows_of_warp(warp)[0]} to {rows_of_warp(warp)[1]}"
        for warp in range(WARPS)
    )
    return sheet.figure(
        bottom + 66,
        title=f"One warpgroup, one m{M}n{n}k{K} instruction",
        alt=(
            f"Four warps of 32 threads form a warpgroup and issue one wgmma m{M}n{n}k{K} "
            f"together. A, {M} by {K}, and B, {n} by {K}, are read from shared memory. The "
            f"{M} by {n} accumulator tile lies in registers, {registers} a thread: {rows}."
        ),
    )


def _kib(items: int) -> str:
    size = items * ITEM_BYTES
    return f"{size / 1024:g} KiB" if size >= 1024 else f"{size} B"
