"""Run the chapters in IPython as it comes, whatever the reader's own profile says.

A start-up file or a setting in ~/.ipython could change what a page shows, so the kernels of a
build get an empty profile of their own beside the built site.
"""

import os
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxParallelError
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
# Of its messages, ipykernel prints a warning at each start that its ports are not encrypted;
# they are on the loopback interface and every message is signed.
# What a cell prints is sent when the cell ends. Sent every 0.2 s, as usual, it would come in pieces
# whose number depends on how long the cell compiled, and two builds of one commit would differ.
SETTINGS = """\
c.IPKernelApp.log_level = "ERROR"
from ipykernel.iostream import OutStream
OutStream.flush_interval = 3600
"""


def use_empty_profile(app: Sphinx) -> None:
    """Write the profile and point the kernels of this build to it."""
    folder = Path(app.outdir).parent / "ipython"
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(SETTINGS)
    os.environ["IPYTHONDIR"] = str(folder)


def reason(exception: Exception) -> str:
    """What failed inside a page, of which Sphinx would show the page's name alone.

    Where pages are read by several processes, the cause arrives as the text of a traceback.
    """
    if isinstance(exception, SphinxParallelError):
        _, _, cause = exception.traceback.partition("CellExecutionError: ")
        return cause.partition("\nThe above exception was")[0] or exception.traceback
    return str(exception.__cause__ or "")


def show_failed_cell(app: Sphinx, exception: Exception | None) -> None:
    """Print the cell that stopped the build, and its traceback."""
    if exception is not None and (text := reason(exception)):
        LOGGER.error("%s\n%s", exception, text)


def setup(app: Sphinx) -> None:
    """Prepare the profile before anything is read."""
    app.connect("builder-inited", use_empty_profile)
    app.connect("build-finished", show_failed_cell)
