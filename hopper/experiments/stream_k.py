"""The chapter on v9: whose bits differ, whether they come again, and what handing over costs.

``bits``: v8, v9 and cuBLAS at the headline problem, by the parts of C that v9 computes in different
ways: elements whose bits are not v8's, and elements that are not the fp16 nearest to the fp64
result. ``again``: launches in a row, on one stream and on two, and how many differed from the first
in a single bit. ``handing over``: cycles of a launch with half a wave more or less, over K, from
which ``handing_over`` takes what sharing costs. ``a lasting load``: v9 with v8's tile. ``by size``:
v9 as it is, with a stream for every product, and with v8's tile. Each variant
is checked before it is compared or timed.
"""

from __future__ import annotations

from typing import Any

import numpy

from hopper.bench import checked_pair, inputs_on, interleaved
from hopper.check import check
from hopper.compile import Program, compile_kernel
from hopper.dtypes import filled_with_nan
from hopper.errors import HopperError
from hopper.experiments import Curves, Experiment
from hopper.experiments.two_consumers import clock_of
from hopper.gemm import Problem, plan
from hopper.records import HEADLINE
from hopper.samples import median, ratio
from hopper.schema import Array, Probe, Sweep
from hopper.stream_k import CLUSTER, Plan, Tiling, plan_stream_k

V8, V9 = "v8_multicast", "v9_stream_k"

# ---- bits ---------------------------------------------------------------------------------------

BITS = "bits"
#: What is compared -> kernel and -D names; None: cuBLAS.
VARIANTS: dict[str, tuple[str, dict[str, int]] | None] = {
    "v8": (V8, {}),
    "v9": (V9, {}),
    "v9, ALTERNATE=0": (V9, {"ALTERNATE": 0}),
    "cuBLAS": None,
}
#: How v9 computes a part of C.
PARTS = ("a wave, forwards", "a wave, backwards", "the stream, by one", "the stream, by several")


def parts_of(whole: Plan) -> numpy.ndarray:
    """For each element of C the number of its part, uint8 (m, n)."""
    part = numpy.zeros((whole.m, whole.n), numpy.uint8)
    for piece in whole.every():
        unit = whole.units[piece.unit]
        if piece.to is not None:
            continue
        number = 2 + bool(piece.givers) if piece.unit >= whole.whole else int(piece.backwards)
        part[unit.row : unit.row + unit.rows, unit.column : unit.column + unit.columns] = number
    return part


def bits(gpu: Any, program: Program) -> Probe:
    """Elements by part of C, for each of VARIANTS: unlike v8's, and unlike the nearest fp16."""
    import cupy

    a, b = inputs_on(gpu, HEADLINE)
    exact = a.astype("float64") @ b.astype("float64").T
    nearest = exact.astype("float16").view("uint16")
    whole = plan_stream_k(
        HEADLINE.m, HEADLINE.n, HEADLINE.k, gpu.sm_count // CLUSTER, Tiling.of(program.facts)
    )
    part = cupy.asarray(parts_of(whole))
    chosen = [part == number for number in range(len(PARTS))]
    found: dict[str, list[list[float]]] = {"unlike v8": [], "not nearest": [], "norm": []}
    first = None
    for variant in VARIANTS.values():
        c = filled_with_nan(cupy, (HEADLINE.m, HEADLINE.n), "float16")
        if variant is None:
            cupy.matmul(a, b.T, out=c)
        else:
            kernel, defines = variant
            plan(compile_kernel(kernel, **defines), a, b, c).run()
        check(c, a, b, rows=range(0, HEADLINE.m, 512))
        told = c.view("uint16")
        first = told if first is None else first
        error = (c.astype("float64") - exact) ** 2
        found["unlike v8"].append([int((told[here] != first[here]).sum()) for here in chosen])
        found["not nearest"].append([int((told[here] != nearest[here]).sum()) for here in chosen])
        found["norm"].append(
            [float(cupy.sqrt(error[here].sum() / (exact[here] ** 2).sum())) for here in chosen]
        )
    elements = [int(here.sum()) for here in chosen]
    return Probe(
        BITS,
        "Which elements of C have v8's bits, and which are the nearest fp16, by part of C?",
        {
            "elements": Array.of(numpy.array(elements, numpy.int64)),
            "unlike v8": Array.of(numpy.array(found["unlike v8"], numpy.int64)),
            "not nearest": Array.of(numpy.array(found["not nearest"], numpy.int64)),
            "norm": Array.of(numpy.array(found["norm"])),
        },
    )


# ---- again --------------------------------------------------------------------------------------

AGAIN = "again"
#: A stream for every product, however little it gains.
ALWAYS = {"HAND_OVER": 0}
#: Problem and streams: a stream of units behind waves, and nothing but a stream.
CASES = ((HEADLINE, 1), (Problem(2048, 2048, 2048), 1), (Problem(2048, 2048, 2048), 2))
LAUNCHES = 200


def again(gpu: Any, program: Program) -> Probe:
    """Launches in a row, by CASES, and how many of them differed from the first in any bit."""
    always = compile_kernel(V9, **ALWAYS)
    different = [_repeated(gpu, always, problem, streams) for problem, streams in CASES]
    return Probe(
        AGAIN,
        "Does every launch return the same bits, also while another launch runs?",
        {
            "launches": Array.of(numpy.array([LAUNCHES * n for _, n in CASES], numpy.int64)),
            "different": Array.of(numpy.array(different, numpy.int64)),
        },
    )


