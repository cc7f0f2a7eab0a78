"""Cases of the copy engine: boxes of every rank and swizzle, multicast, reductions, bulk copies."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import prod

import numpy

from hopper.conformance import Case, Tiled, blank

SWIZZLES = (0, 32, 64, 128)
ELEMENTS = ("uint8", "uint16", "uint32", "uint64")
#: A box's lengths but the last, by rank. The last is one swizzle span, 144 bytes without a swizzle.
OUTER = {1: (), 2: (12,), 3: (3, 5), 4: (2, 3, 2), 5: (2, 1, 3, 2)}
DUMPED = 4096
# The last coordinate that is a multiple of 16 bytes for every element.
_FAR = (1 << 31) - 16


def _random(shape, dtype: str, seed: int) -> numpy.ndarray:
    """Random bits."""
    count = prod(shape) * numpy.dtype(dtype).itemsize
    random = numpy.random.default_rng(seed)
    return random.integers(0, 256, count, numpy.uint8).view(dtype).reshape(shape)


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
    found += [tuple(over), tuple(before), (shape[0], *inside[1:])]
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


def _load_case(
    name: str,
    dtype: str,
    box: tuple[int, ...],
    swizzle: int,
    corners: list | None = None,
    step: int = 128,
    nan: str = "",
    **defines: int | str,
) -> Case:
    shape = _shape(box, numpy.dtype(dtype).itemsize)
    corners = corners or _corners(shape, box, numpy.dtype(dtype).itemsize)
    return Case(
        f"tma.load.{name}",
        "probes/tma_load.cu",
        "tma_load",
        lambda: _load(_random(shape, dtype, len(name)), box, swizzle, corners, step, nan),
        (2, 3),
        grid=(len(corners), 1, 1),
        shared_bytes=DUMPED,
        defines={"RANK": len(box), **defines},
    )


def _box(rank: int, swizzle: int, dtype: str, row_bytes: int = 0) -> tuple[int, ...]:
    return (*OUTER[rank], (row_bytes or swizzle or 144) // numpy.dtype(dtype).itemsize)


_LOADS = (
    *(
        _load_case(f"{rank}d.swizzle{swizzle}.{dtype}", dtype, _box(rank, swizzle, dtype), swizzle)
        for rank, swizzle, dtype in product(OUTER, SWIZZLES, ELEMENTS)
    ),
    # Other types move the same bits, NaNs and subnormal numbers included.
    *(
        _load_case(f"2d.bits.{dtype}", dtype, _box(2, 128, dtype), 128)
        for dtype in ("int32", "int64", "float16", "float32", "float64")
    ),
    # Rows that are shorter than the swizzle's span.
    *(
        _load_case(
            f"2d.narrow.swizzle{swizzle}.{row}", "uint16", _box(2, swizzle, "uint16", row), swizzle
        )
        for swizzle in (32, 64, 128)
        for row in range(16, swizzle, 16)
    ),
    _load_case("2d.wide", "uint64", (1, 256), 0),
    _load_case("2d.tall", "uint8", (192, 16), 0),
    _load_case(
        "2d.far",
        "uint16",
        (12, 64),
        128,
        list(product((-(1 << 31), -_FAR, -13, 0, _FAR, (1 << 31) - 1), (-(1 << 31), 0, _FAR))),
    ),
    # Outside is NaN: elements taken for the type that is named last.
    *(
        _load_case(f"2d.nan.{nan}", dtype, _box(2, 128, dtype), 128, nan=nan)
        for dtype, nan in (
            ("float16", "float16"),
            ("uint16", "bfloat16"),
            ("float32", "float32"),
            ("float64", "float64"),
        )
    ),
    _load_case("2d.own", "uint16", (12, 64), 128, DESTINATION='"shared::cta"'),
    _load_case("3d.hints", "uint32", _box(3, 64, "uint32"), 64, HINT=1),
)


def _multicast(cluster: int, masks: list[int]) -> list:
    blocks = len(masks)
    return [
        Tiled(_random((8 * blocks, 64), "uint16", cluster), (8, 64)),
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

_SPECIAL = {
    "float16": [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00]
    + [0xFE01, 0x7C01, 0xFFFF, 0x3C00, 0x3C01, 0x1000],
    "bfloat16": [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0]
    + [0xFFC1, 0x7F81, 0xFFFF, 0x3F80, 0x3F81, 0x3B80],
    "float32": [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF]
    + [0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF]
    + [0x3F800000, 0x3F800001, 0x33800000, 0x80800000],
    "float64": [0, 1 << 63, 1, (1 << 63) + (1 << 52) - 1, 1 << 52, (0x7FF << 52) - 1, 0x7FF << 52]
    + [0xFFF << 52, 0x7FF8 << 48, (0xFFF8 << 48) + 1, (0x7FF << 52) + 1, (1 << 64) - 1]
    + [0x3FF << 52, (0x3FF << 52) + 1, 0x3CA << 52],
}
_PTX_NUMPY = {
    "u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "b32": "uint32",
    "b64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip


def _held(kind: str) -> str:
    """The NumPy type that holds PTX type ``kind``."""
    return "uint16" if kind == "bf16" else _PTX_NUMPY[kind]


def _bytes_of_numbers(size: int, kind: str, seed: int) -> numpy.ndarray:
    bits = int(kind.lstrip("subf"))
    return numbers(8 * size // bits, kind, seed).view(numpy.uint8)


def numbers(count: int, kind: str, seed: int) -> numpy.ndarray:
    """Bits of numbers of PTX type ``kind`` that a reduction could stumble over.

    A third each: random bits, special values, and values so near each other that sums round.
    """
    name = _PTX_NUMPY[kind]
    itemsize = 2 if name == "bfloat16" else numpy.dtype(name).itemsize
    bits = _random((count,), f"u{itemsize}", seed)
    random = numpy.random.default_rng(seed + 1)
    which = random.integers(0, 3, count)
    if name in _SPECIAL:
        special = numpy.array(_SPECIAL[name], bits.dtype)
        fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
        bias = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}[kind]
        sign, low = bits >> (8 * itemsize - 1), bits & ((1 << fraction) - 1)
        exponent = (bias + random.integers(-fraction // 2, 4, count)).astype(bits.dtype)
        near = sign << (8 * itemsize - 1) | exponent << fraction | low
    else:
        top = 1 << 8 * itemsize
        edges = [0, 1, 2, 3, 4, top // 2 - 1, top // 2, top // 2 + 1, top - 2, top - 1]
        special, near = numpy.array(edges, bits.dtype), bits % bits.dtype.type(7)
    chosen = special[random.integers(0, special.size, count)]
    return numpy.where(which == 0, bits, numpy.where(which == 1, chosen, near))


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
    tensor, data = blank(shape, dtype), _random((DUMPED,), "uint8", prod(box))
    if kind:
        tensor = numbers(prod(shape), kind, 1).view(dtype).reshape(shape)
        data = _bytes_of_numbers(DUMPED, kind, 2)
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


def _store_case(
    name: str, dtype: str, box: tuple[int, ...], swizzle: int, operation: int = 0,
    kind: str | None = None, corners: list | None = None, step: int = 128,
) -> Case:  # fmt: skip
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
        _store_case(
            f"store.{rank}d.swizzle{swizzle}.{dtype}", dtype, _box(rank, swizzle, dtype), swizzle
        )
        for rank, swizzle, dtype in product(OUTER, SWIZZLES, ELEMENTS)
        if rank in (2, 3) or dtype == "uint16"
    ),
    _store_case("store.2d.narrow", "uint16", (12, 24), 128),
    *(
        _store_case(
            f"reduce.{op}.{kind}", _held(kind), (25, *_box(1, 128, _held(kind))), 128, number, kind
        )
        for number, (op, kinds) in enumerate(TENSOR_REDUCTIONS.items(), 1)
        for kind in kinds
    ),
    _store_case("reduce.4d.add.u32", "uint32", _box(4, 64, "uint32"), 64, 1, "u32"),
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
    return [_random((8192,), "uint8", 3), plan, dump, numpy.int32(DUMPED)]


def _bulk_multicast() -> list:
    plan = numpy.array([(0, 16, 1024), (1024, 4096, 512), (1536, 0, 16), (2048, 64, 2048)], "i4")
    return [
        _random((8192,), "uint8", 4),
        plan,
        blank((4, DUMPED), numpy.uint8),
        numpy.int32(DUMPED),
    ]


def _bulk_store(operation: int, kind: str | None) -> list:
    target, data = blank(DUMPED, numpy.uint8), _random((DUMPED,), "uint8", 5)
    if kind:
        target, data = (_bytes_of_numbers(DUMPED, kind, seed) for seed in (6, 7))
    plan = numpy.array(_PIECES[:6], numpy.int32)
    return [target, numpy.int32(operation), plan, numpy.int32(len(plan)), data, numpy.int32(DUMPED)]


def _bulk_peer(operation: int, kind: str | None) -> list:
    data = _bytes_of_numbers(2 * DUMPED, kind or "u64", 8)
    plan = numpy.array(_PIECES[:6], numpy.int32)
    dump = blank((2, DUMPED), numpy.uint8)
    return [data, numpy.int32(operation), plan, numpy.int32(len(plan)), dump, numpy.int32(DUMPED)]


def _bulk_ring() -> list:
    count = 9
    data = _random((count * 1024,), "uint8", 9)
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

#: What the documents forbid or do not say, and the emulator refuses. A GPU may stop there, so they
#: are no cases; ask each in a process of its own (``run_on_gpu``).
QUESTIONS = (
    # The second box starts at a multiple of 16, 32 and 64 bytes, but not of 128.
    *(
        _load_case(f"question.{swizzle}.{step}", "uint16", (4, 64), swizzle, [(0, 0), (1, 3)], step)
        for swizzle, step in product((0, 128), (16, 32, 64))
    ),
    _load_case("question.1d", "uint16", (64,), 0, [(0,), (3,)], 16),
    # Types that the table of cp.reduce.async.bulk.tensor has not.
    *(
        _store_case(
            f"question.{op}.{kind}",
            _PTX_NUMPY[kind],
            _box(2, 128, _PTX_NUMPY[kind]),
            128,
            number,
            kind,
        )
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
    ),
    # The last coordinate in elements, of which a multiple of 16 bytes should be allowed.
    *(
        _load_case(
            f"question.{rank}d.{dtype}.{at}",
            dtype,
            _box(rank, 0, dtype),
            0,
            [(*(0 for _ in range(rank - 1)), at)],
        )
        for rank, dtype, at in product((1, 2), ELEMENTS, (1, 2, 4, 8, -1))
    ),
    *(
        _load_case(
            f"question.swizzled.{rank}d.{at}",
            "uint16",
            _box(rank, 128, "uint16"),
            128,
            [(*(0 for _ in range(rank - 1)), at)],
        )
        for rank, at in product((2, 5), (4, 8, -4, -8))
    ),
    *(
        _store_case(
            f"store.question.{rank}d.{dtype}.{at}",
            dtype,
            _box(rank, 0, dtype),
            0,
            corners=[(*(0 for _ in range(rank - 1)), at)],
        )
        for rank, dtype, at in product((1, 2), ("uint8", "uint16", "uint64"), (1, 2, 4, 8, 16))
    ),
    # Stores and reductions that begin before the tensor, or far behind it.
    *(
        _store_case(
            f"store.question.corner.{row}.{column}",
            "uint16",
            (12, 64),
            128,
            corners=[(row, column)],
        )
        for row, column in (
            (-1, 0),
            (0, -8),
            (-12, 0),
            (0, -64),
            (-13, 0),
            (0, -72),
            (-6, -32),
            (6, -32),
            (-_FAR, 0),
            (0, -_FAR),
            ((1 << 31) - 1, 0),
            (0, _FAR),
            (-(1 << 31), 0),
            (3, 96),
            (96, 3),
        )
    ),
    _store_case("store.question.row", "uint16", (12, 64), 0, corners=[(-1, 0)]),
    _store_case("store.question.depth", "uint16", (2, 3, 64), 128, corners=[(-1, 0, 0)]),
    _store_case("store.question.1d", "uint16", (64,), 0, corners=[(-8,)]),
    _store_case("store.question.wide", "uint16", (12, 64), 0, corners=[(0, -8)]),
    _store_case("reduce.question.row", "uint32", (12, 32), 128, 1, "u32", corners=[(-1, 0)]),
    _store_case("reduce.question.column", "uint32", (12, 32), 128, 1, "u32", corners=[(0, -4)]),
    # As store.2d.negative: one after the other.
    _store_case(
        "store.question.negative", "uint16", (12, 64), 128, corners=_corners((25, 128), (12, 64), 2)
    ),
    *(
        _store_case(
            f"store.question.source.{swizzle}.{step}",
            "uint16",
            (4, 64),
            swizzle,
            corners=[(0, 0), (1, 8)],
            step=step,
        )
        for swizzle, step in ((0, 16), (0, 64), (128, 64))
    ),
)
