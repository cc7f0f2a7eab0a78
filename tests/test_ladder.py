"""The rungs v2 to v5: right at every edge, on every schedule, and again and again on a GPU.

Small tiles and short rings keep the emulator quick; where a kernel is launched as it is written,
sizes follow from the facts that it states. Inputs are whole numbers, whose sums are exact: right is
what NumPy says, to the bit.
"""

import sys
from itertools import product

import numpy
import pytest
from rungs import (
    SCHEDULES,
    around,
    exact,
    launched,
    multiplied,
    require_emulated_bits,
    require_same_bits_again,
    require_streams_apart,
)

from hopper.check import check
from hopper.compile import Program, compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.errors import CompileError, ProblemError
from hopper.facts import LaunchFacts
from hopper.gemm import Problem, gemm
from hopper.paths import KERNELS

ONE_WARPGROUP = ("v2_ring", "v3_specialized")
TWO_WARPGROUPS = ("v4_two_consumers", "v5_in_flight")
LADDER = (*ONE_WARPGROUP, *TWO_WARPGROUPS)

every_rung = pytest.mark.parametrize("kernel", LADDER)


def small(kernel: str, **others: int) -> Program:
    """A rung with the smallest tile that shows all it does."""
    sizes = {"TILE_M": 128 if kernel in TWO_WARPGROUPS else 64, "TILE_N": 16, "STAGES": 2}
    return compile_kernel(kernel, **(sizes | others))


def depths(facts: LaunchFacts) -> tuple[int, ...]:
    """Values of K: below one step, steps fewer and more than stages, tails of 8 and of 56."""
    steps, deep = facts.stages, facts.tile_k
    return (8, deep, deep + 8, (steps - 1) * deep or 16, steps * deep, 2 * steps * deep + 56)


# ---- right, at every edge -----------------------------------------------------------------------


@pytest.mark.parametrize("rows", range(5))
@every_rung
def test_a_product_is_exact_at_every_edge_of_a_tile(kernel, rows):
    program = small(kernel)
    facts = program.facts
    m, ks = around(facts.tile_m)[rows], depths(facts)
    for number, n in enumerate(around(facts.tile_n)):
        problem = Problem(m, n, ks[(number + rows) % len(ks)], distribution="integers", seed=n)
        assert (multiplied(program, problem).c == exact(problem)).all(), problem


@pytest.mark.parametrize(
    ("kernel", "stages"),
    # v5 needs two: with one it does not compile, as a test below shows.
    [(kernel, n) for kernel in LADDER for n in (1, 2, 3, 5) if n > 1 or kernel != "v5_in_flight"],
)
def test_a_ring_of_any_length_goes_round(kernel, stages):
    program = small(kernel, STAGES=stages)
    for steps in range(1, 2 * stages + 3):
        k = steps * program.facts.tile_k - 8 * (steps % 2)
        problem = Problem(70, 20, k, distribution="integers", seed=steps)
        assert (multiplied(program, problem).c == exact(problem)).all(), problem


@every_rung
def test_a_product_is_the_same_on_every_schedule(kernel):
    program = small(kernel, STAGES=3)
    problem = Problem(130, 35, 7 * program.facts.tile_k + 8)
    found = [multiplied(program, problem, how).c for how in SCHEDULES]
    check(found[0], *problem.inputs())
    assert {c.tobytes() for c in found} == {found[0].tobytes()}


def test_every_rung_computes_the_same_bits():
    """Each adds the same products in the same order, whatever its tile."""
    problem = Problem(140, 200, 456, seed=5)
    a, b = problem.inputs()
    first = gemm(compile_kernel("v1_wgmma"), a, b)
    check(first, a, b)
    for kernel in LADDER:
        assert gemm(compile_kernel(kernel), a, b).tobytes() == first.tobytes(), kernel


