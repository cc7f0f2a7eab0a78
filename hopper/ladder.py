"""The ladder: every version of the kernel beside cuBLAS and the ceiling, from recordings alone.

A rung is a kernel whose file name starts with ``v`` and a number, so a new file is a new rung.
Nothing is run here: what a rung compiles to is compiled, how fast it was is recorded. A gap is None
where it was never recorded, or where its kernel changed since; ``Rung.note`` says which.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from hopper import samples
from hopper.compile import compile_kernel, kernel_names
from hopper.counters import WANTED
from hopper.errors import HopperError
from hopper.experiments import curves
from hopper.gemm import Problem
from hopper.occupancy import fit
from hopper.paths import KERNELS
from hopper.records import (
    HEADLINE,
    NoRecording,
    configuration,
    current,
    find,
    freshness,
    tuning_table,
)
from hopper.schema import Counters, Entry, Profile, Provenance

__all__ = ["Best", "Ceiling", "Compiled", "Counted", "Rung", "Speed", "ceiling", "rungs"]

BF16 = replace(HEADLINE, dtype="bfloat16")
NOT_RECORDED = "not recorded"
#: Version -> its speed as a fraction of cuBLAS's, in a ladder that others published.
# source: the Tilus ladder, fp16 at 8192³ on an H100 (tilus-hopper in references.bib). Its later
# versions accumulate in fp16, and are left out.
PUBLISHED = {"v0": 0.41, "v1": 0.73, "v2": 0.70, "v3": 0.78, "v4": 0.87, "v5": 0.91}

_RUNG = re.compile(r"v(\d+)_\w+")
_FIRST_LINE = re.compile(r"// (v\d+) · (\S.*)")


@dataclass(frozen=True)
class Speed:
    """A recorded timing and that of cuBLAS in turns with it; rates in TFLOPS.

    ``ratio``: of cuBLAS's speed, the median over adjacent pairs; ``low`` and ``high`` are the 5th
    and the 95th percentile.
    """

    ms: float
    tflops: float
    peer_ms: float
    peer_tflops: float
    ratio: float
    low: float
    high: float
    provenance: Provenance


@dataclass(frozen=True)
class Counted:
    """What ncu counted in one launch; NaN where it did not know a counter.

    ``tensor_pipe``, ``l2_hits`` in percent; ``issue_slots``: instructions by warp for each slot of
    the SMs' four schedulers, in percent; ``wgmma_wavefronts`` and ``load_wavefronts``: turns of
    shared memory, a cycle and an SM; ``dram_bytes`` read and written. The two wavefronts are no
    parts of one whole: in a kernel of cuBLAS's their sum was seen to be more than one a cycle.
    """

    kernel: str
    tensor_pipe: float
    issue_slots: float
    wgmma_wavefronts: float
    load_wavefronts: float
    l2_hits: float
    dram_bytes: float
    registers: float
    shared_bytes: float


@dataclass(frozen=True)
class Compiled:
    """What the file compiles to today, as written.

    ``registers``: a thread, at launch. ``shared_bytes``: static and dynamic. ``blocks``: that fit
    an SM.
    """

    registers: int
    shared_bytes: int
    stages: int
    blocks: int


@dataclass(frozen=True)
class Best:
    """The configuration of a tuning table that came closest to cuBLAS, or passed it furthest."""

    ratio: float
    configuration: str


@dataclass(frozen=True)
class Rung:
    """One version. ``idea``: what the first line of its file says; ``code_lines``: lines of it that
    are neither blank nor a comment, shared headers not counted.
    """

    kernel: str
    version: str
    idea: str
    code_lines: int
    compiled: Compiled
    burst: Speed | None
    sustained: Speed | None
    bf16: Speed | None
    best: Best | None
    counted: Counted | None
    peer_counted: Counted | None
    note: str

    @property
    def short_idea(self) -> str:
        """The idea as far as its first comma or colon."""
        return re.split(r"[:,]", self.idea)[0]

    @property
    def published(self) -> float | None:
        """The fraction of cuBLAS that others published of a version of this number."""
        return PUBLISHED.get(self.version)


@dataclass(frozen=True)
class Ceiling:
    """TFLOPS of a kernel of nothing but ``wgmma``, normal inputs; NaN where not recorded."""

    burst: float
    sustained: float
    label: str


def names() -> list[str]:
    """Every rung's kernel, from the first version on."""
    found = [name for name in kernel_names() if _RUNG.fullmatch(name)]
    return sorted(found, key=lambda name: int(_RUNG.fullmatch(name)[1]))


def rungs() -> list[Rung]:
    """Every rung, with what was recorded of it.

    Raises HopperError for a file that does not open as a rung does, CompileError for one that does
    not compile, RecordError for a damaged record.
    """
    return [_rung(name) for name in names()]


