"""The page of attempts: each is timed in turns with cuBLAS, or refused.

``attempts, burst``: all of them. ``attempts, sustained``: those with a prediction for it. What
others are compared with most is timed again and again in between, so that the record also says how
well a timing repeats. Everything is compiled first, on all cores. Then a process of its own, which
this module is as a command, checks and times row after row and writes each down at once: a launch
that does not end costs its own row, and the process is started again behind it.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy

from hopper.attempts import ATTEMPTS, BASES, BURST, EVERY, SUSTAINED, compile_attempt
from hopper.attempts.shapes import V9
from hopper.backends import find_hopper
from hopper.bench import Timed, checked_pair, inputs_on, interleaved
from hopper.compile import Program
from hopper.errors import CheckError, HopperError
from hopper.experiments import Experiment
from hopper.processes import environment, run_group
from hopper.records import HEADLINE
from hopper.refusal import built
from hopper.schema import Array, Conditions, Probe

NAMES = {BURST: "attempts, burst", SUSTAINED: "attempts, sustained"}
#: Timed several times among the others: the two that most are compared with.
REPEATED = ("wide", "tall")
#: How many attempts lie between two timings of REPEATED.
BETWEEN = {BURST: 16, SUSTAINED: 12}
#: Of sustained mode: seconds that count of each side. One more comes first.
ROUNDS = 3
#: Seconds for one row, and for all of them; a row that takes longer hangs.
ROW_SECONDS = {BURST: 20, SUSTAINED: 40}
ALL_SECONDS = {BURST: 200, SUSTAINED: 280}
#: How often the process is started again behind a row that ended it.
RESTARTS = 4
IDENTITY, REFUSED, STATE = "identity", "refused", "state"


@dataclass
class Row:
    """One timing, or why there is none. Milliseconds a launch; MHz and watts, NaN if not read."""

    name: str
    own_ms: Sequence[float] = ()
    peer_ms: Sequence[float] = ()
    refused: str = ""
    state: Sequence[float] = field(default_factory=lambda: [math.nan] * 4)


def schedule(mode: str) -> list[str]:
    """Names in the order in which they are timed; REPEATED stand in it several times."""
    chosen = [one for one in ATTEMPTS if one.predicted(mode)]
    needed = {one.against for one in chosen}
    bases = [one for one in BASES if one.name in needed and one.name not in REPEATED]
    rows = [one.name for one in bases if one.problem == HEADLINE]
    for index, one in enumerate(one for one in chosen if one.problem == HEADLINE):
        if index % BETWEEN[mode] == 0:
            rows += REPEATED
        rows.append(one.name)
    rows += REPEATED
    # Product after product: their inputs take longer than a timing.
    others = [one for one in (*bases, *chosen) if one.problem != HEADLINE]
    for problem in dict.fromkeys(one.problem for one in others):
        rows += [one.name for one in others if one.problem == problem]
    return rows


def _built(name: str) -> tuple[str, str]:
    """Identity of an attempt, empty where it does not compile, and why it must not be launched."""
    program, reason = built(partial(compile_attempt, EVERY[name]))
    return program.identity if program else "", reason or ""


def compiled(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name -> identity and reason of refusal, compiled in a process for each core."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return dict(zip(names, pool.map(_built, names), strict=True))


def timed(mode: str, gpu: Any, program: Program) -> Probe:
    """Every attempt of a mode, as a Probe with arrays by name.

    ``NAME``: (timings, 2, samples) milliseconds a launch of the attempt and of cuBLAS in turns, no
    timings where it was refused. ``NAME identity``: 32 bytes. ``NAME refused``: UTF-8, the reason.
    ``NAME state``: for each timing the SM clock in MHz and the power in W of either.
    """
    names = list(dict.fromkeys(schedule(mode)))
    found = compiled(names)
    rows = [row for row in schedule(mode) if not found[row][1]]
    measured = _in_processes(mode, rows)
    arrays: dict[str, Array] = {}
    for name in names:
        identity, reason = found[name]
        mine = [row for row in measured if row.name == name]
        reason = next((row.refused for row in mine if row.refused), reason)
        if not mine and not reason:
            continue  # no time was left for it
        arrays |= _arrays(name, identity, reason, [row for row in mine if not row.refused])
    question = (
        f"How fast is each attempt beside cuBLAS at its product, {mode}? For each: milliseconds "
        f"a launch (timings, own and cuBLAS, samples); SHA-256 of what was compiled; why it was "
        f"refused; clocks in MHz and power in W."
    )
    return Probe(NAMES[mode], question, arrays)


def _arrays(name: str, identity: str, reason: str, rows: Sequence[Row]) -> dict[str, Array]:
    samples = max((len(row.own_ms) for row in rows), default=0)
    times = numpy.full((len(rows), 2, samples), numpy.nan, numpy.float32)
    for number, row in enumerate(rows):
        times[number, 0, : len(row.own_ms)] = row.own_ms
        times[number, 1, : len(row.peer_ms)] = row.peer_ms
    state = numpy.array([row.state for row in rows], numpy.float32).reshape(len(rows), 4)
    return {
        name: Array.of(times),
        f"{name} {IDENTITY}": Array.of(numpy.frombuffer(bytes.fromhex(identity), numpy.uint8)),
        f"{name} {REFUSED}": Array.of(numpy.frombuffer(reason.encode(), numpy.uint8)),
        f"{name} {STATE}": Array.of(state),
    }


# ---- processes ----------------------------------------------------------------------------------


def _in_processes(mode: str, names: Sequence[str]) -> list[Row]:
    """The rows of ``names``, as far as they come in time; one that hung or failed is refused.

    Raises HopperError where not even a first one could be begun.
    """
    deadline = time.monotonic() + ALL_SECONDS[mode]
    done: list[Row] = []
    for _ in range(1 + RESTARTS):
        left = deadline - time.monotonic()
        if len(done) == len(names) or left < ROW_SECONDS[mode]:
            break
        more, ended = _in_process(mode, names[len(done) :], left)
        if more is None and not done:
            raise HopperError(f"the process that times attempts did not begin: {ended}")
        done += more or ()
        if more is None or ended is None or len(done) == len(names):
            break
        done.append(Row(names[len(done)], refused=ended))
    return done


def _in_process(
    mode: str, names: Sequence[str], seconds: float
) -> tuple[list[Row] | None, str | None]:
    """One process over ``names``: its rows, and how the next one ended it; None: time was up.

    No rows at all where it ended before the first one began.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        command = [sys.executable, "-m", "hopper.experiments.attempts", mode, str(path), *names]
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = run_group(
                command, timeout=seconds, environment=environment(), capture=False
            ).returncode
        rows = [Row(**one) for one in _lines(path)] if path.is_file() else None
    if status == -signal.SIGALRM:
        return rows, f"did not end within {ROW_SECONDS[mode]} s"
    return rows, f"its process ended with status {status}" if status else None