@pytest.mark.parametrize("tile", [(64, 256), (128, 72), (192, 8)], ids=str)
@pytest.mark.parametrize("kernel", ONE_WARPGROUP)
def test_other_tiles_of_one_warpgroup_are_right(kernel, tile):
    program = compile_kernel(kernel, TILE_M=tile[0], TILE_N=tile[1], STAGES=2)
    problem = Problem(200, 90, 328, distribution="integers")
    assert (multiplied(program, problem).c == exact(problem)).all()


@pytest.mark.parametrize("raster", [0, 1, 2, 8])
@pytest.mark.parametrize("tile", [(128, 8), (256, 64)], ids=str)
@pytest.mark.parametrize("kernel", TWO_WARPGROUPS)
def test_other_tiles_and_orders_of_two_warpgroups_are_right(kernel, tile, raster):
    program = compile_kernel(kernel, TILE_M=tile[0], TILE_N=tile[1], STAGES=2, RASTER=raster)
    problem = Problem(2 * tile[0] + 1, 2 * tile[1] + 1, 72, distribution="integers")
    assert (multiplied(program, problem).c == exact(problem)).all()


# ---- bf16, from the same source -----------------------------------------------------------------


@every_rung
def test_a_product_in_bf16_is_exact_and_the_same_on_every_schedule(kernel):
    program = small(kernel, BF16=1)
    facts = program.facts
    assert facts.dtype == "bfloat16"
    for m, n, k in product((1, facts.tile_m + 1), (facts.tile_n - 1, facts.tile_n), (8, 328)):
        problem = Problem(m, n, k, "bfloat16", "integers", seed=n)
        for how in SCHEDULES[:3]:
            c = multiplied(program, problem, how).c
            assert c.tobytes() == exact(problem).tobytes(), problem


@every_rung
def test_a_product_in_bf16_is_within_its_rounding(kernel):
    problem = Problem(131, 261, 456, "bfloat16")
    a, b = problem.inputs()
    program = compile_kernel(kernel, BF16=1)
    c = gemm(program, a, b)
    assert c.dtype == a.dtype and "bf16.bf16" in program.ptx
    assert check(c, a, b).relative_norm > 1e-3, "fp16 would be closer"


@every_rung
def test_a_type_that_the_kernel_was_not_compiled_for_is_refused(kernel):
    half, wide = (Problem(64, 16, 64, dtype).inputs() for dtype in ("float16", "bfloat16"))
    with pytest.raises(ProblemError, match="A is bfloat16: .*float16; .*with BF16=1"):
        gemm(small(kernel), *wide)
    with pytest.raises(ProblemError, match="A is float16: .*bfloat16; .*without BF16"):
        gemm(small(kernel, BF16=1), *half)
    with pytest.raises(ProblemError, match="C is float16: .*bfloat16"):
        gemm(small(kernel, BF16=1), *wide, numpy.zeros((64, 16), "float16"))


@every_rung
def test_for_fp16_nothing_is_said_of_bf16(kernel):
    written = compile_kernel(kernel)
    assert compile_kernel(kernel, BF16=0).ptx == written.ptx
    assert "bf16" not in written.ptx


@pytest.mark.parametrize("kernel", ["v0_mma_sync", "v1_wgmma"])
def test_the_first_rungs_have_no_bf16(kernel):
    with pytest.raises(CompileError, match="never mentions BF16"):
        compile_kernel(kernel, BF16=1)


def test_without_ml_dtypes_bf16_is_refused_and_fp16_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ProblemError, match="pip install ml_dtypes"):
        Problem(8, 8, 8, "bfloat16").inputs()
    assert Problem(8, 8, 8).inputs()[0].dtype == "float16"


# ---- what a rung says of itself -----------------------------------------------------------------


