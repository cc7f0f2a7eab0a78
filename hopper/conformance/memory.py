"""Cases for memory: loads, stores, addresses, atomics, cp.async, and values for other blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from hopper.conformance import Case, blank

_CELLS = 1024
_BITS = {"b16": 16, "f16": 16, "bf16": 16, "u64": 64, "s64": 64, "b64": 64, "f64": 64}
_WORDS = ("u32", "s32", "u64", "s64")
#: Scalar operations, each with its types.
ATOMICS = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b16", "b32", "b64"),
    "min": _WORDS,
    "max": _WORDS,
    "inc": ("u32",),
    "dec": ("u32",),
}
#: Vectors: operation, type, and elements of 16 or 32 bits.
VECTORS = (
    *(("add", f"v{count}.f32", count, 32) for count in (2, 4)),
    *(
        (op, f"v{count}.{kind}", count, 16)
        for op in ("add", "min", "max")
        for kind in ("f16", "bf16")
        for count in (2, 4, 8)
    ),
    *(
        (op, f"v{count}.{kind}x2", count, 32)
        for op in ("add", "min", "max")
        for kind in ("f16", "bf16")
        for count in (2, 4)
    ),
)
# Bit patterns at the edges of the floating-point formats: zeros, subnormal numbers, the smallest
# and largest normal ones, infinities, quiet and signalling NaN.
_EDGES = {
    "f16": (0, 1, 0x3FF, 0x400, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF),
    "bf16": (0, 1, 0x7F, 0x80, 0x3F80, 0x3F81, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF),
    "f32": (0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F800001, 0x7F7FFFFF, 0x7F800000)
    + (0x7F800001, 0x7FC00000, 0x7FC12345, 0x7FFFFFFF),
    "f64": (0, 1, (1 << 52) - 1, 1 << 52, 0x3FF << 52, 0x3FF << 52 | 1, 0x7FF0 << 48)
    + ((0x7FF << 52) - 1, 0x7FF << 52 | 1, 0x7FF8 << 48, 0x7FF8123456789ABC),
}


def words(kind: str, count: int, seed: int) -> numpy.ndarray:
    """``count`` operands of a PTX type as unsigned integers: edges, close numbers and noise."""
    random = numpy.random.default_rng(seed)
    base = kind.removesuffix("x2")
    bits = _BITS.get(base, 32)
    dtype = numpy.dtype(f"u{bits // 8}")
    items = count * (2 if kind.endswith("x2") else 1)
    found = random.integers(0, 1 << bits, items, dtype=numpy.uint64)
    if base in _EDGES:
        signs = random.integers(0, 2, items, dtype=numpy.uint64) << numpy.uint64(bits - 1)
        edges = numpy.array(_EDGES[base], numpy.uint64)[
            random.integers(0, len(_EDGES[base]), items)
        ]
        # Numbers near one: sums that round, and that cancel.
        fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[base]
        one = numpy.uint64(_EDGES[base][4])
        close = one + random.integers(0, 3 << fraction, items, dtype=numpy.uint64)
        # Small exponents, subnormal numbers among them.
        small = random.integers(0, 3 << fraction, items, dtype=numpy.uint64)
        found = numpy.choose(random.integers(0, 4, items), [found, edges, close, small]) ^ signs
    else:
        edges = numpy.array([0, 1, 2, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 1], "u8")
        some = edges[random.integers(0, edges.size, items)]
        found = numpy.where(random.random(items) < 0.4, some, found)
    return found.astype(dtype).view(f"u{dtype.itemsize * items // count}")


def _atomic(op: str, kind: str) -> Case:
    def arguments() -> list:
        cells, values = words(kind, _CELLS, 1), words(kind, _CELLS, 2)
        compares = numpy.where(numpy.arange(_CELLS) % 3 == 0, cells, values)
        if op in ("inc", "dec"):
            cells[::2] %= 5
            values[::2] %= 7
        four = numpy.concatenate([cells] * 4)
        return [
            values,
            compares,
            four,
            blank(four.shape, four.dtype),
            blank(four.shape, four.dtype),
        ]

    bits = _BITS.get(kind, 32)
    noftz = ".noftz" if "f16" in kind else ""
    swaps = op in ("exch", "cas")
    return Case(
        f"memory.atomic.{op}.{kind}",
        "probes/memory_atomics.cu",
        "memory_atomics",
        arguments,
        (2, 3, 4),
        grid=(_CELLS // 128, 1, 1),
        defines={
            "OP": f'"{op}{noftz}.{kind}"',
            "BITS": bits,
            "COMPARE": int(op == "cas"),
            "RED": int(not swaps),
        },
    )


def _vector(op: str, vector: str, count: int, bits: int) -> Case:
    kind = vector.split(".")[1]

    def arguments() -> list:
        values, cells = (words(kind, 256 * count, seed) for seed in (3, 4))
        return [values, numpy.concatenate([cells] * 3), blank(2 * cells.size, cells.dtype)]

    return Case(
        f"memory.atomic.{op}.{vector}",
        "probes/memory_vector_atomics.cu",
        "memory_vector_atomics",
        arguments,
        (1, 2),
        grid=(2, 1, 1),
        defines={
            "VECTOR": f'"{vector}"',
            "OP": f'"{op}"' if kind == "f32" else f'"{op}.noftz"',
            "BITS": bits,
            "WORDS": count,
        },
    )


def _bytes(size: int, seed: int) -> numpy.ndarray:
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


def _integers(size: int, seed: int) -> numpy.ndarray:
    return numpy.random.default_rng(seed).integers(0, 1 << 32, size, dtype=numpy.uint32)


def _contended() -> list:
    cells = numpy.zeros(32, numpy.uint32)
    cells[3] = 0xFFFFFFFF
    messages, flags = blank(4, numpy.uint32), numpy.zeros(4, numpy.uint32)
    return [_integers(256, 7), cells, messages, flags, blank((4, 32), numpy.uint32)]


def _simple(
    name: str, arguments: Callable[[], list], outputs: tuple[int, ...], threads: int, **more
) -> Case:
    kernel = f"memory_{name}"
    return Case(
        f"memory.{name}",
        f"probes/{kernel}.cu",
        kernel,
        arguments,
        outputs,
        block=(threads, 1, 1),
        **more,
    )


CASES = (
    _simple(
        "loads",
        lambda: [_bytes(2048, 5), blank((400, 128), numpy.uint64), numpy.uint32(0x89ABCDEF)],
        (1,),
        128,
    ),
    _simple(
        "stores",
        lambda: [_bytes(64 * 16, 6).view(numpy.uint64), blank((64, 512), numpy.uint8)],
        (1,),
        64,
    ),
    _simple(
        "addresses",
        lambda: [blank((4, 64, 32), numpy.uint32), numpy.uint32(5)],
        (0,),
        32,
        grid=(4, 1, 1),
        shared_bytes=256,
    ),
    *(_atomic(op, kind) for op, kinds in ATOMICS.items() for kind in kinds),
    *(_vector(*vector) for vector in VECTORS),
    _simple("contended", _contended, (1, 2, 4), 64, grid=(4, 1, 1)),
    _simple(
        "copies",
        lambda: [
            _bytes(128 * 512, 8),
            blank((2, 24, 64, 16), numpy.uint8),
            blank((2, 128), numpy.uint32),
        ],
        (1, 2),
        64,
        grid=(2, 1, 1),
    ),
    _simple(
        "remote",
        lambda: [_integers(512, 9), blank((4, 1024), numpy.uint32)],
        (1,),
        32,
        grid=(4, 1, 1),
    ),
)
