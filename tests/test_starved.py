"""The ladder where some warps hardly run: nobody may get ahead of them by more than is allowed.

A warp may stand still for as long as the hardware likes. Who goes on without it must come to wait
for it in time: at a barrier, or for what only it releases, in pieces of work of any length.
"""

import pytest
from rungs import exact, multiplied

from hopper.compile import Program, compile_kernel
from hopper.emulator import Emulator
from hopper.gemm import Problem
from hopper.stream_k import Tiling, plan_stream_k

STAGES = 4
STEPS = (1, 2, STAGES - 1, STAGES, STAGES + 1)
SECOND_CONSUMER = 1  # the seed that starves a block's second warpgroup
#: Kernels whose blocks compute one tile, and that tile.
ONE_TILE = {
    "v2_ring": (64, 16),
    "v3_specialized": (64, 16),
    "v4_two_consumers": (128, 16),
    "v5_in_flight": (128, 16),
    "v6_fp16_acc": (128, 64),
}
#: And those whose blocks take several, with the fewest blocks.
PERSISTENT = {"v7_persistent": 1, "v8_multicast": 2, "v9_stream_k": 2}
PIECES = {"TILE_M": 128, "TILE_N": 128, "STAGES": STAGES}


def starved(seed: int) -> Emulator:
    return Emulator(schedule="starved", tma="eager", seed=seed)


def require_exact(program: Program, problem: Problem, seed: int, blocks: int | None = None) -> None:
    found = multiplied(program, problem, starved(seed), blocks)
    assert (found.c == exact(problem)).all(), (problem, seed)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kernel", ONE_TILE)
def test_a_block_of_one_tile_waits_for_its_slowest_warps(kernel, steps):
    tile_m, tile_n = ONE_TILE[kernel]
    program = compile_kernel(kernel, TILE_M=tile_m, TILE_N=tile_n, STAGES=STAGES - 1)
    problem = Problem(tile_m, 2 * tile_n, 64 * steps, distribution="integers", seed=steps)
    for seed in (SECOND_CONSUMER, 2 * steps):
        require_exact(program, problem, seed)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kernel", PERSISTENT)
def test_tile_after_tile_nobody_gets_ahead_of_the_slowest(kernel, steps):
    """However few steps a tile has: consumers meet once in each, or in none."""
    blocks = PERSISTENT[kernel]
    program = compile_kernel(kernel, **PIECES, **({"SHARE_A": 0} if blocks > 1 else {}))
    problem = Problem(128 * blocks * 3, 128, 64 * steps, distribution="integers", seed=steps)
    for seed in (SECOND_CONSUMER, 2 * steps):
        require_exact(program, problem, seed, blocks)


@pytest.mark.parametrize("turn", [1, 2])
def test_a_shorter_turn_needs_its_steps_too(turn):
    program = compile_kernel("v7_persistent", **PIECES, TURN=turn)
    for steps in (1, 2, STAGES):
        problem = Problem(128 * 4, 128, 64 * steps, distribution="integers", seed=steps)
        require_exact(program, problem, SECOND_CONSUMER, blocks=1)


#: M and K of products of v9, clusters, and the steps of each cluster's pieces: two short ones, a
#: long one in front of a short one, and behind.
SHARES = [
    (512, 384, 3, [[4], [2, 2], [4]]),
    (768, 320, 2, [[5, 2], [5, 3]]),
    (512, 640, 3, [[6], [3, 4], [7]]),
]


@pytest.mark.parametrize(("m", "k", "clusters", "lengths"), SHARES, ids=str)
def test_shares_of_short_pieces_are_summed(m, k, clusters, lengths):
    tiling = Tiling(128, 128, share_a=False)
    plan = plan_stream_k(m, 128, k, clusters, tiling, hand_over=0)
    assert [[piece.steps for piece in mine] for mine in plan.pieces] == lengths
    program = compile_kernel("v9_stream_k", **PIECES, SHARE_A=0, HAND_OVER=0)
    problem = Problem(m, 128, k, distribution="integers")
    require_exact(program, problem, SECOND_CONSUMER, 2 * clusters)
