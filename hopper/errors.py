"""What can go wrong, one class for each kind of trouble.

Every message names the value that was refused, the rule it breaks and the way out.
"""


class HopperError(Exception):
    """Base of every error that this package raises on purpose."""


class CompileError(HopperError):
    """A kernel does not compile, or compiled to something that must not be launched."""


class CacheError(HopperError):
    """The folder for compiled kernels cannot be written."""


class NoHopper(HopperError):
    """This machine cannot run a Hopper kernel; the message says why and what still works."""


class ProblemError(HopperError, ValueError):
    """A matrix, a shape or a tensor map that a kernel cannot take."""


class CheckError(HopperError, AssertionError):
    """A result is wrong."""


class RecordError(HopperError):
    """A recorded measurement is missing, stale, truncated or altered."""
