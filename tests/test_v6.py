"""v6: right at every edge and on every schedule, fp16 sums to the bit, what a check allows them.

Small tiles keep the emulator quick. Whole numbers are exact in fp16 as long as no partial sum is
beyond 2048; other sums are compared with the instruction's own arithmetic, step by step.
"""

import numpy
import pytest
from rungs import (
    SCHEDULES,
    exact,
    launched,
    multiplied,
    require_emulated_bits,
    require_same_bits_again,
)

from hopper.check import check, compare, reference_rows, tolerance
from hopper.compile import compile_cuda, compile_kernel
from hopper.emulator import Emulator
from hopper.errors import CheckError, CompileError, ProblemError
from hopper.experiments.fp16_sums import summed
from hopper.gemm import Problem, gemm
from hopper.paths import KERNELS

KERNEL = "v6_fp16_acc"
SOURCE = (KERNELS / f"{KERNEL}.cu").read_text()
SMALL = {"TILE_M": 128, "TILE_N": 64, "STAGES": 2, "RASTER": 1}


# ---- the kernel ---------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 63, 127, 128, 129, 259])
def test_a_product_is_exact_at_every_edge_of_a_tile(m):
    program = compile_kernel(KERNEL, **SMALL)
    for n, k in ((8, 8), (56, 64), (64, 72), (72, 128), (136, 312)):
        problem = Problem(m, n, k, distribution="integers", seed=n)
        assert (multiplied(program, problem).c == exact(problem)).all(), problem


@pytest.mark.parametrize(
    "defines",
    [
        {},
        {"STAGES": 2, "RASTER": 0},
        {"TILE_M": 192, "TILE_N": 128, "RASTER": 2},
        {"TILE_N": 64, "STAGES": 4},
    ],
    ids=str,
)
def test_other_tiles_rings_and_orders_are_right(defines):
    program = compile_kernel(KERNEL, **defines)
    for steps in (1, program.facts.stages, 2 * program.facts.stages + 1):
        k = steps * 64 - 8 * (steps % 2)
        problem = Problem(300, 136, k, distribution="integers", seed=steps)
        assert (multiplied(program, problem).c == exact(problem)).all(), problem


@pytest.mark.parametrize("defines", [SMALL, {}], ids=["two consumers", "four"])
def test_every_schedule_gives_the_bits_of_sums_in_fp16(defines):
    program = compile_kernel(KERNEL, **defines)
    problem = Problem(140, 72, 456, seed=1)
    a, b = problem.inputs()
    expected = summed(a, b)
    for how in SCHEDULES:
        assert multiplied(program, problem, how).c.tobytes() == expected.tobytes()
    assert (expected != gemm(compile_kernel("v5_in_flight"), a, b)).any(), "not v5's arithmetic"
    check(expected, a, b, fp16_sums=True)
    assert not compare(expected, a, b).ok, "and not within the tolerance of fp32 sums"


def test_consumers_store_in_turns():
    program = compile_kernel(KERNEL, TILE_N=64, STAGES=2)
    found = multiplied(program, Problem(256, 64, 128), Emulator(schedule="random", seed=3))
    issued, trace, consumers = found.issued, found.run.trace, 4
    assert issued("cp.async.bulk.tensor.2d.global") == consumers  # a box each
    assert issued("stmatrix") == consumers * 4 * 64 // 16
    assert issued("bar.arrive") == consumers - 1
    stores = [event for event in trace.of("tma.issue") if event.detail["what"] == "store"]
    assert [event.warp for event in stores] == [0, 4, 8, 12], "the first warp of each, in turns"
    assert len({event.detail["source"] for event in stores}) == 1, "of one buffer"
    reads = trace.of("tma.read")
    assert all(read.step < store.step for read, store in zip(reads, stores[1:], strict=False))


