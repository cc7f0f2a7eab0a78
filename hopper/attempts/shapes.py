"""The two shapes of tile that attempts start from, and the edits that several of them share."""

from __future__ import annotations

from hopper.attempts.model import Attempt, Edit
from hopper.gemm import Problem

V5, V6, V7, V8, V9 = (
    "v5_in_flight",
    "v6_fp16_acc",
    "v7_persistent",
    "v8_multicast",
    "v9_stream_k",
)
#: The tile, always given: what the file has as its default may change.
WIDE_TILE = {"TILE_M": 256, "TILE_N": 192, "STAGES": 3}
TALL_TILE = {"TILE_M": 128, "TILE_N": 256, "STAGES": 4}
WIDE = WIDE_TILE | {"SHARE_A": 1}
TALL = TALL_TILE | {"SHARE_A": 0}

#: v9 without each of its parts.
NOT_SHARED = (
    Edit(
        "const int b_first = halve_a ? 0 : rank * tile_n / 2, "
        "b_last = halve_a ? tile_n : b_first + tile_n / 2;",
        "const int b_first = 0, b_last = tile_n;",
    ),
    Edit(
        "            const int half = cluster_rank() * A_ROWS;  // asked for again: registers are "
        "short\n"
        "            tma_load_2d_multicast(a + half * TILE_K, &map_a, landed, order.row + half, "
        "deep, 3);",
        "            for (int half = 0; half < TILE_M; half += A_ROWS)\n"
        "              tma_load_2d(a + half * TILE_K, &map_a, landed, order.row + half, deep);",
    ),
    Edit(
        "else tma_load_2d_multicast(b + i * TILE_K, &map_b, landed, order.column + i, deep, 3);",
        "else tma_load_2d(b + i * TILE_K, &map_b, landed, order.column + i, deep);",
    ),
)
NO_REST = (Edit("REST = SHARE_A && TILE_M == 256 && TILE_N == 192", "REST = false"),)


def registers(producer: int, consumer: int) -> tuple[Edit, ...]:
    """v9 where each thread has so many registers once the warpgroups have traded."""
    return (
        Edit("setmaxnreg_dec<40>();", f"setmaxnreg_dec<{producer}>();"),
        Edit("setmaxnreg_inc<232>();", f"setmaxnreg_inc<{consumer}>();"),
    )


#: For what spills in the producer otherwise; an attempt of its own says what it costs.
MORE_ROOM = registers(56, 224)
ROOM_NOTE = " With 56 registers for the producer, which would spill with 40."


def stores(priority: str) -> tuple[Edit, ...]:
    """TMA stores that tell L2 how long to keep what they write."""
    form = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
    operands = ':: "l"(map), "r"(shared_address(source)), "r"(column), "r"(row)'
    plain = f"""\
  asm volatile("{form} [%0, {{%2, %3}}], [%1];"
               {operands} : "memory");
"""
    hinted = f"""\
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::{priority}.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("{form}.L2::cache_hint [%0, {{%2, %3}}], [%1], %4;"
               {operands}, "l"(policy) : "memory");
"""
    return (Edit(plain, hinted, "tma_store.cuh"),)


EVICT_FIRST = stores("evict_first")

#: v7 with a part of v9.
ALTERNATE_V7 = (
    Edit(
        "tma_load_2d(stage.a, &map_a, landed, row, step * TILE_K);",
        "const bool backwards = tile / gridDim.x % 2 == 1;\n"
        "          const int deep = (backwards ? steps - 1 - step : step) * TILE_K;\n"
        "          tma_load_2d(stage.a, &map_a, landed, row, deep);",
    ),
    Edit(
        "tma_load_2d(stage.b, &map_b, landed, column, step * TILE_K);",
        "tma_load_2d(stage.b, &map_b, landed, column, deep);",
    ),
)

#: v9 as written at other products.
SIZED_BASES = (
    Attempt("wide-cube", "4096³: v9, 256 × 192", V9, WIDE, problem=Problem(4096, 4096, 4096)),
    Attempt(
        "wide-deep",
        "4096 × 4096 × 14336: v9, 256 × 192",
        V9,
        WIDE,
        problem=Problem(4096, 4096, 14336),
    ),
    Attempt(
        "wide-broad",
        "8192 × 28672 × 8192: v9, 256 × 192",
        V9,
        WIDE,
        problem=Problem(8192, 28672, 8192),
    ),
)

#: What others are compared with.
BASES = (
    Attempt("wide", "v9, 256 × 192", V9, WIDE),
    Attempt("tall", "v9, 128 × 256", V9, TALL),
    Attempt("v5", "v5, 128 × 256", V5, TALL_TILE),
    Attempt("v8", "v8, 128 × 256", V8, TALL),
    Attempt("v6", "v6, 256 × 256", V6, {"TILE_M": 256, "TILE_N": 256, "STAGES": 3}),
    Attempt("wide-v7", "v7, 256 × 192, no turn", V7, WIDE_TILE | {"TURN": 0}),
    *SIZED_BASES,
)
