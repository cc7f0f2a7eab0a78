"""The chapter on v6: what sums in fp16 cost, over K and over what the inputs are like.

``error`` and ``error, fp32 sums``: the relative norm of the error against fp64, by v6 and by v5 on
the same inputs, of the elements that came out finite; ``infinite``: how many of v6's did not, where
the exact one is a number of fp16. One tile of C, so that K may be large.

``like for like``: v6's speed beside cuBLAS told to compute in fp16, and this cuBLAS's beside itself
in fp32; ``like for like, error``: of all three. Burst, in turns, normal inputs; v6 is
checked first.

``summed`` computes what v6 computes from the instruction's arithmetic, without a kernel.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy

from hopper.bench import inputs_on, interleaved
from hopper.check import check, compare
from hopper.compile import Program, compile_kernel
from hopper.cublas import Cublas
from hopper.emulator.tensorcore import multiply_add
from hopper.experiments import Experiment
from hopper.gemm import DISTRIBUTIONS, Problem, gemm, plan
from hopper.samples import ratio
from hopper.schema import Sweep

V5, V6 = "v5_in_flight", "v6_fp16_acc"
ERROR, ERROR_FP32, INFINITE = "error", "error, fp32 sums", "infinite"
DEPTHS = (64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072)
TILE = 256  # rows and columns of C
WGMMA_K = 16  # products that one instruction adds before it rounds
_LARGEST = 65504  # of fp16

Draw = Callable[[numpy.random.Generator, int, int, int], tuple[numpy.ndarray, numpy.ndarray]]


def _usual(name: str) -> Draw:
    draw = DISTRIBUTIONS[name]
    return lambda random, m, n, k: (draw(random, (m, k)), draw(random, (n, k)))


def _positive(random, m: int, n: int, k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    return random.random((m, k), numpy.float32), random.random((n, k), numpy.float32)


def _there_and_back(random, m: int, n: int, k: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    a, b = (8 * matrix for matrix in _positive(random, m, n, k))
    b[:, k // 2 :] *= -1
    return a, b


#: positive: [0, 1). there and back: [0, 8), and B's second half along K negative, so that the sums
#: end near 0 and have been far away. The others as in hopper.gemm.
INPUTS: dict[str, Draw] = {
    **{name: _usual(name) for name in ("normal", "uniform", "integers")},
    "positive": _positive,
    "there and back": _there_and_back,
}


def inputs(
    name: str, k: int, m: int = TILE, n: int = TILE, seed: int = 0
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A (m, k) and B (n, k) in fp16, drawn as ``name`` says; the same on every machine."""
    random = numpy.random.Generator(numpy.random.PCG64([seed, k]))
    a, b = INPUTS[name](random, m, n, k)
    return a.astype(numpy.float16), b.astype(numpy.float16)