def _lines(path: Path) -> Iterator[dict]:
    """The whole lines of a file that may lack its end."""
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("}\n"):
            yield json.loads(line)


@contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    """End this process, a hung GPU or not, unless the block is left in time."""
    signal.alarm(seconds)
    yield
    signal.alarm(0)


def time_all(mode: str, path: Path, names: Sequence[str]) -> None:
    """Check and time attempts, in this process; a line for each goes to ``path`` at once."""
    gpu = find_hopper()
    problem, arrays = None, None
    with path.open("w") as lines:
        for name in names:
            with ended_after(ROW_SECONDS[mode]):
                if EVERY[name].problem != problem:
                    problem, arrays = EVERY[name].problem, None  # the memory first
                    arrays = inputs_on(gpu, problem)
                row = time_one(gpu, name, arrays, mode)
            lines.write(json.dumps(asdict(row)) + "\n")
            lines.flush()
            ratio = numpy.median(numpy.divide(row.peer_ms, row.own_ms)) if row.own_ms else math.nan
            print(f"    {name}: {row.refused or f'{ratio:.4f}'}", flush=True)


def time_one(gpu: Any, name: str, arrays: tuple[Any, Any], mode: str) -> Row:
    """One attempt, checked against cuBLAS and then timed in turns with it; refused if wrong."""
    attempt = EVERY[name]
    try:
        program = compile_attempt(attempt)
        pair = checked_pair(program, *arrays, blocks=attempt.blocks, places=attempt.places)
    except CheckError as error:
        return Row(name, refused=f"its result is wrong: {str(error).splitlines()[0]}")
    found = interleaved(gpu, pair.run, pair.peer, mode=mode, rounds=ROUNDS)
    return Row(name, list(found.samples_ms), list(found.peer_samples_ms), state=_state(found))


def _state(found: Timed) -> list[float]:
    """Clock of the attempt and of cuBLAS in MHz, then the power of both in W."""
    both = (found.conditions, found.peer_conditions or found.conditions)
    clocks = [math.nan if one.clock_mhz is None else one.clock_mhz for one in both]
    return [*clocks, *map(_watts, both)]


def _watts(state: Conditions) -> float:
    return state.power_watts.median if state.power_watts else math.nan


EXPERIMENTS = tuple(Experiment(V9, name, partial(timed, mode)) for mode, name in NAMES.items())

if __name__ == "__main__":
    time_all(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
