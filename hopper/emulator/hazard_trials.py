"""What a Hopper GPU makes of broken rules: every hazard kernel, launched many times, recorded.

``python -m hopper.emulator.hazard_trials --out folder`` runs them on this machine's Hopper GPU and
writes ``folder/<gpu>/hazards/trials.json``; ``python -m hopper.records merge folder`` installs it.
A kernel runs with small and with large tiles, alone and with every SM full of it, on inputs from
several seeds, with warm and with cold caches. Each runs in a process of its own, so that one that
hangs or fails harms no other, and goes on with the next shape.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from hopper.compile import advisories
from hopper.conformance import launch_in_place
from hopper.emulator.hazard_inputs import Shape
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
from hopper.errors import HopperError
from hopper.processes import environment, run_group
from hopper.records.sealed import read_sealed, write_sealed
from hopper.records.store import GPU, NoRecording, gpu_slug, results_dir
from hopper.schema import Provenance

#: How many copies run: one, or eight for each SM of an H200.
CELLS = (1, 8 * 132)
SEEDS = (7, 8, 9, 10)
LAUNCHES = 40  # with each seed
HANG_SECONDS = 3
PROCESS_SECONDS = 90
_AT_ONCE = 6
# Between launches, as many bytes are written: more than the L2 cache holds, so that half of the
# launches find their inputs in memory and half in the cache.
_FLUSH_BYTES = 96 << 20


@dataclass(frozen=True)
class Outcome:
    """How the launches of one shape ended, over all seeds. ``size``, ``cells``: as of a ``Shape``.

    ``hung``, ``failed``: a launch did not end, or ended with an error, which also ends this shape.
    """

    size: int
    cells: int
    right: int
    wrong: int
    hung: int
    failed: int

    @property
    def launches(self) -> int:
        """How many there were."""
        return self.right + self.wrong + self.hung + self.failed

    @property
    def verdict(self) -> str:
        """In words: "right", "wrong 12 of 160", "hangs" …"""
        if self.hung or self.failed:
            end = "hangs" if self.hung else "error"
            return end if self.launches == 1 else f"{end} after {self.launches - 1}"
        return f"wrong {self.wrong} of {self.launches}" if self.wrong else "right"


@dataclass(frozen=True)
class Trial:
    """How launches of a broken kernel ended, an Outcome for each shape, and its corrected twin's.

    ``ptx``: SHA-256 of the broken kernel's normalised PTX in all sizes; ``messages``: what the
    compiler noticed, such as "C7519".
    """

    ptx: str
    messages: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    twin: tuple[Outcome, ...]

    def at(self, size: int, cells: int) -> Outcome | None:
        """How one shape ended; None where the kernel has no such size."""
        found = [one for one in self.outcomes if (one.size, one.cells) == (size, cells)]
        return found[0] if found else None

    @property
    def kind(self) -> str:
        """ "right" in every launch, "stops" (hangs or fails) in some shape, or "wrong" in some."""
        if any(one.hung or one.failed for one in self.outcomes):
            return "stops"
        return "wrong" if any(one.wrong for one in self.outcomes) else "right"

    @property
    def twin_is_right(self) -> bool:
        """Whether every launch of the corrected twin was right."""
        expected = len(SEEDS) * LAUNCHES
        return all(one.right == one.launches == expected for one in self.twin)


@dataclass(frozen=True)
class Trials:
    """The trials of all hazard kernels, by name."""

    nvrtc: str
    provenance: Provenance
    trials: dict[str, Trial]


def trials_path(gpu: str = GPU, root: Path | None = None) -> Path:
    """The file of the trials on a GPU model."""
    return (root or results_dir()) / gpu / "hazards" / "trials.json"


def load(gpu: str = GPU) -> Trials:
    """The recorded trials. Raises NoRecording without a file, RecordError for a damaged one."""
    path = trials_path(gpu)
    if not path.is_file():
        raise NoRecording(
            f"hazard kernels were never tried on {gpu}; record them with python -m "
            f"hopper.emulator.hazard_trials on a Hopper GPU"
        )
    return read_sealed(path, Trials)


def summary() -> str:
    """How many broken kernels the GPU gave away, in words, or that there is no recording."""
    try:
        trials = load().trials.values()
    except NoRecording as error:
        return str(error)
    kinds = [one.kind for one in trials]
    launches = sum(shape.launches for one in trials for shape in one.outcomes)
    alone = sum(
        not (first.wrong or first.hung or first.failed)
        for first in (one.at(1, CELLS[0]) for one in trials)
    )
    return (
        f"{len(trials)} broken kernels, {launches:,} launches:\n"
        f"{kinds.count('right')} were right every time, {kinds.count('stops')} hung or ended with "
        f"an error, {kinds.count('wrong')} returned something wrong\n"
        f"with one block and a small tile alone, {alone} were right every time\n"
        f"{sum(one.twin_is_right for one in trials)} of {len(trials)} corrected twins were right "
        f"every time"
    )


def ptx_hash(kernel: HazardKernel) -> str:
    """Identity of a broken kernel: its normalised PTX in each of its sizes."""
    hashes = [kernel.compile(False, size).ptx_hash for size in kernel.sizes]
    return sha256(" ".join(hashes).encode()).hexdigest()


def state(kernel: HazardKernel, recorded: Trials) -> str:
    """'fresh', 'stale', 'missing' or 'other compiler': is the trial of this kernel as it is now?"""
    trial = recorded.trials.get(kernel.name)
    if trial is None:
        return "missing"
    if trial.ptx == ptx_hash(kernel):
        return "fresh"
    nvrtc = kernel.compile(fixed=False).nvrtc
    return "stale" if nvrtc == recorded.nvrtc else "other compiler"


# ---- on a Hopper GPU ----------------------------------------------------------------------------


def record(out: Path) -> int:
    """Try every hazard kernel on this GPU. Returns the exit status. Raises NoHopper without one."""
    from hopper.backends import find_hopper
    from hopper.compile import nvrtc_version
    from hopper.provenance import collect

    gpu = find_hopper()
    calm = [one for one in HAZARD_KERNELS if not one.may_hang]
    wild = [one for one in HAZARD_KERNELS if one.may_hang]
    found: dict[str, Trial] = {}
    # What hangs takes turns with everybody else on the GPU, so it comes last.
    for group in (calm, wild):
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found |= dict(zip([one.name for one in group], pool.map(tried, group), strict=True))
    for name, trial in sorted(found.items()):
        told = ", ".join(f"{one.size}×{one.cells} {one.verdict}" for one in trial.outcomes)
        print(f"{name}: {told}; twin right: {trial.twin_is_right}", flush=True)
    trials = Trials(nvrtc_version(), collect(gpu, nvrtc_version()), found)
    write_sealed(trials_path(gpu_slug(gpu.gpu), out), trials, "trials")
    sick = [name for name, trial in found.items() if not trial.twin_is_right]
    if sick:
        print(f"FAILED: the corrected twin is wrong: {', '.join(sick)}")
    return 1 if sick else 0


def shapes(kernel: HazardKernel) -> list[tuple[int, int]]:
    """Size and cells of each shape that a kernel is tried in."""
    return [(size, cells) for size in kernel.sizes for cells in CELLS]


def tried(kernel: HazardKernel) -> Trial:
    """Launch a kernel and its twin in processes of their own."""
    messages = {
        code for size in kernel.sizes for code in advisories(kernel.compile(False, size).log)
    }
    return Trial(
        ptx_hash(kernel),
        tuple(sorted(messages)),
        outcomes(kernel, fixed=False),
        outcomes(kernel, fixed=True),
    )


def outcomes(kernel: HazardKernel, *, fixed: bool) -> tuple[Outcome, ...]:
    """Launch in every shape. Where a process ends early, a new one goes on with the next shape."""
    verdicts: dict[tuple[int, int], list[str]] = {shape: [] for shape in shapes(kernel)}
    left = list(verdicts)
    while left:
        status, lines = _process(kernel.name, fixed, left)
        for size, cells, verdict in lines:
            verdicts[size, cells].append(verdict)
        whole = [shape for shape in left if len(verdicts[shape]) == len(SEEDS) * LAUNCHES]
        left = left[len(whole) :]
        if left:  # the shape in which it ended
            verdicts[left.pop(0)].append("hung" if status == -signal.SIGALRM else "failed")
    return tuple(
        Outcome(*shape, *(found.count(end) for end in ("right", "wrong", "hung", "failed")))
        for shape, found in verdicts.items()
    )


def _process(
    name: str, fixed: bool, left: list[tuple[int, int]]
) -> tuple[int, list[tuple[int, int, str]]]:
    """Exit status, and size, cells and verdict of each launch that ended, shape after shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts"
        path.write_text("")
        command = [sys.executable, "-m", "hopper.emulator.hazard_trials", "--try", name]
        command += [str(int(fixed)), str(path)]
        command += [f"{size}x{cells}" for size, cells in left]
        status = -signal.SIGALRM
        with suppress(subprocess.TimeoutExpired):
            ended = run_group(command, timeout=PROCESS_SECONDS, environment=environment())
            status = ended.returncode
        lines = [line.split() for line in path.read_text().splitlines()]
    return status, [(int(size), int(cells), verdict) for size, cells, verdict in lines]


