"""The 16-byte pieces that an operand is made of, and the eight of a core matrix.

A piece is what a swizzle moves as a whole and what four banks of shared memory hold.
``hopper.placement`` says how far apart the parts of a tile lie, ``hopper.banks`` counts conflicts.
"""

from __future__ import annotations

import numpy

from hopper.descriptor import CORE_ROWS, Major
from hopper.swizzle import PIECE_BYTES


def pieces(
    rows: int, depth: int, *, major: Major, item_bytes: int
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """First row and first k of each piece of ``rows`` × ``depth`` elements.

    K-major a piece is 16 bytes of one row, MN-major eight rows of one k.
    """
    items = PIECE_BYTES // item_bytes
    down, along = (1, items) if major == "K" else (items, 1)
    r, k = numpy.mgrid[0:rows:down, 0:depth:along]
    return r, k


def core_matrix(
    r: int, k: int, *, major: Major, item_bytes: int
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """First row and first k of the eight pieces of the core matrix that holds element (r, k)."""
    items, eight = PIECE_BYTES // item_bytes, numpy.arange(CORE_ROWS)
    if major == "K":
        return r // CORE_ROWS * CORE_ROWS + eight, numpy.full(CORE_ROWS, k // items * items)
    return numpy.full(CORE_ROWS, r // items * items), k // CORE_ROWS * CORE_ROWS + eight
