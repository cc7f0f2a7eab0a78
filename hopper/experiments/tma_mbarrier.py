"""The chapter ``tma_mbarrier``: what TMA moves, and how many bytes must be under way.

``tma_copy``: GB/s read and written, over the side of a matrix, for each swizzle; over the bytes
that a miss promotes to L2; and what a store leaves whose swizzle is not the load's.
``tma_ring``: nanoseconds a turn of a single stage takes, over the size of a box; GB/s over stages
and boxes, from memory and from L2. ``tma_multicast``: GB/s that arrive in shared memory, with and
without multicast. ``tma_reduce``: GB/s added to a matrix, by TMA and by atomics.

Each variant is compared with NumPy before it is timed, and variants take turns in rounds.
"""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import numpy

from hopper.backends import HopperGpu
from hopper.compile import Program, compile_kernel
from hopper.errors import CheckError
from hopper.experiments import Experiment
from hopper.experiments.tma_launches import (
    REDUCTIONS,
    Ring,
    copied,
    copy_launch,
    random_words,
    reduce_launch,
    reduced,
    whole_numbers,
)
from hopper.schema import Array, Probe, Sweep

ROUNDS = 7
SAMPLE_BYTES = 1 << 30  # that a sample moves at least, where that is no more than MOST launches
MOST_LAUNCHES = 200


def _require_equal(what: str, got: numpy.ndarray, expected: numpy.ndarray) -> None:
    wrong = int((got != expected).sum())
    if wrong:
        raise CheckError(f"{what}: {wrong} of {got.size} elements are wrong; nothing was recorded")


def interleaved(ways: Mapping[str, Callable[[], None]], launches: int) -> dict[str, list[float]]:
    """Seconds a launch of each way, by events, one for each round; ways take turns.

    The first round is not counted, and the order moves on by one from round to round.
    """
    import cupy

    names = list(ways)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(ROUNDS + 1):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            for _ in range(launches):
                ways[name]()
            end.record()
            end.synchronize()
            if turn:
                found[name].append(cupy.cuda.get_elapsed_time(start, end) / 1e3 / launches)
    return found


