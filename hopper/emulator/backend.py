"""The emulator in the place of a GPU: the same four calls, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy

from hopper.emulator import Emulator, Run

if TYPE_CHECKING:
    from hopper.compile import Program
    from hopper.tensormap import TensorMap


@dataclass(frozen=True)
class EmulatedGpu:
    """Runs kernels by ``hopper.emulator``: a Hopper's results to the last bit, and no times.

    ``sm_count``: so many blocks a persistent kernel gets, few, that each has several tiles.
    """

    emulator: Emulator = field(default_factory=Emulator)
    sm_count: int = 6
    gpu: str = "emulator"
    name: str = "emulator"
    is_hopper: bool = False

    def array(self, host: numpy.ndarray) -> numpy.ndarray:
        """A C-contiguous copy, which stands for GPU memory."""
        return numpy.array(host, order="C")

    def numpy(self, device: numpy.ndarray) -> numpy.ndarray:
        """A copy."""
        return numpy.array(device)

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def tensor_map(self, described: TensorMap) -> TensorMap:
        """The map as a kernel argument: the emulator takes it as it is."""
        return described

    def places(self, order: str) -> tuple[int, ...]:
        """By the numbers of SMs, whatever the order: none is nearer to another here."""
        return tuple(range(self.sm_count // 2))

    def launch(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared_bytes: int,
    ) -> Run:
        """Execute ``program`` to its end; ``args`` are NumPy arrays, tensor maps, NumPy scalars.

        Raises EmulatorError: LaunchError before anything runs, Fault, Deadlock or StepLimit.
        """
        return self.emulator.launch(
            program.ptx, program.kernel, grid, block, shared_bytes=shared_bytes, args=args
        )