@every_rung
def test_a_step_issues_what_the_arithmetic_predicts(kernel):
    program = small(kernel)
    facts = program.facts
    steps, (rows, columns) = 5, (2, 3)
    problem = Problem(rows * facts.tile_m, columns * facts.tile_n, steps * facts.tile_k)
    issued = multiplied(program, problem).issued
    blocks = rows * columns
    assert issued("cp.async.bulk.tensor") == 2 * steps * blocks
    # Four warps for each 64 rows, four instructions along K.
    assert issued("wgmma.mma_async") == facts.tile_m // 64 * 4 * 4 * steps * blocks
    warps, uses = facts.threads // 32, facts.tile_m // 64 * 4 * steps
    if kernel == "v2_ring":
        assert issued("bar.sync") == warps * (1 + steps) * blocks
    else:
        # Nobody meets after the setup; each warp that multiplies releases each stage it used.
        assert issued("bar.sync") == warps * blocks
        kept = 4 * facts.tile_m // 64 if kernel == "v5_in_flight" else 0  # the last stage's
        assert issued("mbarrier.arrive.shared") == (uses - kept) * blocks


@pytest.mark.parametrize("kernel", TWO_WARPGROUPS)
def test_registers_are_traded_within_what_the_block_was_launched_with(kernel):
    program = compile_kernel(kernel)
    (asked,), (kept,) = (
        [
            int(line.rstrip(";").split()[-1])
            for line in program.ptx.splitlines()
            if line.strip().startswith(f"setmaxnreg.{way}")
        ]
        for way in ("inc", "dec")
    )
    warpgroups = program.facts.threads // 128
    launched = program.resources.registers
    assert kept < launched < asked
    assert (warpgroups - 1) * asked + kept <= warpgroups * launched
    assert program.sass().count("USETMAXREG") == 2


