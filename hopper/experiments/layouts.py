"""The chapter ``layouts``: one copy, five thread-value layouts, and a layout that leaves holes.

``copy``: bytes read and written, a second, over the side of a square matrix, a curve for each way
to copy; ``copy share``: the same as a share of the fastest way of each round. Every way is compared
with its input before it is timed, and the ways take turns, so that all of them see the same clocks.
``holes``: what a launch returns whose layout covers some elements twice and others not at all.
"""

from functools import cache
from statistics import median

import numpy

from hopper.backends import HopperGpu
from hopper.compile import Program, compile_cuda
from hopper.errors import CheckError
from hopper.experiments import Experiment
from hopper.layout import parse
from hopper.layout.copying import COPIES, ITEM_BYTES, TILE, Copy, copy
from hopper.paths import KERNELS
from hopper.schema import Array, Probe, Sweep

#: Sides of a square matrix: in and out together 8 MB, which the L2 cache holds, up to 2 GB.
SIDES = (1024, 2048, 4096, 8192, 16384)
ROUNDS = 15
#: Bytes that a sample moves at least: small matrices are copied several times for one.
SAMPLE_BYTES = 1 << 30


def samples(gpu: HopperGpu, side: int) -> dict[str, list[float]]:
    """Bytes a second of every way on a ``side`` × ``side`` matrix, one for each round.

    The order of the ways moves on by one from round to round. Raises CheckError where a copy
    differs from its input: nothing unchecked is timed.
    """
    import cupy

    matrix = cupy.arange(side * side, dtype="int32").reshape(side, side)
    out = cupy.empty_like(matrix)
    programs = {name: one.compile() for name, one in COPIES.items()}
    for name, program in programs.items():
        program.require_clean()
        out.fill(-1)
        copy(gpu, program, matrix, out)
        wrong = int((out != matrix).sum())
        if wrong:
            raise CheckError(f"{name}: {wrong} of {out.size} elements are wrong; nothing was timed")
    moved = 2 * ITEM_BYTES * side * side
    launches = -(-SAMPLE_BYTES // moved)
    names = list(COPIES)
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(ROUNDS + 1):  # the first is not counted
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            for _ in range(launches):
                copy(gpu, programs[name], matrix, out)
            end.record()
            end.synchronize()
            seconds = cupy.cuda.get_elapsed_time(start, end) / 1e3
            if turn:
                found[name].append(launches * moved / seconds)
    return found


@cache
def measured(gpu: HopperGpu) -> dict[int, dict[str, list[float]]]:
    """``samples`` of every side; measured once, for the sweeps of both quantities."""
    return {side: samples(gpu, side) for side in SIDES}


def rate_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """GB a second, read and written: the median over the rounds."""
    found = measured(gpu)
    series = {name: tuple(median(found[side][name]) / 1e9 for side in SIDES) for name in COPIES}
    return Sweep("copy", "side", "elements", SIDES, "GB/s", series)


def share_curves(gpu: HopperGpu, program: Program) -> Sweep:
    """Per cent of the fastest way of the same round: the median over the rounds."""
    found = measured(gpu)

    def shares(side: int, name: str) -> float:
        rounds = zip(*found[side].values(), strict=True)
        best = [max(one) for one in rounds]
        return median(100 * rate / top for rate, top in zip(found[side][name], best, strict=True))

    series = {name: tuple(shares(side, name) for side in SIDES) for name in COPIES}
    return Sweep("copy share", "side", "elements", SIDES, "%", series)


#: The last stride should be 16: rows 0 to 39 are covered, some twice, and the others not at all.
HOLES = Copy(parse("((16,16),(4,4)):((256,1),(64,8))"), 4)
_RULE = (
    'static_assert(every_element_once(), "each element of the tile belongs to one thread and '
    'value");\n'
)


def without_the_rule() -> Program:
    """The kernel with the layout HOLES, and without the assertion that refuses it."""
    source = (KERNELS / "layout_copy.cu").read_text(encoding="utf-8")
    assert source.count(_RULE) == 1, "layout_copy.cu must assert that each element has one owner"
    return compile_cuda(source.replace(_RULE, ""), "layout_copy", defines=HOLES.defines)


def holes(gpu: HopperGpu, program: Program) -> Probe:
    """Copy one tile of whole numbers by HOLES, over -1."""
    matrix = numpy.arange(TILE * TILE, dtype="int32").reshape(TILE, TILE)
    out = gpu.array(numpy.full_like(matrix, -1))
    copy(gpu, without_the_rule(), gpu.array(matrix), out)
    return Probe(
        "holes",
        "What is in the elements that a thread-value layout leaves out?",
        {"in": Array.of(matrix), "out": Array.of(gpu.numpy(out))},
    )


EXPERIMENTS = (
    Experiment("layout_copy", "copy", rate_curves),
    Experiment("layout_copy", "copy share", share_curves),
    Experiment("layout_copy", "holes", holes),
)
