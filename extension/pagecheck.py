"""Check the built pages: text alternatives, internal links, nothing loaded from elsewhere.

Sphinx checks references that it makes itself. This looks at the HTML that a reader gets, so it
also sees what cells, figures and templates wrote.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

from extension.freshness import is_chapter

LOGGER = logging.getLogger(__name__)
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "use": "href",
    "image": "href",
}
LOADED_RELATIONS = {
    "stylesheet",
    "preload",
    "icon",
    "manifest",
    "modulepreload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "apple-touch-icon",
}


@dataclass(frozen=True)
class Problem:
    """Something wrong in one page, named relative to the site's folder."""

    page: str
    text: str


class Page(HTMLParser):
    """Collects the targets, links and loads of one page, and the faults of single elements."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Sort one element's attributes into the collections."""
        found = {name: value or "" for name, value in attributes}
        if "id" in found:
            self.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "script" and found.get("type") == "module":
            self.faults.append("a module script, which browsers refuse to a page on disk")
        if tag in LOADED:
            self.loads.extend(
                found[name] for name in (LOADED[tag], "xlink:href") if found.get(name)
            )
        if tag == "link" and LOADED_RELATIONS & set(found.get("rel", "").split()):
            self.loads.append(found.get("href", ""))
        self.check_name(tag, found)

    def check_name(self, tag: str, found: dict[str, str]) -> None:
        """Note an image or drawing that has no text alternative."""
        hidden = found.get("aria-hidden") == "true"
        named = bool(found.get("aria-label", "").strip() or found.get("aria-labelledby"))
        if tag == "img" and not hidden and not found.get("alt", "").strip():
            self.faults.append(f"img {found.get('src', '')[:60]!r} has no alt text")
        if tag == "img" and found.get("alt") and found["alt"] == found.get("src"):
            self.faults.append(f"img {found['src'][:60]!r} has its path for an alt text")
        if tag == "svg" and not hidden and not (named and found.get("role") == "img"):
            self.faults.append('svg has neither role="img" with aria-label nor aria-hidden')


def read(path: Path) -> Page:
    """Parse one page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def is_external(address: str) -> bool:
    """Whether an address leaves the site: another host, or another scheme."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in {"", "data"}


def link_problem(site: Path, file: Path, address: str, pages: dict[Path, Page]) -> str | None:
    """Why an internal link does not lead anywhere, or None."""
    parts = urlsplit(address)
    if is_external(address) or parts.scheme == "data":
        return None
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file.resolve()
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"link {address!r}: there is no {target.name} there"
    if not target.is_relative_to(site.resolve()):
        return f"link {address!r} leaves the site's folder"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return f"link {address!r}: {target.name} has no element of that id"
    return None


def check_site(site: Path, ignored: Iterable[str] = ("genindex.html",)) -> list[Problem]:
    """Every problem of the pages below `site`, in the order of their paths."""
    files = [
        path
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.relative_to(site).parts and path.name not in ignored
    ]
    pages = {file.resolve(): read(file) for file in files}
    problems = []
    for file in files:
        page, name = pages[file.resolve()], file.relative_to(site).as_posix()
        texts = list(page.faults)
        texts += [
            f"loads {load[:80]!r}, which is not part of the site"
            for load in page.loads
            if is_external(load)
        ]
        texts += [
            problem for link in page.links if (problem := link_problem(site, file, link, pages))
        ]
        problems += [Problem(name, text) for text in dict.fromkeys(texts)]
    return problems


def warn(app: Sphinx, exception: Exception | None) -> None:
    """Report every problem as a warning, so that -W fails the build.

    A build of one chapter alone is not checked: its links lead to pages that were left out.
    """
    if exception or app.builder.name != "html" or is_chapter(app.config.root_doc):
        return
    for problem in check_site(Path(app.outdir)):
        LOGGER.warning("%s: %s", problem.page, problem.text, type="book", subtype="page")


def setup(app: Sphinx) -> None:
    """Check when everything is written, the downloads included."""
    app.connect("build-finished", warn, priority=900)
