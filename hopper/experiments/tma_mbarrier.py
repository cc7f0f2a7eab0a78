"""The chapter ``tma_mbarrier``: what TMA moves, and how many bytes must be under way.

``tma_copy``: GB/s read and written, over the side of a matrix, for each swizzle; over the bytes
that a miss promotes to L2; and what a store leaves whose swizzle is not the load's.
``tma_ring``: nanoseconds a turn of a single stage takes, over the size of a box; GB/s over stages
and boxes, from memory and from L2. ``tma_multicast``: GB/s that arrive in shared memory, with and
without multicast; and, under ncu, how much of that the L2 cache handled. ``tma_reduce``: GB/s added
to a matrix, by TMA and by atomics.

Each variant is compared with NumPy before it is timed, and variants take turns in rounds. "From
memory" means that the L2 cache holds nothing of the matrix when a timed launch starts.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from typing import Any

import numpy

from hopper.backends import HopperGpu, find_hopper
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
from hopper.experiments.under_ncu import SECTOR_BYTES, launched, profiled
from hopper.schema import Array, Probe, Sweep

ROUNDS = 7
SAMPLE_BYTES = 1 << 30  # that a sample moves at least, where that is no more than MOST launches
MOST_LAUNCHES = 200
#: Read before each launch that shall find nothing in the L2 cache: several times what it holds.
FLUSH_BYTES = 256 << 20


def _require_equal(what: str, got: numpy.ndarray, expected: numpy.ndarray) -> None:
    wrong = int((got != expected).sum())
    if wrong:
        raise CheckError(f"{what}: {wrong} of {got.size} elements are wrong; nothing was recorded")


def interleaved(
    ways: Mapping[str, Callable[[], None]],
    launches: int,
    before: Callable[[], Any] = lambda: None,
) -> dict[str, list[float]]:
    """Seconds a launch of each way, by events, one for each round; ways take turns.

    The first round is not counted, and the order moves on by one from round to round. ``before``:
    queued ahead of every way's launches, outside their time.
    """
    import cupy

    names = list(ways)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(ROUNDS + 1):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            before()
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
NOISE = 0.02  # by which two turns may be in the wrong order
COUNTED_STAGES = (4, 12)  # under ncu
COUNT_SECONDS = 120
SECTORS = "lts__t_sectors.sum"  # that the slices of the L2 cache looked up


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

    From "memory" no launch reads a box twice, and the L2 cache is filled with something else before
    each. Else the boxes that the launch before has left there would count as memory's.
    """
    import cupy

    flush = cupy.zeros(FLUSH_BYTES // 4, "uint32") if source == "memory" else None
    side = RING_SIDES[source]
    matrix = cupy.arange(side * side, dtype="uint32").reshape(side, side)
    total = int(matrix.sum(dtype="uint64")) % (1 << 32)
    blocks = 1 if alone else gpu.sm_count // 2 * 2
    ways, found = {}, {}
    for name, ring in rings.items():
        program = check_ring(gpu, ring)
        passes = max(1, RING_BYTES // matrix.nbytes)
        tiles = ring.tiles(matrix)[1]
        boxes = TURNS if alone else tiles * passes
        if flush is not None and boxes > tiles:
            raise CheckError(f"{ring}: {boxes} boxes of {tiles}, so some come from the L2 cache")
        start, sums, received = ring.launch(gpu, program, matrix, boxes, blocks)
        start()
        if int(received.sum()) != boxes * ring.box_bytes * ring.cluster:
            raise CheckError(f"{ring}: {int(received.sum())} bytes arrived; nothing was recorded")
        if not alone and int(sums.sum(dtype="uint64")) % (1 << 32) != (
            total * passes * ring.cluster % (1 << 32)
        ):
            raise CheckError(f"{ring}: the sum over {source} is wrong; nothing was recorded")
        ways[name], found[name] = start, boxes * ring.box_bytes * ring.cluster
    took = interleaved(ways, 1, before=(lambda: None) if flush is None else flush.sum)
    return {name: (median(seconds), found[name]) for name, seconds in took.items()}


def require_plausible_turns(series: Mapping[str, tuple[float, ...]]) -> None:
    """A larger box takes no shorter turn, and none is shorter from memory than from the L2 cache.

    Where a turn from memory finds a part of its boxes in the cache, one of the two breaks. Raises
    CheckError; NOISE is what two medians may differ by.
    """
    for source, turns in series.items():
        for kb, small, large in zip(BOX_KB, turns, turns[1:], strict=False):
            if large < small * (1 - NOISE):
                raise CheckError(
                    f"a turn of {kb} KB from {source} takes {small:.0f} ns, and one of the next "
                    f"larger box {large:.0f} ns: does it find boxes in the L2 cache? Nothing was "
                    f"recorded"
                )
    for kb, far, near in zip(BOX_KB, series["memory"], series["L2"], strict=True):
        if far < near * (1 - NOISE):
            raise CheckError(
                f"a turn of {kb} KB takes {far:.0f} ns from memory and {near:.0f} ns from the L2 "
                f"cache; nothing was recorded"
            )


def turn_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Nanoseconds from one box to the next with one block and one stage, over the box's KB."""
    rings = {str(kb): Ring(1, 8 * kb) for kb in BOX_KB}
    series = {}
    for source in RING_SIDES:
        found = ring_seconds(gpu, rings, source, alone=True)
        series[source] = tuple(1e9 * found[str(kb)][0] / TURNS for kb in BOX_KB)
    require_plausible_turns(series)
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


def _counted_rings() -> Iterator[tuple[str, int, Ring]]:
    """Name, stages and ring of what is launched under ncu, in order."""
    for name, how in PAIRS.items():
        for stages in COUNTED_STAGES:
            yield name, stages, Ring(stages, 8 * PAIR_KB, *how)


def launch_counted() -> None:
    """Launch each of ``_counted_rings`` once from the L2 cache, for ncu."""
    import cupy

    gpu, side = find_hopper(), RING_SIDES["L2"]
    matrix = cupy.arange(side * side, dtype="uint32").reshape(side, side)
    starts = []
    for _, _, ring in _counted_rings():
        boxes = ring.tiles(matrix)[1] * max(1, RING_BYTES // matrix.nbytes)
        starts.append(ring.launch(gpu, ring.compile(), matrix, boxes, gpu.sm_count // 2 * 2)[0])
    launched(gpu, starts)


def sector_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """What the L2 cache looked up, in % of the bytes that arrived in both blocks, over the stages.

    ncu counts sectors of 32 bytes, in a process of its own. Raises HopperError as
    ``under_ncu.profiled`` does.
    """
    rings, side = list(_counted_rings()), RING_SIDES["L2"]
    found = profiled(
        "hopper.experiments.tma_mbarrier",
        kernels=[ring.compile().kernel for _, _, ring in rings],
        seconds=COUNT_SECONDS,
        metrics=(SECTORS,),
    )
    series: dict[str, list[float]] = {name: [] for name in PAIRS}
    for (name, _, ring), one in zip(rings, found, strict=True):
        matrix_bytes = 4 * side * side
        arrived = ring.cluster * matrix_bytes * max(1, RING_BYTES // matrix_bytes)
        series[name].append(100 * SECTOR_BYTES * one.metrics[SECTORS].value / arrived)
    values = {name: tuple(shares) for name, shares in series.items()}
    return Sweep("sectors", "stages", "boxes", COUNTED_STAGES, "%", values)


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
    Experiment("tma_multicast", "sectors", sector_curves),
    Experiment("tma_reduce", "reduce", reduce_curves),
)

if __name__ == "__main__":
    launch_counted()
