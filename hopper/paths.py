"""Where things lie: the book's folders and the reader's cache."""

import os
import tempfile
from pathlib import Path

from hopper.errors import CacheError

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
INCLUDE = KERNELS / "include"
RESULTS = ROOT / "results"


def cache_dir() -> Path:
    """The folder for compiled kernels and the reader's own measurements, created when missing.

    It is ``$HOPPER_CACHE``, or else ``wgmma-book`` in the XDG cache folder.
    Raises CacheError when nothing can be written there.
    """
    chosen = os.environ.get("HOPPER_CACHE")
    if chosen:
        folder = Path(chosen).expanduser()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wgmma-book"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder to expand ~ with
        raise CacheError(
            f"{folder}: the cache of compiled kernels must be a folder that you can write "
            f"({error}); set HOPPER_CACHE to one"
        ) from error
    return folder.resolve()
