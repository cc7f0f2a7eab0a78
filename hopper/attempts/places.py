"""Attempts on where clusters lie: in which GPC, near which side of L2."""

from hopper.attempts.model import Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import TALL, V8, V9, WIDE

PLACES = "Places on the chip"

#: Neighbours in number lie in a column also where the pair shares B, as it was in v7.
DOWN_COLUMNS = (
    Edit(
        "const Tile corner = kShareA && !others",
        "const Tile corner = !others",
        "pairs.cuh",
    ),
)


def _as_dealt(
    name: str, shape: str, kernel: str, defines: dict[str, int], low: float, high: float
) -> Attempt:
    return Attempt(
        f"{name}-as-dealt",
        f"{shape}, numbered as dealt",
        kernel,
        defines,
        places="dealt",
        against=name,
        burst=Prediction(-0.2, 0.2),
        sustained=Prediction(low, high),
        why="Neighbours in number then lie in different GPCs, and L2 is asked once for each. The "
        "tensor cores do not wait for that, so a burst does not show it; but it costs energy.",
        lessons=(
            Lesson(
                "Who lies where does not change what is waited for, only what is paid for: it "
                "shows where power is short.",
                high=-0.4,
                mode="sustained",
            ),
        ),
        group=PLACES,
    )


def _by_side(
    name: str, shape: str, defines: dict[str, int], sustained: Prediction | None = None
) -> Attempt:
    return Attempt(
        f"{name}-by-side",
        f"{shape}, GPCs near one side of L2 first",
        V9,
        defines,
        places="side",
        against=name,
        burst=Prediction(-0.2, 0.2),
        sustained=sustained,
        why="Each side of L2 then serves one half of a wave, and fewer bytes cross from one side "
        "to the other. But numbers within a side are the same ones as before, GPC by GPC.",
        lessons=(
            Lesson(
                "Which side of L2 a GPC is near makes no difference that can be told.",
                -0.6,
                0.6,
                mode="sustained",
            ),
        ),
        group=PLACES,
    )


PLACED = (
    _as_dealt("wide", "256 × 192", V9, WIDE, -1.5, -0.7),
    _as_dealt("tall", "128 × 256", V9, TALL, -1.3, -0.5),
    _as_dealt("v8", "v8", V8, TALL, -1.0, -0.3),
    _by_side("wide", "256 × 192", WIDE, Prediction(-0.6, 0.3)),
    _by_side("tall", "128 × 256", TALL),
    Attempt(
        "wide-patches",
        "256 × 192, a GPC computes a patch of 4 × 2 pairs",
        V9,
        WIDE,
        places="patch",
        against="wide",
        burst=Prediction(-0.2, 0.2),
        sustained=Prediction(-0.6, 0.2),
        why="A patch of 4 × 2 pairs needs fewer different bytes than a column of 8. But in a "
        "column all eight clusters want the same slice of B at once; in a patch four do.",
        lessons=(
            Lesson(
                "Patches were slower, if at all: the difference is about the noise. That fewer "
                "clusters want the same slice at once may be why.",
                high=-0.2,
                mode="sustained",
            ),
        ),
        group=PLACES,
    ),
    Attempt(
        "tall-down-columns",
        "128 × 256, neighbours down the columns",
        V9,
        TALL,
        DOWN_COLUMNS,
        against="tall",
        burst=Prediction(-0.3, 0.2),
        sustained=Prediction(-1.5, -0.5),
        why="Clusters of a GPC then share B, of which each pair asks once already, and each asks "
        "for an A of its own.",
        lessons=(
            Lesson(
                "By counting, the clusters of a GPC have B in common down the columns as they have "
                "A in common along the rows. Counting leaves out that each half of B is a "
                "multicast already.",
                -3,
                1,
                mode="sustained",
            ),
            Lesson(
                "Joining requests helps with the operand that the pair does not share. Multicast "
                "loads are not joined with those of other pairs; it was counted for v8's page.",
                high=-0.4,
                mode="sustained",
            ),
        ),
        group=PLACES,
    ),
)
