"""Where a recording comes from: the commit, the machine, the versions.

A recording names a commit, and the commit must be all of it: a changed file is refused. Where the
tree is copied without its ``.git``, a stamp made beforehand stands in for git: the commit and the
hash of every tracked file, each of which is then verified.

    python -m hopper.provenance stamp     writes _build/source-stamp.json; needs git, a clean tree
    python -m hopper.provenance show      prints what a recording made here would name
"""

import hashlib
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hopper.errors import HopperError, RecordError
from hopper.paths import ROOT
from hopper.schema import Provenance

STAMP = Path("_build") / "source-stamp.json"
# What a recording depends on: an unlisted file in these folders is refused, as git would.
SOURCES = ("hopper", "kernels", "chapters")
GIT_SECONDS = 60


@dataclass(frozen=True)
class Source:
    """The commit that the files belong to. ``clean``: they are exactly the commit's."""

    commit: str
    clean: bool


def now() -> str:
    """The time in UTC, as records write it: 2026-01-31T12:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def source(root: Path = ROOT) -> Source:
    """The commit of a tree that may be recorded, from git or else from the stamp.

    Raises RecordError when the tree is dirty, when a file differs from its stamp, or when there
    is neither git nor a stamp.
    """
    if (root / ".git").exists():
        commit, changed = _git_state(root)
        if changed:
            raise RecordError(
                f"the tree differs from commit {commit[:10]}: {_listed(changed)}; a recording must "
                f"name the commit that it ran; commit the change or remove the file first"
            )
        return Source(commit, clean=True)
    return Source(_verified_stamp(root), clean=True)


def source_or_unknown(root: Path = ROOT) -> Source:
    """Like ``source`` for a reader's own run, where a changed tree is no fault."""
    try:
        return source(root)
    except RecordError:
        return Source("unknown", clean=False)


def stamp(root: Path = ROOT) -> Path:
    """Write the stamp of a clean git tree. Raises RecordError on a dirty one."""
    if not (root / ".git").exists():
        raise RecordError(f"{root} is no git checkout: make the stamp where the commit is")
    commit = source(root).commit
    names = _git(root, "ls-files", "-z").split("\0")
    # A submodule or a link to a folder is listed too, and is no file.
    files = {name: _sha256(root / name) for name in names if (root / name).is_file()}
    path = root / STAMP
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"commit": commit, "date": now(), "files": files}
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    return path


def collect(gpu, nvrtc: str, *, own: bool = False) -> Provenance:
    """Provenance of a run on ``gpu``, a HopperGpu, of a kernel compiled by ``nvrtc``.

    ``own``: a reader's own run, for which a changed tree is allowed and marked.
    Raises RecordError when it is a recording and the tree is dirty.
    """
    import cupy
    import numpy

    from hopper.power import Nvml

    found = source_or_unknown() if own else source()
    # Looked up by attribute: `from cupy.cuda import cublas` fails in some CuPy versions.
    cublas = cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle())
    with Nvml() as nvml:
        driver, limit = nvml.driver(), nvml.power_limit_watts()
    return Provenance(
        gpu=gpu.gpu,
        sm_count=gpu.sm_count,
        driver=driver or f"CUDA {cuda_version(cupy.cuda.runtime.driverGetVersion())}",
        nvrtc=nvrtc,
        cupy=cupy.__version__,
        cublas=cublas_version(cublas),
        numpy=numpy.__version__,
        python=platform.python_version(),
        power_limit_watts=limit,
        date=now(),
        commit=found.commit,
        clean=found.clean,
    )


def cuda_version(number: int) -> str:
    """13020 → '13.2', as the CUDA runtime codes its versions."""
    return f"{number // 1000}.{number % 1000 // 10}"


def cublas_version(number: int) -> str:
    """130101 → '13.1.1', as cublasGetVersion codes its versions (11.0 and later)."""
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"


def _git(root: Path, *arguments: str) -> str:
    # safe.directory: a copied tree often belongs to another user than the one who records.
    command = ["git", "-c", f"safe.directory={root.resolve()}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True
        )
    except FileNotFoundError as error:
        raise RecordError(
            "git is not installed: a recording needs its commit; install git, or copy the tree "
            "without .git and with the stamp of python -m hopper.provenance stamp"
        ) from error
    except subprocess.CalledProcessError as error:
        raise RecordError(f"git {arguments[0]} failed in {root}: {error.stderr.strip()}") from error
    return done.stdout


def _git_state(root: Path) -> tuple[str, list[str]]:
    status = _git(root, "status", "--porcelain", "-z")
    changed = [line[3:] for line in status.split("\0") if line[2:3] == " "]
    return _git(root, "rev-parse", "HEAD").strip(), changed


def _verified_stamp(root: Path) -> str:
    path = root / STAMP
    way_out = "run python -m hopper.provenance stamp in the git checkout and copy the tree again"
    try:
        content = json.loads(path.read_text())
        commit, files = str(content["commit"]), dict(content["files"])
    except FileNotFoundError as error:
        raise RecordError(
            f"{path}: neither git nor a stamp says which commit this is; {way_out}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path}: not a stamp ({error!r}); {way_out}") from error
    for name, expected in files.items():
        if not (root / name).is_file():
            raise RecordError(f"{name} is missing, and commit {commit[:10]} has it; {way_out}")
        if _sha256(root / name) != expected:
            raise RecordError(f"{name} differs from commit {commit[:10]}; {way_out}")
    for name in _source_files(root):
        if name not in files:
            raise RecordError(f"{name} is not part of commit {commit[:10]}; {way_out}")
    return commit


def _source_files(root: Path) -> list[str]:
    ignored = ("__pycache__", ".ipynb_checkpoints")
    paths = (path for folder in SOURCES for path in (root / folder).rglob("*") if path.is_file())
    names = (path.relative_to(root) for path in paths)
    return sorted(name.as_posix() for name in names if not set(ignored) & set(name.parts))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def main(arguments: list[str]) -> int:
    """The command line above. Returns the exit status."""
    try:
        if arguments == ["stamp"]:
            print(f"wrote {stamp()}")
        elif arguments == ["show"]:
            print(f"commit {source().commit}, clean")
        else:
            print(__doc__)
            return 2
    except HopperError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
