"""Pages of a test's own with nothing but figures: written, visited, and a notebook's way."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from browsing import Visit
from playwright.sync_api import Browser, Page

from hopper.paths import ROOT

STYLES = "".join((ROOT / "_static" / name).read_text() for name in ("palette.css", "book.css"))
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{styles}
body {{ margin: 16px; max-width: 760px; color: var(--wb-ink);
background: var(--wb-paper) }}</style>
<script>document.documentElement.dataset.theme =
matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";</script></head>
<body><main class="bd-article"><h1>{title}</h1>{figures}</main></body></html>"""
# JupyterLab sets an output's HTML and makes its scripts anew, before it attaches them.
INSERT = """html => {
    const host = document.createElement("div");
    host.innerHTML = html;
    for (const old of [...host.querySelectorAll("script")]) {
        const made = document.createElement("script");
        for (const { name, value } of old.attributes) made.setAttribute(name, value);
        made.textContent = old.textContent;
        old.replaceWith(made);
    }
    document.getElementById("output").append(host);
}"""


def write_pages(folder: Path, title: str, shown: Sequence[str]) -> Path:
    """``page.html`` with the HTML of all figures, and what ``as_a_notebook`` needs."""
    for name, body in (("page", "".join(shown)), ("empty", '<div id="output"></div>')):
        text = PAGE.format(title=title, styles=STYLES, figures=body)
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    (folder / "output.html").write_text(shown[0], encoding="utf-8")
    return folder


@contextmanager
def visiting(browser: Browser, folder: Path) -> Iterator[Callable[..., Visit]]:
    """Opens visits of a folder's pages; at the end none of them may have complained."""
    opened: list[Visit] = []

    def start(**options) -> Visit:
        opened.append(Visit(browser, folder, **options))
        return opened[-1]

    yield start
    for one in opened:
        assert one.complaints == []
        one.context.close()


def as_a_notebook(page: Page, folder: Path) -> None:
    """Insert the first figure into ``empty.html`` the way a notebook does."""
    page.evaluate(INSERT, (folder / "output.html").read_text(encoding="utf-8"))
