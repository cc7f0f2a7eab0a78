"""The ablation: for each part of v9 alone, and taken away, how fast and what ncu counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hopper.attempts import ABLATION, EVERY
from hopper.attempts.outcome import Recorded
from hopper.attempts.shapes import V9
from hopper.compile import nvrtc_version
from hopper.experiments import experiment
from hopper.experiments.ablation import IDENTITIES, NAME, variants
from hopper.records import GPU, NoRecording

_SECTOR = 32  # bytes


@dataclass(frozen=True)
class Quantity:
    """A column: its heading, the unit, decimals shown, and how it is made of ncu's counters."""

    heading: str
    unit: str
    digits: int


QUANTITIES: dict[str, Quantity] = {
    "pipe": Quantity("tensor pipe", "%", 1),
    "clock": Quantity("clock", "MHz", 0),
    "through": Quantity("through L2", "GB", 2),
    "hits": Quantity("L2 hits", "%", 1),
    "read": Quantity("DRAM read", "GB", 2),
    "written": Quantity("DRAM written", "GB", 2),
    "bank_reads": Quantity("bank reads", "a cycle", 3),
    "bank_writes": Quantity("bank writes", "a cycle", 3),
    "conflicts": Quantity("bank conflicts", "thousands", 0),
}


@dataclass(frozen=True)
class Row:
    """One variant. ``against``: name of the row that its differences are to; empty for the first.

    ``ratio``: of cuBLAS's speed in a burst. ``counted``: by the names of QUANTITIES. NaN where
    not recorded.
    """

    name: str
    what: str
    against: str
    ratio: float
    counted: Mapping[str, float]


def made(counters: Mapping[str, float], sms: int) -> dict[str, float]:
    """The quantities of one launch from its counters, by their names in ``hopper.counters``."""
    turns = sms * counters["cycles"]
    return {
        "pipe": counters["tensor_pipe"],
        "clock": counters["sm_clock"] / 1e6,
        "through": counters["l2_sectors"] * _SECTOR / 1e9,
        "hits": counters["l2_hit_rate"],
        "read": counters["dram_read"] / 1e9,
        "written": counters["dram_write"] / 1e9,
        "bank_reads": (counters["wgmma_wavefronts"] + counters["shared_load_wavefronts"]) / turns,
        "bank_writes": counters["shared_store_wavefronts"] / turns,
        "conflicts": counters["bank_conflicts"] / 1e3,
    }


def counted(
    today: Mapping[str, tuple[str, str]], *, gpu: str = GPU
) -> tuple[dict[str, dict[str, float]], str]:
    """Variant -> its quantities, of those that compile to what was counted; and which recording.

    ``today``: as ``hopper.attempts.outcome.refusals`` gives it. Raises RecordError for a damaged
    record.
    """
    try:
        entry = experiment(V9, NAME, gpu=gpu)
    except NoRecording:
        return {}, "no recording"
    arrays = {name: array.array() for name, array in entry.data.arrays.items()}
    found = {}
    for number, name in enumerate(variants()):
        if number >= len(arrays[IDENTITIES]):
            break
        same = arrays[IDENTITIES][number].tobytes().hex() == today[name][0]
        if same or entry.identity.nvrtc != nvrtc_version():
            counters = {
                alias: float(values[number])
                for alias, values in arrays.items()
                if alias != IDENTITIES
            }
            found[name] = made(counters, entry.provenance.sm_count)
    return found, entry.provenance.label


def rows(shape: str, burst: Recorded, counters: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """The rows of one shape: v7's, each part alone, all of them, and each taken away."""
    base, parts, whole = ABLATION[shape]
    nothing = dict.fromkeys(QUANTITIES, math.nan)

    def row(name: str, what: str, against: str) -> Row:
        timed = burst.timed.get(name)
        ratio = timed.ratio if timed else math.nan
        return Row(name, what, against, ratio, counters.get(name, nothing))

    return [
        row(base, "v7, no turn", ""),
        *(row(alone, f"with {part}", EVERY[alone].against) for part, alone, _ in parts),
        row(whole, "v9: with all", base),
        *(row(away, f"v9 without {part}", whole) for part, _, away in parts),
    ]
