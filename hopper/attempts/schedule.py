"""Attempts on the order of tiles, and on shares of the stream."""

from hopper.attempts.model import SUSTAINED, Attempt, Edit, Lesson, Prediction
from hopper.attempts.shapes import TALL, V9, WIDE

ORDER = "The order of tiles"
SHARES = "Shares of the stream"


def _raster(height: int, low: float, high: float, why: str, *lessons: Lesson) -> Attempt:
    """The wide tile with groups of another height; 0: column by column."""
    title = f"256 × 192, groups of {height} rows" if height else "256 × 192, column by column"
    return Attempt(
        f"wide-raster-{height}",
        title,
        V9,
        WIDE | {"RASTER": height},
        against="wide",
        burst=Prediction(low, high),
        why=why,
        lessons=lessons,
        group=ORDER,
    )


IN_ORDER = (
    _raster(
        0,
        -1,
        -0.2,
        "A wave is then two columns of pairs and a bit, 32 rows high: it needs all of A for little "
        "of B.",
    ),
    _raster(
        4,
        -1,
        -0.2,
        "A patch of 4 rows of pairs is far wider than high, and asks for more slices.",
    ),
    _raster(8, -0.3, 0.1, "A patch of 8 rows by 8 pairs is nearly as good as 16 rows."),
    _raster(
        32,
        -0.5,
        0.1,
        "All 32 rows of pairs in a group: the same as column by column.",
        Lesson(
            "Between one half and all of the rows the height of a group hardly matters.", -0.3, 0.3
        ),
    ),
    Attempt(
        "tall-raster-4",
        "128 × 256, groups of 4 columns",
        V9,
        TALL | {"RASTER": 4},
        against="tall",
        burst=Prediction(-0.3, 0.2),
        sustained=Prediction(-1.2, -0.4),
        why="A patch of 4 columns by 16 rows of pairs asks for more slices, and the eight clusters "
        "of a GPC lie in two rows and share less.",
        lessons=(
            Lesson(
                "Nobody waits for these bytes, so a burst does not show them. Where power is short "
                "they are paid for.",
                high=-0.4,
                mode=SUSTAINED,
            ),
        ),
        group=ORDER,
    ),
    Attempt(
        "tall-raster-16",
        "128 × 256, groups of 16 columns",
        V9,
        TALL | {"RASTER": 16},
        against="tall",
        burst=Prediction(-0.2, 0.2),
        why="The patch is 16 columns by 4 rows of pairs, less square than 8 by 8.",
        group=ORDER,
    ),
)


_SAME = "At this size the bound is not reached: the plan is the same."
_FEWER_CUTS = "A few cuts move to an end of a unit, and a few gifts are spared. It does not show."


def _constant(
    name: str, before: int, after: int, low: float, high: float, why: str, lesson: str
) -> Attempt:
    """The wide tile with another constant of stream_k.cuh."""
    return Attempt(
        f"wide-{name.lower().replace('_', '-')}-{after}",
        f"256 × 192, {name} {after}",
        V9,
        WIDE,
        (
            Edit(
                f"constexpr int {name} = {before};",
                f"constexpr int {name} = {after};",
                "stream_k.cuh",
            ),
        ),
        against="wide",
        burst=Prediction(low, high),
        why=why,
        lessons=(Lesson(lesson, -0.25, 0.25),),
        group=SHARES,
    )


def _one_wave_less(name: str, shape: str, defines: dict[str, int]) -> Attempt:
    return Attempt(
        f"{name}-longer-stream",
        f"{shape}, one wave more in the stream",
        V9,
        defines,
        (Edit("waves = wide / clusters;", "waves = max(wide / clusters - 1, 0);", "stream_k.cuh"),),
        against=name,
        burst=Prediction(-0.5, 0.2),
        why="Longer shares, as many gifts. But in the stream clusters are out of step, so that L2 "
        "serves fewer of them at once.",
        lessons=(
            Lesson("What clusters lose out of step is more than what longer shares win.", -3, -0.2),
            Lesson(
                "Here one wave more out of step can be borne.",
                -0.2,
                0.4,
            ),
        ),
        group=SHARES,
    )


def _all_stream(name: str, shape: str, defines: dict[str, int]) -> Attempt:
    return Attempt(
        f"{name}-all-stream",
        f"{shape}, nothing but a stream",
        V9,
        defines,
        (Edit("waves = wide / clusters;", "waves = 0;", "stream_k.cuh"),),
        against=name,
        burst=Prediction(-5, -1),
        why="The same shares and gifts, but every cluster is at its own place of K from the start. "
        "L2 has fewer slices that several of them want.",
        lessons=(
            Lesson(
                "Far worse than thought. To be in step along K is what lets L2 serve many SMs with "
                "one slice; a stream must be short.",
                high=-5,
            ),
        ),
        group=SHARES,
    )


def _fewer_blocks(name: str, shape: str, defines: dict[str, int]) -> Attempt:
    return Attempt(
        f"{name}-64-clusters",
        f"{shape}, 64 clusters of the 66",
        V9,
        defines,
        blocks=128,
        against=name,
        burst=Prediction(-3, -1.5),
        why="64 divides the tiles, so that nothing is shared and no sums are handed over. Four SMs "
        "of 132 idle, and leave their power to the others.",
        lessons=(
            Lesson(
                "Handing over costs less than four SMs are worth.",
                high=-0.5,
            ),
        ),
        group=SHARES,
    )


SHARED_OUT = (
    _constant(
        "MIN_STEPS", 2, 4, -0.1, 0.3, "Shares of few steps are not worth a gift.", _FEWER_CUTS
    ),
    _constant("MIN_STEPS", 2, 8, -0.2, 0.3, "The same, further.", _FEWER_CUTS),
    _constant(
        "SHARERS",
        4,
        2,
        -0.6,
        -0.1,
        "Fewer sharers of a unit: one more wave joins the stream, in which clusters are out "
        "of step.",
        _SAME,
    ),
    _constant("SHARERS", 4, 8, -0.3, 0.2, "More sharers of a unit: shares may be shorter.", _SAME),
    Attempt(
        "wide-equal-costs",
        "256 × 192, a step of either kind costs the same",
        V9,
        WIDE,
        (Edit("StreamK<REST ? 3 : 1, REST ? 2 : 1, HAND_OVER>", "StreamK<1, 1, HAND_OVER>"),),
        against="wide",
        burst=Prediction(-3.2, -1.5),
        why="Clusters whose share is all wide units have a quarter more to do in the stream than "
        "the mean.",
        lessons=(
            Lesson(
                "Equal shares must be equal in what is multiplied. Others wait for the largest.",
                high=-0.8,
            ),
        ),
        group=SHARES,
    ),
    _one_wave_less("wide", "256 × 192", WIDE),
    _one_wave_less("tall", "128 × 256", TALL),
    _all_stream("wide", "256 × 192", WIDE),
    _all_stream("tall", "128 × 256", TALL),
    _fewer_blocks("wide", "256 × 192", WIDE),
    _fewer_blocks("tall", "128 × 256", TALL),
)