def test_what_the_registers_of_a_block_are_shared_out_as():
    for defines, registers, kept, taken in (
        ({}, 96, 32, 112),
        ({"TILE_M": 192}, 128, 32, 160),
        ({"TILE_M": 128}, 168, 32, 232),
    ):
        program = compile_kernel(KERNEL, **defines)
        assert program.resources.registers == registers
        found = [
            int(line.rstrip(";").split()[-1])
            for line in program.ptx.splitlines()
            if line.strip().startswith("setmaxnreg")
        ]
        assert found == [kept, taken]
        consumers = program.facts.threads // 128 - 1
        assert consumers * taken + kept <= (consumers + 1) * registers


def test_the_facts_say_how_c_is_stored_and_summed():
    facts = compile_kernel(KERNEL).facts
    assert (facts.c_rows, facts.c_columns, facts.fp16_sums) == (64, 64, 1)
    assert (facts.tile_m, facts.tile_n, facts.threads, facts.dtype) == (256, 256, 640, "float16")
    assert facts.shared_bytes == 3 * 64 * 1024 + 32 * 1024 + 1024


@pytest.mark.parametrize(
    ("defines", "rule"),
    [
        ({"TILE_M": 64}, "two to four consumers"),
        ({"TILE_M": 320}, "two to four consumers"),
        ({"TILE_M": 200}, "two to four consumers"),
        ({"TILE_N": 72}, "whole boxes of 64 columns"),
        ({"TILE_N": 320}, "whole boxes of 64 columns"),
        ({"STAGES": 1}, "released when the next is in use"),
        ({"STAGES": 4}, "227 KB"),
        ({"BF16": 1}, "never mentions BF16"),
    ],
    ids=str,
)
def test_what_breaks_a_rule_does_not_compile(defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel(KERNEL, **defines)


def test_an_n_that_tma_cannot_store_is_refused():
    program = compile_kernel(KERNEL, **SMALL)
    a, b = Problem(64, 20, 64).inputs()
    with pytest.raises(ProblemError, match="N=20"):
        gemm(program, a, b)
    with pytest.raises(ProblemError, match="A is bfloat16"):
        gemm(program, *Problem(64, 16, 64, "bfloat16").inputs())


def test_a_partial_sum_that_is_too_large_stays_infinite():
    """The exact sum is 0; in fp32 it comes out."""
    a, b = (numpy.full((64, 128), 64, "float16") for _ in range(2))
    b[:, 64:] = -64
    c = gemm(compile_kernel(KERNEL, **SMALL), a, b)
    assert numpy.isposinf(c).all()
    with pytest.raises(CheckError, match="4,096 elements are wrong"):
        check(c, a, b, fp16_sums=True)
    assert (gemm(compile_kernel("v5_in_flight", TILE_N=64), a, b) == 0).all()


def test_a_tile_this_large_does_not_fit_in_fp32():
    source = SOURCE.replace("wgmma_f16_f16_f16<", "wgmma_f32_f16_f16<")
    source = source.replace("unsigned d[TILE_N / 4]", "float d[TILE_N / 2]")
    source = source.replace("d[4 * j], d[4 * j + 1], d[4 * j + 2], d[4 * j + 3]", "0, 1, 2, 3")
    with pytest.raises(CompileError):
        compile_cuda(source, KERNEL).require_clean()


# ---- what a check allows ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def product():
    a, b = Problem(192, 128, 1024).inputs()
    return a, b, summed(a, b)


def refused(c, a, b) -> str:
    with pytest.raises(CheckError) as caught:
        check(c, a, b, fp16_sums=True)
    return str(caught.value)


@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers", "zeros"])
@pytest.mark.parametrize("k", [8, 16, 24, 32, 64, 1000, 8192])
def test_sums_in_fp16_pass(k, distribution):
    a, b = Problem(17, 24, k, distribution=distribution).inputs()
    c = summed(a, b)
    peer = reference_rows(a, b, slice(None)).astype("float16")
    found = check(c, a, b, fp16_sums=True, peer=peer)
    assert found.relative_norm <= found.norm_limit / 2


@pytest.mark.parametrize("k", [64, 1024, 8192])
def test_sums_that_only_grow_pass_too(k):
    a, b = (abs(matrix) for matrix in Problem(17, 24, k, distribution="uniform").inputs())
    assert check(summed(a, b), a, b, fp16_sums=True).ok


def test_a_single_wgmma_is_rounded_once_whatever_its_sums_are():
    a, b = Problem(40, 40, 16).inputs()
    expected = reference_rows(a, b, slice(None))
    spread = numpy.sqrt(reference_rows(a**2, b**2, slice(None)))
    half = tolerance(expected, spread, 16, fp16_sums=True)
    assert (half == tolerance(expected, spread, 16)).all()
    assert (tolerance(expected, spread, 32, fp16_sums=True) > half).all()


def test_the_allowance_grows_as_the_root_of_the_steps():
    deep, deeper = (float(tolerance(0.0, 1.0, 16 * n, fp16_sums=True)) for n in (401, 1601))
    assert deeper == pytest.approx(2 * deep, rel=0.02)


@pytest.mark.parametrize("value", [0, numpy.nan, numpy.inf, 100])
def test_one_wrong_element_is_found(product, value):
    a, b, c = product
    wrong = c.copy()
    row, column = divmod(int(abs(c.astype("float32")).argmax()), c.shape[1])
    wrong[row, column] = value
    assert f"1 element is wrong, in rows {row}–{row}, columns {column}–{column}" in refused(
        wrong, a, b
    )


def test_one_flipped_sign_is_found(product):
    a, b, c = product
    wrong = c.copy()
    wrong[7, 9] = -wrong[7, 9]
    assert "1 element is wrong" in refused(wrong, a, b)


def test_a_missing_tile_is_found(product):
    a, b, c = product
    for hole in (numpy.nan, 0):
        wrong = c.copy()
        wrong[64:128, 64:] = hole
        assert "rows 64–127, columns 64–127" in refused(wrong, a, b)


@pytest.mark.parametrize("depth", [16, 64])
@pytest.mark.parametrize("k", [1024, 8192])
def test_a_skipped_step_is_found(k, depth):
    a, b = Problem(64, 64, k).inputs()
    kept = numpy.ones(k, bool)
    kept[k // 2 : k // 2 + depth] = False
    refused(summed(a[:, kept], b[:, kept]), a, b)


def test_sums_that_stand_still_are_found():
    """Sixteen products add 4, half of the last digit of 8192."""
    a = numpy.full((8, 65536), 0.5, "float16")
    c = summed(a, a)
    assert (c == 8192).all()
    refused(c, a, a)


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("defines", [SMALL, {}, {"TILE_M": 192, "STAGES": 2}], ids=str)
def test_a_gpu_returns_the_emulators_bits(gpu, defines):
    program = compile_kernel(KERNEL, **defines)
    for shape in ((1, 8, 8), (64, 16, 64), (130, 72, 456), (300, 264, 1000)):
        require_emulated_bits(gpu, program, Problem(*shape, seed=sum(shape)))


@pytest.mark.hopper
def test_a_gpu_is_exact_at_every_edge_of_a_tile(gpu):
    program = compile_kernel(KERNEL)
    for m in (1, 255, 256, 257, 515):
        for n, k in ((8, 8), (248, 64), (256, 72), (264, 192), (520, 440)):
            problem = Problem(m, n, k, distribution="integers", seed=n)
            assert (launched(gpu, program, problem) == exact(problem)).all(), problem


@pytest.mark.hopper
@pytest.mark.parametrize("size", [(1000, 1000, 1016), (2048, 2048, 2048)], ids=str)
def test_a_thousand_launches_return_the_same_bits(gpu, size):
    import cupy

    a, b = (gpu.array(matrix) for matrix in Problem(*size).inputs())
    program = compile_kernel(KERNEL)
    first = gemm(program, a, b)
    check(first, a, b, fp16_sums=True, peer=cupy.matmul(a, b.T))
    require_same_bits_again(program, a, b, first)
