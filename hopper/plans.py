"""What is recorded of each kernel: problems, configurations. The status page and CI ask for it."""

from dataclasses import dataclass, replace

from hopper.gemm import Problem
from hopper.records.store import HEADLINE


@dataclass(frozen=True)
class KernelPlan:
    """What is recorded of a kernel.

    ``problems``: timed in burst mode as written, or compiled for bf16 where they are; the headline
    problem in sustained mode too.
    ``configurations``: ``-D`` names of the tuning table, at the headline problem. ``overlapping``:
    problems timed in burst mode with ``OVERLAP=1``, too. A kernel that is no GEMM has none of
    these; what it shows is in its experiments.
    """

    problems: tuple[Problem, ...] = ()
    configurations: tuple[dict[str, int], ...] = ()
    overlapping: tuple[Problem, ...] = ()


def tiles(*sizes: tuple[int, int]) -> tuple[dict[str, int], ...]:
    """Configurations that set TILE_M and TILE_N."""
    return tuple({"TILE_M": m, "TILE_N": n} for m, n in sizes)


def each(name: str, *values: int, **others: int) -> tuple[dict[str, int], ...]:
    """Configurations that set one macro to each of the values, and others to what is given."""
    return tuple({name: value} | others for value in values)


SIZES = (
    HEADLINE,
    Problem(4096, 4096, 4096),
    Problem(2048, 2048, 2048),
    Problem(1024, 1024, 1024),
    Problem(8191, 8189, 8184),  # odd M and N, K no multiple of the tile
    Problem(1408, 1536, 8192),  # 132 tiles of 128 × 128: one block an SM
)

#: As SIZES, for kernels that store C by TMA: N is a multiple of 8.
STORED_BY_TMA = (
    HEADLINE,
    Problem(4096, 4096, 4096),
    Problem(2048, 2048, 2048),
    Problem(1024, 1024, 1024),
    Problem(8191, 8184, 8184),  # no side a multiple of the tile
)
#: A larger cube, and layers of a language model.
LARGE = (
    Problem(16384, 16384, 16384),
    Problem(4096, 4096, 14336),
    Problem(8192, 28672, 8192),
)

#: Where a launch is short, what lies between two launches counts.
CUBES = STORED_BY_TMA[1:4]

BF16_HEADLINE = replace(HEADLINE, dtype="bfloat16")
ONE_WAVE_OF_256 = Problem(1408, 3072, 8192)  # 132 tiles of 128 × 256: one block an SM
ONE_WAVE_OF_256_BY_256 = Problem(2816, 3072, 8192)  # 132 tiles: one block an SM
LARGE_TILES = (
    *each("RASTER", 0, 1, 2, 4, 8, 16, 32, 64),
    *each("STAGES", 2, 3, 4),
    *each("STAGES", 3, 4, TILE_M=128, TILE_N=192),
    *each("STAGES", 3, 4, TILE_M=256, TILE_N=128),
    *each("STAGES", 3, 4, TILE_M=256, TILE_N=192),
    *each("RASTER", 4, 8, 16, TILE_M=256, TILE_N=192),
)

