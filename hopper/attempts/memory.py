"""Attempts on what is asked of L2 and of memory, and when."""

from hopper.attempts.model import SUSTAINED, Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import (
    EVICT_FIRST,
    MORE_ROOM,
    ROOM_NOTE,
    TALL,
    TALL_TILE,
    V7,
    V9,
    WIDE,
    WIDE_TILE,
    stores,
)

MEMORY = "L2 and memory"
_C_FITS = Lesson(
    "Here what A and B need at one time fits into L2 beside C, hint or no hint.", -0.15, 0.15
)

_PREFETCH = Edit(
    "// One thread, early: fetches the descriptor itself",
    "__device__ inline void tma_prefetch_2d(const TensorMap* map, int row, int column) {\n"
    '  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];"\n'
    '               :: "l"(map), "r"(column), "r"(row) : "memory");\n'
    "}\n\n"
    "// One thread, early: fetches the descriptor itself",
    "tma.cuh",
)


def _prefetched(ahead: int, who: str = "") -> tuple[Edit, ...]:
    """What a block loads in a step it prefetches ``ahead`` steps before; ``who``: a condition."""
    if_asked = f"if ({who}) " if who else ""
    by = "prefetched already"
    return (
        _PREFETCH,
        Edit(
            "mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);  // in both blocks\n",
            f"const int soon = deep + (backwards ? -{ahead} : {ahead}) * TILE_K;  // {by}\n"
            "          mbarrier_wait_parity(&barriers.empty[at.stage], at.parity);"
            "  // in both blocks\n",
        ),
        Edit(
            "            tma_load_2d_multicast(a + half * TILE_K, ",
            f"            {if_asked}tma_prefetch_2d(&map_a, order.row + half, soon);\n"
            "            tma_load_2d_multicast(a + half * TILE_K, ",
        ),
        Edit(
            "          for (int i = b_first; i < b_last; i += B_ROWS) {\n",
            "          for (int i = b_first; i < b_last; i += B_ROWS) {\n"
            f"            {if_asked}tma_prefetch_2d(&map_b, order.column + i, soon);\n",
        ),
    )


#: The policies as createpolicy would make them for a whole access.
_EVICT_FIRST, _EVICT_LAST = "0x12f0000000000000ull", "0x14f0000000000000ull"


def _loads(policy: str) -> tuple[Edit, ...]:
    return (
        Edit(
            '"[%0], [%1, {%3, %4}], [%2];"',
            '".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;"',
            "tma.cuh",
        ),
        Edit(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes ",
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
            "tma.cuh",
        ),
        Edit(
            '"r"(column), "r"(row) : "memory");',
            f'"r"(column), "r"(row), "l"({policy}) : "memory");',
            "tma.cuh",
        ),
    )


def _multicast_loads(policy: str) -> tuple[Edit, ...]:
    return (
        Edit(
            '".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"',
            '".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;"',
            "cluster.cuh",
        ),
        Edit('"h"(mask) : "memory");', f'"h"(mask), "l"({policy}) : "memory");', "cluster.cuh"),
    )


_FETCHED = Lesson(
    "What the fetch ahead adds is a second request for a slice, and L2 answers both. That costs "
    "more than it wins.",
    high=-0.2,
)

_PAID = Lesson(
    "Under a lasting load it costs more still: each request is paid for in energy.",
    high=-1.5,
    mode=SUSTAINED,
)

