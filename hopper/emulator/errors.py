"""What stops an emulated kernel. Each message names the instruction, the threads and the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hopper.errors import HopperError

if TYPE_CHECKING:
    from hopper.emulator.hazards import Hazard


class EmulatorError(HopperError):
    """Base of every error of the emulator."""


class PtxError(EmulatorError):
    """PTX that cannot be read: a missing entry, another target, a statement of unknown form."""


class Unsupported(EmulatorError):
    """An instruction that the emulator does not execute. It never guesses."""


class LaunchError(EmulatorError, ValueError):
    """Grid, block, cluster, shared memory or arguments that the kernel cannot be launched with."""


class Stopped(EmulatorError):
    """Base of what ends a run in the middle.

    ``kind``: the rule, a key of ``hazards.KINDS``. ``hazard``: the same as a hazard, with lines
    and threads; the machine adds it.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.hazard: Hazard | None = None


class Fault(Stopped):
    """An instruction did what the hardware forbids: a wild address, a broken alignment."""

    def __init__(self, message: str, kind: str = "fault") -> None:
        super().__init__(message, kind)


class Deadlock(Stopped):
    """Every living warp waits and nothing is under way that could wake one."""

    def __init__(self, message: str, kind: str = "deadlock") -> None:
        super().__init__(message, kind)


class StepLimit(Stopped):
    """The kernel executed more instructions than it was allowed to, or is seen never to end."""

    def __init__(self, message: str, kind: str = "never-ends") -> None:
        super().__init__(message, kind)
