"""Chapters as notebooks: their code cells, the kernels these name, and a live execution.

A chapter is MyST text that Jupytext reads as a notebook, in JupyterLab and here. What was executed
is identified by the hash of its code cells, so a change of prose does not make a run stale.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopper.compile import kernel_names
from hopper.errors import RecordError
from hopper.paths import ROOT
from hopper.processes import environment
from hopper.schema import Output

CHAPTERS = ROOT / "chapters"
CELL_SECONDS = 180
_KERNEL_SPEC = "wgmma-book"


def chapter_slugs() -> list[str]:
    """Every chapter, by file name."""
    return sorted(path.stem for path in CHAPTERS.glob("*.md"))


def read_chapter(slug: str):
    """The chapter as a notebook (nbformat). Raises RecordError without it or without Jupytext."""
    path = CHAPTERS / f"{slug}.md"
    if not path.is_file():
        raise RecordError(
            f"{slug}: there is no such chapter; there are {', '.join(chapter_slugs()) or '(none)'}"
        )
    try:
        import jupytext
    except ImportError as error:
        raise RecordError(
            f"chapters/{slug}.md cannot be read as a notebook ({error}); pip install jupytext"
        ) from error
    return jupytext.read(path)


def code_cells(slug: str) -> list[str]:
    """Sources of a chapter's code cells, in order."""
    return [cell.source for cell in read_chapter(slug).cells if cell.cell_type == "code"]


def code_sha256(cells: list[str]) -> str:
    """Hash of what a chapter executes."""
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def kernels_named(cells: list[str]) -> list[str]:
    """The kernels of the book that the code names in a string, in kernel order.

    A word outside of strings is no kernel's name: ``ceiling=`` is an argument of a plot.
    """
    code = "\n".join(cells)
    return [name for name in kernel_names() if re.search(rf"[\"']{re.escape(name)}\b", code)]


def main_kernel(slug: str, kernels: list[str]) -> str:
    """The kernel whose record holds the chapter's run: its namesake, else the first it names."""
    return slug if slug in kernels else kernels[0]


def execute(slug: str) -> tuple[list[Output], int, float]:
    """Run a chapter top to bottom in a fresh IPython kernel, in the folder chapters/.

    The path is the one JupyterLab takes: Jupytext, then a kernel process spoken to by messages.
    Returns the text outputs, the number of code cells and the seconds. Raises RecordError without
    nbclient or when a cell raises.
    """
    try:
        import nbclient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    except ImportError as error:
        raise RecordError(
            f"chapters/{slug}.md cannot be executed ({error}); pip install nbclient ipykernel"
        ) from error
    notebook = read_chapter(slug)
    with tempfile.TemporaryDirectory() as folder:
        _write_kernel_spec(Path(folder))
        client = nbclient.NotebookClient(
            notebook,
            timeout=CELL_SECONDS,
            kernel_name=_KERNEL_SPEC,
            resources={"metadata": {"path": str(CHAPTERS)}},
        )
        start = time.monotonic()
        # A kernel of that name installed elsewhere could start another Python: ours comes first.
        with _variable("JUPYTER_PATH", folder):
            try:
                client.execute(env=environment())
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                raise RecordError(f"chapters/{slug}.md does not run: {error}") from error
        seconds = time.monotonic() - start
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return text_outputs(cells), len(cells), seconds


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _write_kernel_spec(folder: Path) -> None:
    spec = folder / "kernels" / _KERNEL_SPEC / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    content = {"argv": command, "display_name": "recording", "language": "python"}
    spec.write_text(json.dumps(content))


def text_outputs(cells) -> list[Output]:
    """What executed code cells printed or showed as plain text; pictures and HTML are left out."""
    found = []
    for number, cell in enumerate(cells, start=1):
        for output in cell.outputs:
            if output.output_type == "stream":
                found.append(Output(number, output.name, output.text))
            elif "text/plain" in output.get("data", {}):
                found.append(Output(number, "text/plain", output.data["text/plain"]))
    return found