def launches(kernel: HazardKernel, fixed: bool, size: int, cells: int) -> Iterator[str]:
    """In the child: "right" or "wrong" for each launch. A hang ends the process by SIGALRM."""
    import cupy

    from hopper.backends import find_hopper

    gpu = find_hopper()
    flush = cupy.zeros(_FLUSH_BYTES, "uint8")
    for seed in SEEDS:
        shape = Shape(size, cells, seed)
        expected = cupy.ascontiguousarray(gpu.array(kernel.expected(shape))).view("uint32")
        launch = launch_in_place(kernel.case(fixed, shape), gpu)
        for number in range(LAUNCHES):
            if number % 2:
                flush.fill(number % 251)
            gpu.synchronize()
            signal.alarm(HANG_SECONDS)
            (got,) = launch()
            signal.alarm(0)
            yield "right" if bool((got.view("uint32") == expected).all()) else "wrong"


def main(arguments: list[str]) -> int:
    """``--out folder``; ``--try`` is what the recorder starts itself."""
    try:
        match arguments:
            case ["--try", name, fixed, path, *left]:
                kernel = next(one for one in HAZARD_KERNELS if one.name == name)
                with Path(path).open("a") as file:
                    for size, cells in (map(int, one.split("x")) for one in left):
                        for verdict in launches(kernel, bool(int(fixed)), size, cells):
                            file.write(f"{size} {cells} {verdict}\n")
                            file.flush()
                return 0
            case ["--out", out]:
                return record(Path(out))
        print(__doc__)
        return 2
    except HopperError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
