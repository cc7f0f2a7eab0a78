"""Every change of the fastest kernel that was tried: predicted first, then measured.

``ATTEMPTS`` holds all of them in the order of the page, ``BASES`` what some are compared with.
"""

from hopper.attempts.alone import ADDED
from hopper.attempts.compiled import AS_COMPILED
from hopper.attempts.memory import AT_L2
from hopper.attempts.model import (
    BURST,
    SUSTAINED,
    Attempt,
    Edit,
    Lesson,
    Prediction,
    compile_attempt,
    texts,
)
from hopper.attempts.other_sizes import AT_OTHER_SIZES
from hopper.attempts.parts import ABLATION, REMOVED
from hopper.attempts.places import PLACED
from hopper.attempts.schedule import IN_ORDER, SHARED_OUT
from hopper.attempts.shapes import BASES
from hopper.attempts.sizes import SIZED
from hopper.attempts.waiting import AT_BARRIERS
from hopper.errors import HopperError

__all__ = [
    "ABLATION",
    "ATTEMPTS",
    "BASES",
    "BURST",
    "EVERY",
    "SUSTAINED",
    "Attempt",
    "Edit",
    "Lesson",
    "Prediction",
    "compile_attempt",
    "find_attempt",
    "number_of",
    "texts",
]

ATTEMPTS: tuple[Attempt, ...] = (
    *REMOVED,
    *ADDED,
    *IN_ORDER,
    *PLACED,
    *SHARED_OUT,
    *SIZED,
    *AT_OTHER_SIZES,
    *AT_BARRIERS,
    *AT_L2,
    *AS_COMPILED,
)
EVERY: dict[str, Attempt] = {one.name: one for one in (*BASES, *ATTEMPTS)}


def find_attempt(name: str) -> Attempt:
    """The attempt or base of that name. Raises HopperError listing those that exist."""
    if name not in EVERY:
        raise HopperError(f"{name!r}: there is no such attempt; there are {', '.join(EVERY)}")
    return EVERY[name]


def number_of(name: str) -> int:
    """The number under which the page shows an attempt, from 1 on."""
    return 1 + [one.name for one in ATTEMPTS].index(name)
