"""How long the emulator takes for kernels of the book, on the machine that asks.

``python -m hopper.emulator.benchmark`` prints it; the status page shows it of the machine that
built the book. These are times of an interpreter on a CPU, never those of a GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

from hopper.compile import compile_kernel
from hopper.gemm import Problem, plan
from hopper.paths import cache_dir

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
    """One kernel at one size. ``seconds``: the best of a few launches, parsing left out.

    ``first``: the launch that also parsed the PTX. ``instructions``: executed by all warps.
    """

    kernel: str
    problem: Problem
    seconds: float
    first: float
    instructions: int

    @property
    def target(self) -> float:
        """Seconds that this size may take on two cores."""
        return TARGETS[self.problem]


def timed(kernel: str, problem: Problem) -> Timing:
    """Time a kernel of the ladder in the emulator, on NumPy arrays."""
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    launch = plan(compile_kernel(kernel), a, b, c)
    taken = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        run = launch.run()
        taken.append(time.perf_counter() - start)
    return Timing(kernel, problem, min(taken[1:]), taken[0], sum(run.counts.values()))


def timings() -> list[Timing]:
    """Every kernel at every size."""
    return [timed(kernel, problem) for kernel in KERNELS for problem in TARGETS]


def kept_timings() -> list[Timing]:
    """``timings()``, taken again only when the emulator, a kernel or the machine changed."""
    sha = hashlib.sha256(machine().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sha.update(path.read_bytes())
    for kernel in KERNELS:
        sha.update(compile_kernel(kernel).identity.encode())
    path = cache_dir() / f"emulator-benchmark-{sha.hexdigest()[:16]}.json"
    try:
        kept = json.loads(path.read_text())
        return [Timing(**{**one, "problem": Problem(**one["problem"])}) for one in kept]
    except (OSError, ValueError, TypeError, KeyError):
        found = timings()
        path.write_text(json.dumps([asdict(one) for one in found]))
        return found


def machine() -> str:
    """The machine in words: cores and processor architecture."""
    return f"{os.cpu_count()} cores, {platform.machine()}"


def main() -> None:
    """Print a line for each timing."""
    print(machine())
    for one in timings():
        size = f"{one.problem.m}×{one.problem.n}×{one.problem.k}"
        print(
            f"{one.kernel:12} {size:12} {one.seconds:6.3f} s (first {one.first:.3f} s), target "
            f"{one.target} s, {one.instructions:,} instructions"
        )


if __name__ == "__main__":
    main()
