"""The fragments' explorer: point at a cell of a matrix and see who holds it, and the other way.

``_static/fragment_explorer.js`` has the arithmetic of ``hopper.fragment`` once more, because a page
has no Python; tests/test_browser_fragments.py compares the two over their whole range.
"""

from __future__ import annotations

from typing import Any

from hopper.instruction import FLOAT_N, INTEGER_N

from .explorer import Explorer, select
from .fragment_pictures import accumulator_fragment
from .warpgroup import require_legal_n

#: What can be looked at. ``family`` chooses the formulas. Without ``columns``, N decides; with
#: ``sizes``, only those N exist, and ``note`` says why.
KINDS: dict[str, dict[str, Any]] = {
    "d32": {
        "label": "wgmma, D in f32",
        "matrix": "D",
        "family": "d32",
        "rows": 64,
        "threads": 128,
        "items": 1,
    },
    "s32": {
        "label": "wgmma, D in s32",
        "matrix": "D",
        "family": "d32",
        "rows": 64,
        "threads": 128,
        "items": 1,
        "sizes": INTEGER_N,
        "note": "On integers, wgmma has N = 8, 16, 24, 32, then multiples of 16. The PTX ISA lists "
        "no others, so the others cannot be chosen.",
    },
    "d16": {
        "label": "wgmma, D in f16, two a register",
        "matrix": "D",
        "family": "d16",
        "rows": 64,
        "threads": 128,
        "items": 2,
    },
    **{
        f"a{bits}": {
            "label": f"wgmma, A in registers, {types}",
            "matrix": "A",
            "family": "a",
            "rows": 64,
            "columns": 256 // bits,
            "threads": 128,
            "items": 32 // bits,
        }
        for bits, types in ((8, "8 bits"), (16, "16 bits"), (32, "tf32"))
    },
    "mma_d": {
        "label": "mma.sync m16n8k16, D in f32",
        "matrix": "D",
        "family": "d32",
        "rows": 16,
        "columns": 8,
        "threads": 32,
        "items": 1,
    },
    "mma_a": {
        "label": "mma.sync m16n8k16, A in fp16",
        "matrix": "A",
        "family": "a",
        "rows": 16,
        "columns": 16,
        "threads": 32,
        "items": 2,
    },
    "mma_b": {
        "label": "mma.sync m16n8k16, B in fp16 (k down, n across)",
        "matrix": "B",
        "family": "b",
        "rows": 16,
        "columns": 8,
        "threads": 32,
        "items": 2,
    },
    "matrix": {
        "label": "ldmatrix, stmatrix: one 8 × 8 matrix in memory",
        "matrix": "the matrix",
        "family": "matrix",
        "rows": 8,
        "columns": 8,
        "threads": 32,
        "items": 2,
    },
    "matrix_trans": {
        "label": "ldmatrix.trans, stmatrix.trans",
        "matrix": "the matrix",
        "family": "matrix_trans",
        "rows": 8,
        "columns": 8,
        "threads": 32,
        "items": 2,
    },
}
# What the script says about the controls, and under the drawing.
_BEFORE = '<p class="wb-fragment-note" hidden></p>'
_AFTER = (
    '<p class="wb-fragment-under" hidden></p>'
    '<div class="wb-fragment-zoom" hidden></div>'
    '<ul class="wb-fragment-formula" hidden></ul>'
    '<p class="wb-fragment-holds" hidden></p>'
)
_CAPTION = (
    "Above, the whole matrix: bands are warps, filled places are the thread's, the frame is the "
    "piece shown below. Below, 8 × 8 places with thread and register; where a register holds "
    "several elements, a number behind the point counts them from its lowest bits. Arrow keys walk "
    "through the matrix, Page up and down by eight rows, Home and End along the row."
)


def fragment_explorer(n: int = 64, thread: int = 0) -> Explorer:
    """Choose an instruction and an operand, point at a place or a thread, see who holds what.

    ``n``: N of the accumulator it opens with; ``thread``: whose elements are marked in the drawing
    that stands there without a script. Raises ProblemError for an N that wgmma has not.
    """
    require_legal_n(n)
    controls = (
        select("kind", "Show", {key: kind["label"] for key, kind in KINDS.items()}, "d32")
        + select("n", "N", {str(size): str(size) for size in FLOAT_N}, str(n))
        + '<label>Thread <input name="thread" type="number" min="0" max="127" step="1" '
        f'value="{thread}" inputmode="numeric"></label>'
    )
    picture = accumulator_fragment(thread, n)
    return Explorer(
        "fragment_explorer",
        type(picture)(
            title="Who holds what",
            alt=picture.alt,
            body=picture.body,
            width=picture.width,
            height=picture.height,
            caption=_CAPTION,
        ),
        {"kinds": KINDS, "n": n, "thread": thread},
        controls,
        _AFTER,
        before=_BEFORE,
    )
