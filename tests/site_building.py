"""Build the book, or a small book of a test's own, the way `make html` does."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hopper.paths import ROOT

CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("*.md"))
PAGES = sorted(
    ["index", "search"]
    + [f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")]
    + [f"chapters/{slug}" for slug in CHAPTERS]
)

# A GPU makes timings live, and no two runs of those are alike; live chapters have their own test.
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}

CONF = """
extensions = ["myst_nb", "extension"]
html_theme = "alabaster"
exclude_patterns = ["hopper", "kernels", "results"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
"""

FRONT_MATTER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  name: python3
  display_name: Python 3
kernels: [{kernels}]
---

"""


@dataclass(frozen=True)
class Site:
    """One run of Sphinx: the folder of the pages, the exit status and all that was printed."""

    folder: Path
    status: int
    log: str


def build(source: Path, target: Path, *options: str) -> Site:
    """Build `source` into `target`/html, with every warning an error."""
    command = [
        *(sys.executable, "-m", "sphinx", "-b", "html", "--jobs", "auto"),
        *("--nitpicky", "--fail-on-warning", "--keep-going", *options),
        *("-d", str(target / "doctrees"), str(source), str(target / "html")),
    ]
    environment = os.environ | NO_GPU | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return Site(target / "html", done.returncode, done.stdout)


def build_book(target: Path) -> Site:
    """Build the book so that one failing chapter does not keep the other pages from being tested.

    A failing cell is then a warning instead of an exception; under -W the status is 1 either way.
    """
    return build(ROOT, target, "-D", "nb_execution_raise_on_error=0")


def shared_book(target: Path) -> Site:
    """The book of this session: whoever comes first builds it, and the others wait for that."""
    target.mkdir(exist_ok=True)
    ended = target / "ended.json"
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ended.exists():
            made = build_book(target)
            ended.write_text(json.dumps([made.status, made.log]))
    return Site(target / "html", *json.loads(ended.read_text()))


def small_book(folder: Path, chapter: str, kernels: str = "") -> Path:
    """Write a book of a cover and one chapter, `chapters/one.md`; returns its folder."""
    return book_of(folder, {"one": chapter}, kernels)


def book_of(folder: Path, chapters: Mapping[str, str], kernels: str = "") -> Path:
    """Write a book of a cover and chapters, by name; returns its folder."""
    (folder / "chapters").mkdir(parents=True)
    (folder / "conf.py").write_text(CONF)
    (folder / "index.md").write_text("# Cover\n\n```{toctree}\n:glob:\n\nchapters/*\n```\n")
    front = FRONT_MATTER.format(kernels=kernels)
    for name, text in chapters.items():
        (folder / "chapters" / f"{name}.md").write_text(front + text)
    return folder