def ceiling() -> Ceiling:
    """The measured ceiling, burst and sustained."""
    rates = {mode: curves("ceiling", mode) for mode in ("burst", "sustained")}
    found = [rate.at("normal SS", 256) for rate in rates.values()]
    return Ceiling(*found, rates["burst"].label)


def first_line(kernel: str, text: str) -> tuple[str, str]:
    """Version and idea from the first line of a rung's file: ``// v2 · a ring of stages``."""
    line = text.partition("\n")[0]
    found = _FIRST_LINE.fullmatch(line.rstrip())
    if not found or not kernel.startswith(f"{found[1]}_"):
        version = kernel.partition("_")[0]
        raise HopperError(
            f"kernels/{kernel}.cu starts with {line!r}: a rung starts with its version and its "
            f"idea, which the ladder shows; write `// {version} · what it adds`"
        )
    return found[1], found[2]


def code_lines(text: str) -> int:
    """Lines that are neither blank nor nothing but a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


def _rung(kernel: str) -> Rung:
    text = (KERNELS / f"{kernel}.cu").read_text(encoding="utf-8")
    version, idea = first_line(kernel, text)
    burst, note = _speed(kernel, HEADLINE, "burst")
    counted, peer = _counted(kernel)
    if burst and not counted:
        note = "no counters recorded"
    return Rung(
        kernel,
        version,
        idea,
        code_lines(text),
        _compiled(kernel),
        burst,
        _speed(kernel, HEADLINE, "sustained")[0],
        _speed(kernel, BF16, "burst")[0],
        _best(kernel),
        counted,
        peer,
        note,
    )


def _compiled(kernel: str) -> Compiled:
    program = compile_kernel(kernel)
    used, facts = program.resources, program.facts
    shared = used.static_shared_bytes + facts.shared_bytes
    return Compiled(used.registers, shared, facts.stages, fit(program).blocks)


def _found(kind: str, kernel: str, problem: Problem, mode: str | None = None) -> list[Entry]:
    """Recorded entries of a kernel as written, or compiled for the problem's type."""
    try:
        entries = find(kind, kernel, problem=problem, mode=mode)
    except NoRecording:
        return []
    return [entry for entry in entries if entry.identity.defines == problem.defines]


def _speed(kernel: str, problem: Problem, mode: str) -> tuple[Speed | None, str]:
    """The recorded speed, or None and why there is none."""
    entries = _found("timing", kernel, problem, mode)
    fresh = [entry for entry in entries if freshness(entry) != "stale"]
    if not fresh:
        return None, f"{NOT_RECORDED} since it changed" if entries else NOT_RECORDED
    own, peer = fresh[0].data.samples_ms, fresh[0].data.peer_samples_ms
    times = [samples.median(each) for each in (own, peer)]
    rates = [samples.tflops(problem.flop, ms) for ms in times]
    ratio, spread = samples.ratio(own, peer), samples.ratio_spread(own, peer)
    speed = Speed(times[0], rates[0], times[1], rates[1], ratio, *spread, fresh[0].provenance)
    return speed, ""


def _best(kernel: str) -> Best | None:
    timed = [row for row in tuning_table(kernel, HEADLINE) if row["ratio"]]
    if not timed:
        return None
    best = max(timed, key=lambda row: row["ratio"])
    return Best(best["ratio"], configuration(best["config"]))


def _counted(kernel: str) -> tuple[Counted | None, Counted | None]:
    """Counters of the kernel and of cuBLAS's in the same process."""
    try:
        entry = current("counters", kernel, problem=HEADLINE)
    except NoRecording:
        return None, None
    data: Counters = entry.data
    sms = entry.provenance.sm_count
    return _counts(data.own, sms), data.peer and _counts(data.peer, sms)


def _counts(profile: Profile, sms: int) -> Counted:
    def value(alias: str) -> float:
        known = (name for name in WANTED[alias] if name in profile.metrics)
        name = next(known, None)
        return profile.metrics[name].value if name else math.nan

    cycles = sms * (value("cycles") or math.nan)
    return Counted(
        profile.kernel,
        tensor_pipe=value("tensor_pipe"),
        issue_slots=100 * value("instructions") / (4 * cycles),
        wgmma_wavefronts=value("wgmma_wavefronts") / cycles,
        load_wavefronts=value("shared_load_wavefronts") / cycles,
        l2_hits=value("l2_hit_rate"),
        dram_bytes=value("dram_read") + value("dram_write"),
        registers=value("registers"),
        shared_bytes=value("static_shared") + value("dynamic_shared"),
    )
