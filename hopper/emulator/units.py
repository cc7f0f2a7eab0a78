"""The units that execute instructions: importing one enters its instructions."""

from hopper.emulator import control  # noqa: F401
