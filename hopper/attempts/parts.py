"""Attempts: v9 without each of its parts, and v7 with each of them alone.

Together they are the rows of the ablation.
"""

from hopper.attempts.model import SUSTAINED, Attempt, Lesson, Prediction
from hopper.attempts.shapes import (
    ALTERNATE_V7,
    EVICT_FIRST_V7,
    NO_REST,
    NOT_SHARED,
    PLAIN_STORES,
    TALL,
    TALL_TILE,
    V7,
    V8,
    V9,
    WIDE,
    WIDE_TILE,
)

WITHOUT = "v9 without one of its parts"
ALONE = "v7 with one part of v9"
#: v9 with nothing of what v7 has not, except for what an attempt adds.
_OFF = {"TURN": 0, "ALTERNATE": 0}

REMOVED = (
    Attempt(
        "wide-whole",
        "256 × 192, whole waves only",
        V9,
        WIDE | {"STREAM": 0},
        against="wide",
        burst=Prediction(-3, -2.2),
        sustained=Prediction(-3, -1.5),
        why="The plan leaves the SMs idle for one part in 33 of the time; gifts cost something of "
        "what the stream wins.",
        lessons=(
            Lesson("An idle SM draws little power, and the others clock higher meanwhile. So a "
                   "wave that is not full costs less than the plan says.", -2.9, -0.5),
        ),
        group=WITHOUT,
    ),
    Attempt(
        "tall-whole",
        "128 × 256, whole waves only",
        V9,
        TALL | {"STREAM": 0},
        against="tall",
        burst=Prediction(-3, -2),
        why="The same: 16 waves are taken where the work of 15.5 is to be done.",
        lessons=(Lesson("Stream-K is the largest single part of what v9 wins.", high=-1.5),),
        group=WITHOUT,
    ),
    Attempt(
        "wide-unshared",
        "256 × 192, each block loads all of A itself",
        V9,
        WIDE,
        NOT_SHARED,
        against="wide",
        burst=Prediction(-0.5, -0.1),
        sustained=Prediction(-3, -2),
        why="In a burst L2 delivers enough for both, and the tensor cores wait for nobody. Under a "
        "lasting load each byte costs energy, and the power limit turns energy into clock.",
        lessons=(
            Lesson("Multicast is worth its trouble in joules rather than in waiting.", high=-0.8,
                   mode=SUSTAINED),
        ),
        group=WITHOUT,
    ),
    Attempt(
        "tall-unshared",
        "128 × 256, each block loads all of B itself",
        V9,
        TALL,
        NOT_SHARED,
        against="tall",
        burst=Prediction(-0.6, -0.1),
        sustained=Prediction(-3, -2),
        why="As with the wide tile; what is shared is the larger operand, so a little more.",
        group=WITHOUT,
    ),
    Attempt(
        "wide-no-turn",
        "256 × 192, no turn",
        V9,
        WIDE | {"TURN": 0},
        against="wide",
        burst=Prediction(-1.2, -0.8),
        why="Without the turn both consumers end a tile together, and nobody multiplies while both "
        "pack their sums.",
        lessons=(
            Lesson("A tile of 256 × 192 takes longer, so that its end matters less; and where "
                   "nothing holds them together the consumers drift apart anyway.", -0.7, 0.3),
        ),
        group=WITHOUT,
    ),
    Attempt(
        "tall-no-turn",
        "128 × 256, no turn",
        V9,
        TALL | {"TURN": 0},
        against="tall",
        burst=Prediction(-1.2, -0.8),
        why="The same argument; tiles are smaller, so there are more ends.",
        lessons=(Lesson("Who multiplies while the other one packs is worth arranging.", high=-0.4),),
        group=WITHOUT,
    ),
    Attempt(
        "wide-forwards",
        "256 × 192, every wave forwards",
        V9,
        WIDE | {"ALTERNATE": 0},
        against="wide",
        burst=Prediction(-0.4, -0.2),
        sustained=Prediction(-0.4, -0.2),
        why="A wave that begins where the last one ended finds slices in L2 that would come from "
        "memory.",
        lessons=(Lesson("Memory is not what this kernel waits for.", -0.25, 0.25),),
        group=WITHOUT,
    ),
    Attempt(
        "tall-forwards",
        "128 × 256, every wave forwards",
        V9,
        TALL | {"ALTERNATE": 0},
        against="tall",
        burst=Prediction(-0.4, -0.2),
        why="The same.",
        group=WITHOUT,
    ),
    Attempt(
        "wide-plain-stores",
        "256 × 192, stores without a hint",
        V9,
        WIDE,
        PLAIN_STORES,
        against="wide",
        burst=Prediction(-0.4, -0.2),
        sustained=Prediction(-0.4, -0.2),
        why="C is written once and never read. Without evict_first it takes room in L2 that A and B "
        "could use.",
        group=WITHOUT,
    ),
    Attempt(
        "tall-plain-stores",
        "128 × 256, stores without a hint",
        V9,
        TALL,
        PLAIN_STORES,
        against="tall",
        burst=Prediction(-0.4, -0.2),
        why="The same.",
        group=WITHOUT,
    ),
    Attempt(
        "wide-neither",
        "256 × 192, forwards and without a hint",
        V9,
        WIDE | {"ALTERNATE": 0},
        PLAIN_STORES,
        against="wide",
        burst=Prediction(-0.8, -0.4),
        sustained=Prediction(-0.8, -0.4),
        why="Both save reads from memory, each of different bytes, so their effects add.",
        lessons=(
            Lesson("Two things too small to be seen alone can be seen together, under a lasting "
                   "load.", -0.9, -0.2, SUSTAINED),
        ),
        group=WITHOUT,
    ),
    Attempt(
        "wide-no-rest",
        "256 × 192, no tiles for the rest of N",
        V9,
        WIDE,
        NO_REST,
        against="wide",
        burst=Prediction(-3, -2),
        why="A last pair that sticks out over the edge of C multiplies zeros, one part in 33 of all "
        "products. Zeros cost less power than numbers do.",
        lessons=(
            Lesson("Products of zeros take as long as others. They save energy, which a burst turns "
                   "into a little clock.", -3.2, -0.5),
        ),
        group=WITHOUT,
    ),
)  # fmt: skip


