"""Decide which pages an incremental build reads again.

MyST-NB looks at the text of a page only. A chapter also depends on every kernel, on the `hopper`
package, on the records and on the installed packages, so a digest of all of them is kept in the
build environment: when it changes, every page that shows something computed is read again.
A build that warned or failed leaves no environment behind, so its warnings cannot be forgotten.
"""

import hashlib
import logging
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector

FOLDERS = ("hopper", "kernels", "results", "extension", "examples", "_static")
IGNORED_FOLDERS = {"__pycache__"}


def digest(root: Path, folders: Iterable[str] = FOLDERS) -> str:
    """SHA-256 (hex) of the names and contents of every file below `folders` of `root`.

    A folder that does not exist counts as empty. Editor and byte-code folders do not count.
    """
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_dir() or IGNORED_FOLDERS & set(path.parts):
                continue
            total.update(path.relative_to(root).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def installed() -> str:
    """SHA-256 (hex) of the names and versions of the installed packages."""
    names = sorted({f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()})
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def is_chapter(docname: str) -> bool:
    """Whether a page is a chapter, that is a notebook whose cells must run."""
    return docname.startswith("chapters/")


def note_computed(env: BuildEnvironment, docname: str) -> None:
    """Record that a page outside chapters/ shows computed values and depends on the digest."""
    env.book_computed_pages.add(docname)


def read_again(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """The pages to read because something they compute from has changed."""
    now = digest(Path(app.srcdir)) + installed()
    before, env.book_digest = getattr(env, "book_digest", None), now
    if before == now:
        return []
    pages = {name for name in env.found_docs if is_chapter(name)} | env.book_computed_pages
    return sorted(pages & set(env.found_docs))


class ComputedPages(EnvironmentCollector):
    """Keeps `env.book_computed_pages` right when pages go or are read by several processes."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a page that is about to be read again or is gone."""
        env.book_computed_pages.discard(docname)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment
    ) -> None:
        """Take over what another process found."""
        env.book_computed_pages |= other.book_computed_pages & set(docnames)

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Nothing: roles and directives call `note_computed` themselves."""


class WarningSeen(logging.Handler):
    """Notes whether this build has warned."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.seen = False

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the warning; Sphinx prints it."""
        self.seen = True


def start(app: Sphinx) -> None:
    """Give the environment its attribute and watch for warnings."""
    if not hasattr(app.env, "book_computed_pages"):
        app.env.book_computed_pages = set()
    app.book_warnings = WarningSeen()
    logging.getLogger("sphinx").addHandler(app.book_warnings)


def forget_after_warning(app: Sphinx, exception: Exception | None) -> None:
    """Delete the saved environment of a build that warned or failed: it must read all again."""
    logging.getLogger("sphinx").removeHandler(app.book_warnings)
    if app.book_warnings.seen or exception:
        (Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.connect("builder-inited", start)
    app.add_env_collector(ComputedPages)
    app.connect("env-get-outdated", read_again)
    app.connect("build-finished", forget_after_warning, priority=999)
