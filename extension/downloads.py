"""What a chapter offers to take away: its executed notebook and its kernels.

Both are written to `downloads/` of the built site and linked below the chapter's title. They are
the same bytes on every build: cells are numbered, run times dropped, archive dates fixed.
"""

import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from extension.chapters import notebook_path, runs
from extension.freshness import is_chapter
from extension.quantities import MISSING, constant_text, recorded_text
from hopper.errors import HopperError

FOLDER = "downloads"
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip file can hold
KEPT_METADATA = {"tags", "mystnb"}
QUANTITY = re.compile(r"\{(recorded|constant)\}`([^`]+)`")


def slug(docname: str) -> str:
    """The last part of a docname: `chapters/v1_wgmma` -> `v1_wgmma`."""
    return docname.rpartition("/")[2]


def spell_quantities(text: str) -> str:
    """Replace the roles for numbers by the numbers, since Jupyter does not know these roles."""
    readers = {"recorded": recorded_text, "constant": constant_text}

    def value(match: re.Match[str]) -> str:
        try:
            return readers[match[1]](match[2])[0]
        except HopperError:  # the page itself says or warns why
            return MISSING

    return QUANTITY.sub(value, text)


def clean_notebook(notebook: dict) -> dict:
    """An executed notebook without what differs between two runs of the same code.

    Keeps sources, outputs, execution counts, the kernel's name and the tags of cells; drops
    times, random cell names and the Python version.
    """
    kernel = notebook["metadata"].get("kernelspec", {})
    cells = []
    for number, cell in enumerate(notebook["cells"]):
        kept = {key: value for key, value in cell["metadata"].items() if key in KEPT_METADATA}
        source = cell["source"]
        if cell["cell_type"] == "markdown":
            source = spell_quantities("".join(source)).splitlines(keepends=True)
        cells.append(cell | {"id": f"cell-{number}", "metadata": kept, "source": source})
    name = kernel.get("name", "python3")
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {
                "name": name,
                "display_name": kernel.get("display_name", name),
                "language": "python",
            },
            "language_info": {"name": "python", "file_extension": ".py"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write_archive(target: Path, root: Path, files: Sequence[Path]) -> None:
    """A zip of `files`, named relative to `root`, that depends on their contents alone."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())


def kernel_files(root: Path, kernels: Sequence[str]) -> list[Path]:
    """The files that compile `kernels`: themselves, every header, and the licence."""
    files = [root / "kernels" / f"{name}.cu" for name in kernels]
    files += [path for path in (root / "kernels" / "include").rglob("*") if path.is_file()]
    return files + [path for path in root.glob("LICENSE*") if path.is_file()]


def add_links(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the links to the downloads below the title of a chapter."""
    run = runs(app.env).get(docname)
    title = next(doctree.findall(nodes.title), None)
    if app.builder.format != "html" or run is None or run.executed == 0 or title is None:
        return
    up = "../" * docname.count("/")
    name = slug(docname)
    links = [(f"{name}.ipynb", "Executed notebook", "as it ran in this build")]
    if run.kernels:
        links.append((f"{name}-kernels.zip", "Kernels", "CUDA C++ with their headers"))
    line = nodes.paragraph("", "", classes=["downloads"])
    for file, text, title_text in links:
        line += nodes.reference(
            "",
            f"{text} ({file})",
            refuri=f"{up}{FOLDER}/{file}",
            internal=True,
            reftitle=title_text,
            classes=["download"],
        )
        line += nodes.Text(" ")
    title.parent.insert(title.parent.index(title) + 1, line)


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the downloads of every chapter into the built site."""
    if exception or app.builder.format != "html":
        return
    folder, root = Path(app.outdir) / FOLDER, Path(app.srcdir)
    folder.mkdir(exist_ok=True)
    for docname, run in sorted(runs(app.env).items()):
        if not is_chapter(docname) or run.executed == 0:
            continue
        source = notebook_path(app.env, docname)
        if not source.is_file():
            raise ExtensionError(
                f"{source}: the executed notebook of {docname} is gone; remove "
                "the build folder (make clean) and build again"
            )
        notebook = clean_notebook(json.loads(source.read_text()))
        text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
        (folder / f"{slug(docname)}.ipynb").write_text(text + "\n", encoding="utf-8")
        present = [name for name in run.kernels if (root / "kernels" / f"{name}.cu").is_file()]
        if present:
            write_archive(
                folder / f"{slug(docname)}-kernels.zip", root, kernel_files(root, present)
            )


def setup(app: Sphinx) -> None:
    """Connect the links and the writing of the files."""
    app.connect("doctree-resolved", add_links)
    app.connect("build-finished", write, priority=400)
