"""What a recorded measurement is made of: one frozen dataclass for each kind of entry.

The dataclasses are the schema. ``parse`` reads JSON into them and refuses what does not fit: an
unknown kind, an unknown or a missing field, a wrong type, a number that is not finite, samples
that do not pair up. Each refusal names the field by its path, ``data.samples_ms[3]``.

| kind | class | holds |
|---|---|---|
| timing | Timing | one configuration on one problem, in turns with cuBLAS |
| tuning | Tuning | one problem, a table over configurations, the refused ones with their reason |
| sweep | Sweep | one or more curves over a numeric axis |
| counters | Counters | what ncu read, under its own metric names |
| mutants | Mutants | a deliberately broken kernel: what the hardware returned, and how often |
| probe | Probe | arrays that a small experiment returned |
| chapter | Chapter | a chapter executed live: its code's hash and its text outputs |
"""

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy

from hopper.check import Comparison, Worst
from hopper.errors import HopperError, RecordError
from hopper.gemm import Problem

Mode = Literal["burst", "sustained"]

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|unknown")
_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


@dataclass(frozen=True)
class Identity:
    """What was measured: hash of the normalised PTX, launch facts, compiler, ``-D`` names."""

    ptx: str
    facts: dict[str, int]
    nvrtc: str
    defines: dict[str, int | str]

    def __post_init__(self) -> None:
        _require(bool(_SHA256.fullmatch(self.ptx)), "ptx must be a SHA-256 in 64 hex digits")


@dataclass(frozen=True)
class Provenance:
    """Where, when and with what. ``date`` is UTC; ``clean`` says that the commit is all of it."""

    gpu: str
    sm_count: int
    driver: str
    nvrtc: str
    cupy: str
    cublas: str
    numpy: str
    python: str
    power_limit_watts: float | None
    date: str
    commit: str
    clean: bool

    def __post_init__(self) -> None:
        _require(bool(_UTC.fullmatch(self.date)), "date must look like 2026-01-31T12:00:00Z")
        _require(bool(_COMMIT.fullmatch(self.commit)), "commit must be 40 hex digits or unknown")
        _require(self.commit != "unknown" or not self.clean, "clean must be false without a commit")

    @property
    def label(self) -> str:
        """What stands beside a recorded number: 'NVIDIA H200, 2026-01-31, recorded'."""
        return f"{self.gpu}, {self.date[:10]}, recorded"


@dataclass(frozen=True)
class Spread:
    """Readings taken while a region ran: median, smallest, largest, and how many."""

    median: float
    low: float
    high: float
    samples: int

    def __post_init__(self) -> None:
        _require(self.samples > 0, "samples must be at least 1")
        _require(self.low <= self.median <= self.high, "low, median and high must be in order")


@dataclass(frozen=True)
class Conditions:
    """The GPU's state during a timed region. None: could not be read.

    ``clock_mhz``: mean SM clock, ``%clock64`` against ``%globaltimer`` from before the region to
    after it, median over SMs. ``spin_clock_mhz``: the same over a short spin right after it.
    ``nvml_clock_mhz``, ``power_watts`` (instantaneous) and ``temperature_c``: sampled by a thread.
    ``throttle``: reason → in how many of ``samples`` looks it was given.
    """

    clock_mhz: float | None
    spin_clock_mhz: float | None
    nvml_clock_mhz: Spread | None
    power_watts: Spread | None
    temperature_c: Spread | None
    throttle: dict[str, int]
    samples: int


@dataclass(frozen=True)
class Checked:
    """The comparison that a result passed before it was timed; see ``hopper.check.Comparison``."""

    compared: str
    max_error: float
    relative_norm: float
    norm_limit: float
    worst: Worst

    @classmethod
    def of(cls, found: Comparison) -> "Checked":
        """What a record keeps of a comparison."""
        return cls(
            found.compared, found.max_error, found.relative_norm, found.norm_limit, found.worst
        )

    @property
    def report(self) -> str:
        """The report of the comparison, as ``check`` printed it."""
        kept = (self.max_error, self.worst, self.relative_norm, self.norm_limit, self.compared)
        return str(Comparison(True, *kept, wrong=0, where=""))


