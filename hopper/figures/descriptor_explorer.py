"""An explorer of matrix descriptors: choose a tile, or paste 64 bits, and see where its bytes lie.

The 64 bits field by field, what is wrong with them, and shared memory in lines of 128 bytes, which
are its 32 banks. The script computes what ``hopper.descriptor`` computes; a test compares the two.
"""

from __future__ import annotations

import numpy

from hopper.banks import BANKS, WAVEFRONT_BYTES, WORD_BYTES
from hopper.descriptor import (
    CORE_ROWS,
    FIELD_BITS,
    FIELDS,
    STEP_BYTES,
    SWIZZLE_CODE,
    Major,
    decode,
)
from hopper.descriptor.mistakes import SHARED_END, SHARED_START, TENSOR_MAP_CODE
from hopper.descriptor.pieces import core_matrix
from hopper.descriptor.sentences import DIRECTIONS, SENTENCES
from hopper.errors import ProblemError
from hopper.placement import Placement
from hopper.swizzle import PIECE_BYTES

from .canvas import SMALL, Canvas
from .descriptor_bits import DEEP_BYTES, FINE, NOTES, Operand, panel
from .explorer import Explorer, select
from .palette import COLOURS, colour

#: Lines of 128 bytes that are drawn at once, and the measures of the drawing in units.
LINES = 16
LEFT, TOP, PIECE_WIDTH, LINE_HEIGHT = 66.0, 36.0, 44.0, 38.0
_COLUMNS = WAVEFRONT_BYTES // PIECE_BYTES
ROWS = (8, 16, 32, 64, 128, 256)
_TYPES = {"8": "8 bits: fp8", "16": "16 bits: fp16", "32": "32 bits: tf32"}
_TINTS = ("accent", "warm", "leaf", "plum")


def descriptor_explorer(
    value: int | None = None,
    *,
    major: Major = "K",
    bits: int = 16,
    swizzle: int = 128,
    rows: int = 64,
    start: int = SHARED_START,
    step: int = 0,
) -> Explorer:
    """Matrix descriptors, to play with.

    ``major``, ``bits`` of an element, ``swizzle`` in bytes and ``rows`` (64 of A; N of B: 8, 16,
    32, 64, 128 or 256) say how the operand is meant to lie, ``start`` where the tile begins, in
    bytes, and ``step`` which instruction along K the descriptor is for. ``value``: 64 bits to begin
    with, as if they had been pasted. Raises ProblemError for a tile that wgmma or a descriptor
    cannot have.
    """
    if rows not in ROWS:
        raise ProblemError(f"rows={rows}: the explorer offers {', '.join(map(str, ROWS))}")
    if str(bits) not in _TYPES:
        raise ProblemError(f"bits={bits}: wgmma's operands here have 8, 16 or 32 bits; pass one")
    item_bytes = bits // 8
    shown = _operand(value, major, item_bytes, swizzle, rows, start, step)
    bytes_of_k = STEP_BYTES if value is not None else shown.depth * item_bytes
    data = {
        "facts": facts(),
        "directions": DIRECTIONS,
        "fine": FINE,
        "notes": NOTES,
        "colours": {name: colour(name) for name in COLOURS if not name.startswith("code")},
        "tints": _TINTS,
        "drawing": {
            "lines": LINES,
            "left": LEFT,
            "top": TOP,
            "piece": PIECE_WIDTH,
            "line": LINE_HEIGHT,
            "text": SMALL,
        },
        "state": {
            "bits": bits,
            "major": major,
            "swizzle": swizzle,
            "rows": rows,
            "start": start,
            "step": step,
            "pasted": None if value is None else hex(value),
        },
    }
    lines = f"{rows} rows of {bytes_of_k} bytes of K" if major == "K" else f"{rows} rows"
    sheet = _drawing(shown)
    span = f"a swizzle of {swizzle} bytes" if swizzle else "no swizzle"
    figure = sheet.figure(
        TOP + LINES * LINE_HEIGHT + 8,
        title="A matrix descriptor and the bytes it leads to",
        alt=(
            f"The first {LINES} lines of 128 bytes of a {major}-major tile of {lines} with "
            f"{span}, from shared address {shown.whole.start:#x} on. Each line has eight pieces of "
            f"16 bytes, one over every four of the 32 banks, labelled by first row and first k. "
            f"Outlined are the pieces that one instruction reads."
        ),
        caption=(
            "Every line is 128 bytes of shared memory, every box 16 of them, over four banks. "
            "r and k: first row and first k in the box. Colour and hatching: which 16 bytes of its "
            "row (MN-major: of its k) it was before the swizzle. Strong outline: read by this "
            "instruction; strongest: one core matrix of it. Point at a box, tap it, or use the "
            "arrow keys."
        ),
    )
    return Explorer(
        "descriptor_explorer",
        figure,
        data,
        _controls(bits, major, swizzle, rows, start),
        before=panel(shown),
    )


def facts() -> dict[str, object]:
    """What the script's arithmetic is told by ``hopper``."""
    return {
        "fields": [[field.name, field.first, field.bits] for field in FIELDS],
        "codes": [list(pair) for pair in SWIZZLE_CODE.items()],
        "tensor_map": [list(pair) for pair in TENSOR_MAP_CODE.items()],
        "shared_start": SHARED_START,
        "shared_end": SHARED_END,
        "sentences": SENTENCES,
    }


