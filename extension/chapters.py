"""What each chapter ran: counted from its executed notebook and kept in the build environment.

A chapter is a promise that its code ran. A page of chapters/ of which no cell was executed, or
which lists a kernel that does not exist, is a warning, and so an error under -W.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.util import logging

from extension.freshness import is_chapter

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChapterRun:
    """One chapter's execution: its code cells, how many of them ran, and its kernels."""

    cells: int
    executed: int
    kernels: tuple[str, ...]


def notebook_path(env: BuildEnvironment, docname: str) -> Path:
    """Where MyST-NB leaves the executed notebook of a page."""
    return Path(env.mystnb_config.output_folder) / (docname + ".ipynb")


def count_cells(notebook: dict) -> tuple[int, int]:
    """How many code cells a notebook has and how many of them were executed."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return len(cells), sum(cell["execution_count"] is not None for cell in cells)


def listed_kernels(metadata: dict[str, str]) -> tuple[str, ...]:
    """The names in the front matter key `kernels` of a page (MyST keeps it as JSON)."""
    value = metadata.get("kernels", "[]")
    return tuple(json.loads(value) if isinstance(value, str) else value)


class ChapterRuns(EnvironmentCollector):
    """Fills `env.book_chapters`, which maps a chapter's docname to its ChapterRun."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a chapter that is about to be read again or is gone."""
        runs(env).pop(docname, None)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
    ) -> None:
        """Take over what another process read."""
        found = runs(other)
        runs(env).update({name: found[name] for name in docnames if name in found})

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Count the cells of the chapter that was just read and complain where none ran."""
        docname = app.env.docname
        if not is_chapter(docname):
            return
        path = notebook_path(app.env, docname)
        notebook = json.loads(path.read_text()) if path.is_file() else {"cells": []}
        cells, executed = count_cells(notebook)
        kernels = listed_kernels(app.env.metadata[docname])
        runs(app.env)[docname] = ChapterRun(cells, executed, kernels)
        if executed == 0:
            LOGGER.warning(
                "%s: none of its %d code cells ran; a chapter must run its code. It needs "
                "'jupytext' and 'kernelspec' in its front matter and at least one {code-cell}.",
                docname,
                cells,
                location=docname,
                type="book",
                subtype="execution",
            )
        for name in kernels:
            if not (Path(app.srcdir) / "kernels" / f"{name}.cu").is_file():
                LOGGER.warning(
                    "%s: its front matter lists the kernel %r, but there is no kernels/%s.cu",
                    docname,
                    name,
                    name,
                    location=docname,
                    type="book",
                    subtype="kernel",
                )


def runs(env: BuildEnvironment) -> dict[str, ChapterRun]:
    """The chapters read so far, by docname."""
    if not hasattr(env, "book_chapters"):
        env.book_chapters = {}
    return env.book_chapters


def setup(app: Sphinx) -> None:
    """Register the collector."""
    app.add_env_collector(ChapterRuns)
