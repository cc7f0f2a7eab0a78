"""Attempts: v7 with each part of v9 alone."""

from hopper.attempts.model import Attempt, Lesson, Prediction
from hopper.attempts.shapes import (
    ALTERNATE_V7,
    MORE_ROOM,
    NO_REST,
    NOT_SHARED,
    ROOM_NOTE,
    TALL,
    TALL_TILE,
    V7,
    V8,
    V9,
    WIDE,
    WIDE_TILE,
)

ALONE = "v7 with one part of v9"
#: v9 without what these have not.
_OFF = {"TURN": 0, "ALTERNATE": 0}

_BACKWARDS = Lesson(
    "Memory is read less, as the ablation shows, and the kernel is slower all the same. Nothing "
    "that was counted says why. In v9, whose blocks go in pairs, it costs nothing.",
    high=-0.3,
)

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
        lessons=(
            Lesson(
                "Fewer bytes from L2 win nothing here. The pipe is busier, as the ablation shows, "
                "but with zeros: a pair is 384 columns wide, and more of the last one sticks out "
                "over the edge of C.",
                -1.5,
                0.1,
            ),
        ),
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
        lessons=(Lesson("Fewer bytes from L2 win nothing here.", -1.5, 0.1),),
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
        lessons=(_BACKWARDS,),
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
        lessons=(_BACKWARDS,),
        group=ALONE,
    ),
    Attempt(
        "wide-stream-alone",
        "256 × 192, stream-K, beside the turn",
        V9,
        WIDE | {"TURN": 2, "ALTERNATE": 0, "STREAM": 1},
        (*NOT_SHARED, *NO_REST),
        against="wide-v7-turn",
        burst=Prediction(1.8, 2.8),
        why="Less than in v9: the blocks of a cluster wait for each other's stages, and share "
        "nothing for it. Both have the turn, without which this one spills.",
        group=ALONE,
    ),
    Attempt(
        "tall-stream-alone",
        "128 × 256, stream-K",
        V9,
        TALL | _OFF | {"STREAM": 1},
        NOT_SHARED,
        against="tall-v7",
        burst=Prediction(1.8, 2.8),
        why="The same; here it does not need the turn.",
        group=ALONE,
    ),
    Attempt(
        "wide-rest-alone",
        "256 × 192, tiles for the rest of N",
        V9,
        WIDE | _OFF | {"STREAM": 0},
        (*NOT_SHARED, *MORE_ROOM),
        against="wide-v7",
        burst=Prediction(-0.5, 0.5),
        why="Whole units of two sizes are as many as before, and fill as many waves: the tiles "
        "for the rest take less time, but there are no fewer of them." + ROOM_NOTE,
        lessons=(
            Lesson(
                "The units are as many, but those of the rest all come last. The last wave is made "
                "of them alone, and it is shorter.",
                low=1,
            ),
        ),
        group=ALONE,
    ),
)