def _stream_alone(tile: dict[str, int]) -> dict[str, int]:
    return tile | _OFF | {"STREAM": 1}


ADDED = (
    Attempt(
        "tall-v7",
        "128 × 256, v7 without the turn",
        V7,
        TALL_TILE | {"TURN": 0},
        against="v5",
        burst=Prediction(4, 7),
        why="v5 stores 4 bytes a thread, straight from the registers, and nobody multiplies "
        "meanwhile. v7 stores by TMA while the next tile is multiplied.",
        lessons=(Lesson("The end of a tile was the largest thing left to win.", low=2),),
        group=ALONE,
    ),
    Attempt(
        "wide-v7-turn",
        "256 × 192, the turn",
        V7,
        WIDE_TILE | {"TURN": 2},
        against="wide-v7",
        burst=Prediction(0.8, 1.2),
        why="One of the consumers always has products to issue.",
        group=ALONE,
    ),
    Attempt(
        "tall-v7-turn",
        "128 × 256, the turn",
        V7,
        TALL_TILE | {"TURN": 3},
        against="tall-v7",
        burst=Prediction(0.8, 1.2),
        why="The same.",
        group=ALONE,
    ),
    Attempt(
        "wide-v8",
        "256 × 192, A shared",
        V8,
        WIDE | {"TURN": 0, "RASTER": 16},
        against="wide-v7",
        burst=Prediction(0.1, 0.5),
        why="Half of A comes from the other block. L2 delivers less, but it was not the limit.",
        group=ALONE,
    ),
    Attempt(
        "tall-v8",
        "128 × 256, B shared",
        V8,
        TALL | {"TURN": 0, "RASTER": 8},
        against="tall-v7",
        burst=Prediction(0.1, 0.5),
        why="The same with B.",
        lessons=(
            Lesson("Two blocks that wait for each other's stages lose as much as they save.",
                   -1.5, 0.05),
        ),
        group=ALONE,
    ),
    Attempt(
        "wide-v7-alternate",
        "256 × 192, every second wave backwards",
        V7,
        WIDE_TILE | {"TURN": 0},
        ALTERNATE_V7,
        against="wide-v7",
        burst=Prediction(0.1, 0.4),
        why="The next wave finds in L2 what the last one ended with.",
        group=ALONE,
    ),
    Attempt(
        "tall-v7-alternate",
        "128 × 256, every second wave backwards",
        V7,
        TALL_TILE | {"TURN": 0},
        ALTERNATE_V7,
        against="tall-v7",
        burst=Prediction(0.1, 0.4),
        why="The same.",
        group=ALONE,
    ),
    Attempt(
        "wide-v7-evict-first",
        "256 × 192, stores that L2 forgets first",
        V7,
        WIDE_TILE | {"TURN": 0},
        EVICT_FIRST_V7,
        against="wide-v7",
        burst=Prediction(0.1, 0.4),
        why="C leaves its room in L2 to A and B.",
        group=ALONE,
    ),
    Attempt(
        "tall-v7-evict-first",
        "128 × 256, stores that L2 forgets first",
        V7,
        TALL_TILE | {"TURN": 0},
        EVICT_FIRST_V7,
        against="tall-v7",
        burst=Prediction(0.1, 0.4),
        why="The same.",
        group=ALONE,
    ),
    Attempt(
        "wide-stream-alone",
        "256 × 192, stream-K",
        V9,
        _stream_alone(WIDE),
        (*NOT_SHARED, *PLAIN_STORES, *NO_REST),
        against="wide-v7",
        burst=Prediction(1.8, 2.8),
        why="Less than in v9: the blocks of a cluster wait for each other's stages, and share "
        "nothing for it.",
        group=ALONE,
    ),
    Attempt(
        "tall-stream-alone",
        "128 × 256, stream-K",
        V9,
        _stream_alone(TALL),
        (*NOT_SHARED, *PLAIN_STORES),
        against="tall-v7",
        burst=Prediction(1.8, 2.8),
        why="The same.",
        group=ALONE,
    ),
    Attempt(
        "wide-rest-alone",
        "256 × 192, tiles for the rest of N",
        V9,
        WIDE | _OFF | {"STREAM": 0},
        (*NOT_SHARED, *PLAIN_STORES),
        against="wide-v7",
        burst=Prediction(-0.5, 0.5),
        why="Whole units of two sizes are as many as before, and fill as many waves: the tiles "
        "for the rest take less time, but there are no fewer of them.",
        group=ALONE,
    ),
)  # fmt: skip

#: The headings of the ablation: shape -> base, each part alone, each part taken away, all of them.
ABLATION: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    "256 × 192": (
        "wide-v7",
        ("wide-stream-alone", "wide-v8", "wide-v7-turn", "wide-v7-alternate",
         "wide-v7-evict-first", "wide-rest-alone"),
        ("wide-whole", "wide-unshared", "wide-no-turn", "wide-forwards", "wide-plain-stores",
         "wide-no-rest"),
        "wide",
    ),
    "128 × 256": (
        "tall-v7",
        ("tall-stream-alone", "tall-v8", "tall-v7-turn", "tall-v7-alternate",
         "tall-v7-evict-first"),
        ("tall-whole", "tall-unshared", "tall-no-turn", "tall-forwards", "tall-plain-stores"),
        "tall",
    ),
}  # fmt: skip