def _launches(moved: int) -> int:
    return min(MOST_LAUNCHES, -(-SAMPLE_BYTES // moved))


# ---- tma_copy -----------------------------------------------------------------------------------

COPY_SWIZZLES = (0, 32, 64, 128)
COPY_SIDES = (1024, 2048, 4096, 8192, 16384)
PROMOTIONS = (0, 64, 128, 256)


def _checked_copy(gpu: HopperGpu, swizzle: int, **options) -> Program:
    """The variant, once it has copied edges in both directions right."""
    program = compile_kernel("tma_copy", SWIZZLE=swizzle)
    program.require_clean()
    matrix = random_words(777, 500).view("uint16")
    _require_equal(f"tma_copy {swizzle}", copied(gpu, program, matrix, **options), matrix)
    return program


def _copy_rates(gpu: HopperGpu, ways: Callable[[Any, Any], dict], side: int) -> dict[str, float]:
    import cupy

    matrix = cupy.arange(side * side // 2, dtype="uint32").view("uint16").reshape(side, side)
    out = cupy.empty_like(matrix)
    moved = 2 * matrix.nbytes
    found = interleaved(ways(matrix, out), _launches(moved))
    return {name: moved / median(seconds) / 1e9 for name, seconds in found.items()}


def copy_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second, read and written, for each swizzle, and for the driver's copy of the same."""
    programs = {f"swizzle {span}": _checked_copy(gpu, span) for span in COPY_SWIZZLES}

    def ways(matrix, out) -> dict[str, Callable[[], None]]:
        def by_driver() -> None:
            out.data.copy_from_device_async(matrix.data, matrix.nbytes)

        ours = {name: copy_launch(gpu, one, matrix, out) for name, one in programs.items()}
        return {**ours, "cudaMemcpy": by_driver}

    found = [_copy_rates(gpu, ways, side) for side in COPY_SIDES]
    series = {name: tuple(one[name] for one in found) for name in found[0]}
    return Sweep("copy", "side", "elements", COPY_SIDES, "GB/s", series)


def promotion_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second on the largest matrix, over the bytes that a miss of the load promotes."""
    programs = {f"rows of {span} bytes": _checked_copy(gpu, span) for span in COPY_SWIZZLES[1:]}

    def ways(matrix, out) -> dict[tuple[str, int], Callable[[], None]]:
        return {
            (name, size): copy_launch(gpu, one, matrix, out, promotion=size)
            for name, one in programs.items()
            for size in PROMOTIONS
        }

    found = _copy_rates(gpu, ways, COPY_SIDES[-1])
    series = {name: tuple(found[name, size] for size in PROMOTIONS) for name in programs}
    return Sweep("promotion", "promotion", "bytes", PROMOTIONS, "GB/s", series)


def mismatched() -> numpy.ndarray:
    """A tile of ``tma_copy`` as wide as its largest swizzle; element (r, c) is 64·r + c."""
    return numpy.arange(64 * 64, dtype="uint16").reshape(64, 64)


def probe_mismatch(gpu: HopperGpu, program: Program) -> Probe:
    """Load with the 128-byte swizzle, store without one."""
    matrix = mismatched()
    out = copied(gpu, compile_kernel("tma_copy", SWIZZLE=128), matrix, out_swizzle=0)
    return Probe(
        "mismatch",
        "What does a store without a swizzle make of a tile that was loaded with one?",
        {"in": Array.of(matrix), "out": Array.of(out)},
    )


# ---- tma_ring and tma_multicast -----------------------------------------------------------------


#: Words of a side of a square matrix: 1 GB, and 16 MB, which the L2 cache holds.
RING_SIDES = {"memory": 16384, "L2": 2048}
CHECKED = (1000, 1220)  # rows and words of what is compared first, boxes clipped at both edges
RING_BYTES = 1 << 30  # that a launch brings at least
BOX_KB = (2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4, 6, 8, 12)
SWEPT_KB = (2, 4, 8, 16)
PAIR_STAGES = (1, 2, 4, 6, 8, 12)
PAIR_KB = 16
TURNS = 4000  # boxes that a single block reads for the time of a turn


def check_ring(gpu: HopperGpu, ring: Ring) -> Program:
    """The variant, once it has read a matrix with clipped edges right. Raises CheckError."""
    program, matrix, blocks = ring.compile(), random_words(*CHECKED), gpu.sm_count // 2 * 2
    boxes = 3 * ring.tiles(matrix)[1] + 5
    start, *outputs = ring.launch(gpu, program, gpu.array(matrix), boxes, blocks)
    start()
    for got, right in zip(outputs, ring.expected(matrix, boxes, blocks), strict=True):
        _require_equal(f"{ring}", gpu.numpy(got), right)
    return program


def ring_seconds(
    gpu: HopperGpu, rings: Mapping[str, Ring], source: str, alone: bool = False
) -> dict[str, tuple[float, int]]:
    """Seconds of a launch, and bytes that it brings into shared memory, of each ring.

    ``source``: a key of RING_SIDES. ``alone``: one block, TURNS boxes; else one an SM. Each ring is
    checked before, and its sums over the whole matrix are compared behind it.
    """
    import cupy

    side = RING_SIDES[source]
    matrix = cupy.arange(side * side, dtype="uint32").reshape(side, side)
    total = int(matrix.sum(dtype="uint64")) % (1 << 32)
    blocks = 1 if alone else gpu.sm_count // 2 * 2
    ways, found = {}, {}
    for name, ring in rings.items():
        program = check_ring(gpu, ring)
        passes = max(1, RING_BYTES // matrix.nbytes)
        boxes = TURNS if alone else ring.tiles(matrix)[1] * passes
        start, sums, received = ring.launch(gpu, program, matrix, boxes, blocks)
        start()
        if int(received.sum()) != boxes * ring.box_bytes * ring.cluster:
            raise CheckError(f"{ring}: {int(received.sum())} bytes arrived; nothing was recorded")
        if not alone and int(sums.sum(dtype="uint64")) % (1 << 32) != (
            total * passes * ring.cluster % (1 << 32)
        ):
            raise CheckError(f"{ring}: the sum over {source} is wrong; nothing was recorded")
        ways[name], found[name] = start, boxes * ring.box_bytes * ring.cluster
    return {name: (median(seconds), found[name]) for name, seconds in interleaved(ways, 1).items()}


def turn_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Nanoseconds from one box to the next with one block and one stage, over the box's KB."""
    rings = {str(kb): Ring(1, 8 * kb) for kb in BOX_KB}
    series = {}
    for source in RING_SIDES:
        found = ring_seconds(gpu, rings, source, alone=True)
        series[source] = tuple(1e9 * found[str(kb)][0] / TURNS for kb in BOX_KB)
    return Sweep("turn", "box", "KB", BOX_KB, "ns", series)


def ring_curves(source: str, gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second into shared memory over the number of stages, a curve for each box."""
    rings = {f"{kb} {stages}": Ring(stages, 8 * kb) for kb in SWEPT_KB for stages in STAGES}
    found = {
        name: amount / seconds / 1e9
        for name, (seconds, amount) in ring_seconds(gpu, rings, source).items()
    }
    series = {
        f"boxes of {kb} KB": tuple(found[f"{kb} {stages}"] for stages in STAGES) for kb in SWEPT_KB
    }
    return Sweep(source, "stages", "boxes", STAGES, "GB/s", series)


#: Curve -> multicast, cluster scope.
PAIRS = {
    "two loads": (False, True),
    "multicast": (True, True),
    "multicast, block scope": (True, False),
}


def pair_curves(source: str, gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second that arrive in the shared memory of both blocks, over the number of stages."""
    rings = {
        f"{name} {stages}": Ring(stages, 8 * PAIR_KB, *how)
        for name, how in PAIRS.items()
        for stages in PAIR_STAGES
    }
    found = {
        name: amount / seconds / 1e9
        for name, (seconds, amount) in ring_seconds(gpu, rings, source).items()
    }
    series = {name: tuple(found[f"{name} {stages}"] for stages in PAIR_STAGES) for name in PAIRS}
    return Sweep(source, "stages", "boxes", PAIR_STAGES, "GB/s", series)


# ---- tma_reduce ---------------------------------------------------------------------------------

PLANES = (1, 2, 4, 8, 16)
REDUCED_SIDE = 2048  # of the matrix that is added to: 16 MB


def reduce_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second read and added, over the number of planes."""
    import cupy

    small, before = whole_numbers(5, 331, 276), whole_numbers(331, 276)
    right = before + small.sum(axis=0)
    programs = {}
    for name, way in REDUCTIONS.items():
        programs[name] = compile_kernel("tma_reduce", WAY=way)
        programs[name].require_clean()
        _require_equal(f"tma_reduce, {name}", reduced(gpu, name, small, before), right)
    rates: dict[str, list[float]] = {name: [] for name in REDUCTIONS}
    for count in PLANES:
        planes = cupy.ones((count, REDUCED_SIDE, REDUCED_SIDE), "float32")
        out = cupy.zeros((REDUCED_SIDE, REDUCED_SIDE), "float32")
        ways = {name: reduce_launch(gpu, one, planes, out) for name, one in programs.items()}
        for name, seconds in interleaved(ways, _launches(planes.nbytes)).items():
            rates[name].append(planes.nbytes / median(seconds) / 1e9)
    series = {name: tuple(values) for name, values in rates.items()}
    return Sweep("reduce", "planes", "", PLANES, "GB/s", series)


EXPERIMENTS = (
    Experiment("tma_copy", "copy", copy_curves),
    Experiment("tma_copy", "promotion", promotion_curves),
    Experiment("tma_copy", "mismatch", probe_mismatch),
    Experiment("tma_ring", "turn", turn_curves),
    *(Experiment("tma_ring", source, partial(ring_curves, source)) for source in RING_SIDES),
    *(Experiment("tma_multicast", source, partial(pair_curves, source)) for source in RING_SIDES),
    Experiment("tma_reduce", "reduce", reduce_curves),
)
