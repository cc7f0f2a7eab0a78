"""compute-sanitizer finds nothing in a kernel of the book, and finds what is planted."""

import shutil
import sys
from pathlib import Path

import pytest

from hopper import kernel_names
from hopper.processes import environment, run_group

TARGET = Path(__file__).with_name("sanitizer_target.py")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 9

pytestmark = pytest.mark.hopper


def sanitize(tool: str, target: str) -> tuple[int, str]:
    """Exit status and output of one run under a tool of compute-sanitizer."""
    assert shutil.which("compute-sanitizer"), "put the CUDA toolkit's bin folder on PATH"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(FOUND)]
    done = run_group(
        [*command, sys.executable, str(TARGET), target], timeout=240, environment=environment()
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("tool", TOOLS)
def test_the_tool_finds_a_planted_fault(tool):
    status, output = sanitize(tool, tool)
    assert status == FOUND, output


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kernel", kernel_names())
def test_a_kernel_is_clean(kernel, tool):
    status, output = sanitize(tool, kernel)
    assert status == 0, output
    assert "ERROR SUMMARY: 0 errors" in output or "RACECHECK SUMMARY: 0 hazards" in output, output