PLANS: dict[str, KernelPlan] = {
    "bank_conflicts": KernelPlan(),
    "ceiling": KernelPlan(),
    "chip": KernelPlan(),
    "descriptor_probe": KernelPlan(),
    "fragment_map": KernelPlan(),
    "layout_copy": KernelPlan(),
    "one_wgmma": KernelPlan(),
    "protocol_loop": KernelPlan(),
    "tma_copy": KernelPlan(),
    "tma_multicast": KernelPlan(),
    "tma_reduce": KernelPlan(),
    "tma_ring": KernelPlan(),
    "tma_swizzle": KernelPlan(),
    "wgmma_modes": KernelPlan(),
    "rs_wgmma": KernelPlan(),
    "store_tile": KernelPlan(),
    "v0_mma_sync": KernelPlan(
        problems=(
            *SIZES,
            Problem(1536, 2816, 8192),  # 264 tiles: two blocks an SM
        ),
        configurations=tiles(
            (64, 64),
            (64, 128),
            (64, 192),
            (64, 256),
            (96, 128),
            (128, 64),
            (128, 96),
            (128, 128),
            (128, 160),
            (128, 192),
            (128, 224),  # refused: it spills, and v1's does not
            (192, 128),
            (256, 64),
        ),
    ),
    "v1_wgmma": KernelPlan(
        problems=(
            *SIZES,
            Problem(2304, 2816, 8192),  # 396 tiles: three blocks an SM
        ),
        configurations=tiles(
            (64, 64),
            (64, 128),
            (64, 192),
            (64, 256),
            (128, 64),
            (128, 96),
            (128, 128),
            (128, 160),
            (128, 192),
            (128, 224),
            (128, 248),
            (192, 128),
            (256, 64),
        ),
    ),
    "v2_ring": KernelPlan(
        problems=(
            *SIZES,
            Problem(2304, 2816, 8192),  # 396 tiles: three blocks an SM, if it has two stages
            BF16_HEADLINE,
        ),
        configurations=(
            *each("STAGES", 1, 2, 3, 4, 5, 6, 7),
            *each("STAGES", 2, 3, 4, TILE_M=64, TILE_N=128),
            *each("STAGES", 2, 3, 4, TILE_M=64, TILE_N=256),
            *each("STAGES", 2, 3, 4, TILE_M=128, TILE_N=192),
        ),
    ),
    "v3_specialized": KernelPlan(
        problems=(
            *SIZES,
            Problem(1536, 2816, 8192),  # 264 tiles: two blocks an SM
            BF16_HEADLINE,
        ),
        configurations=(
            *each("STAGES", 1, 2, 3, 4, 5, 6),
            *each("STAGES", 2, 3, 4, TILE_M=64, TILE_N=128),
            *each("STAGES", 2, 3, 4, TILE_M=64, TILE_N=256),
            *each("STAGES", 2, 3, 4, TILE_M=128, TILE_N=192),
        ),
    ),
    "v4_two_consumers": KernelPlan(
        problems=(*SIZES, ONE_WAVE_OF_256, BF16_HEADLINE), configurations=LARGE_TILES
    ),
    "v5_in_flight": KernelPlan(
        problems=(*SIZES, ONE_WAVE_OF_256, BF16_HEADLINE), configurations=LARGE_TILES
    ),
    "v6_fp16_acc": KernelPlan(
        problems=(*STORED_BY_TMA, ONE_WAVE_OF_256_BY_256),
        configurations=(*each("RASTER", 0, 4, 8, 16, 32), *each("STAGES", 2, 3)),
    ),
    "v7_persistent": KernelPlan(
        problems=(*STORED_BY_TMA, ONE_WAVE_OF_256, BF16_HEADLINE),
        configurations=(
            *each("TURN", 0, 1, 2, 3),
            *each("STAGES", 2, 3),
            *each("RASTER", 0, 4, 8, 32),
            *tiles((128, 128), (128, 192), (256, 128)),
            *each("STAGES", 3, TILE_M=256, TILE_N=192),
        ),
    ),
    "v8_multicast": KernelPlan(
        problems=(*STORED_BY_TMA, ONE_WAVE_OF_256, BF16_HEADLINE),
        configurations=(
            *each("RASTER", 0, 2, 4, 8, 16, 32),
            *each("TURN", 0),
            *each("SHARE_A", 1),
            *each("SHARE_A", 0, 1, TILE_M=256, TILE_N=128),
            *each("SHARE_A", 0, 1, TILE_M=256, TILE_N=192, STAGES=3),
            *each("CLUSTER_SCOPE", 1),
        ),
        overlapping=CUBES,
    ),
    "v9_stream_k": KernelPlan(
        problems=(*STORED_BY_TMA, *LARGE, BF16_HEADLINE),
        configurations=(
            *each("STREAM", 0),
            *each("ALTERNATE", 0),
            *each("STREAM", 0, ALTERNATE=0),
            *each("RASTER", 4, 8, 32),
            *each("TURN", 1),
            *each("STREAM", 0, 1, TILE_M=128, TILE_N=256, STAGES=4, SHARE_A=0),
            *each("ALTERNATE", 0, TILE_M=128, TILE_N=256, STAGES=4, SHARE_A=0),
            *each("RASTER", 16, TILE_M=128, TILE_N=256, STAGES=4, SHARE_A=0),
        ),
        overlapping=CUBES,
    ),
}
