"""What became of the attempts: recorded timings beside predictions, and how far they can be told.

Nothing is measured here. A timing is of an attempt only while the attempt compiles to what was
timed; otherwise it counts as not recorded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from types import MappingProxyType

import numpy

from hopper.attempts import ATTEMPTS, EVERY, Attempt, Lesson, Prediction
from hopper.attempts.shapes import V9
from hopper.compile import nvrtc_version
from hopper.experiments import experiment
from hopper.experiments.attempts import IDENTITY, NAMES, REFUSED, REPEATED, compiled
from hopper.records import GPU, NoRecording
from hopper.samples import percentile

NOT_RECORDED = "not recorded"
AS_PREDICTED, LESS, MORE = "as predicted", "less than predicted", "more than predicted"
FASTER, SLOWER = "faster than predicted", "slower than predicted"
NOTHING, WRONG_SIGN, NOT_TIMED = "no effect seen", "wrong sign", "refused"
#: Half the width of a box plot's notch, in quartile ranges over the root of the number of samples:
#: medians whose notches do not overlap differ, at about 95% (McGill, Tukey and Larsen 1978).
NOTCH = 1.57


@dataclass(frozen=True)
class Timed:
    """The recorded timings of one attempt: for each the ratios of its pairs, own speed over
    cuBLAS's.
    """

    ratios: tuple[tuple[float, ...], ...]

    @property
    def pooled(self) -> list[float]:
        """The ratios of all its timings."""
        return [ratio for timing in self.ratios for ratio in timing]

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.pooled)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The 25th and the 75th percentile."""
        return percentile(self.pooled, 25), percentile(self.pooled, 75)

    @property
    def notch(self) -> float:
        """How far the median may be off by the spread of the samples, in percent of it."""
        low, high = self.quartiles
        return 100 * NOTCH * (high - low) / math.sqrt(len(self.pooled)) / self.ratio

    @property
    def drift(self) -> float:
        """Half the way between the medians of its timings, in percent; 0 for a single one."""
        medians = [median(timing) for timing in self.ratios]
        return 100 * (max(medians) - min(medians)) / 2 / self.ratio


@dataclass(frozen=True)
class Recorded:
    """One mode's record. ``label``: which recording, or that there is none."""

    mode: str
    label: str
    timed: Mapping[str, Timed]
    refused: Mapping[str, str]

    @property
    def drift(self) -> float:
        """How well a timing repeats, in percent: of those that were repeated, the worst."""
        repeated = [self.timed[name].drift for name in REPEATED if name in self.timed]
        return max(repeated, default=0.0)


@dataclass(frozen=True)
class Outcome:
    """One attempt in one mode. ``change``, ``noise``: percent of speed, NaN without a timing.

    ``ratio``, ``low``, ``high``: of cuBLAS's speed, the median and the quartiles. ``reason``: why
    it was refused. ``lessons``: those of the attempt that are true of this outcome.
    """

    attempt: Attempt
    mode: str
    prediction: Prediction
    verdict: str
    change: float = math.nan
    noise: float = math.nan
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""
    lessons: tuple[str, ...] = ()


def verdict(change: float, noise: float, predicted: Prediction) -> str:
    """How a measured change compares with what was predicted; all in percent of speed.

    Within the noise of the interval it came as predicted. A prediction that says which way can be
    wrong in that, or in how much; one that does not can be wrong on either side.
    """
    low, high = predicted.low, predicted.high
    if low - noise <= change <= high + noise:
        return AS_PREDICTED
    if low <= 0 <= high:
        return FASTER if change > high else SLOWER
    if abs(change) <= noise:
        return NOTHING
    if (change > 0) != (low > 0):
        return WRONG_SIGN
    return LESS if abs(change) < min(abs(low), abs(high)) else MORE


def true_lessons(lessons: Sequence[Lesson], mode: str, change: float, noise: float) -> list[str]:
    """The lessons that hold for a measured change in a mode.

    One that speaks of an effect, because its interval leaves out zero, needs more than noise.
    """
    return [
        one.text
        for one in lessons
        if not one.refused
        and one.mode == mode
        and one.low <= change <= one.high
        and (one.low <= 0 <= one.high or abs(change) > noise)
    ]


@cache
def refusals() -> Mapping[str, tuple[str, str]]:
    """Name of every attempt and base -> identity as it compiles today, and why it is refused.

    Once in a process.
    """
    return MappingProxyType(compiled(list(EVERY)))


def recorded(mode: str, today: Mapping[str, tuple[str, str]], *, gpu: str = GPU) -> Recorded:
    """The record of a mode, without timings of what compiles to something else today.

    ``today``: as ``refusals`` gives it. Under another compiler than the recording's, identities
    cannot tell, and all timings count. Raises RecordError for a damaged record.
    """
    try:
        entry = experiment(V9, NAMES[mode], gpu=gpu)
    except NoRecording:
        return Recorded(mode, "no recording", {}, {})
    arrays = {name: array.array() for name, array in entry.data.arrays.items()}
    timed, refused = {}, {}
    for name, (identity, _) in today.items():
        if name not in arrays:
            continue
        same = arrays[f"{name} {IDENTITY}"].tobytes().hex() == identity
        if not same and entry.identity.nvrtc == nvrtc_version():
            continue
        if reason := arrays[f"{name} {REFUSED}"].tobytes().decode():
            refused[name] = reason
        elif len(arrays[name]):
            timed[name] = Timed(tuple(map(_pairs, arrays[name])))
    return Recorded(mode, entry.provenance.label, timed, refused)


def _pairs(times: numpy.ndarray) -> tuple[float, ...]:
    """Ratios of the pairs of one timing, (2, samples) milliseconds padded with NaN."""
    own, peer = times.astype(float)
    return tuple((peer / own)[~numpy.isnan(own)].tolist())


def outcome(attempt: Attempt, record: Recorded, refused: str) -> Outcome | None:
    """What became of an attempt in the record's mode; None where nothing was predicted for it.

    ``refused``: why it is refused today, before anything is launched; else empty.
    """
    predicted = attempt.predicted(record.mode)
    if predicted is None:
        return None
    said = partial(Outcome, attempt, record.mode, predicted)
    if reason := refused or record.refused.get(attempt.name, ""):
        lessons = tuple(one.text for one in attempt.lessons if one.refused)
        return said(NOT_TIMED, reason=reason, lessons=lessons)
    own = record.timed.get(attempt.name)
    if own is None:
        return said(NOT_RECORDED)
    low, high = own.quartiles
    said = partial(said, ratio=own.ratio, low=low, high=high)
    base = record.timed.get(attempt.against)
    if base is None:
        return said(NOT_RECORDED)
    change = 100 * (own.ratio / base.ratio - 1)
    noise = max(math.hypot(own.notch, base.notch), record.drift)
    return said(
        verdict(change, noise, predicted),
        change=change,
        noise=noise,
        lessons=tuple(true_lessons(attempt.lessons, record.mode, change, noise)),
    )


def outcomes(record: Recorded, today: Mapping[str, tuple[str, str]]) -> dict[str, Outcome]:
    """Name -> what became of every attempt with a prediction for the record's mode."""
    found = {one.name: outcome(one, record, today[one.name][1]) for one in ATTEMPTS}
    return {name: one for name, one in found.items() if one}
