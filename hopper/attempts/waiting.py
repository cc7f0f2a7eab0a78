"""Attempts on who waits for whom, and how."""

from hopper.attempts.model import SUSTAINED, Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import TALL, V9, WIDE

WAITING = "Waiting and releasing"
_NOTHING = Lesson("It does not matter. The kernel does not wait for this.", -0.15, 0.15)

#: One arrival for each consumer, behind a barrier of its four warps.
_ONE_ARRIVAL = (
    Edit("barriers.init(CONSUMERS * 4);", "barriers.init(CONSUMERS);"),
    Edit(
        "const int lane = threadIdx.x % 32;",
        "named_barrier_sync(4 + threadIdx.x / 128, 128);\n    const int lane = threadIdx.x % 128;",
        "pair_ring.cuh",
    ),
    Edit(
        '#include "mbarrier.cuh"\n',
        '#include "mbarrier.cuh"\n#include "named_barrier.cuh"\n',
        "pair_ring.cuh",
    ),
)

#: A group of its own for the first products of a step, behind which the stage before is released.
_EARLY = (
    Edit(
        "                                  descriptor_advance(b, kk), /*scale_d=*/step + kk > 0);\n"
        "      }\n",
        "                                  descriptor_advance(b, kk), /*scale_d=*/step + kk > 0);\n"
        "      }\n"
        "      if (kk == 0) {\n"
        "        wgmma_commit_group();\n"
        "        wgmma_wait_group<1>();\n"
        "        if (step > 0) barriers.release(previous);\n"
        "      }\n",
        "multiply.cuh",
    ),
    Edit(
        "    wgmma_wait_group<1>();  // all groups but this one have retired\n"
        "    if (step > 0) barriers.release(previous);\n",
        "",
        "multiply.cuh",
    ),
)


def _cluster_scope(name: str, shape: str, defines: dict[str, int]) -> Attempt:
    return Attempt(
        f"{name}-cluster-scope",
        f"{shape}, stages released at cluster scope",
        V9,
        defines | {"CLUSTER_SCOPE": 1},
        against=name,
        burst=Prediction(-0.5, 0),
        why="A wider scope for an arrival that goes to the other block anyway.",
        lessons=(
            Lesson(
                "The compiler makes a memory barrier of the whole GPU of it, in every step of "
                "K. Read the machine code of whatever stands in the main loop.",
                high=-5,
            ),
        ),
        group=WAITING,
    )


_LASTING = Lesson(
    "Whatever it wins in a burst, it loses more under a lasting load. No counters were taken of "
    "it.",
    high=-0.15,
    mode=SUSTAINED,
)

_KEPT = Lesson(
    "The change keeps more than the gap: a stage is still released a step later, though nothing "
    "reads it any more. Of three stages that leaves the producer one. The attempt that releases it "
    "at once says how little the gap alone costs.",
    high=-4,
)


def _released_at_once(
    name: str, shape: str, defines: dict[str, int], predicted: Prediction
) -> Attempt:
    return Attempt(
        f"{name}-release-at-once",
        f"{shape}, no group in flight, and each stage released at once",
        V9,
        defines,
        (
            Edit(
                "    wgmma_wait_group<1>();  // all groups but this one have retired\n"
                "    if (step > 0) barriers.release(previous);\n"
                "    previous = stage;\n",
                "    wgmma_wait_group<0>();\n    barriers.release(stage);\n",
                "multiply.cuh",
            ),
            Edit("  int previous = 0;  // stage of the step before\n", "", "multiply.cuh"),
            Edit("  wgmma_wait_group<0>();\n  barriers.release(previous);\n", "", "multiply.cuh"),
        ),
        against=name,
        burst=predicted,
        why="The other consumer has products queued while this one waits, and the producer gets a "
        "stage back a step earlier.",
        lessons=(
            Lesson(
                "The other consumer fills the gap. What a stage wins that comes back a step "
                "earlier is more than the gap costs.",
                low=0.15,
            ),
            Lesson(
                "With a fourth stage there is nothing to win that would pay for the gap.",
                high=-0.15,
            ),
        ),
        group=WAITING,
    )


