"""Cases of the copy engine: boxes of every rank and swizzle, multicast, reductions, bulk copies."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod

import numpy

from hopper.conformance import Case, Tiled, blank
from hopper.conformance.tma_numbers import bytes_of_numbers, held, numbers, random_bits

SWIZZLES = (0, 32, 64, 128)
ELEMENTS = ("uint8", "uint16", "uint32", "uint64")
#: A box's lengths but the last, by rank. The last is one swizzle span, 144 bytes without a swizzle.
OUTER = {1: (), 2: (12,), 3: (3, 5), 4: (2, 3, 2), 5: (2, 1, 3, 2)}
DUMPED = 4096
# The last coordinate that is a multiple of 16 bytes for every element.
_FAR = (1 << 31) - 16


def _plan(corners: list[tuple[int, ...]], step: int = 128) -> numpy.ndarray:
    """Corners in the array's order, to rows of the plan: at every multiple of 128 up to 896."""
    plan = numpy.zeros((len(corners), 6), numpy.int32)
    for number, corner in enumerate(corners):
        plan[number, : len(corner)] = corner[::-1]
        plan[number, 5] = number * step % 1024
    return plan


def _corners(
    shape: tuple[int, ...], box: tuple[int, ...], itemsize: int, negative: bool = True
) -> list:
    """Inside, over each side of the tensor, over all of them, and outside.

    The last coordinate is a multiple of 16 bytes: TMA stops at another.
    """
    inside = [(n - b) // 2 for n, b in zip(shape, box, strict=True)]
    over = [n - (b + 1) // 2 for n, b in zip(shape, box, strict=True)]
    before = [-(b // 2 or 1) if negative else 0 for b in box]
    unit = 16 // itemsize
    inside[-1] -= inside[-1] % unit
    over[-1] += -over[-1] % unit
    before[-1] -= before[-1] % unit
    found = [tuple(0 for _ in box), tuple(inside)]
    for axis, side in product(range(len(box)), (over, before)):
        corner = list(inside)
        corner[axis] = side[axis]
        found.append(tuple(corner))
    outside = [shape[0], *inside[1:]]
    outside[-1] += -outside[-1] % unit
    found += [tuple(over), tuple(before), tuple(outside)]
    # Every place of a swizzle pattern is some box's destination.
    return found + [tuple(inside)] * (8 - len(found))


def _shape(box: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """A tensor that a box fits into a few times; rows are a multiple of 16 bytes, as TMA wants."""
    if len(box) == 1:
        return (3 * box[0] + 5,)
    return (*(2 * length + 1 for length in box[:-1]), box[-1] + 128 // itemsize)


def _load(
    array: numpy.ndarray, box: tuple[int, ...], swizzle: int, corners: list, step: int, nan: str
) -> list:
    fill, element = ("nan", nan) if nan else ("zeros", None)
    return [
        Tiled(array, box, swizzle, fill, element),
        _plan(corners, step),
        blank((len(corners), DUMPED), numpy.uint8),
        blank(len(corners), numpy.int32),
        numpy.int32(prod(box) * array.itemsize),
        numpy.int32(DUMPED),
    ]


def load_case(
    name: str,
    dtype: str,
    box: tuple[int, ...],
    swizzle: int,
    corners: list | None = None,
    step: int = 128,
    nan: str = "",
    **defines: int | str,
) -> Case:
    """Loads of boxes, one a corner, to every ``step`` bytes. ``nan``: the element of such a map."""
    shape = _shape(box, numpy.dtype(dtype).itemsize)
    corners = corners or _corners(shape, box, numpy.dtype(dtype).itemsize)
    return Case(
        f"tma.load.{name}",
        "probes/tma_load.cu",
        "tma_load",
        lambda: _load(random_bits(shape, dtype, len(name)), box, swizzle, corners, step, nan),
        (2, 3),
        grid=(len(corners), 1, 1),
        shared_bytes=DUMPED,
        defines={"RANK": len(box), **defines},
    )


def box_of(rank: int, swizzle: int, dtype: str, row_bytes: int = 0) -> tuple[int, ...]:
    """A box whose rows are one swizzle span, or 144 bytes, or ``row_bytes``."""
    return (*OUTER[rank], (row_bytes or swizzle or 144) // numpy.dtype(dtype).itemsize)


_LOADS = (
    *(
        load_case(f"{rank}d.swizzle{swizzle}.{dtype}", dtype, box_of(rank, swizzle, dtype), swizzle)
        for rank, swizzle, dtype in product(OUTER, SWIZZLES, ELEMENTS)
    ),
    # Other types move the same bits, NaNs and subnormal numbers included.
    *(
        load_case(f"2d.bits.{dtype}", dtype, box_of(2, 128, dtype), 128)
        for dtype in ("int32", "int64", "float16", "float32", "float64")
    ),
    # Rows that are shorter than the swizzle's span.
    *(
        load_case(
            f"2d.narrow.swizzle{swizzle}.{row}",
            "uint16",
            box_of(2, swizzle, "uint16", row),
            swizzle,
        )
        for swizzle in (32, 64, 128)
        for row in range(16, swizzle, 16)
    ),
    load_case("2d.wide", "uint64", (1, 256), 0),
    load_case("2d.tall", "uint8", (192, 16), 0),
    load_case(
        "2d.far",
        "uint16",
        (12, 64),
        128,
        list(product((-(1 << 31), -_FAR, -13, 0, _FAR, (1 << 31) - 1), (-(1 << 31), 0, _FAR))),
    ),
    # Outside is NaN: elements taken for the type that is named last.
    *(
        load_case(f"2d.nan.{nan}", dtype, box_of(2, 128, dtype), 128, nan=nan)
        for dtype, nan in (
            ("float16", "float16"),
            ("uint16", "bfloat16"),
            ("float32", "float32"),
            ("float64", "float64"),
        )
    ),
    # Every place of the last coordinate in a swizzle's span.
    load_case("2d.steps", "uint16", (12, 64), 128, [(1, at) for at in range(-32, 32, 8)]),
    load_case("2d.own", "uint16", (12, 64), 128, DESTINATION='"shared::cta"'),
    load_case("3d.hints", "uint32", box_of(3, 64, "uint32"), 64, HINT=1),
    load_case("3d.prefetch", "uint32", box_of(3, 64, "uint32"), 64, HINT=1, LOAD=0),
)


def _multicast(cluster: int, masks: list[int]) -> list:
    blocks = len(masks)
    return [
        Tiled(random_bits((8 * blocks, 64), "uint16", cluster), (8, 64)),
        numpy.array(masks, numpy.int32),
        blank((blocks, cluster * 1024), numpy.uint8),
        numpy.int32(8),
        numpy.int32(1024),
    ]


def _multicast_case(name: str, cluster: int, masks: list[int], **defines) -> Case:
    return Case(
        f"tma.multicast.{name}",
        "probes/tma_multicast.cu",
        "tma_multicast",
        partial(_multicast, cluster, masks),
        (2,),
        grid=(len(masks), 1, 1),
        shared_bytes=cluster * 1024,
        defines={"CLUSTER": cluster, **defines},
    )


_MULTICASTS = (
    # Two clusters: everybody to everybody; to the other alone.
    _multicast_case("2", 2, [0b11, 0b11, 0b10, 0b01]),
    # All, pairs, oneself alone, nobody's turn.
    _multicast_case("4", 4, [0b1111] * 4 + [0b0101, 0b1010, 0b0100, 0b1111] + [0, 0b1110, 1, 0]),
    _multicast_case("8", 8, [0xFF] * 8),
    _multicast_case("remote", 4, [0b0010, 0b0100, 0b1000, 0b0001], REMOTE=1),
)


def _store(
    dtype: str,
    box: tuple[int, ...],
    swizzle: int,
    corners: list,
    operation: int,
    kind: str | None,
    step: int,
) -> list:
    shape = _shape(box, numpy.dtype(dtype).itemsize)
    tensor, data = blank(shape, dtype), random_bits((DUMPED,), "uint8", prod(box))
    if kind:
        tensor = numbers(prod(shape), kind, 1).view(dtype).reshape(shape)
        data = bytes_of_numbers(DUMPED, kind, 2)
    count = numpy.int32(len(corners))
    element = "bfloat16" if kind == "bf16" else None
    named = [
        Tiled(1, box, swizzle, element=element),
        tensor,
        numpy.int32(operation),
        _plan(corners, step),
        count,
    ]
    return [*named, data, numpy.int32(DUMPED)]


def store_case(
    name: str, dtype: str, box: tuple[int, ...], swizzle: int, operation: int = 0,
    kind: str | None = None, corners: list | None = None, step: int = 128,
) -> Case:  # fmt: skip
    """Stores of boxes, one a corner, from every ``step`` bytes; reductions of ``kind``."""
    itemsize = numpy.dtype(dtype).itemsize
    corners = corners or _corners(_shape(box, itemsize), box, itemsize, negative=False)
    return Case(
        f"tma.{name}",
        "probes/tma_store.cu",
        "tma_store",
        partial(_store, dtype, box, swizzle, corners, operation, kind, step),
        (1,),
        shared_bytes=DUMPED,
        defines={"RANK": len(box)},
    )


#: The reductions of kernels/probes/tma_store.cu, in its order, and the types that a map can name.
TENSOR_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("u32", "s32", "u64"),
    "or": ("u32", "s32", "u64"),
    "xor": ("u32", "s32", "u64"),
}
_STORES = (
    *(
        store_case(
            f"store.{rank}d.swizzle{swizzle}.{dtype}", dtype, box_of(rank, swizzle, dtype), swizzle
        )
        for rank, swizzle, dtype in product(OUTER, SWIZZLES, ELEMENTS)
        if rank in (2, 3) or dtype == "uint16"
    ),
    store_case("store.2d.narrow", "uint16", (12, 24), 128),
    store_case(
        "store.2d.steps", "uint16", (12, 64), 128, corners=[(1, at) for at in range(0, 64, 8)]
    ),
    store_case(
        "store.2d.far", "uint16", (12, 64), 128, corners=[((1 << 31) - 1, 0), (0, _FAR), (13, 64)]
    ),
    *(
        store_case(
            f"reduce.{op}.{kind}", held(kind), (25, *box_of(1, 128, held(kind))), 128, number, kind
        )
        for number, (op, kinds) in enumerate(TENSOR_REDUCTIONS.items(), 1)
        for kind in kinds
    ),
    store_case("reduce.4d.add.u32", "uint32", box_of(4, 64, "uint32"), 64, 1, "u32"),
)  # fmt: skip

#: Operations of kernels/probes/tma_bulk.cu, in its order; 0 is the copy.
TO_GLOBAL = (
    *(f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64", "f16", "bf16")),
    *(
        f"{op}.{kind}"
        for op, kind in product(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16"))
    ),
    "inc.u32",
    "dec.u32",
    *(f"{op}.{kind}" for op, kind in product(("and", "or", "xor"), ("b32", "b64"))),
)
TO_PEER = (
    *("add.u32", "add.s32", "add.u64", "min.u32", "min.s32", "max.u32", "max.s32"),
    *("inc.u32", "dec.u32", "and.b32", "or.b32", "xor.b32"),
)
# Destination, source and size in bytes: 16 and multiples, at multiples of 16.
_PIECES = [(0, 0, 16), (16, 48, 16), (128, 1040, 48), (1000 // 16 * 16, 2032, 1008), (512, 0, 3072)]
_PIECES += [(2048, 2048, 2048), (16, 0, 4080), (48, 32, 4032)]


def _bulk_load() -> list:
    plan = numpy.array(_PIECES, numpy.int32)
    dump = blank((len(plan), DUMPED), numpy.uint8)
    return [random_bits((8192,), "uint8", 3), plan, dump, numpy.int32(DUMPED)]


def _bulk_multicast() -> list:
    plan = numpy.array([(0, 16, 1024), (1024, 4096, 512), (1536, 0, 16), (2048, 64, 2048)], "i4")
    return [
        random_bits((8192,), "uint8", 4),
        plan,
        blank((4, DUMPED), numpy.uint8),
        numpy.int32(DUMPED),
    ]


def _bulk_store(operation: int, kind: str | None) -> list:
    target, data = blank(DUMPED, numpy.uint8), random_bits((DUMPED,), "uint8", 5)
    if kind:
        target, data = (bytes_of_numbers(DUMPED, kind, seed) for seed in (6, 7))
    plan = numpy.array(_PIECES[:6], numpy.int32)
    return [target, numpy.int32(operation), plan, numpy.int32(len(plan)), data, numpy.int32(DUMPED)]


def _bulk_peer(operation: int, kind: str | None) -> list:
    data = bytes_of_numbers(2 * DUMPED, kind or "u64", 8)
    plan = numpy.array(_PIECES[:6], numpy.int32)
    dump = blank((2, DUMPED), numpy.uint8)
    return [data, numpy.int32(operation), plan, numpy.int32(len(plan)), dump, numpy.int32(DUMPED)]


def _bulk_ring() -> list:
    count = 9
    data = random_bits((count * 1024,), "uint8", 9)
    return [blank(count * 1024, numpy.uint8), data, numpy.int32(count)]


def _bulk_case(name: str, kernel: str, arguments, outputs: tuple[int, ...], **launch) -> Case:
    launch = {"shared_bytes": DUMPED, **launch}
    return Case(f"tma.bulk.{name}", "probes/tma_bulk.cu", kernel, arguments, outputs, **launch)


_BULK = (
    _bulk_case("load", "bulk_load", _bulk_load, (2,), grid=(len(_PIECES), 1, 1)),
    _bulk_case(
        "multicast", "bulk_multicast", _bulk_multicast, (2,), grid=(4, 1, 1), defines={"CLUSTER": 4}
    ),
    _bulk_case("store", "bulk_store", partial(_bulk_store, 0, None), (0,)),
    *(
        _bulk_case(
            f"global.{name}", "bulk_store", partial(_bulk_store, number, name.split(".")[1]), (0,)
        )
        for number, name in enumerate(TO_GLOBAL, 1)
    ),
    _bulk_case("peer", "bulk_peer", partial(_bulk_peer, 0, None), (4,), grid=(2, 1, 1)),
    *(
        _bulk_case(
            f"peer.{name}",
            "bulk_peer",
            partial(_bulk_peer, number, name.split(".")[1]),
            (4,),
            grid=(2, 1, 1),
        )
        for number, name in enumerate(TO_PEER, 1)
    ),
    _bulk_case("ring", "bulk_ring", _bulk_ring, (0,), shared_bytes=2048),
)

CASES = (*_LOADS, *_MULTICASTS, *_STORES, *_BULK)
