"""The best ratio to cuBLAS that any recorded timing of v9 or of an attempt reached."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hopper.attempts import EVERY
from hopper.attempts.outcome import Recorded
from hopper.attempts.shapes import V6, V9
from hopper.bench import recorded as recorded_timing
from hopper.records import HEADLINE, NoRecording


@dataclass(frozen=True)
class Best:
    """A ratio of speeds, above 1 faster than cuBLAS, and which recording.

    ``name``: of the attempt or base; empty for v9 as written.
    """

    ratio: float
    name: str
    label: str


def best(record: Recorded) -> Best | None:
    """The best of a mode at the headline problem, sums in fp32; None where nothing is recorded.

    Raises RecordError for a damaged record.
    """
    found = [
        Best(timed.ratio, name, record.label)
        for name, timed in record.timed.items()
        if EVERY[name].kernel != V6  # another arithmetic
        and EVERY[name].problem == HEADLINE
    ]
    try:
        own = recorded_timing(V9, HEADLINE, mode=record.mode)
        if not math.isnan(own.ratio):
            found.append(Best(own.ratio, "", own.label))
    except NoRecording:
        pass
    return max(found, key=lambda one: one.ratio, default=None)