def summed(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """A·Bᵀ by one wgmma after another, each of which rounds its sums to fp16: v6's bits.

    A (M, K), B (N, K), fp16; K is padded with zeros to whole instructions.
    """
    rest = -a.shape[1] % WGMMA_K
    a, b = (numpy.pad(matrix, ((0, 0), (0, rest))).view(numpy.uint16) for matrix in (a, b))
    sums = None
    for k in range(0, a.shape[1], WGMMA_K):
        step = a[:, k : k + WGMMA_K], b[:, k : k + WGMMA_K]
        sums = multiply_add(*step, sums, a_type="f16", b_type="f16", d_type="f16")
    return sums.view(numpy.float16)


def errors(c, a, b, xp: Any = numpy) -> tuple[float, float]:
    """Relative norm of the error of what is finite, and the share that is not, of 1.

    Of the elements whose exact value fp16 can hold. NumPy or CuPy arrays, as ``xp`` says.
    """
    exact = a.astype("float64") @ b.astype("float64").T
    holds = abs(exact) <= _LARGEST
    finite = holds & xp.isfinite(c)
    error = xp.where(finite, c.astype("float64") - exact, 0.0)
    norm = float((xp.where(finite, exact, 0.0) ** 2).sum()) ** 0.5
    off = float((error**2).sum()) ** 0.5
    return (off / norm if norm else off), float(1 - finite.sum() / max(1, int(holds.sum())))


@cache
def _found(gpu: Any) -> dict[tuple[str, int], tuple[float, float, float]]:
    """(inputs, K) -> error of v6, its share of infinities, error of v5; once in a process."""
    import cupy

    six, five = compile_kernel(V6), compile_kernel(V5)
    found = {}
    for name in INPUTS:
        for k in DEPTHS:
            a, b = (gpu.array(matrix) for matrix in inputs(name, k))
            error, infinite = errors(gemm(six, a, b), a, b, cupy)
            found[name, k] = (error, infinite, errors(gemm(five, a, b), a, b, cupy)[0])
    return found


def _over_k(name: str, part: int, unit: str, gpu: Any, _: Program) -> Sweep:
    """One of the three numbers of ``_found``, by inputs."""
    found, scale = _found(gpu), 100 if unit == "%" else 1
    series = {
        one: tuple(float(f"{scale * found[one, k][part]:.4g}") for k in DEPTHS) for one in INPUTS
    }
    return Sweep(name, "K", "elements", tuple(map(float, DEPTHS)), unit, series)


# ---- cuBLAS with fp16 sums ----------------------------------------------------------------------

LIKE, LIKE_ERROR = "like for like", "like for like, error"
SIDES = (2048, 4096, 8192)
OF_FP16, OF_FP32 = "v6, of cuBLAS in fp16", "cuBLAS in fp16, of fp32"
RESULTS = ("v6", "cuBLAS in fp16", "cuBLAS in fp32")


@cache
def _like_for_like(gpu: Any) -> dict[int, tuple[float, ...]]:
    """Side of a square -> the two ratios, then the three relative errors; once in a process."""
    import cupy

    found = {}
    six = compile_kernel(V6)
    for side in SIDES:
        a, b = inputs_on(gpu, Problem(side, side, side))
        results = [cupy.full((side, side), cupy.nan, "float16") for _ in RESULTS]
        with Cublas(cupy.cuda.get_current_stream()) as cublas:
            launches = (
                plan(six, a, b, results[0]).run,
                cublas.product(a, b, results[1], fp16_sums=True),
                cublas.product(a, b, results[2]),
            )
            for launch in launches:
                launch()
            check(results[0], a, b, fp16_sums=True)
            # What cuBLAS rounds is its own affair: it is told, and not asked for.
            off = [compare(c, a, b, fp16_sums=True).relative_norm for c in results]
            pairs = (interleaved(gpu, *launches[at : at + 2]) for at in (0, 1))
            ratios = [ratio(timed.samples_ms, timed.peer_samples_ms) for timed in pairs]
        found[side] = (*ratios, *off)
    return found


def _like(name: str, labels: tuple[str, ...], first: int, unit: str, gpu: Any, _: Program) -> Sweep:
    found, scale = _like_for_like(gpu), 100 if unit == "%" else 1
    series = {
        label: tuple(float(f"{scale * found[side][first + at]:.4g}") for side in SIDES)
        for at, label in enumerate(labels)
    }
    return Sweep(name, "M = N = K", "elements", tuple(map(float, SIDES)), unit, series)


EXPERIMENTS = (
    Experiment(V6, ERROR, partial(_over_k, ERROR, 0, "")),
    Experiment(V6, ERROR_FP32, partial(_over_k, ERROR_FP32, 2, "")),
    Experiment(V6, INFINITE, partial(_over_k, INFINITE, 1, "%")),
    Experiment(V6, LIKE, partial(_like, LIKE, (OF_FP16, OF_FP32), 0, "%")),
    Experiment(V6, LIKE_ERROR, partial(_like, LIKE_ERROR, RESULTS, 2, "")),
)