def _operand(
    value: int | None,
    major: Major,
    item_bytes: int,
    swizzle: int,
    rows: int,
    start: int,
    step: int,
) -> Operand:
    if value is not None:
        whole = decode(value & FIELD_BITS)
        depth = STEP_BYTES // item_bytes
        return Operand(value, major, item_bytes, rows, swizzle, whole, depth, 0, pasted=True)
    deep = swizzle if major == "K" and swizzle else DEEP_BYTES
    if not 0 <= step < deep // STEP_BYTES:
        raise ProblemError(
            f"step={step}: this tile is {deep // STEP_BYTES} instructions deep; count from 0"
        )
    tile = Placement(rows, deep // item_bytes, major, swizzle, item_bytes)
    encoded = tile.descriptor(start, step).encode()
    whole = tile.descriptor(start)
    first_k = step * STEP_BYTES // item_bytes
    return Operand(encoded, major, item_bytes, rows, swizzle, whole, tile.depth, first_k)


# ---- the drawing --------------------------------------------------------------------------------


def _drawing(shown: Operand) -> Canvas:
    sheet = Canvas()
    sheet.text(LEFT - 8, 18, "bank", fill="muted", anchor="end")
    for column in range(_COLUMNS):
        bank = column * PIECE_BYTES // WORD_BYTES % BANKS
        sheet.text(LEFT + (column + 0.5) * PIECE_WIDTH, 18, str(bank), fill="muted")
    placed, read, strangers = shown.addresses(), shown.read(), shown.strangers()
    kind = {"major": shown.major, "item_bytes": shown.item_bytes}
    core = core_matrix(0, shown.first_k, **kind)
    chosen = set(numpy.atleast_1d(shown.whole.address(*core, **kind)).tolist())
    first = min(placed) // WAVEFRONT_BYTES
    line = int(shown.whole.address(0, shown.first_k, **kind)) // WAVEFRONT_BYTES - first
    lines = max(placed) // WAVEFRONT_BYTES + 1 - first
    if line >= LINES:
        # Eight lines are a swizzle atom: begin with one, not inside it. As the script does.
        first += min(line - line % CORE_ROWS, max(0, lines - LINES))
    first *= WAVEFRONT_BYTES
    for line in range(LINES):
        y = TOP + line * LINE_HEIGHT
        begin = first + line * WAVEFRONT_BYTES
        sheet.text(LEFT - 8, y + LINE_HEIGHT / 2, f"{begin:#x}", fill="muted", anchor="end")
        for column in range(_COLUMNS):
            address = begin + column * PIECE_BYTES
            x = LEFT + column * PIECE_WIDTH
            if address not in placed:
                sheet.box(
                    x + 1, y + 1, PIECE_WIDTH - 2, LINE_HEIGHT - 2, fill="paper", stroke_width=0.75
                )
                continue
            (r, k), *others = placed[address]
            number = _number(shown, r, k)
            tint = _TINTS[number % len(_TINTS)]
            strong = address in chosen
            sheet.box(
                x + 1.5,
                y + 1.5,
                PIECE_WIDTH - 3,
                LINE_HEIGHT - 3,
                fill=f"{tint}-soft",
                stroke="ink" if strong else tint,
                stroke_width=3 if strong else 2 if address in read else 0.75,
                hatch="diagonal" if number % 8 >= len(_TINTS) else None,
                radius=3,
                dashed=address in strangers,
            )
            below = f"+{len(others)}" if others else f"k{k}"
            for shift, text in ((0.3, f"r{r}"), (0.7, below)):
                sheet.text(x + PIECE_WIDTH / 2, y + shift * LINE_HEIGHT, text, halo=f"{tint}-soft")
    return sheet


def _number(shown: Operand, r: int, k: int) -> int:
    """Which 16 bytes of its row, or MN-major of its k, a piece is."""
    items = PIECE_BYTES // shown.item_bytes
    return (k if shown.major == "K" else r) // items


def _controls(bits: int, major: Major, swizzle: int, rows: int, start: int) -> str:
    spans = {str(span): f"{span} bytes" if span else "none" for span in SWIZZLE_CODE}
    spans = dict(sorted(spans.items(), key=lambda pair: -int(pair[0])))
    return (
        select("bits", "Elements", _TYPES, str(bits))
        + select("major", "Major", {"K": "K-major", "MN": "MN-major"}, major)
        + select("swizzle", "Swizzle", spans, str(swizzle))
        + select("rows", "Rows: 64 or N", {str(n): str(n) for n in ROWS}, str(rows))
        + f'<label>Start <input name="start" value="{start:#x}" '
        + 'autocomplete="off" spellcheck="false"></label>'
        + select("step", "Step along K", {"0": "0"}, "0")
        + '<label>Row <input name="r" type="number" min="0" value="0"></label>'
        + '<label>k <input name="k" type="number" min="0" value="0"></label>'
        + '<label class="wb-descriptor-paste">64 bits of yours <input name="value" '
        + 'placeholder="0x4000004000010040" autocomplete="off" spellcheck="false"></label>'
        + '<button type="button" name="clear" hidden>Back to the tile</button>'
        + '<label class="wb-descriptor-from">Memory, from line <input name="from" type="range" '
        + 'min="0" max="0" value="0" step="1"></label>'
    )