def _require_pairs(samples_ms: tuple[float, ...], peer_samples_ms: tuple[float, ...]) -> None:
    _require(len(samples_ms) > 0, "samples_ms must not be empty")
    _require(
        len(samples_ms) == len(peer_samples_ms), "peer_samples_ms must pair up with samples_ms"
    )
    _require(min(*samples_ms, *peer_samples_ms) > 0, "every time must be positive")


@dataclass(frozen=True)
class Timing:
    """A kernel and cuBLAS in turns. Samples are milliseconds a launch, in the order taken.

    ``launches_per_sample``: launches between two events. Where the host cannot keep ahead, they are
    queued behind a spinning kernel and untimed launches of both. ``warm_up``: uncounted launches of
    each before the first sample.
    ``peer``: the call timed against. ``peer_conditions``: apart from the kernel's own only in
    sustained mode, where each runs alone for a second.
    """

    problem: Problem
    mode: Mode
    peer: str
    warm_up: int
    launches_per_sample: int
    samples_ms: tuple[float, ...]
    peer_samples_ms: tuple[float, ...]
    conditions: Conditions
    peer_conditions: Conditions | None
    check: Checked

    def __post_init__(self) -> None:
        _require_pairs(self.samples_ms, self.peer_samples_ms)
        _require(self.launches_per_sample > 0, "launches_per_sample must be at least 1")

    @property
    def key(self) -> tuple:
        """What it is a timing of, apart from the configuration."""
        return (self.problem, self.mode)


@dataclass(frozen=True)
class TuningRow:
    """One configuration. Refused: ``reason`` says why, and nothing was launched."""

    defines: dict[str, int | str]
    identity: Identity | None
    registers: int | None
    status: Literal["timed", "refused"]
    reason: str | None
    launches_per_sample: int
    samples_ms: tuple[float, ...]
    peer_samples_ms: tuple[float, ...]
    check: Checked | None

    def __post_init__(self) -> None:
        if self.status == "refused":
            _require(bool(self.reason), "a refused row needs a reason")
            _require(not self.samples_ms, "a refused row has no samples")
            return
        _require(self.reason is None, "a timed row has no reason")
        _require(self.identity is not None, "a timed row needs an identity")
        _require(self.check is not None, "a timed row needs a check")
        _require_pairs(self.samples_ms, self.peer_samples_ms)


@dataclass(frozen=True)
class Tuning:
    """A table over configurations on one problem, in burst mode."""

    problem: Problem
    peer: str
    rows: tuple[TuningRow, ...]

    @property
    def key(self) -> tuple:
        """The problem; one entry for each."""
        return (self.problem,)


