"""Sphinx extension of the book: numbers from records, downloads, status page, checks."""

from sphinx.application import Sphinx

from extension import chapters, downloads, freshness, pagecheck, quantities, status


def setup(app: Sphinx) -> dict[str, object]:
    """Connect every part of the extension; each module documents what it does."""
    for part in (freshness, quantities, chapters, downloads, status, pagecheck):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