AT_BARRIERS = (
    _cluster_scope("wide", "256 × 192", WIDE),
    _cluster_scope("tall", "128 × 256", TALL),
    Attempt(
        "wide-one-arrival",
        "256 × 192, one arrival for each consumer",
        V9,
        WIDE,
        _ONE_ARRIVAL,
        against="wide",
        burst=Prediction(-0.5, 0.3),
        why="A quarter of the messages between the two blocks, for a barrier among four warps.",
        lessons=(_NOTHING,),
        group=WAITING,
    ),
    Attempt(
        "wide-wait-for-all",
        "256 × 192, no group in flight across steps",
        V9,
        WIDE,
        (Edit("wgmma_wait_group<1>();", "wgmma_wait_group<0>();", "multiply.cuh"),),
        against="wide",
        burst=Prediction(-3, -1),
        why="A consumer that waits for its own products leaves a gap behind them, which the other "
        "one fills only in part.",
        lessons=(_KEPT,),
        group=WAITING,
    ),
    Attempt(
        "tall-wait-for-all",
        "128 × 256, no group in flight across steps",
        V9,
        TALL,
        (Edit("wgmma_wait_group<1>();", "wgmma_wait_group<0>();", "multiply.cuh"),),
        against="tall",
        burst=Prediction(-4, -1.5),
        why="The same; a step of this tile is shorter, so the gaps are more of it.",
        group=WAITING,
    ),
    _released_at_once("wide", "256 × 192", WIDE, Prediction(-1.5, -0.2)),
    _released_at_once("tall", "128 × 256", TALL, Prediction(-2, -0.3)),
    Attempt(
        "wide-early",
        "256 × 192, each stage released when the next step has begun",
        V9,
        WIDE,
        _EARLY,
        against="wide",
        burst=Prediction(0.5, 1),
        sustained=Prediction(0, 0.5),
        why="Issuing a step's products takes nearly as long as multiplying them, as only so many "
        "can wait. The stage before is given back behind all of that, though its products ended "
        "long ago. Here it is given back behind the first two products, and the next is queued by "
        "then.",
        lessons=(_LASTING,),
        group=WAITING,
    ),
    Attempt(
        "tall-early",
        "128 × 256, each stage released when the next step has begun",
        V9,
        TALL,
        _EARLY,
        against="tall",
        burst=Prediction(0, 0.5),
        sustained=Prediction(0, 0.5),
        why="The same behind the first product, with a stage more to hide behind.",
        lessons=(_LASTING,),
        group=WAITING,
    ),
    Attempt(
        "wide-turn-1",
        "256 × 192, the turn one step long",
        V9,
        WIDE | {"TURN": 1},
        against="wide",
        burst=Prediction(-0.6, -0.1),
        why="The two ends lie closer to each other, and overlap in part.",
        group=WAITING,
    ),
    Attempt(
        "tall-turn-1",
        "128 × 256, the turn one step long",
        V9,
        TALL | {"TURN": 1},
        against="tall",
        burst=Prediction(-0.8, -0.2),
        why="The same.",
        group=WAITING,
    ),
    Attempt(
        "wide-turn-early",
        "256 × 192, the turn passes one step before the end",
        V9,
        WIDE,
        (
            Edit(
                "warpgroup == 0 ? steps - 1 :",
                "warpgroup == 0 ? steps - 2 :",
                "multiply.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.3, 0.3),
        why="Consumer 1 may go on a step earlier: its products stand in the queue when the last "
        "ones of consumer 0 retire.",
        lessons=(_NOTHING,),
        group=WAITING,
    ),
    Attempt(
        "wide-turn-late",
        "256 × 192, the turn passes when all has retired",
        V9,
        WIDE,
        (
            Edit(
                "    if (kTurn > 0 && warpgroup == 0 && step == turn) "
                "named_barrier_arrive(1, 256);\n",
                "",
                "multiply.cuh",
            ),
            Edit(
                "  wgmma_wait_group<0>();\n  barriers.release(previous);\n",
                "  wgmma_wait_group<0>();\n  barriers.release(previous);\n"
                "  if (kTurn > 0 && warpgroup == 0 && turn >= 0) named_barrier_arrive(1, 256);\n",
                "multiply.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.3, 0.3),
        why="Consumer 1 goes on later, by the latency of a product: once a tile.",
        lessons=(_NOTHING,),
        group=WAITING,
    ),
    Attempt(
        "wide-test-wait",
        "256 × 192, waits that spin on test_wait",
        V9,
        WIDE,
        (Edit("mbarrier.try_wait.parity", "mbarrier.test_wait.parity", "mbarrier.cuh"),),
        against="wide",
        burst=Prediction(-0.5, 0.1),
        why="try_wait puts a warp to sleep in hardware. test_wait answers at once, sees the phase "
        "a little sooner, and takes issue slots meanwhile.",
        lessons=(_NOTHING, Lesson("Sleeping in hardware is the better wait.", high=-0.15)),
        group=WAITING,
    ),
    Attempt(
        "wide-suspend-hint",
        "256 × 192, waits with a long time to sleep",
        V9,
        WIDE,
        (
            Edit(
                "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;",
                "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, %2;",
                "mbarrier.cuh",
            ),
            Edit(
                '"r"(shared_address(barrier)), "r"(parity) : "memory");',
                '"r"(shared_address(barrier)), "r"(parity), "r"(10000000) : "memory");',
                "mbarrier.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.1, 0.1),
        why="Nobody here waits for as long as a warp sleeps by itself.",
        lessons=(
            _NOTHING,
            Lesson(
                "A hint is no mere limit: with it, a warp seems to wake up a little later.",
                high=-0.25,
            ),
        ),
        group=WAITING,
    ),
    Attempt(
        "wide-nap",
        "256 × 192, naps while a gift is awaited",
        V9,
        WIDE,
        (
            Edit(
                "while (load_acquire_gpu(&flags[warpgroup]) == 0) {\n",
                "while (load_acquire_gpu(&flags[warpgroup]) == 0) {\n      __nanosleep(100);\n",
                "partials.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(-0.1, 0.1),
        why="Gifts are given early, so that hardly anybody spins on a flag.",
        lessons=(_NOTHING,),
        group=WAITING,
    ),
)