@dataclass(frozen=True)
class Sweep:
    """Curves over a numeric axis: ``series[label][i]`` was measured at ``axis_values[i]``."""

    name: str
    axis: str
    axis_unit: str
    axis_values: tuple[float, ...]
    unit: str
    series: dict[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        _require(len(self.axis_values) > 0, "axis_values must not be empty")
        for label, values in self.series.items():
            _require(
                len(values) == len(self.axis_values),
                f"series {label} must have one value for each of axis_values",
            )

    @property
    def key(self) -> tuple:
        """The name; one entry for each."""
        return (self.name,)


@dataclass(frozen=True)
class Metric:
    """A value with its unit, both as ncu printed them."""

    value: float
    unit: str


@dataclass(frozen=True)
class Profile:
    """One kernel under ncu, its metrics under ncu's own names."""

    kernel: str
    metrics: dict[str, Metric]


@dataclass(frozen=True)
class Counters:
    """Hardware counters of the kernel and of cuBLAS's, from one profiled process.

    ``tool``: ncu's version. ``options``: what it ran with. ``unavailable``: metrics that were
    wanted and that this chip or this ncu does not know.
    """

    problem: Problem
    tool: str
    options: tuple[str, ...]
    own: Profile
    peer: Profile | None
    unavailable: tuple[str, ...]

    def __post_init__(self) -> None:
        _require(bool(self.own.metrics), "own.metrics must not be empty")

    @property
    def key(self) -> tuple:
        """The problem; one entry for each."""
        return (self.problem,)


@dataclass(frozen=True)
class Trial:
    """One mutant on one problem: how many runs ended how."""

    problem: Problem
    runs: int
    right: int
    wrong: int
    hung: int
    failed: int
    worst_error: float | None

    def __post_init__(self) -> None:
        _require(self.runs > 0, "runs must be at least 1")
        _require(
            self.right + self.wrong + self.hung + self.failed == self.runs,
            "right, wrong, hung and failed must add up to runs",
        )


@dataclass(frozen=True)
class Mutants:
    """One deliberate break, tried on many shapes and seeds.

    ``change``: what was changed, in words. ``messages``: what the compiler said.
    """

    name: str
    change: str
    messages: tuple[str, ...]
    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        _require(len(self.trials) > 0, "trials must not be empty")

    @property
    def key(self) -> tuple:
        """The name; one entry for each."""
        return (self.name,)


@dataclass(frozen=True)
class Array:
    """A NumPy array: ``data`` is base64 of its bytes, C order, little-endian."""

    dtype: str
    shape: tuple[int, ...]
    data: str

    def __post_init__(self) -> None:
        try:
            size = numpy.dtype(self.dtype).itemsize
            data = base64.b64decode(self.data, validate=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"dtype and data must be a NumPy type and base64 ({error})") from error
        _require(all(n >= 0 for n in self.shape), "shape must not be negative")
        expected = size * math.prod(self.shape)
        _require(len(data) == expected, f"data holds {len(data)} bytes, the shape needs {expected}")

    @classmethod
    def of(cls, array: numpy.ndarray) -> "Array":
        """Encode an array."""
        little = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        data = base64.b64encode(little.tobytes()).decode()
        return cls(little.dtype.str, tuple(array.shape), data)

    def array(self) -> numpy.ndarray:
        """Decode it; read-only."""
        flat = numpy.frombuffer(base64.b64decode(self.data), numpy.dtype(self.dtype))
        return flat.reshape(self.shape)


@dataclass(frozen=True)
class Probe:
    """A small experiment: the question it asks, and the arrays that went in and came out."""

    name: str
    question: str
    arrays: dict[str, Array]

    @property
    def key(self) -> tuple:
        """The name; one entry for each."""
        return (self.name,)


@dataclass(frozen=True)
class Output:
    """Text that a code cell (counted from 1) printed: a stream's name or text/plain."""

    cell: int
    name: str
    text: str


@dataclass(frozen=True)
class Chapter:
    """A chapter executed as a notebook on the GPU, top to bottom, in ``seconds``.

    ``code_sha256``: hash of its code cells. ``kernels``: identity of each kernel that its code
    names. Only text outputs are kept.
    """

    slug: str
    code_sha256: str
    kernels: dict[str, Identity]
    cells: int
    seconds: float
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        _require(bool(_SHA256.fullmatch(self.code_sha256)), "code_sha256 must be 64 hex digits")
        _require(self.cells > 0, "cells must be at least 1: a chapter that ran nothing is no run")

    @property
    def key(self) -> tuple:
        """The slug; one entry for each."""
        return (self.slug,)


Data = Timing | Tuning | Sweep | Counters | Mutants | Probe | Chapter
KINDS: dict[str, type] = {
    "timing": Timing,
    "tuning": Tuning,
    "sweep": Sweep,
    "counters": Counters,
    "mutants": Mutants,
    "probe": Probe,
    "chapter": Chapter,
}


@dataclass(frozen=True)
class Entry:
    """One recorded measurement of ``kernel``; ``data`` is of the class that ``kind`` names."""

    kernel: str
    kind: str
    identity: Identity
    provenance: Provenance
    data: Data

    @property
    def key(self) -> tuple:
        """What a newer recording of the same thing has in common with this one."""
        return (self.kind, tuple(sorted(self.identity.defines.items())), *self.data.key)

    def as_json(self) -> dict[str, Any]:
        """The entry as a record file holds it; the file states the kernel once for all."""
        whole = asdict(self)
        del whole["kernel"]
        return whole


def parse_entry(value: Any, kernel: str, where: str) -> Entry:
    """Read one entry of a record file strictly. Raises RecordError naming ``where`` and field."""
    if not isinstance(value, dict):
        raise RecordError(f"{where}: an entry must be an object, not {_shown(value)}")
    kind = value.get("kind")
    if kind not in list(KINDS):  # it may be of any type, an unhashable one too
        raise RecordError(
            f"{where}: kind {_shown(kind)} is unknown; known kinds: {', '.join(KINDS)}; was it "
            f"written by a newer version of the book?"
        )
    where = f"{where} ({kind})"
    hints = {"identity": Identity, "provenance": Provenance, "data": KINDS[kind]}
    _require_fields(value, {"kind", *hints}, where)
    parts = {name: parse(cls, value[name], where, name) for name, cls in hints.items()}
    return Entry(kernel, kind, **parts)


def parse(hint: Any, value: Any, where: str, field: str) -> Any:
    """Read ``value`` as the type ``hint``. Raises RecordError naming ``where`` and ``field``."""
    origin = get_origin(hint)
    if is_dataclass(hint):
        return _parse_dataclass(hint, value, where, field)
    if origin in (Union, UnionType):
        return _parse_union(hint, value, where, field)
    if origin is Literal:
        if value not in get_args(hint):
            _refuse(where, field, " or ".join(get_args(hint)), value)
        return value
    if origin is tuple:
        if not isinstance(value, list):
            _refuse(where, field, "a list", value)
        item = get_args(hint)[0]
        return tuple(parse(item, one, where, f"{field}[{i}]") for i, one in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            _refuse(where, field, "an object", value)
        item = get_args(hint)[1]
        return {key: parse(item, one, where, f"{field}.{key}") for key, one in value.items()}
    return _parse_plain(hint, value, where, field)


def _parse_dataclass(cls: type, value: Any, where: str, field: str) -> Any:
    if not isinstance(value, dict):
        _refuse(where, field, "an object", value)
    hints = _hints(cls)
    _require_fields(value, set(hints), f"{where}: {field}")
    parts = {
        name: parse(hint, value[name], where, f"{field}.{name}") for name, hint in hints.items()
    }
    try:
        return cls(**parts)
    except (ValueError, HopperError) as error:
        raise RecordError(f"{where}: {field}: {error}; record it again") from error


def _parse_union(hint: Any, value: Any, where: str, field: str) -> Any:
    options = get_args(hint)
    if value is None and NoneType in options:
        return None
    plain = [option for option in options if option is not NoneType]
    if len(plain) == 1:
        return parse(plain[0], value, where, field)
    for option in plain:
        if type(value) is option:
            return value
    return _refuse(where, field, " or ".join(option.__name__ for option in plain), value)


def _parse_plain(hint: type, value: Any, where: str, field: str) -> Any:
    # JSON writes 2.0 as 2 in some hands, so an int is a float; a bool is neither.
    accepted = (int, float) if hint is float else (hint,)
    if type(value) not in accepted:
        _refuse(where, field, hint.__name__, value)
    if hint is float and not math.isfinite(value):
        _refuse(where, field, "a finite number", value)
    return hint(value)


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _require_fields(value: dict, expected: set[str], where: str) -> None:
    missing, unknown = expected - set(value), set(value) - expected
    if missing or unknown:
        faults = [f"field {name} is missing" for name in sorted(missing)]
        faults += [f"field {name} is unknown" for name in sorted(unknown)]
        raise RecordError(
            f"{where}: {', '.join(faults)}; the schema is in hopper/schema.py; record it again"
        )


def _refuse(where: str, field: str, wanted: str, value: Any) -> None:
    raise RecordError(f"{where}: {field} must be {wanted}, not {_shown(value)}; record it again")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
