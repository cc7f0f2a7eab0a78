"""Run a command with a time limit that its children obey too."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from hopper.paths import ROOT


def environment(**extra: str) -> dict[str, str]:
    """This process's environment in which ``import hopper`` finds this very package."""
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": python_path, **extra}


def run_group(
    command: Sequence[str],
    *,
    timeout: float,
    environment: Mapping[str, str],
    capture: bool = True,
) -> subprocess.CompletedProcess:
    """Run a command in a session of its own; when time is up, all of the session is killed.

    ``capture``: keep its output as text, else let it through. Raises FileNotFoundError, and
    subprocess.TimeoutExpired after ``timeout`` seconds. A profiler or a notebook starts processes
    that would otherwise live on and hold the GPU.
    """
    pipe = subprocess.PIPE if capture else None
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out or "", err or "")
