"""The units that execute instructions: importing one enters its instructions."""

from hopper.emulator import (
    addresses,  # noqa: F401
    barriers,  # noqa: F401
    control,  # noqa: F401
    fences,  # noqa: F401
    mbarrier,  # noqa: F401
    memory,  # noqa: F401
    warps,  # noqa: F401
)
