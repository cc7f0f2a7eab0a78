"""The units that execute instructions: importing one enters its instructions."""

from hopper.emulator import barriers  # noqa: F401
from hopper.emulator import control  # noqa: F401
from hopper.emulator import mbarrier  # noqa: F401
from hopper.emulator import warps  # noqa: F401
