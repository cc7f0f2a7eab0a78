"""How long the emulator takes for kernels of the book: times of an interpreter, never of a GPU.

``python -m hopper.emulator.benchmark`` measures and prints; with ``--record`` it also writes
``results/emulator/speed.json``, which the status page shows.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

from hopper.compile import compile_kernel
from hopper.emulator import Emulator
from hopper.emulator.backend import EmulatedGpu
from hopper.errors import RecordError
from hopper.gemm import Problem, plan
from hopper.provenance import now
from hopper.records import results_dir

KERNELS = ("v0_mma_sync", "v1_wgmma")
#: Problem, and the seconds that it may take on two cores.
TARGETS = {
    Problem(128, 128, 64): 0.15,
    Problem(256, 256, 256): 0.6,
    Problem(512, 512, 512): 4.0,
}
REPEATS = 3


@dataclass(frozen=True)
class Timing:
    """One kernel at one size. ``seconds``: the best of a few launches.

    ``first``: the launch that also parsed the PTX; ``unwatched``: the best without looking for
    broken rules. ``instructions``: executed by all warps.
    """

    kernel: str
    problem: Problem
    seconds: float
    first: float
    unwatched: float
    instructions: int

    @property
    def target(self) -> float:
        """Seconds that this size may take on two cores."""
        return TARGETS[self.problem]


@dataclass(frozen=True)
class Benchmark:
    """Timings, with the machine and the day (UTC) they were taken on."""

    machine: str
    date: str
    timings: tuple[Timing, ...]


def timed(kernel: str, problem: Problem) -> Timing:
    """Time a kernel of the ladder in the emulator, on NumPy arrays."""
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    launch = plan(compile_kernel(kernel), a, b, c)

    def taken(emulator: Emulator) -> tuple[float, int]:
        start = time.perf_counter()
        run = EmulatedGpu(emulator).launch(
            launch.program,
            launch.grid,
            launch.block,
            launch.args,
            launch.program.facts.shared_bytes,
        )
        return time.perf_counter() - start, sum(run.counts.values())

    first, instructions = taken(Emulator())
    watched = min(taken(Emulator())[0] for _ in range(REPEATS))
    unwatched = min(taken(Emulator(on_hazard="ignore"))[0] for _ in range(REPEATS))
    return Timing(kernel, problem, watched, first, unwatched, instructions)


def benchmark() -> Benchmark:
    """Every kernel at every size, on this machine."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, NumPy {numpy.__version__}"
    timings = tuple(timed(kernel, problem) for kernel in KERNELS for problem in TARGETS)
    return Benchmark(machine, now(), timings)


def record_path() -> Path:
    """The file of the recorded benchmark."""
    return results_dir() / "emulator" / "speed.json"


def load() -> Benchmark:
    """The recorded benchmark. Raises RecordError where there is none, or it is no such record."""
    if not record_path().is_file():
        raise RecordError(
            "no benchmark of the emulator; record one with python -m hopper.emulator.benchmark "
            "--record"
        )
    try:
        whole = json.loads(record_path().read_text())
        timings = (
            Timing(**row | {"problem": Problem(**row["problem"])}) for row in whole["timings"]
        )
        return Benchmark(whole["machine"], whole["date"], tuple(timings))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(
            f"{record_path().name}: no benchmark of the emulator ({error}); record one with "
            f"python -m hopper.emulator.benchmark --record"
        ) from error


def main(arguments: list[str]) -> None:
    """Print a line for each timing, and keep them if asked to."""
    found = benchmark()
    print(found.machine)
    for one in found.timings:
        size = f"{one.problem.m}×{one.problem.n}×{one.problem.k}"
        print(
            f"{one.kernel:12} {size:12} {one.seconds:6.3f} s (first {one.first:.3f} s, unwatched "
            f"{one.unwatched:.3f} s), goal {one.target} s, {one.instructions:,} instructions"
        )
    if "--record" in arguments:
        record_path().parent.mkdir(parents=True, exist_ok=True)
        record_path().write_text(json.dumps(asdict(found), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
