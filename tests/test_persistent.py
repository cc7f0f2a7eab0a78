"""The rungs v7 to v9, whose blocks take tile after tile: right however many blocks there are.

Inputs are whole numbers, whose sums are exact: right is what NumPy says, to the bit, in whatever
order it was added. Small tiles keep the emulator quick; v9's own tile is the only one that has
tiles of another shape for the rest of N.
"""

from collections import Counter
from dataclasses import replace
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
    require_flags_lowered,
    require_same_bits_again,
    require_streams_apart,
)

from hopper.check import check
from hopper.chip import argument
from hopper.compile import Program, compile_kernel
from hopper.errors import CompileError, ProblemError
from hopper.gemm import Problem, gemm, plan

PERSISTENT = ("v7_persistent", "v8_multicast", "v9_stream_k")
PAIRED = PERSISTENT[1:]

every_rung = pytest.mark.parametrize("kernel", PERSISTENT)


def small(kernel: str, **others: int) -> Program:
    """A rung with a small tile, as large as a consumer needs for both slots of the outbox."""
    sizes = {"TILE_M": 128, "TILE_N": 128, "STAGES": 2}
    if kernel == "v9_stream_k":
        sizes["SHARE_A"] = 0  # and so no tiles of another shape
        sizes["HAND_OVER"] = 0  # short as they are, steps are shared
    return compile_kernel(kernel, **(sizes | others))


def as_written(kernel: str, **others: int) -> Program:
    """A rung with its own tile; v9 shares whatever whole waves leave, however short."""
    return compile_kernel(kernel, **others, **({"HAND_OVER": 0} if kernel == PERSISTENT[2] else {}))


# ---- right, at every edge, with any number of blocks --------------------------------------------


@pytest.mark.parametrize("rows", range(5))
@every_rung
def test_a_product_is_exact_at_every_edge_of_a_tile(kernel, rows):
    program = small(kernel)
    m, deep = around(program.facts.tile_m)[rows], program.facts.tile_k
    depths = (8, deep, deep + 8, 3 * deep, 5 * deep - 8)
    for number, n in enumerate(around(program.facts.tile_n, 8)):
        problem = Problem(m, n, depths[(number + rows) % 5], distribution="integers", seed=n)
        assert (multiplied(program, problem).c == exact(problem)).all(), problem


@pytest.mark.parametrize("blocks", [2, 4, 6])
@every_rung
def test_any_number_of_blocks_shares_the_tiles(kernel, blocks):
    """Fewer tiles than blocks, as many, and some more than a whole number of waves."""
    program = small(kernel)
    facts = program.facts
    for rows, columns, steps in ((1, 1, 1), (1, 2, 5), (3, 1, 4), (3, 3, 2), (2, 5, 3)):
        shape = (rows * facts.tile_m - 3, columns * facts.tile_n, steps * facts.tile_k)
        problem = Problem(*shape, distribution="integers", seed=blocks)
        found = multiplied(program, problem, blocks=blocks)
        assert found.launch.grid == (blocks, 1, 1)
        assert (found.c == exact(problem)).all(), problem


@pytest.mark.parametrize("stages", [2, 3, 4])
@every_rung
def test_a_ring_of_any_length_and_any_turn_goes_round(kernel, stages):
    for turn in {0, 1, stages - 1}:
        program = small(kernel, STAGES=stages, TURN=turn)
        for steps in (1, stages, 2 * stages + 1):
            problem = Problem(300, 136, 64 * steps - 8, distribution="integers", seed=steps)
            assert (multiplied(program, problem, blocks=2).c == exact(problem)).all(), problem


@every_rung
def test_a_product_is_the_same_on_every_schedule(kernel):
    program = small(kernel, STAGES=3)
    problem = Problem(300, 264, 328)
    found = [multiplied(program, problem, how, blocks=4).c for how in SCHEDULES]
    check(found[0], *problem.inputs())
    assert {c.tobytes() for c in found} == {found[0].tobytes()}


@pytest.mark.parametrize("raster", [0, 1, 2])
@pytest.mark.parametrize("kernel", PAIRED)
def test_pairs_may_lie_in_a_row_or_in_a_column(kernel, raster):
    problem = Problem(390, 520, 136, distribution="integers")
    for share_a in (0, 1):
        program = small(kernel, SHARE_A=share_a, RASTER=raster)
        rows = (program.facts.a_box[0], program.facts.b_box[0])
        assert rows == ((64, 128) if share_a else (128, 64))  # half of what both need
        assert (multiplied(program, problem).c == exact(problem)).all()


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 5), (7, 2)])
@pytest.mark.parametrize("kernel", PAIRED)
def test_clusters_may_be_numbered_in_any_order(kernel, rows, columns):
    """More units than a whole number of waves, and for v9 a stream behind them: the same bits."""
    program = small(kernel)
    shape = (rows * program.facts.tile_m, columns * program.facts.tile_n, 264)
    problem = Problem(*shape, seed=rows)
    orders = ("dealt", (0, 1, 2), (2, 0, 1), (1, 2, 0))
    found = [multiplied(program, problem, blocks=6, places=places).c for places in orders]
    check(found[0], *problem.inputs())
    assert {c.tobytes() for c in found} == {found[0].tobytes()}


