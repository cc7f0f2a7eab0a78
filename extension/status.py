"""The status page, made by the build: records, chapters and versions as they are."""

from importlib import metadata

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.chapters import runs
from extension.freshness import note_computed
from extension.tables import table

PACKAGES = ("sphinx", "myst-nb", "sphinx-book-theme", "numpy", "matplotlib")


class ChapterStatus(nodes.General, nodes.Element):
    """Stands where the table of chapters goes until every chapter has been read."""


class StatusTable(SphinxDirective):
    """`status-table` with one argument: kernels, live, chapters or versions."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, or a placeholder for the one that needs all chapters."""
        note_computed(self.env, self.env.docname)
        makers = {"chapters": lambda: [ChapterStatus()], "versions": lambda: [versions()]}
        if self.arguments[0] not in makers:
            raise self.error(f"status-table {self.arguments[0]!r}: choose one of "
                             f"{', '.join(makers)}")
        return makers[self.arguments[0]]()


def versions() -> nodes.table:
    """The packages that made this build."""
    rows = [(name, metadata.version(name)) for name in PACKAGES]
    return table(("Package", "Version"), rows)


def fill_chapters(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace the placeholder by the executions of all chapters."""
    for node in list(doctree.findall(ChapterStatus)):
        rows = []
        for name, run in sorted(runs(app.env).items()):
            uri = app.builder.get_relative_uri(docname, name)
            title = app.env.titles[name].astext()
            link = nodes.reference("", "", nodes.Text(title), refuri=uri, internal=True)
            rows.append((link, f"{run.executed} of {run.cells}", ", ".join(run.kernels)))
        node.replace_self(table(("Chapter", "Cells run", "Kernels"), rows))


def rewrite(app: Sphinx, env) -> list[str]:
    """Write the pages with computed tables again whenever anything was read."""
    return sorted(env.book_computed_pages)


def setup(app: Sphinx) -> None:
    """Register the directive and complete its tables late."""
    app.add_node(ChapterStatus)
    app.add_directive("status-table", StatusTable)
    app.connect("doctree-resolved", fill_chapters)
    app.connect("env-updated", rewrite)
