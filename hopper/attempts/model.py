"""An attempt: a kernel changed, what was predicted of the change, and why.

A prediction is an interval in percent of speed against another attempt, made before the change was
measured. Nothing here is a measurement: those are recorded, and ``hopper.attempts.outcome`` sets
them beside the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from hopper.compile import Program, compile_cuda, compile_kernel
from hopper.edits import changed
from hopper.gemm import Problem
from hopper.paths import INCLUDE, KERNELS
from hopper.records import HEADLINE

BURST, SUSTAINED = "burst", "sustained"


@dataclass(frozen=True)
class Edit:
    """``old`` becomes ``new``; ``header``: of kernels/include, else in the kernel's own file."""

    old: str
    new: str
    header: str = ""


@dataclass(frozen=True)
class Prediction:
    """An interval of signed percent of speed: from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a prediction from {self.low} to {self.high}: from low to high")


@dataclass(frozen=True)
class Lesson:
    """What was learned, shown only where it is true: of a difference from ``low`` to ``high``.

    Both in percent of speed, in ``mode``. ``refused``: shown where the attempt was refused instead.
    """

    text: str
    low: float = -math.inf
    high: float = math.inf
    mode: str = BURST
    refused: bool = False


@dataclass(frozen=True)
class Attempt:
    """One kernel that was timed, or refused.

    ``kernel``, ``defines``, ``edits``: what is compiled. ``blocks``: that are launched, where not
    as many as run at once. ``places``: by what clusters are numbered, as ``hopper.gemm.plan`` takes
    it. ``problem``: the product. ``against``: the name of what it is compared with; empty for a
    base, which is compared with nothing. ``burst``, ``sustained``: what was predicted; None where
    it is not timed in that mode or, for a base, where nothing was. ``why``: the argument behind the
    prediction. ``group``: the heading it stands under.
    """

    name: str
    title: str
    kernel: str
    defines: Mapping[str, int]
    edits: tuple[Edit, ...] = ()
    blocks: int | None = None
    places: str = "gpc"
    problem: Problem = HEADLINE
    against: str = ""
    burst: Prediction | None = None
    sustained: Prediction | None = None
    why: str = ""
    lessons: tuple[Lesson, ...] = field(default=())
    group: str = ""

    @property
    def base(self) -> bool:
        """Whether it is there to be compared with only."""
        return not self.against

    def predicted(self, mode: str) -> Prediction | None:
        """The prediction for a mode."""
        return self.burst if mode == BURST else self.sustained


def texts(attempt: Attempt) -> dict[str, tuple[str, str]]:
    """Each file that an attempt edits, by name: its text before and after.

    Raises HopperError when an old piece does not stand in its file exactly once.
    """
    found = {}
    edits = sorted(attempt.edits, key=lambda edit: edit.header)
    for header, group in groupby(edits, key=lambda edit: edit.header):
        path = INCLUDE / header if header else KERNELS / f"{attempt.kernel}.cu"
        before = path.read_text(encoding="utf-8")
        after = changed(
            before,
            [(edit.old, edit.new) for edit in group],
            where=path.name,
            whose=f"attempt {attempt.name}",
            home="hopper/attempts",
        )
        found[path.name] = (before, after)
    return found


def compile_attempt(attempt: Attempt) -> Program:
    """What an attempt compiles to. Raises CompileError, and HopperError as ``texts`` does."""
    if not attempt.edits:
        return compile_kernel(attempt.kernel, **attempt.defines)
    after = {name: text for name, (_, text) in texts(attempt).items()}
    own = f"{attempt.kernel}.cu"
    source = after.pop(own, None) or (KERNELS / own).read_text(encoding="utf-8")
    return compile_cuda(source, attempt.kernel, defines=attempt.defines, headers=after)
