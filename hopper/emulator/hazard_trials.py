"""What a Hopper GPU makes of broken rules: every hazard kernel, launched many times, recorded.

``python -m hopper.emulator.hazard_trials --out folder`` runs them on this machine's Hopper GPU and
writes ``folder/<gpu>/hazards/trials.json``; ``python -m hopper.records merge folder`` installs it.
Each kernel runs in a process of its own, so that one that hangs or fails harms no other.
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
from pathlib import Path

import numpy

from hopper.compile import advisories
from hopper.conformance import launch_on_gpu
from hopper.emulator.hazard_kernels import HAZARD_KERNELS, HazardKernel
from hopper.errors import HopperError
from hopper.processes import environment, run_group
from hopper.records.sealed import read_sealed, write_sealed
from hopper.records.store import GPU, NoRecording, gpu_slug, results_dir
from hopper.schema import Provenance

LAUNCHES = 300
HANG_SECONDS = 3
PROCESS_SECONDS = 60
_AT_ONCE = 6
# Between launches, as many bytes are written: more than the L2 cache holds, so that half of the
# launches find their inputs in memory and half in the cache.
_FLUSH_BYTES = 96 << 20


@dataclass(frozen=True)
class Trial:
    """How launches of a broken kernel ended; ``twin_…``: those of the corrected one.

    ``ptx``: SHA-256 of the broken kernel's normalised PTX; ``messages``: what the compiler noticed,
    such as "C7519". ``hung``, ``failed``: the launch did
    not end, or ended with an error, which also ends the trial.
    """

    ptx: str
    messages: tuple[str, ...]
    right: int
    wrong: int
    hung: int
    failed: int
    twin_right: int
    twin_wrong: int

    @property
    def verdict(self) -> str:
        """In words: "always right", "wrong 12 of 300", "hangs" …"""
        runs = self.right + self.wrong + self.hung + self.failed
        if self.hung or self.failed:
            end = "hangs" if self.hung else "ends with an error"
            return end if runs == 1 else f"{end} after {runs - 1} launches, {self.right} right"
        if not self.wrong:
            return f"right, {runs} of {runs}"
        return f"wrong, {self.wrong} of {runs}"


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
    always = sum(not (one.wrong or one.hung or one.failed) for one in trials)
    stopped = sum(bool(one.hung or one.failed) for one in trials)
    twins = sum(not one.twin_wrong for one in trials)
    return (
        f"{always} of {len(trials)} broken kernels were right in every launch, {stopped} hung or "
        f"ended with an error, {len(trials) - always - stopped} returned something wrong\n"
        f"{twins} of {len(trials)} corrected twins were right in every launch"
    )


def state(kernel: HazardKernel, recorded: Trials) -> str:
    """'fresh', 'stale', 'missing' or 'other compiler': is the trial of this kernel as it is now?"""
    trial = recorded.trials.get(kernel.name)
    if trial is None:
        return "missing"
    program = kernel.compile(fixed=False)
    if trial.ptx == program.ptx_hash:
        return "fresh"
    return "stale" if program.nvrtc == recorded.nvrtc else "other compiler"


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
        print(f"{name}: {trial.verdict}; twin {trial.twin_right} right", flush=True)
    trials = Trials(nvrtc_version(), collect(gpu, nvrtc_version()), found)
    write_sealed(trials_path(gpu_slug(gpu.gpu), out), trials, "trials")
    sick = [name for name, trial in found.items() if trial.twin_wrong or not trial.twin_right]
    if sick:
        print(f"FAILED: the corrected twin is wrong: {', '.join(sick)}")
    return 1 if sick else 0


def tried(kernel: HazardKernel) -> Trial:
    """Launch a kernel and its twin in processes of their own."""
    broken, twin = _verdicts(kernel, fixed=False), _verdicts(kernel, fixed=True)
    program = kernel.compile(fixed=False)
    return Trial(
        program.ptx_hash,
        tuple(advisories(program.log)),
        *(broken.count(verdict) for verdict in ("right", "wrong", "hung", "failed")),
        twin.count("right"),
        len(twin) - twin.count("right"),
    )


def _verdicts(kernel: HazardKernel, *, fixed: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdicts"
        path.write_text("")
        command = [sys.executable, "-m", "hopper.emulator.hazard_trials", "--try", kernel.name]
        command += [str(int(fixed)), str(path)]
        status = -signal.SIGALRM
        with suppress(subprocess.TimeoutExpired):
            ended = run_group(command, timeout=PROCESS_SECONDS, environment=environment())
            status = ended.returncode
        verdicts = path.read_text().split()
    if len(verdicts) < LAUNCHES:
        verdicts.append("hung" if status == -signal.SIGALRM else "failed")
    return verdicts


def launches(kernel: HazardKernel, fixed: bool) -> Iterator[str]:
    """In the child: "right" or "wrong" for each launch. A hang ends the process by SIGALRM."""
    import cupy

    from hopper.backends import find_hopper

    gpu, expected = find_hopper(), numpy.ascontiguousarray(kernel.expected())
    launch = launch_on_gpu(kernel.case(fixed), gpu)
    flush = cupy.zeros(_FLUSH_BYTES, "uint8")
    for number in range(LAUNCHES):
        if number % 2:
            flush.fill(number % 251)
        gpu.synchronize()
        signal.alarm(HANG_SECONDS)
        (got,) = launch()
        signal.alarm(0)
        yield "right" if got.tobytes() == expected.tobytes() else "wrong"


def main(arguments: list[str]) -> int:
    """``--out folder``; ``--try`` is what the recorder starts itself."""
    try:
        match arguments:
            case ["--try", name, fixed, path]:
                kernel = next(one for one in HAZARD_KERNELS if one.name == name)
                with Path(path).open("a") as file:
                    for verdict in launches(kernel, bool(int(fixed))):
                        file.write(f"{verdict}\n")
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
