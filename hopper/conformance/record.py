"""What a Hopper GPU answered to the cases: one sealed file a unit, written by a run on that GPU.

``python -m hopper.conformance --out folder`` runs the cases on this machine's Hopper GPU and writes
``folder/<gpu>/conformance/<unit>.json``; ``python -m hopper.records merge folder`` installs it.
``--check [unit …]`` runs the cases in the emulator and compares them with what is recorded.
With ``--arrays``, ``arrays-<unit>.zip`` beside it holds the outputs themselves, for looking at a
difference. A case is stale when its compiled kernel or its inputs changed since; then the recording
says nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy

from hopper.conformance import Case, Tiled, cases, digest, emulate, run_on_gpu, units
from hopper.errors import HopperError, RecordError
from hopper.processes import environment, run_group
from hopper.records.sealed import read_sealed, write_sealed
from hopper.records.store import GPU, NoRecording, gpu_slug, results_dir
from hopper.schema import Provenance, parse

#: A process that runs cases may take this long; a case that hangs takes the rest of it.
_SECONDS = 240
#: Outputs up to this size are kept beside the digests in the bundle, for looking at a difference.
_KEPT_BYTES = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What the GPU answered to one case.

    ``ptx``, ``inputs``: SHA-256 of the kernel's normalised PTX, and of its arguments; ``nvrtc``:
    the compiler. ``outputs``: SHA-256 of each output. ``elements``: how many values those hold.
    """

    ptx: str
    nvrtc: str
    inputs: str
    outputs: tuple[str, ...]
    elements: int


@dataclass(frozen=True)
class Answers:
    """The answers to the cases of one unit, by name."""

    unit: str
    provenance: Provenance
    answers: dict[str, Answer]


def inputs_sha256(case: Case) -> str:
    """Hash of everything that a case passes to its kernel, and of how it is launched."""
    sha = hashlib.sha256(repr((case.grid, case.block, case.shared_bytes, case.outputs)).encode())
    for value in case.arguments():
        if isinstance(value, Tiled):
            sha.update(repr((value.box, value.swizzle, value.fill, value.element)).encode())
            value = value.argument
        array = numpy.ascontiguousarray(value)
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def answers_path(unit: str, gpu: str = GPU, root: Path | None = None) -> Path:
    """The file of a unit's answers on a GPU model."""
    return (root or results_dir()) / gpu / "conformance" / f"{unit}.json"


def load(unit: str, gpu: str = GPU) -> Answers:
    """The recorded answers. Raises NoRecording without a file, RecordError for a damaged one."""
    path = answers_path(unit, gpu)
    if not path.is_file():
        raise NoRecording(
            f"{unit}: no answers of {gpu} to its cases; record them with python -m "
            f"hopper.conformance on a Hopper GPU"
        )
    return read_answers(path)


def read_answers(path: Path) -> Answers:
    """Read one file strictly. Raises RecordError when it is truncated, altered or ill-formed."""
    found = read_sealed(path, Answers)
    if found.unit != path.stem:
        raise RecordError(f"{path}: holds the answers to {found.unit}; rename it")
    return found


def write_answers(found: Answers, path: Path) -> None:
    """Seal and write, a case a line."""
    write_sealed(path, found, "answers")


def state(case: Case, recorded: Answers | None) -> str:
    """'fresh', 'stale' or 'missing': whether the recording is of this case as it is now."""
    answer = recorded.answers.get(case.name) if recorded else None
    if answer is None:
        return "missing"
    program = case.compile()
    same = (answer.ptx, answer.inputs) == (program.ptx_hash, inputs_sha256(case))
    if same or answer.nvrtc != program.nvrtc:
        return "fresh" if same else "other compiler"
    return "stale"


def check(wanted: list[str]) -> int:
    """Compare every case of units with its recording, bit for bit. Returns the exit status.

    Raises NoRecording where a unit has none.
    """
    wrong = 0
    for unit in wanted:
        answers = load(unit)
        states: dict[str, list[str]] = {}
        values = 0
        for case in cases(unit):
            found = state(case, answers)
            if found == "fresh":
                outputs = emulated(unit, case)
                values += sum(output.size for output in outputs)
                same = tuple(digest(outputs)) == answers.answers[case.name].outputs
                found = "equal" if same else "DIFFERENT"
            states.setdefault(found, []).append(case.name)
        told = ", ".join(f"{len(names)} {found}" for found, names in sorted(states.items()))
        print(f"{unit}: {told} ({values:,} values)", flush=True)
        for name in states.get("DIFFERENT", ()):
            print(f"  {name}", flush=True)
        wrong += sum(len(names) for found, names in states.items() if found != "equal")
    return 1 if wrong else 0


