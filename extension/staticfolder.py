"""Makes the output's _static a folder before anything is copied there.

When a build fails before its static files are written, the theme still copies its logo to
``_static``; without a folder of that name it becomes a file, and every later build fails on it.
"""

from pathlib import Path

from sphinx.application import Sphinx


def ensure(app: Sphinx) -> None:
    """Create ``_static`` in the output folder, in place of a file of that name."""
    folder = Path(app.outdir) / "_static"
    if folder.is_file():
        folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def setup(app: Sphinx) -> None:
    """Connect to the start of every build."""
    app.connect("builder-inited", ensure)