@pytest.mark.parametrize("kernel", PAIRED)
def test_a_unit_of_the_second_wave_goes_to_the_cluster_with_its_number(kernel):
    """Four pairs of tiles for three clusters: the fourth is that of the cluster with number 0."""
    program = small(kernel, **({"STREAM": 0} if kernel == PERSISTENT[2] else {}))
    problem = Problem(2 * program.facts.tile_m, 4 * program.facts.tile_n, 128)
    for places in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        run = multiplied(program, problem, blocks=6, places=places).run
        commits = Counter(event.block // 2 for event in run.trace.of("wgmma.commit"))
        assert max(commits, key=commits.get) == places.index(0)
        assert sorted(commits.values()) == [8, 8, 16]  # steps, blocks, consumers


@pytest.mark.parametrize("kernel", PAIRED)
def test_clusters_of_a_single_wave_do_not_wait_for_numbers(kernel):
    """A pair of tiles each: by number in the launch, whatever their places."""
    program = small(kernel, **({"STREAM": 0} if kernel == PERSISTENT[2] else {}))
    problem = Problem(2 * program.facts.tile_m, program.facts.tile_n, 128)
    run = multiplied(program, problem, blocks=6, places=(2, 1, 0)).run
    assert {event.block // 2 for event in run.trace.of("wgmma.commit")} == {0}


@pytest.mark.parametrize("kernel", PAIRED)
def test_two_clusters_of_one_place_take_different_numbers(kernel):
    """More clusters than places, as if one ended before another began: numbers come twice."""
    program = small(kernel)
    shape = (4 * program.facts.tile_m, 3 * program.facts.tile_n, 136)
    problem = Problem(*shape, distribution="integers")
    a, b = problem.inputs()
    for numbers in ((0, 0, 1), (2, 2, 2), (1, 0, 0)):
        c = numpy.full((problem.m, problem.n), numpy.nan, a.dtype)
        launch = plan(program, a, b, c, blocks=6)
        *others, _ = launch.args[:-3]
        args = (*others, argument(numbers), *launch.args[-3:])
        for _ in range(2):  # the second launch finds the claims as the first did
            assert replace(launch, args=args).run().hazards == ()
            assert (c == exact(problem)).all()
            require_flags_lowered(launch)


@pytest.mark.parametrize("kernel", PAIRED)
@pytest.mark.parametrize("places", [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, 2, 3)])
def test_numbers_of_places_that_are_no_permutation_are_refused(kernel, places):
    a, b = Problem(64, 64, 64).inputs()
    c = numpy.zeros((64, 64), "float16")
    with pytest.raises(ProblemError, match="there are 3 pairs of SMs.*pass a permutation"):
        plan(small(kernel), a, b, c, places=places)


@pytest.mark.parametrize("n", [128, 392, 520, 640, 1160])
def test_the_rest_of_n_gets_tiles_of_its_own(n):
    """Left over of 384: one and two columns of 256, whole pairs, and too much for either."""
    program = compile_kernel("v9_stream_k", HAND_OVER=0)
    for m, k, blocks in ((300, 456, 6), (140, 72, 2)):
        problem = Problem(m, n, k, distribution="integers", seed=n)
        assert (multiplied(program, problem, blocks=blocks).c == exact(problem)).all(), problem


def test_shared_steps_are_added_in_one_order():
    """A pair of tiles shared among three clusters: the same bits on every schedule, and again."""
    program = small("v9_stream_k", STAGES=3)
    problem = Problem(256, 128, 584, seed=3)
    found = multiplied(program, problem, blocks=6)
    assert found.issued("st.release") == 8, "two consumers of two blocks, in two clusters"
    check(found.c, *problem.inputs())
    for how in SCHEDULES[1:]:
        assert multiplied(program, problem, how, blocks=6).c.tobytes() == found.c.tobytes()
    again = numpy.array(found.c)
    found.c[...] = numpy.nan
    found.launch.run()
    assert found.c.tobytes() == again.tobytes()


def test_a_wave_joins_the_stream_where_little_is_left():
    """Three wide units and one of the rest, for three clusters: that one alone is not shared."""
    program = compile_kernel("v9_stream_k", HAND_OVER=0)
    problem = Problem(140, 1408, 264, distribution="integers")
    found = multiplied(program, problem, blocks=6)
    assert (found.c == exact(problem)).all()
    assert found.issued("st.release") > 0


def test_whole_units_add_in_the_order_of_the_first_rungs():
    problem = Problem(300, 200, 456, seed=5)
    a, b = problem.inputs()
    first = gemm(compile_kernel("v1_wgmma"), a, b)
    check(first, a, b)
    for kernel in PERSISTENT[:2]:
        assert gemm(small(kernel), a, b).tobytes() == first.tobytes(), kernel
    whole = small("v9_stream_k", STREAM=0, ALTERNATE=0)
    assert gemm(whole, a, b).tobytes() == first.tobytes()


@every_rung
def test_a_product_in_bf16_is_exact(kernel):
    program = small(kernel, BF16=1)
    assert program.facts.dtype == "bfloat16" and "bf16.bf16" in program.ptx
    for m, n, k in ((1, 8, 8), (300, 264, 328)):
        problem = Problem(m, n, k, "bfloat16", "integers", seed=n)
        assert multiplied(program, problem).c.tobytes() == exact(problem).tobytes(), problem


# ---- what a rung says of itself -----------------------------------------------------------------


@every_rung
def test_setup_is_paid_once_and_the_barriers_are_few(kernel):
    program = small(kernel, TURN=0)
    facts, steps = program.facts, 3
    problem = Problem(4 * facts.tile_m, 3 * facts.tile_n, steps * facts.tile_k)
    issued, tiles, blocks = multiplied(program, problem, blocks=2).issued, 12, 2
    assert issued("wgmma.mma_async") == tiles * steps * 4 * 2 * 4  # K, consumers, warps
    assert issued("cp.async.bulk.tensor.2d.shared") == tiles * steps * 2
    assert issued("cp.async.bulk.tensor.2d.global") == tiles * facts.tile_m * facts.tile_n // 4096
    assert issued("mbarrier.init") < blocks * 20
    assert issued("bar.sync") == (0 if kernel in PAIRED else blocks * facts.threads // 32)


@pytest.mark.parametrize("kernel", PAIRED)
def test_a_pair_loads_what_both_need_once(kernel):
    program = small(kernel)
    facts = program.facts
    problem = Problem(2 * facts.tile_m, facts.tile_n, 4 * facts.tile_k)
    run = multiplied(program, problem, blocks=2).run
    multicast = sum(n for op, n in run.counts.items() if ".multicast" in op)
    # Each block asks for half of B, and for its own A.
    assert multicast == 2 * 4


@pytest.mark.parametrize("kernel", PAIRED)
def test_only_the_wide_release_drags_a_barrier_of_the_gpu_into_the_loop(kernel):
    def barriers(**defines: int) -> int:
        return compile_kernel(kernel, **defines).sass().count("MEMBAR.ALL.GPU")

    assert barriers(CLUSTER_SCOPE=1) > barriers()


@pytest.mark.parametrize(
    ("kernel", "defines", "rule"),
    [
        *(
            (kernel, defines, rule)
            for kernel in PERSISTENT
            for defines, rule in (
                ({"TILE_M": 100}, "64-row instructions"),
                ({"TILE_N": 100}, "in whole boxes of C"),
                ({"STAGES": 1}, "released when the next is in use"),
                ({"STAGES": 3, "TURN": 3}, "the other needs TURN more"),
                ({"TILE_M": 128, "TILE_N": 256, "STAGES": 5}, "227 KB"),
                ({"TILE_M": 128, "TILE_N": 64}, "for each slot of the outbox"),
            )
        ),
    ],
)
def test_what_breaks_a_rule_of_a_rung_does_not_compile(kernel, defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel(kernel, **defines)


@every_rung
def test_an_n_that_tma_cannot_store_is_refused(kernel):
    program = small(kernel)
    a, b = (numpy.ones((rows, 64), "float16") for rows in (64, 20))
    with pytest.raises(ProblemError, match=r"N=20: .* pad B and C to N=24, or take v5"):
        gemm(program, a, b)


def test_a_number_of_blocks_that_cannot_be_is_refused():
    a, b = Problem(64, 64, 64).inputs()
    c = numpy.zeros((64, 64), "float16")
    for kernel, blocks, why in (
        ("v8_multicast", 3, "clusters of 2"),
        ("v9_stream_k", 0, "at least 2"),
        ("v7_persistent", 7, "6 run at once on 6 SMs"),
    ):
        with pytest.raises(ProblemError, match=why):
            plan(small(kernel), a, b, c, blocks=blocks)
    with pytest.raises(ProblemError, match="a block for each of its 1 × 1 tiles"):
        plan(compile_kernel("v5_in_flight"), a, b, c, blocks=2)


def test_a_workspace_belongs_to_its_launch():
    program = small("v9_stream_k")
    a, b = Problem(64, 64, 64).inputs()
    c = numpy.zeros((64, 64), "float16")
    first, second = (plan(program, a, b, c) for _ in range(2))
    partials, flags, claims = first.workspace
    blocks = first.grid[0]
    assert (partials.size, flags.size) == (blocks * 128 * 128, blocks * 2)
    assert claims.size == 1 + blocks // 2
    assert not numpy.shares_memory(partials, second.workspace[0])
    assert [each.size for each in plan(small("v8_multicast"), a, b, c).workspace] == [2]
    assert plan(small("v7_persistent"), a, b, c).workspace == ()


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("rows", range(5))
@every_rung
def test_a_gpu_is_exact_at_every_edge_of_a_tile(gpu, kernel, rows):
    program = as_written(kernel)
    m = around(program.facts.tile_m)[rows]
    for n, k in product((*around(program.facts.tile_n, 8), 640, 1160), (8, 64, 136, 520, 2048)):
        problem = Problem(m, n, k, distribution="integers", seed=n)
        assert (launched(gpu, program, problem) == exact(problem)).all(), problem


@pytest.mark.hopper
@every_rung
def test_a_gpu_returns_the_emulators_bits(gpu, kernel):
    """With as many blocks: how a tile is shared decides in which order it is added."""
    program = small(kernel)
    for shape in ((1, 8, 8), (256, 128, 1032), (300, 264, 456)):
        require_emulated_bits(gpu, program, Problem(*shape, seed=sum(shape)), blocks=6)


@pytest.mark.hopper
@pytest.mark.parametrize("size", [(1000, 1000, 1016), (2048, 2048, 2048)], ids=str)
@every_rung
def test_a_thousand_launches_return_the_same_bits(gpu, kernel, size):
    a, b = (gpu.array(matrix) for matrix in Problem(*size).inputs())
    program = as_written(kernel)
    first = gemm(program, a, b)
    check(first, a, b)
    require_same_bits_again(program, a, b, first)


@pytest.mark.hopper
@every_rung
def test_two_streams_at_once_do_not_disturb_each_other(gpu, kernel):
    require_streams_apart(gpu, as_written(kernel), (777, 1032, 2056))


@pytest.mark.hopper
def test_more_blocks_than_run_at_once_come_to_an_end(gpu):
    """``plan`` refuses them; but a block waits only for blocks that started before it."""
    import cupy

    program = small("v9_stream_k")
    a, b = (gpu.array(matrix) for matrix in Problem(2048, 2048, 4096).inputs())
    c = cupy.full((2048, 2048), cupy.nan, a.dtype)
    launch = plan(program, a, b, c)
    blocks = 4 * gpu.sm_count
    workspace = (
        cupy.zeros(blocks * program.facts.partial_floats, "float32"),
        cupy.zeros(blocks * program.facts.flags, "uint32"),
        cupy.zeros(1 + blocks // program.facts.cluster, "uint32"),
    )
    args = (*launch.args[:3], *workspace, *launch.args[6:])
    replace(launch, grid=(blocks, 1, 1), args=args, workspace=workspace).run()
    check(c, a, b)


@pytest.mark.hopper
@every_rung
def test_a_gpu_multiplies_bf16(gpu, kernel):
    program = as_written(kernel, BF16=1)
    for shape in ((1, 8, 8), (129, 264, 72), (1000, 1000, 1016), (2048, 2048, 2048)):
        a, b = (gpu.array(matrix) for matrix in Problem(*shape, "bfloat16").inputs())
        assert check(gemm(program, a, b), a, b).ok


@pytest.mark.hopper
@pytest.mark.parametrize(
    "shape", [(2048, 2048, 2048), (4096, 4096, 4096), (300, 1000, 16)], ids=str
)
def test_a_gpu_is_exact_where_a_stream_would_not_pay(gpu, shape):
    problem = Problem(*shape, distribution="integers")
    assert (launched(gpu, compile_kernel("v9_stream_k"), problem) == exact(problem)).all()


@pytest.mark.hopper
def test_a_gpu_shares_out_a_very_long_k(gpu):
    """The cost of a unit times a number of steps would not fit 32 bits."""
    a, b = (gpu.array(matrix) for matrix in Problem(8, 8, 2**22).inputs())
    check(gemm(compile_kernel("v9_stream_k"), a, b), a, b)
