"""Sphinx extension of the book: numbers from records, downloads, status page, checks."""

from sphinx.application import Sphinx

from extension import (
    access,
    attempts,
    chapters,
    downloads,
    emulator,
    error_index,
    folded,
    freshness,
    kernel,
    ladder,
    pagecheck,
    quantities,
    staticfolder,
    status,
    tma_tables,
    wgmma_tables,
)

PARTS = (
    staticfolder,
    kernel,
    freshness,
    quantities,
    chapters,
    downloads,
    emulator,
    error_index,
    folded,
    attempts,
    ladder,
    status,
    tma_tables,
    wgmma_tables,
    access,
    pagecheck,
)


def setup(app: Sphinx) -> dict[str, object]:
    """Connect every part of the extension; each module documents what it does."""
    for part in PARTS:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
