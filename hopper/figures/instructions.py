"""How the product of one block tile becomes a sequence of wgmma instructions."""

from __future__ import annotations

from dataclasses import dataclass

from hopper.errors import ProblemError

from .canvas import BODY, MARGIN, SMALL, WIDTH, Canvas, text_width
from .figure import Figure
from .warpgroup import K, M, require_legal_n

_CELL = 40
_MOST_STEPS = 8


@dataclass(frozen=True)
class Issue:
    """One instruction: its place in issue order (from 1), its chunk of M and its step of K."""

    number: int
    m_chunk: int
    k_step: int


def issue_order(tile_m: int, tile_k: int, *, outer: str = "k") -> tuple[Issue, ...]:
    """The instructions that cover a block tile, in the order they are issued.

    `outer` names the outer loop, "k" or "m". Raises ProblemError unless tile_m is a multiple of
    64, tile_k one of 16, and `outer` one of the two.
    """
    for name, value, unit in (("tile_m", tile_m, M), ("tile_k", tile_k, K)):
        if value <= 0 or value % unit:
            raise ProblemError(
                f"{name}={value}: one wgmma covers {unit}, so {name} is a multiple of {unit}; "
                f"choose {max(unit, -(-value // unit) * unit)}"
            )
    chunks, steps = range(tile_m // M), range(tile_k // K)
    if outer == "k":
        pairs = [(m, k) for k in steps for m in chunks]
    elif outer == "m":
        pairs = [(m, k) for m in chunks for k in steps]
    else:
        raise ProblemError(f'outer={outer!r}: the outer loop walks "k" or "m"')
    return tuple(Issue(i, m, k) for i, (m, k) in enumerate(pairs, start=1))


def tile_to_instructions(tile_m: int, tile_n: int, tile_k: int, *, outer: str = "k") -> Figure:
    """A tile_m × tile_n × tile_k product as 64 × tile_n × 16 instructions, numbered as issued.

    Raises ProblemError for a tile that such instructions do not cover, and for more K steps than
    the drawing has room for.
    """
    require_legal_n(tile_n)
    order = issue_order(tile_m, tile_k, outer=outer)
    chunks, steps = tile_m // M, tile_k // K
    if steps > _MOST_STEPS:
        raise ProblemError(
            f"tile_k={tile_k} makes {steps} steps of K, the drawing has room for "
            f"{_MOST_STEPS}; draw tile_k={_MOST_STEPS * K} or less"
        )
    number = {(issue.m_chunk, issue.k_step): issue.number for issue in order}
    name = f"m{M}n{tile_n}k{K}"
    count = f"{len(order)} instruction" + ("s" if len(order) > 1 else "")

    cell = min(_CELL, 176 / steps)
    a_left, gutter = MARGIN, 14
    a_width = cell * steps
    c_left = a_left + max(a_width, 128) + gutter
    c_width = WIDTH - MARGIN - c_left
    b_row = 30
    b_top = 78
    c_top = b_top + b_row * steps + gutter
    chunk = max(56, min(84, 230 / chunks))

    sheet = Canvas()
    sheet.text(MARGIN, 24, f"{count} of {name}", size=BODY, bold=True, anchor="start")
    sheet.text(
        MARGIN,
        46,
        f"block tile {tile_m}×{tile_n}×{tile_k}, in issue order",
        fill="muted",
        anchor="start",
        fit=WIDTH - 2 * MARGIN,
    )

    for step in range(steps):
        top = b_top + step * b_row
        sheet.box(c_left, top + 1.5, c_width, b_row - 3, fill="warm-soft", stroke="warm", radius=5)
        label = f"B, k {step * K}–{step * K + K - 1}"
        sheet.text(c_left + c_width / 2, top + b_row / 2, label, fit=c_width)
    a_start = c_left - gutter - a_width
    middle = (a_left + c_left - gutter) / 2
    sheet.text(middle, c_top - 44, f"A, {steps} step{'s' if steps > 1 else ''}")
    sheet.text(middle, c_top - 24, f"of k, {K} wide")
    for m in range(chunks):
        top = c_top + m * chunk
        for step in range(steps):
            sheet.box(
                a_start + step * cell + 1.5,
                top + 1.5,
                cell - 3,
                chunk - 3,
                fill="accent-soft",
                stroke="accent",
                radius=5,
            )
            sheet.text(
                a_start + (step + 0.5) * cell,
                top + chunk / 2,
                str(number[m, step]),
                size=BODY if cell >= 30 else SMALL,
                bold=True,
            )
        sheet.box(c_left, top + 1.5, c_width, chunk - 3, fill="leaf-soft", stroke="leaf")
        sheet.text(
            c_left + c_width / 2,
            top + chunk / 2 - 10,
            f"C, rows {m * M}–{m * M + M - 1}",
            bold=True,
            fit=c_width,
        )
        sheet.text(
            c_left + c_width / 2,
            top + chunk / 2 + 11,
            _sum([number[m, step] for step in range(steps)], c_width - 12),
        )
    bottom = c_top + chunks * chunk
    sheet.text(a_start + a_width / 2, bottom + 20, f"{tile_m} rows", fill="muted")
    sheet.text(c_left + c_width / 2, bottom + 20, f"{tile_n} columns", fill="muted")
    spoken = "; ".join(
        f"rows {m * M} to {m * M + M - 1} of C sum instructions "
        + ", ".join(str(number[m, step]) for step in range(steps))
        for m in range(chunks)
    )
    return sheet.figure(
        bottom + 42,
        title=f"A {tile_m}×{tile_n}×{tile_k} block tile is {count}",
        alt=(
            f"A block tile of {tile_m} by {tile_n} with {tile_k} of K is covered by {count} "
            f"{name}: {chunks} chunks of 64 rows times {steps} steps of 16 along K. In issue "
            f"order: {spoken}."
        ),
    )


def _sum(numbers: list[int], room: float) -> str:
    text = " + ".join(map(str, numbers))
    if text_width(text, SMALL) <= room:
        return text
    return f"{numbers[0]} + {numbers[1]} + … + {numbers[-1]}"