@pytest.mark.parametrize(
    ("kernel", "defines", "rule"),
    [
        *(
            (kernel, defines, rule)
            for kernel in LADDER
            for defines, rule in (
                ({"TILE_M": 100}, "64-row instructions"),
                ({"TILE_N": 100}, "a multiple of 8 up to 256"),
                ({"STAGES": 0}, "stage"),
                ({"TILE_M": 128, "TILE_N": 256, "STAGES": 5}, "227 KB"),
            )
        ),
        ("v5_in_flight", {"STAGES": 1}, "released when the next is in use"),
    ],
)
def test_what_breaks_a_rule_of_a_rung_does_not_compile(kernel, defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel(kernel, **defines)


@every_rung
def test_what_a_rung_cannot_take_is_refused_before_the_launch(kernel):
    program = small(kernel)
    a, b = Problem(64, 16, 64).inputs()
    with pytest.raises(ProblemError, match="pad A and B to K=16"):
        gemm(program, numpy.ones((64, 12), "float16"), numpy.ones((16, 12), "float16"))
    with pytest.raises(ProblemError, match="float32"):
        gemm(program, a.astype("float32"), b)
    with pytest.raises(ProblemError, match="contiguous"):
        gemm(program, a[:, ::2], b[:, ::2])


@every_rung
def test_a_rung_fits_a_page(kernel):
    assert len((KERNELS / f"{kernel}.cu").read_text().splitlines()) <= 160


# ---- the parts they share -----------------------------------------------------------------------

RASTER = """
#include "raster.cuh"
extern "C" __global__ void order(int* rows, int* columns) {
  const Tile tile = rasterized<WIDTH>();
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  rows[block] = tile.row;
  columns[block] = tile.column;
}
"""


@pytest.mark.parametrize("width", [0, 1, 2, 3, 16])
def test_blocks_take_tiles_in_groups_of_rows(width):
    program = compile_cuda(RASTER, defines={"WIDTH": width})
    for rows, columns in ((1, 1), (1, 5), (6, 1), (5, 3), (7, 4), (16, 2), (17, 2)):
        found = numpy.full((2, rows * columns), -1, "int32")
        args = (found[0], found[1])
        Emulator().launch(program.ptx, "order", (rows, columns, 1), (1, 1, 1), args=args)
        high = width or rows
        expected = [
            (row, column)
            for first in range(0, rows, high)
            for column in range(columns)
            for row in range(first, min(first + high, rows))
        ]
        assert list(zip(*found.tolist(), strict=True)) == expected


PLACE = """
#include "ring.cuh"
extern "C" __global__ void places(int* stages, int* parities, int steps) {
  Place<STAGES> at{FIRST};
  for (int step = 0; step < steps; ++step, at.advance()) {
    stages[step] = at.stage;
    parities[step] = at.parity;
  }
}
"""


@pytest.mark.parametrize(("stages", "first"), list(product((1, 2, 3, 4), (0, 1))))
def test_a_place_changes_parity_once_round(stages, first):
    program = compile_cuda(PLACE, defines={"STAGES": stages, "FIRST": first})
    steps = numpy.arange(3 * stages + 1)
    found = numpy.full((2, len(steps)), -1, "int32")
    args = (found[0], found[1], numpy.int32(len(steps)))
    Emulator().launch(program.ptx, "places", (1, 1, 1), (1, 1, 1), args=args)
    assert found[0].tolist() == (steps % stages).tolist()
    assert found[1].tolist() == (steps // stages % 2 ^ first).tolist()


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("rows", range(5))
@every_rung
def test_a_gpu_is_exact_at_every_edge_of_a_tile(gpu, kernel, rows):
    program = compile_kernel(kernel)
    facts = program.facts
    m = around(facts.tile_m)[rows]
    for n, k in product(around(facts.tile_n), depths(facts)):
        problem = Problem(m, n, k, distribution="integers", seed=n)
        assert (launched(gpu, program, problem) == exact(problem)).all(), problem


@pytest.mark.hopper
@every_rung
def test_a_gpu_returns_the_emulators_bits(gpu, kernel):
    program = small(kernel)
    for shape in ((1, 1, 8), (64, 16, 64), (130, 35, 456), (200, 17, 1000)):
        require_emulated_bits(gpu, program, Problem(*shape, seed=sum(shape)))


@pytest.mark.hopper
@pytest.mark.parametrize("size", [(1000, 1001, 1016), (2048, 2048, 2048)], ids=str)
@every_rung
def test_a_thousand_launches_return_the_same_bits(gpu, kernel, size):
    a, b = (gpu.array(matrix) for matrix in Problem(*size).inputs())
    program = compile_kernel(kernel)
    first = gemm(program, a, b)
    check(first, a, b)
    require_same_bits_again(program, a, b, first)


@pytest.mark.hopper
@every_rung
def test_two_streams_at_once_do_not_disturb_each_other(gpu, kernel):
    require_streams_apart(gpu, compile_kernel(kernel), (777, 1030, 2056))


@pytest.mark.hopper
@every_rung
def test_a_gpu_multiplies_bf16(gpu, kernel):
    # cuBLAS is no judge of small products in bf16: at 1000 × 1001 × 1016 it was off by several ulp.
    program = compile_kernel(kernel, BF16=1)
    for shape in ((1, 1, 8), (129, 257, 72), (1000, 1001, 1016), (2048, 2048, 2048)):
        a, b = (gpu.array(matrix) for matrix in Problem(*shape, "bfloat16").inputs())
        assert check(gemm(program, a, b), a, b).ok
    problem = Problem(300, 390, 776, "bfloat16", "integers")
    assert launched(gpu, program, problem).tobytes() == exact(problem).tobytes()
    require_emulated_bits(gpu, small(kernel, BF16=1), Problem(130, 35, 456, "bfloat16"))


@pytest.mark.hopper
def test_cublas_called_directly_multiplies_bf16_too(gpu):
    import cupy

    from hopper.cublas import Cublas

    a, b = (gpu.array(matrix) for matrix in Problem(300, 200, 136, "bfloat16").inputs())
    stream = cupy.cuda.Stream()
    c = cupy.empty((300, 200), a.dtype)
    with stream, Cublas(stream) as cublas:
        cublas.product(a, b, c)()
        stream.synchronize()
    check(c, a, b)
