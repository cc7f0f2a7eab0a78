"""The commands: locks, the virtual environment, refusals, notebooks that survive JupyterLab."""

import difflib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jupyter_server.services.contents.largefilemanager import LargeFileManager
from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements", "requirements-cuda12")
CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("*.md"))


# -- Locks ---------------------------------------------------------------------------------------


def asked_for(path: Path) -> list[Requirement]:
    """The requirements of an .in file and of the files it includes."""
    found = []
    for line in path.read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("-r "):
            found += asked_for(path.parent / line.removeprefix("-r ").strip())
        elif line and not line.startswith("-c "):
            found.append(Requirement(line))
    return found


def locked(path: Path) -> dict[Requirement, list[str]]:
    """The requirements of a lock, each with its hashes."""
    found: dict[Requirement, list[str]] = {}
    hashes: list[str] = []
    for line in path.read_text().splitlines():
        line = line.partition("#")[0].strip().removesuffix("\\").strip()
        if line.startswith("--hash="):
            hashes.append(line.removeprefix("--hash="))
        elif line:
            hashes = found[Requirement(line)] = []
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_lock_holds_all_that_is_asked_for(name):
    pins = locked(ROOT / f"{name}.txt")
    for wanted in asked_for(ROOT / f"{name}.in"):
        versions = [
            next(iter(pin.specifier)).version
            for pin in pins
            if canonicalize_name(pin.name) == canonicalize_name(wanted.name)
        ]
        assert versions, f"{wanted} is not in {name}.txt: run `make lock`"
        assert all(version in wanted.specifier for version in versions), (wanted, versions)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_one_version_with_hashes(name):
    for pin, hashes in locked(ROOT / f"{name}.txt").items():
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", value) for value in hashes), pin


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_host_and_no_path(name):
    text = (ROOT / f"{name}.txt").read_text() + (ROOT / f"{name}.in").read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|(^|\s)/\w", text)


def test_locks_differ_in_cuda_only():
    pins = [{str(pin) for pin in locked(ROOT / f"{name}.txt")} for name in LOCKS]
    assert {pin.partition("==")[0] for pin in pins[0] ^ pins[1]} == {
        "cupy-cuda13x",
        "cupy-cuda12x",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-nvrtc-cu12",
    }


def test_installed_packages_are_those_of_the_lock():
    cuda12 = Path(sys.prefix).name.endswith("cuda12")
    for pin in locked(ROOT / f"{LOCKS[cuda12]}.txt"):
        if pin.marker is None or pin.marker.evaluate():
            assert importlib.metadata.version(pin.name) in pin.specifier, pin


