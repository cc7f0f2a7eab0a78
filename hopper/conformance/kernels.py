"""The book's own kernels: whole products, at shapes that reach edges, tails and every loop."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy

from hopper.conformance import Case, Tiled, blank
from hopper.gemm import Problem

TILE_K = 64
#: M, N, K: one tile and one step; many of both; no side a multiple of anything; K below one step.
SHAPES = ((128, 128, 64), (256, 384, 320), (200, 391, 136), (1, 1, 8), (129, 257, 72))
TILES = ((128, 128), (64, 256), (256, 64))
ONE_N = (8, 16, 40, 128, 256)


def _product(problem: Problem, tile: tuple[int, int]) -> list:
    a, b = problem.inputs()
    maps = [Tiled(matrix, (rows, TILE_K)) for matrix, rows in zip((a, b), tile, strict=True)]
    sizes = [numpy.int32(size) for size in (problem.m, problem.n, problem.k)]
    return [*maps, blank((problem.m, problem.n), numpy.float16), *sizes]


def _gemm(kernel: str, shape: tuple[int, int, int], tile: tuple[int, int], inputs: str) -> Case:
    problem = Problem(*shape, distribution=inputs, seed=sum(shape))
    return Case(
        f"{kernel}.{'x'.join(map(str, tile))}.{'x'.join(map(str, shape))}.{inputs}",
        f"{kernel}.cu",
        kernel,
        partial(_product, problem, tile),
        (2,),
        grid=(-(-problem.m // tile[0]), -(-problem.n // tile[1]), 1),
        defines={"TILE_M": tile[0], "TILE_N": tile[1]},
    )


def _one(n: int) -> list:
    a, b = Problem(64, n, 16, seed=n).inputs()
    return [a, b, blank((64, n), numpy.float32), blank((128, n // 2), numpy.float32)]


def _ceiling(n: int, blocks: int) -> list:
    a, b = Problem(128, n, TILE_K, seed=n).inputs()
    clocks = numpy.zeros(8 * blocks, numpy.int64)  # not compared: the emulator has no clock
    maps = [Tiled(a, (128, TILE_K)), Tiled(b, (n, TILE_K))]
    return [*maps, blank((blocks, 128, n), numpy.float32), clocks, numpy.int32(5)]


CASES = (
    *(
        Case(f"one_wgmma.{n}", "one_wgmma.cu", "one_wgmma", partial(_one, n), (2, 3),
             defines={"TILE_N": n})
        for n in ONE_N
    ),
    *(
        Case(f"ceiling.{source}.{n}", "ceiling.cu", "ceiling", partial(_ceiling, n, 2), (2,),
             grid=(2, 1, 1), block=(256, 1, 1), shared_bytes=(128 + n) * TILE_K * 2 + 1024,
             defines={"TILE_N": n, "A_FROM_REGISTERS": int(source == "RS")})
        for n, source in product((8, 256), ("SS", "RS"))
    ),
    *(
        _gemm(kernel, shape, TILES[0], "normal")
        for kernel, shape in product(("v0_mma_sync", "v1_wgmma"), SHAPES)
    ),
    *(
        _gemm(kernel, SHAPES[2], tile, "normal")
        for kernel, tile in product(("v0_mma_sync", "v1_wgmma"), TILES[1:])
    ),
)  # fmt: skip
