"""Shape:Stride: functions from coordinates to offsets, and how they combine. After CuTe's layouts.

    Layout((4, (2, 8)), (1, (64, 8)))           prints as (4,(2,8)):(1,(64,8))
    parse("(4,(2,8)):(1,(64,8))")               reads that form
    layout(5), layout(1, 3), layout(1, (1, 1))  the offset of a coordinate, in any of three forms

``core`` has the layouts, ``algebra`` combines them, ``swizzle`` puts an XOR behind one, ``text``
reads what CuTe prints, ``matrices`` says in layouts what the book's kernels hold and where.
"""

from .algebra import (
    blocked_product,
    coalesce,
    complement,
    composition,
    flat_divide,
    left_inverse,
    logical_divide,
    logical_product,
    raked_product,
    right_inverse,
    tiled_divide,
    zipped_divide,
    zipped_product,
)
from .core import Layout, column_major, crd2idx, idx2crd, make_layout, row_major
from .swizzle import Swizzle, SwizzledLayout
from .text import parse

__all__ = [
    "Layout",
    "Swizzle",
    "SwizzledLayout",
    "blocked_product",
    "coalesce",
    "column_major",
    "complement",
    "composition",
    "crd2idx",
    "flat_divide",
    "idx2crd",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_layout",
    "parse",
    "raked_product",
    "right_inverse",
    "row_major",
    "tiled_divide",
    "zipped_divide",
    "zipped_product",
]