AT_L2 = (
    Attempt(
        "wide-prefetch-1",
        "256 × 192, both blocks prefetch a step ahead into L2",
        V9,
        WIDE,
        _prefetched(1),
        against="wide",
        burst=Prediction(0.2, 0.6),
        sustained=Prediction(0.2, 0.6),
        why="A slice that L2 has not got takes longer than the ring covers. The copy that asks for "
        "a slice early needs no stage.",
        lessons=(_FETCHED, _PAID),
        group=MEMORY,
    ),
    Attempt(
        "wide-prefetch-2",
        "256 × 192, both blocks prefetch two steps ahead into L2",
        V9,
        WIDE,
        _prefetched(2),
        against="wide",
        burst=Prediction(0.2, 0.6),
        why="The same, with twice the time.",
        lessons=(_FETCHED,),
        group=MEMORY,
    ),
    Attempt(
        "wide-prefetch-one",
        "256 × 192, one block of a pair prefetches two steps ahead into L2",
        V9,
        WIDE,
        (*_prefetched(2, "rank == 0"), *MORE_ROOM),
        against="wide",
        burst=Prediction(0.2, 0.5),
        sustained=Prediction(0, 0.5),
        why="Many blocks want each slice, and one request brings it to L2 for all. Half of the "
        "requests should serve as well, at half the cost." + ROOM_NOTE,
        lessons=(_FETCHED, _PAID),
        group=MEMORY,
    ),
    Attempt(
        "tall-prefetch-2",
        "128 × 256, both blocks prefetch two steps ahead into L2",
        V9,
        TALL,
        _prefetched(2)[:2]
        + (
            Edit(
                "            tma_load_2d(a, &map_a, landed, order.row, deep);",
                "            tma_prefetch_2d(&map_a, order.row, soon);\n"
                "            tma_load_2d(a, &map_a, landed, order.row, deep);",
            ),
            _prefetched(2)[3],
        ),
        against="tall",
        burst=Prediction(0, 0.4),
        why="The same; a fourth stage covers part of it already.",
        lessons=(_FETCHED,),
        group=MEMORY,
    ),
    Attempt(
        "wide-keep-a",
        "256 × 192, L2 is told to keep A",
        V9,
        WIDE,
        _multicast_loads(_EVICT_LAST),
        against="wide",
        burst=Prediction(0, 0.4),
        why="Every column of tiles reads the rows of A again, and evict_last keeps them.",
        lessons=(Lesson("Left alone, L2 does as well.", -0.25, 0.25),),
        group=MEMORY,
    ),
    Attempt(
        "wide-keep-a-drop-b",
        "256 × 192, L2 is told to keep A and to forget B",
        V9,
        WIDE,
        (*_multicast_loads(_EVICT_LAST), *_loads(_EVICT_FIRST)),
        against="wide",
        burst=Prediction(0, 0.5),
        why="Columns of B are read by one group of rows, and then not for a long time.",
        lessons=(
            Lesson(
                "The blocks that want a slice do not ask for it at the same moment. What is "
                "forgotten too soon is fetched again.",
                high=-0.3,
            ),
        ),
        group=MEMORY,
    ),
    Attempt(
        "tall-drop-a",
        "128 × 256, L2 is told to forget A",
        V9,
        TALL,
        _loads(_EVICT_FIRST),
        against="tall",
        burst=Prediction(-0.5, 0),
        why="A is what the next column of tiles reads again.",
        group=MEMORY,
    ),
    Attempt(
        "wide-evict-first",
        "256 × 192, stores with evict_first",
        V9,
        WIDE,
        EVICT_FIRST,
        against="wide",
        burst=Prediction(0.2, 0.4),
        sustained=Prediction(0.2, 0.4),
        why="C is written once and never read. Without evict_first it takes room in L2 that A and "
        "B could use.",
        lessons=(_C_FITS,),
        group=MEMORY,
    ),
    Attempt(
        "tall-evict-first",
        "128 × 256, stores with evict_first",
        V9,
        TALL,
        EVICT_FIRST,
        against="tall",
        burst=Prediction(0.2, 0.4),
        why="The same.",
        lessons=(
            _C_FITS,
            Lesson(
                "Its samples fall into two heaps, as those of v9 unchanged did at times. So the "
                "hint need not be to blame.",
                -1.5,
                -0.3,
            ),
        ),
        group=MEMORY,
    ),
    Attempt(
        "wide-v7-evict-first",
        "v7, 256 × 192, stores with evict_first",
        V7,
        WIDE_TILE | {"TURN": 0},
        EVICT_FIRST,
        against="wide-v7",
        burst=Prediction(0.1, 0.4),
        why="C leaves its room in L2 to A and B.",
        group=MEMORY,
    ),
    Attempt(
        "tall-v7-evict-first",
        "v7, 128 × 256, stores with evict_first",
        V7,
        TALL_TILE | {"TURN": 0},
        EVICT_FIRST,
        against="tall-v7",
        burst=Prediction(0.1, 0.4),
        why="The same.",
        group=MEMORY,
    ),
    Attempt(
        "wide-unchanged-stores",
        "256 × 192, stores with evict_unchanged",
        V9,
        WIDE,
        stores("evict_unchanged"),
        against="wide-evict-first",
        burst=Prediction(-0.3, 0),
        why="The lines of C keep the priority that they would have without a hint.",
        group=MEMORY,
    ),
    Attempt(
        "wide-prefetch-maps",
        "256 × 192, the tensor maps are fetched first",
        V9,
        WIDE,
        (
            Edit(
                "    outbox_init(out);\n",
                "    outbox_init(out);\n"
                "    prefetch_tensormap(&map_a);\n"
                "    prefetch_tensormap(&map_b);\n"
                "    prefetch_tensormap(&map_c);\n",
            ),
        ),
        against="wide",
        burst=Prediction(0, 0.1),
        why="It spares the first copy of a block one miss in a launch: less than a microsecond of "
        "a millisecond and a half.",
        lessons=(
            Lesson(
                "Once a launch is nothing. In a kernel of a few microseconds it would count.",
                -0.3,
                0.3,
            ),
        ),
        group=MEMORY,
    ),
    Attempt(
        "tall-small-boxes",
        "128 × 256, half of B in two copies of 64 rows",
        V9,
        TALL,
        (Edit("SHARE_A ? TILE_N : TILE_N / CLUSTER;", "SHARE_A ? TILE_N : TILE_N / CLUSTER / 2;"),),
        against="tall",
        burst=Prediction(-0.3, 0.1),
        why="One copy more in a step, of the same bytes.",
        lessons=(Lesson("TMA is not short of instructions.", -0.3, 0.3),),
        group=MEMORY,
    ),
)
