"""What stops an emulated kernel. Each message names the instruction, the threads and the rule."""

from hopper.errors import HopperError


class EmulatorError(HopperError):
    """Base of every error of the emulator."""


class PtxError(EmulatorError):
    """PTX that cannot be read: a missing entry, another target, a statement of unknown form."""


class Unsupported(EmulatorError):
    """An instruction that the emulator does not execute. It never guesses."""


class LaunchError(EmulatorError, ValueError):
    """Grid, block, cluster, shared memory or arguments that the kernel cannot be launched with."""


class Fault(EmulatorError):
    """An instruction did what the hardware forbids: a wild address, a broken alignment."""


class Deadlock(EmulatorError):
    """Every living warp waits and nothing is under way that could wake one."""


class StepLimit(EmulatorError):
    """The kernel executed more instructions than it was allowed to."""
