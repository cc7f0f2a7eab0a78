"""Attempts with tiles of other sizes, and with rings of other lengths."""

from hopper.attempts.model import Attempt, Lesson, Prediction
from hopper.attempts.shapes import TALL, V6, V7, V9, WIDE

TILES = "Other tiles and rings"
_TWO = Lesson(
    "A stage is released only when the next group has been issued. Of two stages the producer then "
    "has none to run ahead with: it copies while nobody multiplies.",
    high=-10,
)

SIZED = (
    Attempt(
        "wide-share-b",
        "256 × 192, the pair shares B",
        V9,
        WIDE | {"SHARE_A": 0},
        against="wide-no-rest",
        burst=Prediction(-0.4, 0),
        why="B is the smaller operand of this tile, so sharing it saves less. Neither has tiles "
        "for the rest of N.",
        lessons=(
            Lesson(
                "It is not the sharing. A pair in a column is 192 columns wide and not 384, so "
                "less of the last ones sticks out over the edge of C. There are fewer zeros to "
                "multiply.",
                low=0.3,
            ),
        ),
        group=TILES,
    ),
    Attempt(
        "tall-share-a",
        "128 × 256, the pair shares A",
        V9,
        TALL | {"SHARE_A": 1},
        against="tall",
        burst=Prediction(-0.6, -0.1),
        why="A is the smaller operand of this tile.",
        group=TILES,
    ),
    Attempt(
        "v9-256x128",
        "256 × 128, the pair shares A",
        V9,
        {"TILE_M": 256, "TILE_N": 128, "STAGES": 4, "SHARE_A": 1},
        against="tall",
        burst=Prediction(-1.5, -0.3),
        why="As many products for a byte from L2. But n = 128 reads A twice as often from shared "
        "memory as n = 256 does.",
        lessons=(
            Lesson(
                "The wider instruction wins, though both need the same bytes from L2.", high=-0.2
            ),
        ),
        group=TILES,
    ),
    Attempt(
        "v9-256x128-share-b",
        "256 × 128, the pair shares B",
        V9,
        {"TILE_M": 256, "TILE_N": 128, "STAGES": 4, "SHARE_A": 0},
        against="v9-256x128",
        burst=Prediction(-0.6, -0.1),
        why="B is the smaller operand of this tile.",
        group=TILES,
    ),
    Attempt(
        "v9-128x192",
        "128 × 192, the pair shares B",
        V9,
        {"TILE_M": 128, "TILE_N": 192, "STAGES": 4, "SHARE_A": 0},
        against="tall",
        burst=Prediction(-4, -1.5),
        why="A smaller tile fetches more for each product, and ends more often.",
        group=TILES,
    ),
    Attempt(
        "v9-256x256",
        "256 × 256, two stages",
        V9,
        {"TILE_M": 256, "TILE_N": 256, "STAGES": 2, "SHARE_A": 1},
        against="wide",
        burst=Prediction(-3, 1),
        why="The fewest bytes of all for a product, if its sums fit into registers.",
        lessons=(
            Lesson(
                "A consumer would hold more sums in a thread than a thread has registers.",
                refused=True,
            ),
        ),
        group=TILES,
    ),
    Attempt(
        "v7-256x128",
        "v7, 256 × 128",
        V7,
        {"TILE_M": 256, "TILE_N": 128, "STAGES": 4, "TURN": 3},
        against="tall-v7-turn",
        burst=Prediction(-1.5, -0.3),
        why="The narrower instruction again, without a cluster.",
        group=TILES,
    ),
    Attempt(
        "v7-128x192",
        "v7, 128 × 192",
        V7,
        {"TILE_M": 128, "TILE_N": 192, "STAGES": 4, "TURN": 3},
        against="tall-v7-turn",
        burst=Prediction(-4, -1.5),
        why="The smaller tile again, without a cluster.",
        lessons=(
            Lesson(
                "Whole waves decide. By chance the smaller tiles nearly fill their last wave at "
                "this size, and the larger ones fill half of it.",
                low=0.3,
            ),
        ),
        group=TILES,
    ),
    Attempt(
        "wide-2-stages",
        "256 × 192, two stages",
        V9,
        WIDE | {"STAGES": 2},
        against="wide",
        burst=Prediction(-8, -2),
        why="A stage of this tile lasts long, but one in use and one on its way leave no room for "
        "a late copy.",
        lessons=(_TWO,),
        group=TILES,
    ),
    Attempt(
        "tall-3-stages",
        "128 × 256, three stages",
        V9,
        TALL | {"STAGES": 3},
        against="tall",
        burst=Prediction(-1, -0.2),
        why="The ring covers less of a late copy, and the turn is a step shorter.",
        lessons=(Lesson("Here the fourth stage is worth its shared memory.", high=-0.5),),
        group=TILES,
    ),
    Attempt(
        "v6-2-stages",
        "v6, two stages",
        V6,
        {"TILE_M": 256, "TILE_N": 256, "STAGES": 2},
        against="v6",
        burst=Prediction(-6, -1),
        why="With fp16 sums a stage lasts as long as with fp32, and two stages are few.",
        lessons=(_TWO,),
        group=TILES,
    ),
)
