"""An emulator for tests of single instructions: it executes, and does not judge the kernel."""

from hopper.emulator import Emulator


def unwatched(**how) -> Emulator:
    """For kernels that are written to show one instruction, and break rules around it."""
    return Emulator(on_hazard="ignore", **how)
