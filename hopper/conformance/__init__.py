"""Does the emulator compute what the hardware computes? Cases that both run, compared bit for bit.

A case is a kernel of ``kernels/``, inputs made from a seed, and outputs. An H200 ran each of them;
the SHA-256 of every output is in ``results/``, and a test compares the emulator's outputs with it.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy

from hopper.compile import Program, compile_cuda
from hopper.emulator import Emulator, Run
from hopper.errors import HopperError
from hopper.paths import KERNELS
from hopper.tensormap import TensorMap


@dataclass(frozen=True)
class Tiled:
    """A tensor map over an array: ``argument`` is its position among the arguments of the same
    case, or the array itself where the kernel does not take it as an argument. ``fill`` and
    ``element``: as of ``TensorMap``.
    """

    argument: int | numpy.ndarray
    box: tuple[int, ...]
    swizzle: int = 128
    fill: str = "zeros"
    element: str | None = None


@dataclass(frozen=True)
class Case:
    """One question to the hardware.

    ``source``: file below ``kernels/``; ``kernel``: its ``extern "C"`` name. ``arguments``: makes
    fresh arguments in the kernel's order: NumPy arrays, ``Tiled``, NumPy scalars. ``outputs``:
    positions of the arrays that are compared, or of a ``Tiled`` over an array of its own; they
    start as 0xFF bytes or as inputs.
    ``shared_bytes``: dynamic shared memory. The result must not depend on timing.
    """

    name: str
    source: str
    kernel: str
    arguments: Callable[[], list]
    outputs: tuple[int, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    shared_bytes: int = 0
    defines: Mapping[str, int | str] = field(default_factory=lambda: MappingProxyType({}))

    def compile(self) -> Program:
        """The compiled kernel."""
        return compile_cuda(KERNELS / self.source, self.kernel, defines=self.defines)


def blank(shape, dtype) -> numpy.ndarray:
    """An output array that starts as 0xFF bytes: an element nobody wrote shows."""
    array = numpy.empty(shape, dtype)
    array.reshape(-1).view(numpy.uint8)[:] = 0xFF
    return array


def _mapped(tiled: Tiled, values: list, move: Callable) -> TensorMap:
    """The map over what ``move`` makes of the array it names."""
    named = tiled.argument
    array = values[named] if isinstance(named, int) else move(named)
    return TensorMap(array, tiled.box, tiled.swizzle, fill=tiled.fill, element=tiled.element)


def emulate(case: Case, emulator: Emulator | None = None) -> tuple[list[numpy.ndarray], Run]:
    """Run a case in the emulator. Returns its outputs, and what the run left behind."""
    program = case.compile()
    values = case.arguments()
    args = [
        _mapped(value, values, lambda array: array) if isinstance(value, Tiled) else value
        for value in values
    ]
    run = (emulator or Emulator()).launch(
        program.ptx,
        case.kernel,
        case.grid,
        case.block,
        shared_bytes=case.shared_bytes,
        args=args,
    )
    return [_array(args[position]) for position in case.outputs], run


def _array(argument):
    """The array of an argument that is one, or a tensor map over one."""
    return argument.array if isinstance(argument, TensorMap) else argument


def run_on_gpu(case: Case, gpu) -> list[numpy.ndarray]:
    """Run a case on a Hopper GPU (``hopper.backends.HopperGpu``) and return its outputs."""
    return launch_on_gpu(case, gpu)()


def launch_on_gpu(case: Case, gpu) -> Callable[[], list[numpy.ndarray]]:
    """A function that launches a case on a Hopper GPU and returns its outputs, as often as wanted.

    Its arguments go to the GPU once; before each launch the outputs are what they were at first.
    """
    launch = launch_in_place(case, gpu)
    return lambda: [gpu.numpy(output) for output in launch()]


def launch_in_place(case: Case, gpu) -> Callable[[], list]:
    """As ``launch_on_gpu``, but the outputs stay on the GPU, until the next launch."""
    program = case.compile()
    values = case.arguments()
    there = [
        gpu.array(value) if isinstance(value, numpy.ndarray) and value.ndim else value
        for value in values
    ]
    maps = [
        _mapped(value, there, gpu.array) if isinstance(value, Tiled) else None for value in there
    ]
    outputs = [_array(maps[position] or there[position]) for position in case.outputs]
    first = [output.copy() for output in outputs]

    def launch() -> list:
        for output, array in zip(outputs, first, strict=True):
            output[...] = array
        # A map keeps its array alive, and what is encoded does not: the maps must stay.
        args = [
            gpu.tensor_map(described) if described else value
            for described, value in zip(maps, there, strict=True)
        ]
        gpu.launch(program, case.grid, case.block, args, case.shared_bytes)
        gpu.synchronize()
        return outputs

    return launch


def digest(outputs: list[numpy.ndarray]) -> list[str]:
    """SHA-256 of each output's bytes, in hexadecimal."""
    return [hashlib.sha256(numpy.ascontiguousarray(o).tobytes()).hexdigest() for o in outputs]


def units() -> list[str]:
    """Modules of this package that hold cases, sorted."""
    modules = {module.name for module in pkgutil.iter_modules(__path__)}
    return sorted(modules - {"__main__", "record"})


def cases(unit: str | None = None) -> list[Case]:
    """The cases of one unit, or of all. Raises HopperError where two have one name."""
    found: list[Case] = []
    for name in [unit] if unit else units():
        module = importlib.import_module(f"{__name__}.{name}")
        found += getattr(module, "CASES", ())
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise HopperError(f"two cases are called {sorted(twice)[0]}: give each a name of its own")
    return found
