"""Attempts: v9 without each of its parts; and the ablation, which these and others are rows of."""

from hopper.attempts.model import SUSTAINED, Attempt, Lesson, Prediction
from hopper.attempts.shapes import (
    MORE_ROOM,
    NO_REST,
    NOT_SHARED,
    ROOM_NOTE,
    TALL,
    V9,
    WIDE,
)

WITHOUT = "v9 without one of its parts"

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
            Lesson(
                "An idle SM draws little power, and the others clock higher meanwhile. So a "
                "wave that is not full costs less than the plan says.",
                -2.3,
                -0.3,
                SUSTAINED,
            ),
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
        lessons=(
            Lesson(
                "With this tile stream-K is the largest single part of what v9 wins.", high=-1.5
            ),
        ),
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
            Lesson(
                "With this tile sharing saves less than thought under a lasting load.",
                -1.5,
                -0.2,
                SUSTAINED,
            ),
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
        why="As with the other tile; what is shared is the larger operand, so a little more.",
        lessons=(
            Lesson(
                "Under a lasting load sharing saves less than thought.",
                -1.8,
                -0.2,
                SUSTAINED,
            ),
            Lesson(
                "What sharing saves is energy: hardly anything in a burst, and as much as thought "
                "where power is short.",
                -3.2,
                -1.8,
                SUSTAINED,
            ),
        ),
        group=WITHOUT,
    ),
    Attempt(
        "wide-no-turn",
        "256 × 192, no turn",
        V9,
        WIDE | {"TURN": 0},
        MORE_ROOM,
        against="wide",
        burst=Prediction(-1.2, -0.8),
        why="Without the turn both consumers end a tile together, and nobody multiplies while both "
        "pack their sums." + ROOM_NOTE,
        lessons=(
            Lesson(
                "A tile of 256 × 192 takes longer, so that its end matters less; and where "
                "nothing holds them together the consumers drift apart anyway.",
                -0.7,
                0.3,
            ),
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
        lessons=(Lesson("Somebody should multiply while the other one packs.", high=-0.3),),
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
        "wide-no-rest",
        "256 × 192, no tiles for the rest of N",
        V9,
        WIDE,
        NO_REST,
        against="wide",
        burst=Prediction(-3, -2),
        why="A last pair that sticks out over the edge of C multiplies zeros, one part in 33 of "
        "all products. Zeros cost less power than numbers do.",
        lessons=(
            Lesson(
                "Products of zeros take as long as others.",
                -3.2,
                -0.5,
            ),
        ),
        group=WITHOUT,
    ),
)

#: Shape -> base, then each part with its attempts alone and away, and the attempt with all of them.
ABLATION: dict[str, tuple[str, tuple[tuple[str, str, str], ...], str]] = {
    "256 × 192": (
        "wide-v7",
        (
            ("stream-K", "wide-stream-alone", "wide-whole"),
            ("sharing", "wide-v8", "wide-unshared"),
            ("the turn", "wide-v7-turn", "wide-no-turn"),
            ("alternating waves", "wide-v7-alternate", "wide-forwards"),
            ("tiles for the rest", "wide-rest-alone", "wide-no-rest"),
        ),
        "wide",
    ),
    "128 × 256": (
        "tall-v7",
        (
            ("stream-K", "tall-stream-alone", "tall-whole"),
            ("sharing", "tall-v8", "tall-unshared"),
            ("the turn", "tall-v7-turn", "tall-no-turn"),
            ("alternating waves", "tall-v7-alternate", "tall-forwards"),
        ),
        "tall",
    ),
}
