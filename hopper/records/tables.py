"""Recorded tables, for a chapter to show: configurations, and hardware counters."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hopper import samples
from hopper.counters import WANTED
from hopper.gemm import Problem
from hopper.records.fresh import current
from hopper.records.store import GPU, NoRecording
from hopper.schema import Metric, Profile, TuningRow


@dataclass(frozen=True)
class TuningTable:
    """A recorded tuning table. Iterating gives rows for ``hopper.plots.tuning``.

    A row is a dict: ``config`` and, timed, ``ms``, ``tflops``, ``ratio`` (of cuBLAS, in its own
    pairs) and ``registers`` a thread; refused, ``tflops`` is None and ``reason`` says why.
    """

    rows: tuple[dict[str, Any], ...]
    label: str

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


def tuning_table(kernel: str, problem: Problem | None = None, *, gpu: str = GPU) -> TuningTable:
    """The recorded table over a kernel's configurations; without rows where there is none."""
    try:
        entry = current("tuning", kernel, gpu=gpu, problem=problem)
    except NoRecording as error:
        return TuningTable((), str(error))
    rows = tuple(_table_row(row, entry.data.problem) for row in entry.data.rows)
    return TuningTable(rows, entry.provenance.label)


def _table_row(row: TuningRow, problem: Problem) -> dict[str, Any]:
    facts = row.identity.facts if row.identity else {}
    tile = {name.upper(): facts[name] for name in ("tile_m", "tile_n") if name in facts}
    told = {"config": {**tile, **row.defines}, "registers": row.registers, "reason": row.reason}
    if row.status == "refused":
        return {**told, "ms": None, "tflops": None, "ratio": None}
    ms = samples.median(row.samples_ms)
    return {
        **told,
        "ms": ms,
        "tflops": samples.tflops(problem.flop, ms),
        "ratio": samples.ratio(row.samples_ms, row.peer_samples_ms),
    }


@dataclass(frozen=True)
class CountersTable:
    """Counters of a kernel beside cuBLAS's; see ``hopper.show.counters``.

    ``rows``: alias, the kernel's value, cuBLAS's, unit, ncu's name of the metric; empty where
    nothing was recorded, and ``label`` then says so.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    label: str


def counters_table(kernel: str, problem: Problem | None = None, *, gpu: str = GPU) -> CountersTable:
    """The recorded counters of a kernel as written; a table that says so where there are none."""
    columns = ("", kernel, "cuBLAS", "unit", "ncu metric")
    try:
        entry = current("counters", kernel, gpu=gpu, problem=problem)
    except NoRecording as error:
        return CountersTable(columns, (), str(error))
    own, peer = entry.data.own, entry.data.peer
    rows = []
    for alias, candidates in WANTED.items():
        name = next((c for c in candidates if c in own.metrics), None)
        if name is not None:
            ours, theirs = own.metrics[name], _metric(peer, name)
            shown = alias.replace("_", " ")
            rows.append((shown, _shown(ours), _shown(theirs), ours.unit, name))
    ran = f"; cuBLAS ran {peer.kernel}" if peer else ""
    return CountersTable(columns, tuple(rows), f"{entry.provenance.label}, {entry.data.tool}{ran}")


def counter(kernel: str, alias: str, problem: Problem | None = None, *, gpu: str = GPU) -> float:
    """One recorded counter of a kernel as written, in ncu's unit; NaN where it was not recorded.

    ``alias`` is a key of ``hopper.counters.WANTED``. Raises KeyError for one that is none.
    """
    candidates = WANTED[alias]
    try:
        metrics = current("counters", kernel, gpu=gpu, problem=problem).data.own.metrics
    except NoRecording:
        return math.nan
    return next((metrics[name].value for name in candidates if name in metrics), math.nan)


def _metric(profile: Profile | None, name: str) -> Metric | None:
    return profile.metrics.get(name) if profile else None


def _shown(metric: Metric | None) -> str:
    if metric is None:
        return "–"
    return f"{metric.value:,.0f}" if abs(metric.value) >= 1000 else f"{metric.value:.4g}"