def _repeated(gpu: Any, program: Program, problem: Problem, streams: int) -> int:
    import cupy

    jobs = []
    for number in range(streams):
        a, b = inputs_on(gpu, problem)
        a *= 2**number  # exact, and other sums in the workspace
        c = filled_with_nan(cupy, (problem.m, problem.n), "float16")
        launch = plan(program, a, b, c)  # a workspace for each stream
        launch.run()
        check(c, a, b)
        jobs.append((cupy.cuda.Stream(non_blocking=True), launch, c, c.copy(), []))
    gpu.synchronize()
    for _ in range(LAUNCHES):
        for stream, launch, c, first, counts in jobs:
            with stream:
                c.fill(cupy.nan)
                launch.run()
                counts.append((c.view("uint16") != first.view("uint16")).any())
    gpu.synchronize()
    return sum(int(one) for *_, counts in jobs for one in counts)


# ---- what handing over costs --------------------------------------------------------------------

HANDING_OVER = "handing over"
DEPTHS = (1024, 4096, 8192)
#: Curves: cycles of one and a half waves more than one, and of two more than one and a half.
MORE, LESS = "1½ − 1 waves", "2 − 1½ waves"


def half_waves(program: Program, sms: int, k: int) -> tuple[Problem, Problem, Problem]:
    """Problems of one, one and a half and two waves of whole pairs. Raises HopperError."""
    clusters = sms // CLUSTER
    columns = next((n for n in (6, 4, 2) if clusters % n == 0), 0)
    if not columns:
        raise HopperError(f"{clusters} clusters are odd: half a wave is no whole number of units")
    high, broad = Tiling.of(program.facts).pair
    m = clusters // columns * high
    return tuple(Problem(m, columns * halves // 2 * broad, k) for halves in (2, 3, 4))


def handing(gpu: Any, program: Program) -> Sweep:
    """Cycles over K, in pairs of launches that take turns, of a kernel that always shares."""
    program = compile_kernel(V9, **ALWAYS)
    series: dict[str, list[float]] = {MORE: [], LESS: []}
    for k in DEPTHS:
        one, half, two = (
            checked_pair(program, *inputs_on(gpu, problem)).run
            for problem in half_waves(program, gpu.sm_count, k)
        )
        for name, longer, shorter in ((MORE, half, one), (LESS, two, half)):
            timed = interleaved(gpu, longer, shorter)
            more = median(timed.samples_ms) - median(timed.peer_samples_ms)
            series[name].append(round(more * 1e3 * clock_of(timed), 1))
    return Sweep(
        HANDING_OVER, "K", "elements", tuple(map(float, DEPTHS)), "cycles",
        {name: tuple(values) for name, values in series.items()},
    )  # fmt: skip


def handing_over(found: Curves) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Cycles of a wave, and cycles that sharing half a wave costs besides, over ``found.x``.

    Half a wave is half of a wave's cycles, and what sharing costs is paid once in the middle one.
    """
    more, less = found[MORE], found[LESS]
    return more + less, (more - less) / 2


# ---- a lasting load -----------------------------------------------------------------------------

LASTING = "a lasting load"
#: The tile that is faster in a burst, or slower: v9 as v8's tile, whose pairs share B.
OTHER_TILE = {"TILE_M": 128, "TILE_N": 256, "SHARE_A": 0, "STAGES": 4}


def lasting(gpu: Any, program: Program) -> Sweep:
    """v9 with OTHER_TILE under a lasting load, over the tile's columns: one value each."""
    other = compile_kernel(V9, **OTHER_TILE)
    pair = checked_pair(other, *inputs_on(gpu, HEADLINE))
    timed = interleaved(gpu, pair.run, pair.peer, mode="sustained")
    of_peer = 100 * ratio(timed.samples_ms, timed.peer_samples_ms)
    return Sweep(
        LASTING, "TILE_N", "columns", (float(other.facts.tile_n),), "%",
        {"of cuBLAS": (round(of_peer, 3),)},
    )  # fmt: skip


# ---- by size ------------------------------------------------------------------------------------

BY_SIZE = "by size"
SIZES = (
    Problem(1024, 1024, 1024),
    Problem(2048, 2048, 2048),
    Problem(4096, 4096, 4096),
    Problem(4096, 4096, 14336),
    HEADLINE,
    Problem(8192, 28672, 8192),
    Problem(16384, 16384, 16384),
)
#: What is compared at each of SIZES -> -D names.
WAYS: dict[str, dict[str, int]] = {
    "as written": {},
    "always shared": ALWAYS,
    "128 × 256": OTHER_TILE,
}


def by_size(gpu: Any, program: Program) -> Sweep:
    """v9 in each of WAYS, in a burst: percent of cuBLAS over SIZES, which are numbered from 0."""
    series: dict[str, list[float]] = {way: [] for way in WAYS}
    for problem in SIZES:
        arrays = inputs_on(gpu, problem)
        for way, defines in WAYS.items():
            pair = checked_pair(compile_kernel(V9, **defines), *arrays)
            timed = interleaved(gpu, pair.run, pair.peer)
            of_peer = 100 * ratio(timed.samples_ms, timed.peer_samples_ms)
            series[way].append(round(of_peer, 3))
    return Sweep(
        BY_SIZE, "problem", "its place in SIZES", tuple(map(float, range(len(SIZES)))), "%",
        {way: tuple(values) for way, values in series.items()},
    )  # fmt: skip


EXPERIMENTS = (
    Experiment(V9, BITS, bits),
    Experiment(V9, AGAIN, again),
    Experiment(V9, HANDING_OVER, handing),
    Experiment(V9, LASTING, lasting),
    Experiment(V9, BY_SIZE, by_size),
)
