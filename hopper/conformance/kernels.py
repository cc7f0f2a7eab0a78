"""The book's own kernels: whole products, at shapes that reach edges, tails and every loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from types import MappingProxyType

import numpy

from hopper.chip import MOST_PLACES, argument
from hopper.compile import compile_kernel
from hopper.conformance import Case, Tiled, blank
from hopper.emulator.launch_values import to_bfloat16
from hopper.experiments.descriptors import ROWS, Reader, tile_shape, usual_descriptors
from hopper.experiments.shared_reads import column, mode_arguments
from hopper.experiments.tma_launches import REDUCTIONS, Ring, random_words, whole_numbers
from hopper.gemm import Problem
from hopper.layout.copying import COPIES
from hopper.placement import Placement

TILE_K = 64
#: M, N, K: one tile and one step; many of both; no side a multiple of anything; K below one step.
SHAPES = ((128, 128, 64), (256, 384, 320), (200, 391, 136), (1, 1, 8), (129, 257, 72))
TILES = ((128, 128), (64, 256), (256, 64))
ONE_N = (8, 16, 40, 128, 256)
#: Threads of the kernels that have a ring of stages.
RINGS = {"v2_ring": 128, "v3_specialized": 160, "v4_two_consumers": 384, "v5_in_flight": 384}
#: What is asked of them: one warpgroup multiplies, or two. A step, fewer steps than stages, and
#: more; sixteen steps, eight times round two stages; a single stage.
ONE_WARPGROUP = (
    *(({"TILE_M": 128, "TILE_N": 128, "STAGES": 4}, shape) for shape in SHAPES),
    ({"TILE_M": 64, "TILE_N": 72, "STAGES": 2}, (130, 150, 1000)),
    ({"TILE_M": 64, "TILE_N": 256, "STAGES": 1}, (70, 260, 200)),
    ({"TILE_M": 128, "TILE_N": 128, "STAGES": 4, "BF16": 1}, (129, 257, 328)),
)
#: Here the last group of rows of tiles is as high as the others, or a row lower.
TWO_WARPGROUPS = (
    *(({"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "RASTER": 2}, shape) for shape in SHAPES),
    ({"TILE_M": 128, "TILE_N": 72, "STAGES": 2, "RASTER": 2}, (300, 150, 1000)),
    ({"TILE_M": 256, "TILE_N": 192, "STAGES": 3, "RASTER": 1}, (300, 200, 520)),
    ({"TILE_M": 128, "TILE_N": 64, "STAGES": 3, "RASTER": 0}, (200, 150, 264)),
    ({"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "RASTER": 2, "BF16": 1}, (129, 257, 328)),
)

#: Four consumers, or fewer; C by TMA, so that N is a multiple of 8.
FP16_SUMS = (
    *(
        ({"TILE_M": 256, "TILE_N": 256, "STAGES": 3, "RASTER": 2}, shape)
        for shape in ((256, 256, 64), (300, 520, 456), (1, 8, 8), (257, 264, 72))
    ),
    ({"TILE_M": 192, "TILE_N": 128, "STAGES": 3, "RASTER": 1}, (200, 136, 520)),
    ({"TILE_M": 128, "TILE_N": 64, "STAGES": 2, "RASTER": 0}, (200, 152, 1000)),
)


def _product(problem: Problem, tile: tuple[int, int], bf16: bool = False) -> list:
    """``bf16``: its bits in place of fp16; both are words of 16 bits to TMA and to the host."""
    a, b = (to_bfloat16(x).view("float16") if bf16 else x for x in problem.inputs())
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


def _ring(kernel: str, defines: Mapping[str, int], shape: tuple[int, int, int]) -> Case:
    tile = (defines["TILE_M"], defines["TILE_N"])
    problem = Problem(*shape, seed=sum(shape))
    configured = ".".join(str(value) for value in defines.values())
    return Case(
        f"{kernel}.{configured}.{'x'.join(map(str, shape))}",
        f"{kernel}.cu",
        kernel,
        partial(_product, problem, tile, "BF16" in defines),
        (2,),
        grid=(-(-problem.m // tile[0]), -(-problem.n // tile[1]), 1),
        block=(RINGS[kernel], 1, 1),
        shared_bytes=defines["STAGES"] * sum(tile) * TILE_K * 2 + 1024,
        defines=MappingProxyType(defines),
    )


def _stored_by_tma(problem: Problem, tile: tuple[int, int]) -> list:
    *maps, c, m, n, k = _product(problem, tile)
    return [*maps, Tiled(c, (64, 64)), m, n, k]


def _fp16_sums(defines: Mapping[str, int], shape: tuple[int, int, int]) -> Case:
    kernel, tile = "v6_fp16_acc", (defines["TILE_M"], defines["TILE_N"])
    problem = Problem(*shape, seed=sum(shape))
    configured = ".".join(str(value) for value in defines.values())
    stages = defines["STAGES"] * sum(tile) * TILE_K * 2
    return Case(
        f"{kernel}.{configured}.{'x'.join(map(str, shape))}",
        f"{kernel}.cu",
        kernel,
        partial(_stored_by_tma, problem, tile),
        (2,),
        grid=(-(-problem.m // tile[0]), -(-problem.n // tile[1]), 1),
        block=(128 * (tile[0] // 64 + 1), 1, 1),
        shared_bytes=stages + 64 * tile[1] * 2 + 1024,
        defines=MappingProxyType(defines),
    )


#: Blocks that take several tiles: edges, fewer tiles than blocks, whole tiles and shared ones.
PERSISTENT = {"v7_persistent": 1, "v8_multicast": 2, "v9_stream_k": 2}
PERSISTENT_RUNS = (
    ({"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "RASTER": 2}, (300, 520, 456)),
    ({"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "RASTER": 2}, (1, 8, 8)),
    ({"TILE_M": 128, "TILE_N": 128, "STAGES": 3, "RASTER": 1}, (520, 392, 1032)),
    ({"TILE_M": 256, "TILE_N": 192, "STAGES": 3, "RASTER": 1}, (300, 1000, 520)),
    ({"TILE_M": 128, "TILE_N": 128, "STAGES": 2, "RASTER": 0, "BF16": 1}, (129, 264, 328)),
)
PERSISTENT_BLOCKS = 6


def _persistent(
    kernel: str, configured: Mapping[str, int], shape: tuple[int, int, int], share_a: int
) -> Case:
    defines = dict(configured) | ({"SHARE_A": share_a} if PERSISTENT[kernel] > 1 else {})
    if kernel == "v9_stream_k":
        defines = {"HAND_OVER": 0} | defines  # short as they are, steps are shared
    problem = Problem(*shape, seed=sum(shape))
    name = ".".join(str(value) for value in defines.values())
    tile_m, tile_n = defines["TILE_M"], defines["TILE_N"]
    slots = 2 * -(-tile_m * tile_n // (2 * 64 * 64 * 2)) * 64 * 64 * 2  # of the outbox
    return Case(
        f"{kernel}.{name}.{'x'.join(map(str, shape))}",
        f"{kernel}.cu",
        kernel,
        partial(_taken_in_turns, kernel, problem, MappingProxyType(defines)),
        (2,),
        grid=(PERSISTENT_BLOCKS, 1, 1),
        block=(384, 1, 1),
        shared_bytes=defines["STAGES"] * (tile_m + tile_n) * TILE_K * 2 + slots + 1024,
        defines=MappingProxyType(defines),
    )


def _taken_in_turns(kernel: str, problem: Problem, defines: Mapping[str, int]) -> list:
    facts = compile_kernel(kernel, **defines).facts
    a, b, c, *sizes = _product(problem, (facts.a_box[0], facts.b_box[0]), "BF16" in defines)
    workspace = []
    if facts.partial_floats:
        workspace.append(numpy.zeros(PERSISTENT_BLOCKS * facts.partial_floats, numpy.float32))
        workspace.append(numpy.zeros(PERSISTENT_BLOCKS * facts.flags, numpy.uint32))
    if facts.places:
        workspace.append(numpy.zeros(1 + PERSISTENT_BLOCKS // facts.cluster, numpy.uint32))
        workspace.append(argument(range(MOST_PLACES)))
    return [a, b, Tiled(c, facts.c_box), *workspace, *sizes]


def _one(n: int) -> list:
    a, b = Problem(64, n, 16, seed=n).inputs()
    return [a, b, blank((64, n), numpy.float32), blank((128, n // 2), numpy.float32)]


def _ceiling(n: int, blocks: int) -> list:
    a, b = Problem(128, n, TILE_K, seed=n).inputs()
    clocks = numpy.zeros(8 * blocks, numpy.int64)  # not compared: the emulator has no clock
    maps = [Tiled(a, (128, TILE_K)), Tiled(b, (n, TILE_K))]
    return [*maps, blank((blocks, 128, n), numpy.float32), clocks, numpy.int32(5)]


def _copied(rows: int, columns: int) -> list:
    random = numpy.random.default_rng(columns)
    matrix = random.integers(0, 1 << 32, (rows, columns), numpy.uint32)
    return [matrix, blank((rows, columns), numpy.uint32), numpy.int32(columns)]


def _fragment_map(n: int, bits: int, packed: int) -> list:
    """Whole numbers so small that every sum is exact, in f16 too."""
    element = {8: "uint8", 16: "float16", 32: "float32"}[bits]
    random = numpy.random.default_rng(n + bits)
    a, b = (random.integers(0, 4, (rows, 256 // bits)).astype(element) for rows in (64, n))
    registers = n // 4 if packed else n // 2
    return [a.view(numpy.uint32), b.view(numpy.uint32), blank((128, registers), numpy.uint32)]


def _rs(n: int) -> list:
    random = numpy.random.default_rng(n)
    a = random.integers(-128, 128, (64, 256), numpy.int8)
    scale = random.random((64, 4), numpy.float32)
    b = Problem(1, n, 256, seed=n).inputs()[1]
    return [a, scale, b, blank((64, n), numpy.float32)]


def _protocol(n: int) -> list:
    a, _ = Problem(128, n, 320, seed=n).inputs()
    b = numpy.random.default_rng(n).integers(-128, 128, (n, 320), numpy.int8)
    return [Tiled(a, (64, TILE_K)), b, blank((128, n), numpy.float32), numpy.int32(320)]


def _store(n: int) -> list:
    held = Problem(256, 1, n // 2, seed=n).inputs()[0].astype(numpy.float32)
    clocks = numpy.zeros(16, numpy.int64)  # not compared: the emulator has no clock
    return [held, blank((2, 64, n), numpy.float16), clocks, numpy.int32(2)]


def _descriptor_probe(major: str, operand: str) -> list:
    reader = Reader("f16", major, operand)
    encoded = numpy.array([one.encode() for one in usual_descriptors(reader)], numpy.uint64)
    found = blank((len(encoded), 64, ROWS["B"]), numpy.int32)
    return [numpy.arange(16, dtype=numpy.float16), encoded, found]


def _tma_swizzle(swizzle: int) -> list:
    shape = tile_shape(swizzle)
    tensor = numpy.arange(512, dtype=numpy.uint16).reshape(shape)
    return [Tiled(tensor, shape, swizzle), blank((8, 1024), numpy.uint16), numpy.int32(1024)]


def _tma_copy(swizzle: int, shape: tuple[int, int]) -> list:
    span = swizzle or 128
    box = (8192 // span, span // 2)
    matrix = random_words(*shape).astype(numpy.uint16)
    return [Tiled(matrix, box, swizzle), Tiled(blank(shape, numpy.uint16), box, swizzle)]


def _tma_ring(ring: Ring, blocks: int) -> list:
    matrix = random_words(70, 72)
    numbers = [numpy.int32(number) for number in (*ring.tiles(matrix), 23)]
    outputs = [blank((blocks, 128), numpy.uint32), blank(blocks, numpy.uint64)]
    return [Tiled(matrix, ring.box, 0), *outputs, *numbers]


def _tma_reduce() -> list:
    planes, out = whole_numbers(5, 70, 40), whole_numbers(70, 40)
    maps = [Tiled(planes, (1, 64, 32), 0), Tiled(2, (64, 32), 0)]
    return [*maps, out, numpy.int32(70), numpy.int32(40)]


def _bank_conflicts(words: int, ldmatrix: int) -> list:
    offsets = column(128, 0, 128, 5).astype(numpy.int32)
    clocks = numpy.zeros((16, 2), numpy.int64)  # not compared: the emulator has no clock
    return [offsets, blank((512, words), numpy.uint32), clocks, numpy.int32(3), numpy.int32(0)]


def _chip(blocks: int) -> list:
    # Memory is compared: where blocks run, and how long an atomic takes, is the chip's own.
    memory = numpy.arange(3 * 17 * 32, dtype=numpy.uint32)
    sms, cycles = numpy.zeros(blocks, numpy.uint32), numpy.zeros((blocks, 3), numpy.uint32)
    return [memory, sms, cycles, numpy.int32(3)]


def _wgmma_modes(swizzle: int, a_major: str, b_major: str) -> list:
    matrices = Problem(128, 64, TILE_K, seed=swizzle).inputs()
    tiles = [
        Placement(len(matrix), TILE_K, major, swizzle)
        for matrix, major in zip(matrices, (a_major, b_major), strict=True)
    ]
    image = [tile.image(matrix) for tile, matrix in zip(tiles, matrices, strict=True)]
    clocks = numpy.zeros((2, 2, 2), numpy.int64)
    return [
        numpy.concatenate(image),
        *mode_arguments(*tiles),
        blank((2, 128, 64), numpy.float32),
        clocks,
        numpy.int32(5),
    ]


CASES = (
    *(
        Case(f"descriptor_probe.{major}.{operand}", "descriptor_probe.cu", "descriptor_probe",
             partial(_descriptor_probe, major, operand), (2,), grid=(4, 1, 1),
             defines={"TEST_A": int(operand == "A"), "MN_MAJOR": int(major == "MN")})
        for major, operand in product(("K", "MN"), ROWS)
    ),
    *(
        Case(f"tma_swizzle.{swizzle}", "tma_swizzle.cu", "tma_swizzle",
             partial(_tma_swizzle, swizzle), (1,), grid=(8, 1, 1))
        for swizzle in (0, 32, 64, 128)
    ),
    *(
        Case(f"tma_copy.{swizzle}", "tma_copy.cu", "tma_copy",
             partial(_tma_copy, swizzle, (300, 200)), (1,),
             grid=(-(-200 // ((swizzle or 128) // 2)), -(-300 // (8192 // (swizzle or 128))), 1),
             block=(32, 1, 1), defines={"SWIZZLE": swizzle})
        for swizzle in (0, 32, 64, 128)
    ),
    *(
        Case(f"{kernel}.{ring.stages}.{ring.box_rows}" + ".alone" * (ring.multicast is False),
             f"{kernel}.cu", kernel, partial(_tma_ring, ring, 4), (1, 2),
             grid=(4, 1, 1), block=(160, 1, 1), shared_bytes=ring.stages * ring.box_bytes + 128,
             defines=ring.defines)
        for kernel, ring in (
            ("tma_ring", Ring(1, 32)), ("tma_ring", Ring(3, 16)),
            ("tma_multicast", Ring(1, 32, True)), ("tma_multicast", Ring(3, 16, True)),
            ("tma_multicast", Ring(3, 16, False)))
    ),
    *(
        Case(f"tma_reduce.{number}", "tma_reduce.cu", "tma_reduce", _tma_reduce, (2,),
             grid=(2, 2, 5), block=(128 if number else 32, 1, 1), defines={"WAY": number})
        for number in REDUCTIONS.values()
    ),
    *(
        Case(f"bank_conflicts.{words}.{ldmatrix}", "bank_conflicts.cu", "bank_conflicts",
             partial(_bank_conflicts, words, ldmatrix), (1,), block=(512, 1, 1),
             defines={"ACCESS_BYTES": 4 * words, "LDMATRIX": ldmatrix})
        for words, ldmatrix in ((1, 0), (2, 0), (4, 0), (4, 1))
    ),
    *(
        Case(f"chip.{size}", "chip.cu", "chip", partial(_chip, 2 * size), (0,),
             grid=(2 * size, 1, 1), block=(1, 1, 1), shared_bytes=128 * 1024,
             defines={"CLUSTER": size})
        for size in (2, 3)
    ),
    *(
        Case(f"wgmma_modes.{swizzle}.{a}.{b}", "wgmma_modes.cu", "wgmma_modes",
             partial(_wgmma_modes, swizzle, a, b), (8,), grid=(2, 1, 1), block=(256, 1, 1),
             shared_bytes=(128 + 64) * TILE_K * 2 + 1024,
             defines={"TILE_N": 64, "A_MN": int(a == "MN"), "B_MN": int(b == "MN")})
        for swizzle, a, b in ((0, "K", "MN"), (32, "MN", "K"), (64, "K", "K"), (128, "MN", "MN"))
    ),
    *(
        Case(f"one_wgmma.{n}", "one_wgmma.cu", "one_wgmma", partial(_one, n), (2, 3),
             defines={"TILE_N": n})
        for n in ONE_N
    ),
    *(
        Case(f"layout_copy.{index}", "layout_copy.cu", "layout_copy", partial(_copied, 128, 192),
             (1,), grid=(3, 2, 1), block=(256, 1, 1), defines=way.defines)
        for index, way in enumerate(COPIES.values())
    ),
    *(
        Case(f"fragment_map.{bits}.{packed}.{source}.{n}", "fragment_map.cu", "fragment_map",
             partial(_fragment_map, n, bits, packed), (2,),
             defines={"TILE_N": n, "OPERAND_BITS": bits, "PACKED_SUMS": packed,
                      "A_FROM_REGISTERS": int(source == "RS")})
        for (bits, packed), source, n in product(
            ((16, 0), (16, 1), (8, 0), (32, 0)), ("SS", "RS"), (32, 256))
    ),
    *(
        Case(f"rs_wgmma.{n}", "rs_wgmma.cu", "rs_wgmma", partial(_rs, n), (3,),
             defines={"TILE_N": n})
        for n in (8, 64, 96)
    ),
    *(
        Case(f"protocol_loop.{n}.{repeat}", "protocol_loop.cu", "protocol_loop",
             partial(_protocol, n), (2,), grid=(2, 1, 1), block=(256, 1, 1),
             defines={"TILE_N": n, "REPEAT": repeat})
        for n, repeat in ((8, 1), (64, 1), (112, 2))
    ),
    *(
        Case(f"store_tile.{way}.{n}", "store_tile.cu", "store_tile", partial(_store, n), (1,),
             grid=(2, 1, 1), defines={"TILE_N": n, "WAY": way})
        for way, n in product((0, 1, 2), (64, 256))
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
    *(
        _ring(kernel, defines, shape)
        for kernel, threads in RINGS.items()
        for defines, shape in (TWO_WARPGROUPS if threads > 256 else ONE_WARPGROUP)
    ),
    *(_fp16_sums(defines, shape) for defines, shape in FP16_SUMS),
    *(
        _persistent(kernel, defines, shape, share_a)
        for kernel, clustered in PERSISTENT.items()
        for defines, shape in PERSISTENT_RUNS
        for share_a in ((0, 1) if clustered > 1 and "BF16" not in defines else (0,))
    ),
)  # fmt: skip
