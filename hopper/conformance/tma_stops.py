"""What an H200 stops at: boxes and reductions of the copy engine that give no answer.

Each was run there in a process of its own and ended with CUDA_ERROR_ILLEGAL_INSTRUCTION, misaligned
shared memory with CUDA_ERROR_MISALIGNED_ADDRESS. So they cannot be cases; the emulator raises Fault
for each. Neighbours that keep the rule ran, and are among the cases.
"""

from __future__ import annotations

from itertools import product

from hopper.conformance import Case
from hopper.conformance.tma import ELEMENTS, SWIZZLES, box_of, load_case, store_case
from hopper.conformance.tma_numbers import held

_LAST = (1 << 31) - 16


def _at(rank: int, last: int) -> list[tuple[int, ...]]:
    """One corner: the first element but for the last coordinate."""
    return [(*(0 for _ in range(rank - 1)), last)]


# The last coordinate of a corner is a multiple of 16 bytes: in a load, a prefetch and a store,
# inside and outside of the tensor, with a swizzle and without.
_ODD = {"uint8": (1, 2, 4, 8, -1), "uint16": (1, 2, 4, -1), "uint32": (1, 2, -1), "uint64": (1, -1)}
_CORNERS = (
    *(
        load_case(f"{rank}d.{dtype}.{at}", dtype, box_of(rank, 0, dtype), 0, _at(rank, at))
        for rank, dtype in product((1, 2), ELEMENTS)
        for at in _ODD[dtype]
    ),
    *(
        load_case(
            f"swizzled.{rank}d.{at}", "uint16", box_of(rank, 128, "uint16"), 128, _at(rank, at)
        )
        for rank, at in product((2, 5), (4, -4))
    ),
    *(
        load_case(
            f"prefetch.{rank}d.{at}", "uint16", box_of(rank, 0, "uint16"), 0, _at(rank, at),
            HINT=1, LOAD=0,
        )
        for rank, at in product((1, 2), (1, 4, -1))
    ),
    *(
        store_case(
            f"store.{rank}d.{dtype}.{at}", dtype, box_of(rank, 0, dtype), 0, corners=_at(rank, at)
        )
        for rank, dtype in product((1, 2), ("uint8", "uint16", "uint64"))
        for at in _ODD[dtype]
        if at > 0
    ),
)  # fmt: skip
# A store or a reduction begins at no negative coordinate; a load may.
_NEGATIVE = (
    *(
        store_case(f"store.corner.{row}.{column}", "uint16", (12, 64), 128, corners=[(row, column)])
        for row, column in (
            *((-1, 0), (-12, 0), (-13, 0), (0, -8), (0, -64), (0, -72), (-6, -32), (6, -32)),
            *((-_LAST, 0), (-(1 << 31), 0), (0, -_LAST)),
        )
    ),
    store_case("store.row", "uint16", (12, 64), 0, corners=[(-1, 0)]),
    store_case("store.wide", "uint16", (12, 64), 0, corners=[(0, -8)]),
    store_case("store.depth", "uint16", (2, 3, 64), 128, corners=[(-1, 0, 0)]),
    store_case("store.1d", "uint16", (64,), 0, corners=[(-8,)]),
    store_case("reduce.row", "uint32", (12, 32), 128, 1, "u32", corners=[(-1, 0)]),
    store_case("reduce.column", "uint32", (12, 32), 128, 1, "u32", corners=[(0, -4)]),
)
# A box lies at a multiple of 128 bytes of shared memory, without a swizzle too.
_PLACES = (
    *(
        load_case(
            f"place.{swizzle}.{step}", "uint16", (4, (swizzle or 128) // 2), swizzle,
            [(0, 0), (0, 0)], step,
        )
        for swizzle, step in product(SWIZZLES, (16, 64))
    ),
    load_case("place.1d", "uint16", (64,), 0, [(0,), (8,)], 16),
    *(
        store_case(
            f"store.place.{swizzle}.{step}", "uint16", (4, 64), swizzle,
            corners=[(0, 0), (1, 8)], step=step,
        )
        for swizzle, step in ((0, 16), (0, 64), (128, 64))
    ),
)  # fmt: skip
# Reductions of types that the PTX ISA's table of cp.reduce.async.bulk.tensor has not.
_TYPES = tuple(
    store_case(f"reduce.{op}.{kind}", held(kind), box_of(2, 128, held(kind)), 128, number, kind)
    for number, op, kind in (
        (1, "add", "s64"),
        (2, "min", "f32"),
        (3, "max", "f64"),
        (4, "inc", "s32"),
        (4, "inc", "u64"),
        (6, "and", "f32"),
        (6, "and", "f16"),
        (6, "and", "s64"),
        (7, "or", "s64"),
        (8, "xor", "s64"),
    )
)

STOPS: tuple[Case, ...] = (*_CORNERS, *_NEGATIVE, *_PLACES, *_TYPES)
