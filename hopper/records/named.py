"""Recorded numbers by name, for prose: the grammar of ``quantity``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hopper.compile import kernel_names
from hopper.counters import WANTED
from hopper.errors import RecordError
from hopper.gemm import Problem
from hopper.records.fresh import freshness
from hopper.records.store import AGAIN, GPU, HEADLINE, NoRecording, load
from hopper.samples import median, ratio, ratio_spread, tflops
from hopper.schema import Chapter, Counters, Entry, Mutants, Sweep, Timing, Tuning, TuningRow


class Quantity(NamedTuple):
    """A number, its unit, and the recording it comes from, in words."""

    value: float
    unit: str
    source: str


def quantity(path: str, gpu: str = GPU) -> Quantity:
    """A recorded number by its name in prose, such as ``v1_wgmma tflops``.

    ``KERNEL [CONFIG] [bf16] [SIZE] [sustained] [cublas] VALUE``
        VALUE: ``ms``, ``tflops``; ``clock`` (MHz) and ``power`` (W) during the timing. Without
        ``cublas`` also ``ratio`` (percent of cuBLAS, median of adjacent pairs), ``ratio low`` and
        ``ratio high`` (5th and 95th percentile), ``max_error``, ``relative_norm``.
        SIZE: ``4096`` or ``8191x8190x8184``; left out, 8192. Without ``sustained``: burst.
        Without ``bf16``: fp16. CONFIG: what was timed besides, such as ``OVERLAP=1``.
    ``KERNEL tuning [SIZE] CONFIG VALUE``
        CONFIG: a tile that only one row has, ``64x128``, or ``TILE_M=64,TILE_N=128``, or
        ``default``. VALUE: ``ms``, ``tflops``, ``ratio``, ``registers``.
    ``KERNEL counters [SIZE] [cublas] METRIC``
        METRIC: ncu's name, or an alias of ``hopper.counters.WANTED`` such as ``tensor_pipe``.
    ``KERNEL sweep NAME CURVE@X``
        NAME, CURVE: the sweep's and one of its curves', spaces as underscores. X: a value of the
        axis at which it was measured, as in ``ceiling sweep burst normal_SS@256``.
    ``KERNEL mutants NAME VALUE``
        NAME: the mutant's, spaces as underscores. VALUE: ``runs``, ``right``, ``wrong``, ``hung``,
        ``failed``, summed over all problems.
    ``KERNEL chapter SLUG VALUE``
        VALUE: ``seconds``, ``cells``.

    Raises NoRecording where the name is sound and this variant has no fresh recording, and
    RecordError, listing what exists, where the name is none.
    """
    kernel, *words = path.split()
    name = " ".join(words)
    if kernel not in kernel_names():
        raise RecordError(
            f"{path!r}: there is no kernel {kernel}; there are {', '.join(kernel_names())}"
        )
    sound = bool(_SOUND.fullmatch(name))
    try:
        there = named_quantities(load(kernel, gpu).entries)
    except NoRecording:
        if sound:
            raise
        there = {}
    if name not in there:
        if sound:
            raise NoRecording(f"{path!r}: nothing like this was recorded on {gpu}; {AGAIN}")
        listed = ", ".join(there) or "nothing yet"
        raise RecordError(f"{path!r}: no such quantity; recorded of {kernel}: {listed}")
    found, entry = there[name]
    if freshness(entry) == "stale":
        raise NoRecording(
            f"{path!r}: no recording of this variant: {kernel} changed since "
            f"{entry.provenance.date[:10]}; {AGAIN}"
        )
    return found


def quantities(kernel: str, gpu: str = GPU) -> dict[str, Quantity]:
    """Every quantity of a kernel's record by its name, the kernel's left out; see ``quantity``."""
    return {name: found for name, (found, _) in named_quantities(load(kernel, gpu).entries).items()}


_SIZE = r"(\d+(x\d+x\d+)? )?"
_CONFIG = r"\w+=\w+(,\w+=\w+)*"
_METRIC = r"(" + "|".join(map(re.escape, WANTED)) + r"|[a-z0-9]+__[\w.]+)"
# What could be a quantity of some record: a gap in this one, where anything else is a typing error.
_SOUND = re.compile(
    rf"({_CONFIG} )?(bf16 )?{_SIZE}(sustained )?(ratio( low| high)?|max_error|relative_norm"
    rf"|(cublas )?(ms|tflops|clock|power))"
    rf"|tuning {_SIZE}(default|\d+x\d+|{_CONFIG}) (ms|tflops|ratio|registers)"
    rf"|counters {_SIZE}(cublas )?{_METRIC}"
    r"|sweep \S+ \S+@[\d.]+"
    r"|mutants \S+ (runs|right|wrong|hung|failed)"
    r"|chapter \w+ (seconds|cells)"
)


def named_quantities(entries: Iterable[Entry]) -> dict[str, tuple[Quantity, Entry]]:
    """Every quantity of some entries by name, each with the entry it comes from."""
    makers = {
        Timing: _of_timing,
        Tuning: _of_tuning,
        Counters: _of_counters,
        Sweep: _of_sweep,
        Mutants: _of_mutants,
        Chapter: _of_chapter,
    }
    named: dict[str, tuple[Quantity, Entry]] = {}
    for entry in entries:
        where = entry.provenance
        source = f"recorded on an {where.gpu}, {where.date[:10]}, commit {where.commit[:10]}"
        maker = makers.get(type(entry.data), lambda _: iter(()))
        for name, value, unit in maker(entry):
            # A configuration or an input distribution of its own has no name of its own: the
            # kernel as written with normal inputs comes first, and is what is meant.
            named.setdefault(name, (Quantity(value, unit, source), entry))
    return named


Named = Iterator[tuple[str, float, str]]


def _size(problem: Problem) -> str:
    if problem.m == problem.n == problem.k:
        return "" if problem.m == HEADLINE.m else f"{problem.m} "
    return f"{problem.m}x{problem.n}x{problem.k} "


def _element(problem: Problem) -> str:
    return "bf16 " if problem.dtype == "bfloat16" else ""


def _ordinary(problem: Problem) -> bool:
    return problem == Problem(problem.m, problem.n, problem.k, problem.dtype)


def _config(defines: Mapping[str, int | str]) -> str:
    return ",".join(f"{key}={value}" for key, value in defines.items())


def _of_timing(entry: Entry) -> Named:
    data: Timing = entry.data
    problem = data.problem
    if not _ordinary(problem):
        return
    # As written, or for bf16, whose macro is named by the type, comes without a configuration.
    besides = {k: v for k, v in entry.identity.defines.items() if k not in problem.defines}
    config = _config(besides)
    prefix = f"{config} " * bool(config) + _element(problem) + _size(problem)
    prefix += "sustained " * (data.mode == "sustained")
    yield from _times(prefix, data.problem, data.samples_ms)
    yield from _times(prefix + "cublas ", data.problem, data.peer_samples_ms)
    low, high = ratio_spread(data.samples_ms, data.peer_samples_ms)
    yield prefix + "ratio", 100 * ratio(data.samples_ms, data.peer_samples_ms), "%"
    yield prefix + "ratio low", 100 * low, "%"
    yield prefix + "ratio high", 100 * high, "%"
    yield prefix + "max_error", data.check.max_error, ""
    yield prefix + "relative_norm", data.check.relative_norm, ""
    states = {"": data.conditions, "cublas ": data.peer_conditions}
    for whose, state in states.items():
        if state and state.clock_mhz is not None:
            yield f"{prefix}{whose}clock", state.clock_mhz, "MHz"
        if state and state.power_watts is not None:
            yield f"{prefix}{whose}power", state.power_watts.median, "W"


def _times(prefix: str, problem: Problem, samples_ms: tuple[float, ...]) -> Named:
    yield prefix + "ms", median(samples_ms), "ms"
    yield prefix + "tflops", tflops(problem.flop, median(samples_ms)), "TFLOPS"


def _of_tuning(entry: Entry) -> Named:
    data: Tuning = entry.data
    if not _ordinary(data.problem) or _element(data.problem):
        return
    tiles = [_tile(row) for row in data.rows]
    for row, tile in zip(data.rows, tiles, strict=True):
        names = [_config(row.defines) or "default"]
        if tile and tiles.count(tile) == 1:
            names.append(tile)
        for name in names:
            prefix = f"tuning {_size(data.problem)}{name} "
            if row.registers is not None:
                yield prefix + "registers", row.registers, "registers"
            if row.status == "timed":
                yield from _times(prefix, data.problem, row.samples_ms)
                yield prefix + "ratio", 100 * ratio(row.samples_ms, row.peer_samples_ms), "%"


def _tile(row: TuningRow) -> str | None:
    facts = row.identity.facts if row.identity else {}
    return f"{facts['tile_m']}x{facts['tile_n']}" if {"tile_m", "tile_n"} <= set(facts) else None


def _of_counters(entry: Entry) -> Named:
    data: Counters = entry.data
    for whose, profile in (("", data.own), ("cublas ", data.peer)):
        if profile is None:
            continue
        prefix = f"counters {_size(data.problem)}{whose}"
        for name, metric in profile.metrics.items():
            yield prefix + name, metric.value, metric.unit
        for alias, candidates in WANTED.items():
            metric = next((profile.metrics[c] for c in candidates if c in profile.metrics), None)
            if metric is not None:
                yield prefix + alias, metric.value, metric.unit


def _of_sweep(entry: Entry) -> Named:
    data: Sweep = entry.data
    for curve, values in data.series.items():
        name = f"{data.name.replace(' ', '_')} {curve.replace(' ', '_')}"
        for x, value in zip(data.axis_values, values, strict=True):
            yield f"sweep {name}@{x:g}", value, data.unit


def _of_mutants(entry: Entry) -> Named:
    data: Mutants = entry.data
    for outcome in ("runs", "right", "wrong", "hung", "failed"):
        total = sum(getattr(trial, outcome) for trial in data.trials)
        yield f"mutants {data.name.replace(' ', '_')} {outcome}", total, ""


def _of_chapter(entry: Entry) -> Named:
    data: Chapter = entry.data
    yield f"chapter {data.slug} seconds", data.seconds, "s"
    yield f"chapter {data.slug} cells", data.cells, ""