def emulated(unit: str, case: Case) -> list[numpy.ndarray]:
    """The emulator's outputs. A unit may compute them without its PTX (``expected(name)``)."""
    module = importlib.import_module(f"hopper.conformance.{unit}")
    if hasattr(module, "expected"):
        return module.expected(case.name)
    return emulate(case)[0]


# ---- recording, on a Hopper GPU -----------------------------------------------------------------


def record(out: Path, wanted: list[str], *, arrays: bool = False) -> int:
    """Run the cases of units on this GPU. Returns the exit status.

    Raises NoHopper without a GPU, and RecordError for a changed tree. A case that fails or hangs
    is named and left out; each runs in a process that the next failure cannot harm.
    """
    from hopper.backends import find_hopper
    from hopper.compile import nvrtc_version
    from hopper.provenance import collect

    gpu = find_hopper()
    failed = []
    for unit in wanted:
        path = answers_path(unit, gpu_slug(gpu.gpu), out)
        done: dict[str, Answer] = {}
        lost: list[str] = []
        names = [case.name for case in cases(unit)]
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "answers"
            while left := [name for name in names if name not in done and name not in lost]:
                lost += _run_some(unit, left, done, part)
            if arrays:
                out.mkdir(parents=True, exist_ok=True)
                shutil.make_archive(str(out / f"arrays-{unit}"), "zip", folder)
        found = Answers(unit, collect(gpu, nvrtc_version()), done)
        write_answers(found, path)
        print(f"{unit}: {len(done)} of {len(names)} cases answered", flush=True)
        failed += lost
    return 1 if failed else 0


def _run_some(unit: str, names: list[str], done: dict[str, Answer], path: Path) -> list[str]:
    """Run cases in a process of their own until one fails; returns the name of that one."""
    path.write_text("")
    command = [sys.executable, "-m", "hopper.conformance", "--part", unit, str(path), *names]
    started = time.monotonic()
    told = f"not done within {_SECONDS} s"
    with suppress(subprocess.TimeoutExpired):
        ended = run_group(command, timeout=_SECONDS, environment=environment())
        told = (ended.stderr.strip().splitlines() or ["no message"])[-1]
    for line in path.read_text().splitlines():
        name, value = json.loads(line)
        done[name] = parse(Answer, value, str(path), name)
    took = time.monotonic() - started
    left = [name for name in names if name not in done]
    if left:
        print(f"FAILED {left[0]} after {took:.1f} s: {told}", flush=True)
    return left[:1]


def run_part(unit: str, path: Path, names: list[str]) -> None:
    """In the child: run the named cases in order, and append each answer to ``path``."""
    from hopper.backends import find_hopper

    gpu = find_hopper()
    by_name = {case.name: case for case in cases(unit)}
    for name in names:
        case = by_name[name]
        outputs = run_on_gpu(case, gpu)
        program = case.compile()
        elements = sum(output.size for output in outputs)
        answer = Answer(
            program.ptx_hash, program.nvrtc, inputs_sha256(case), tuple(digest(outputs)), elements
        )
        with path.open("a") as file:
            file.write(json.dumps([name, asdict(answer)]) + "\n")
        if sum(output.nbytes for output in outputs) <= _KEPT_BYTES:
            kept = {f"output{number}": output for number, output in enumerate(outputs)}
            numpy.savez_compressed(path.parent / f"{name}.npz", **kept)


def main(arguments: list[str]) -> int:
    """The commands above; ``--part`` is what the recorder starts itself."""
    try:
        match arguments:
            case ["--part", unit, path, *names]:
                run_part(unit, Path(path), names)
                return 0
            case ["--out", out, *wanted]:
                named = [unit for unit in wanted if unit != "--arrays"]
                arrays = "--arrays" in wanted
                return record(Path(out), named or units_with_cases(), arrays=arrays)
            case ["--check", *wanted]:
                return check(list(wanted) or units_with_cases())
        print(__doc__)
        return 2
    except HopperError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1


def units_with_cases() -> list[str]:
    """The units that ask the hardware something."""
    return [unit for unit in units() if cases(unit)]
