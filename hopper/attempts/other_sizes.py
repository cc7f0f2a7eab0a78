"""Attempts at other products than 8192³: which tile, which ring, which stream."""

from hopper.attempts.model import Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import SIZED_BASES, TALL, V8, V9
from hopper.gemm import Problem

ELSEWHERE = "Other products"
CUBE, DEEP, BROAD = (base.problem for base in SIZED_BASES)
_LONGER = Edit("waves = wide / clusters;", "waves = max(wide / clusters - 1, 0);", "stream_k.cuh")


def _at(problem: Problem) -> str:
    """A product as a title has it."""
    if problem.m == problem.n == problem.k:
        return f"{problem.m}³"
    return f"{problem.m} × {problem.n} × {problem.k}"


def _tall(
    name: str,
    what: str,
    problem: Problem,
    against: str,
    predicted: tuple[float, float],
    why: str,
    *lessons: Lesson,
    edits: tuple[Edit, ...] = (),
    **defines: int,
) -> Attempt:
    """The tile of 128 × 256 at another product."""
    return Attempt(
        name,
        f"{_at(problem)}: {what}",
        V9,
        TALL | defines,
        edits,
        problem=problem,
        against=against,
        burst=Prediction(*predicted),
        why=why,
        lessons=lessons,
        group=ELSEWHERE,
    )


AT_OTHER_SIZES = (
    _tall(
        "tall-cube",
        "128 × 256",
        CUBE,
        "wide-cube",
        (1, 3),
        "Either plan is whole units of 256 × 256. With this tile the ring has four stages of them "
        "in place of three, and half of B comes in one load in place of two.",
        Lesson("A plan that has one kind of unit only should have the ring of that kind.", low=0.5),
    ),
    Attempt(
        "v8-cube",
        f"{_at(CUBE)}: v8",
        V8,
        TALL,
        problem=CUBE,
        against="tall-cube",
        burst=Prediction(0.3, 1.2),
        why="The same units without a plan in front of the first load, and without anything that "
        "could be handed over.",
        lessons=(
            Lesson("Where nothing is shared out, what could share it out is in the way.", low=0.3),
        ),
        group=ELSEWHERE,
    ),
    _tall(
        "tall-cube-shared",
        "128 × 256, always shared",
        CUBE,
        "tall-cube",
        (-2, 0),
        "Whole units idle for 3% of the time here. Handing over costs more than that.",
        Lesson("The bound on what a stream must gain is set right for this product.", high=-0.3),
        HAND_OVER=0,
    ),
    _tall(
        "tall-cube-3-stages",
        "128 × 256, three stages",
        CUBE,
        "tall-cube",
        (-1.5, -0.3),
        "The ring alone, without the second load: it should be about half of the difference to "
        "256 × 192.",
        STAGES=3,
    ),
    _tall(
        "tall-cube-raster-4",
        "128 × 256, groups of 4 columns",
        CUBE,
        "tall-cube",
        (-0.6, 0.1),
        "A wave is then 16 rows of pairs high: it needs all of A.",
        Lesson("It is faster all the same. No counters were taken of it.", low=0.3),
        RASTER=4,
    ),
    _tall(
        "tall-deep",
        "128 × 256",
        DEEP,
        "wide-deep",
        (0.8, 1.8),
        "Less than four waves of these tiles, of which three and seven eighths are needed; "
        "256 × 192 has units of two kinds, and more of C sticks out.",
        Lesson(
            "In a burst this tile is ahead here, too, as it is at 8192³. But nothing sticks out "
            "with 256 × 192: the tiles for the rest of N fit exactly.",
            low=0.5,
        ),
    ),
    _tall(
        "tall-deep-longer-stream",
        "128 × 256, one wave more in the stream",
        DEEP,
        "tall-deep",
        (-0.8, 0.2),
        "Longer shares, as many gifts; but out of step for longer.",
        Lesson(
            "Nearly half of the product is then out of step, in place of less than a quarter. That "
            "costs more than longer shares win.",
            high=-0.5,
        ),
        edits=(_LONGER,),
    ),
    _tall(
        "tall-deep-whole",
        "128 × 256, whole units",
        DEEP,
        "tall-deep",
        (-2.5, -1),
        "The last wave idles for 3% of the time, and handing over costs a third of that here.",
        STREAM=0,
    ),
    _tall(
        "tall-deep-forwards",
        "128 × 256, always forwards through K",
        DEEP,
        "tall-deep",
        (-0.3, 0.2),
        "K is deep: what the last wave read at its end is half a gigabyte of slices, and L2 keeps "
        "little of that.",
        ALTERNATE=0,
    ),
    _tall(
        "tall-broad",
        "128 × 256",
        BROAD,
        "wide-broad",
        (0.2, 0.9),
        "54 waves and a third: sharing saves little with either tile, and the wider instruction "
        "reads A less often.",
    ),
    _tall(
        "tall-broad-raster-16",
        "128 × 256, groups of 16 columns",
        BROAD,
        "tall-broad",
        (-0.4, 0.2),
        "With 112 columns of pairs a group of 16 is as good a patch, but a GPC's eight clusters "
        "share half as often.",
        RASTER=16,
    ),
)