# -- Commands ------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the commands consist of, with a lock that installs nothing."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    (tmp_path / "chapters").mkdir()
    for name in ("first", "second"):
        (tmp_path / "chapters" / f"{name}.md").touch()
    (tmp_path / "bin").mkdir()
    for tool in "sh make git cat cksum flock grep head id mkdir rm sed tail test uname".split():
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def program(checkout: Path, name: str, body: str) -> None:
    """Put a shell script on the PATH of `make`, in the place of a tool of that name."""
    path = checkout / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(f"#!{shutil.which('sh')}\n{body}\n")
    path.chmod(0o755)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make with nothing on PATH but the checkout's bin, and none of our own make's settings."""
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "HOME"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=checkout,
        env=kept | {"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        timeout=120,
    )


def refusal(run: subprocess.CompletedProcess[str]) -> str:
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    return run.stderr


@pytest.mark.parametrize("system", ["Darwin", "MINGW64_NT-10.0-22631"])
def test_other_systems_are_sent_to_linux(checkout, system):
    program(checkout, "uname", f"echo {system}")
    message = refusal(make(checkout, "html"))
    assert f"This is {system}" in message
    assert "Use Linux, WSL2, or a container; the published site works everywhere." in message
    assert not (checkout / ".venv").exists()


def test_missing_git_is_named(checkout):
    (checkout / "bin" / "git").unlink()
    assert "git is missing" in refusal(make(checkout, "html"))


def test_no_python_at_all(checkout):
    message = refusal(make(checkout, "html"))
    assert "needs Python 3.11, 3.12 or 3.13; python3 on PATH is missing" in message


@pytest.mark.parametrize("version", ["3.9.2", "3.10.13", "3.14.0"])
def test_other_pythons_are_refused_with_their_version(checkout, version):
    program(checkout, "python3", f"echo {version}; exit 1")
    assert f"python3 on PATH is {version}" in refusal(make(checkout, "html"))
    message = refusal(make(checkout, "html", "PYTHON=python3"))
    assert f"PYTHON=python3 is Python {version}; the book needs" in message
    assert "PYTHON=absent does not run" in refusal(make(checkout, "html", "PYTHON=absent"))


def test_python_without_venv_names_the_package(checkout):
    program(
        checkout,
        "python3",
        f'case "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"',
    )
    message = refusal(make(checkout, "html"))
    assert "python3 cannot make virtual environments" in message
    assert "sudo apt install python3-venv" in message


def test_environment_is_made_once_and_follows_its_lock(checkout):
    base = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    (checkout / "bin" / base.name).symlink_to(base)
    first = make(checkout, "venv")
    assert first.returncode == 0, first.stderr
    assert f"Making .venv with {base.name}" in first.stdout

    again = make(checkout, "venv")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")

    (checkout / "hopper").mkdir()
    (checkout / "hopper" / "__init__.py").write_text("here = __file__")
    elsewhere = subprocess.run(
        [checkout / ".venv/bin/python", "-c", "import hopper; print(hopper.here)"],
        cwd=checkout / "chapters",
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == str(checkout.resolve() / "hopper" / "__init__.py")

    (checkout / "requirements.txt").write_text("# still nothing\n")
    assert "Installing requirements.txt" in make(checkout, "venv").stdout

    (checkout / "requirements.txt").write_text("numpy==2.0.0\n")  # no hash: pip must say no
    message = refusal(make(checkout, "venv"))
    assert "hash" in message.lower() and "could not be installed" in message
    assert refusal(make(checkout, "venv")), "a failed installation must not pass for a finished one"


def test_unknown_chapter_lists_the_chapters(checkout):
    for arguments in (["page", "CHAPTER=nope"], ["page"]):
        message = refusal(make(checkout, *arguments))
        assert "names no chapter. There are: first second" in message
    assert not (checkout / ".venv").exists()


def test_unknown_cuda_is_refused(checkout):
    assert "there are locks for CUDA 12 and CUDA 13" in refusal(make(checkout, "html", "CUDA=11"))


def test_record_runs_the_named_python_without_an_environment(checkout):
    program(checkout, "mypython", 'echo "ran: $*"')
    run = make(checkout, "record", "OUT=my folder", "PYTHON=mypython")
    assert run.stdout == "ran: -m hopper.recording --out my folder\n"
    assert not (checkout / ".venv").exists()
    assert "make record OUT=folder" in refusal(make(checkout, "record"))


def test_pages_name_only_commands_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "chapters").glob("*.md")]
    for page in pages:
        named = re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page.name


def test_readme_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


# -- Automatic runs ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=str)
def test_workflows_pin_their_actions_and_may_only_read(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    used = [
        step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert used and all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        ("@pytest.mark.hopper\ndef test_it(): pytest.skip('no GPU')", True),
        ("def test_it(): pytest.skip('no browser')", False),
        ("pytest.importorskip('no_such_module')", False),
    ],
    ids=["needs a GPU", "needs none", "whole module"],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_only_a_test_that_needs_a_gpu_may_be_skipped(tmp_path, source, passes, workers):
    (tmp_path / "test_skip.py").write_text(f"import pytest\ndef test_runs(): pass\n{source}\n")
    (tmp_path / "test_runs.py").write_text("def test_runs(): pass\n")
    options = [
        "-q",
        "-p",
        "tests.no_skips",
        "-p",
        "no:cacheprovider",
        f"-n{workers}",
        "-c",
        ROOT / "pyproject.toml",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
    )
    assert (run.returncode == 0) == passes, run.stdout
    assert ("skipped without needing a Hopper GPU" in run.stdout) != passes


# -- JupyterLab ----------------------------------------------------------------------------------

SYNTHETIC = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernels: [v1_wgmma]
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

# A chapter

```{code-cell} ipython3
:tags: [hide-input]

1 + 1
```

:::{note}
A note, and a role: {recorded}`v1_wgmma tflops`.
:::

```{code-cell} ipython3
---
mystnb:
  image:
    alt: A bar for each tile
tags: [remove-input]
---
2 + 2
```
"""


def save_as_jupyterlab_does(folder: Path, name: str) -> int:
    """Open a chapter, run and save it as JupyterLab does; returns its number of code cells."""
    manager = build_sync_jupytext_contents_manager_class(LargeFileManager)(root_dir=str(folder))
    path = f"chapters/{name}.md"
    notebook = manager.get(path, type="notebook", content=True)["content"]
    notebook["metadata"]["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook["metadata"]["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        cell["execution_count"] = 1
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "ran"}]
        cell["metadata"] |= {"trusted": True, "collapsed": False, "execution": {"shell": "now"}}
    manager.save({"type": "notebook", "format": "json", "content": notebook}, path)
    return len(cells)


@pytest.mark.parametrize("name", ["a synthetic one", *CHAPTERS])
def test_chapter_survives_jupyterlab_byte_for_byte(tmp_path, name):
    source = SYNTHETIC if name not in CHAPTERS else (ROOT / f"chapters/{name}.md").read_text()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "chapters").mkdir()
    chapter = tmp_path / "chapters" / f"{name}.md"
    chapter.write_text(source)
    assert save_as_jupyterlab_does(tmp_path, name) > 0
    lines = difflib.unified_diff(source.splitlines(), chapter.read_text().splitlines(), lineterm="")
    assert chapter.read_text() == source, "\n".join(lines)


def test_jupyterlab_opens_chapters_as_notebooks():
    overrides = json.loads(
        Path(sys.prefix, "share/jupyter/lab/settings/overrides.json").read_text()
    )
    viewers = overrides["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]
    extension = Path(sys.prefix, "share/jupyter/labextensions/jupyterlab-jupytext/static")
    assert any(viewers["markdown"] in script.read_text() for script in extension.glob("*.js"))
