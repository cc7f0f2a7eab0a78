"""What runs a kernel: a Hopper GPU through CuPy where there is one, the emulator elsewhere.

A look at the machine (``look``) is apart from the verdict about it (``refusal``), so that every
verdict can be read and tested on a machine without a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy

from hopper.arrays import memory_of
from hopper.compile import Program
from hopper.errors import NoHopper
from hopper.overlap import launch_overlapping

if TYPE_CHECKING:
    from hopper.emulator.backend import EmulatedGpu
    from hopper.tensormap import TensorMap

STILL_WORKS = "Kernels run in the emulator here, and timings come from the recorded H200."
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _SM_COUNT = 75, 76, 16  # CUdevice_attribute


class Backend(Protocol):
    """What runs a compiled kernel. ``gpu``: its name for beside a result."""

    gpu: str
    sm_count: int
    name: str
    is_hopper: bool

    def array(self, host: numpy.ndarray) -> Any:
        """A copy in the memory that kernels work on."""
        ...

    def numpy(self, device: Any) -> numpy.ndarray:
        """A copy in host memory, when the kernels launched before are done."""
        ...

    def tensor_map(self, described: TensorMap) -> Any:
        """A tensor map as a kernel argument."""
        ...

    def places(self, order: str) -> tuple[int, ...]:
        """A number for each pair of SMs, by where it lies; orders as in hopper.chip."""
        ...

    def launch(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared_bytes: int,
    ) -> Any:
        """Start ``program`` on a grid of blocks; ``shared_bytes`` is dynamic shared memory."""
        ...


@dataclass(frozen=True)
class Device:
    """One GPU as the driver describes it."""

    name: str
    capability: tuple[int, int]
    sm_count: int = 0


@dataclass(frozen=True)
class Look:
    """What was seen of this machine.

    ``toolkit``: CUDA major version CuPy was built for, None without a usable CuPy.
    ``driver``: CUDA version the driver supports, such as (13, 0); None without a driver.
    ``cu_init``: what starting the driver returned, 0 for success.
    """

    toolkit: int | None
    driver: tuple[int, int] | None = None
    cu_init: int = 0
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class HopperGpu:
    """The first GPU of this process, compute capability 9.0, through CuPy."""

    gpu: str
    sm_count: int
    name: str = "Hopper GPU"
    is_hopper: bool = True

    def array(self, host: numpy.ndarray):
        """A copy in GPU memory, as a CuPy array."""
        import cupy

        return cupy.asarray(host)

    def numpy(self, device) -> numpy.ndarray:
        """A copy in host memory; waits for the kernels that were launched before."""
        import cupy

        return cupy.asnumpy(device)

    def synchronize(self) -> None:
        """Wait until every launched kernel has finished. Errors of a kernel surface here."""
        import cupy

        cupy.cuda.Device().synchronize()

    def tensor_map(self, described: TensorMap) -> numpy.void:
        """The map's 128 bytes, encoded by the driver."""
        return described.encode()

    def places(self, order: str) -> tuple[int, ...]:
        """A number for each pair of SMs; the chip is looked at once in a process."""
        from hopper import chip  # which compiles and launches kernels itself

        return chip.places(chip.look(self), order)

    def launch(
        self,
        program: Program,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        args: Sequence[Any],
        shared_bytes: int,
    ) -> None:
        """Launch on CuPy's current stream and return at once.

        ``args``: CuPy arrays, encoded tensor maps, NumPy scalars (a Python int would arrive as
        64 bits). Nothing is checked: ``gemm.plan`` does that.
        """
        function = _function(str(program.cubin_path), program.kernel, shared_bytes)
        if not program.overlaps:
            function(grid, block, tuple(args), shared_mem=shared_bytes)
            return
        import cupy

        stream, handle = cupy.cuda.get_current_stream().ptr, function.kernel.ptr
        launch_overlapping(load_driver(), handle, stream, grid, block, args, shared_bytes)


@cache
def _function(cubin_path: str, kernel: str, shared_bytes: int):
    """The loaded kernel. The file is named after all that was compiled, so it never changes."""
    import cupy

    function = cupy.RawModule(path=cubin_path).get_function(kernel)
    if shared_bytes:
        # More than 48 KB must be asked for before the launch.
        function.max_dynamic_shared_size_bytes = shared_bytes
    return function


@cache
def load_driver() -> ctypes.CDLL:
    """The CUDA driver's library. Raises NoHopper where it is not installed."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoHopper(refusal(Look(toolkit=0))) from None


def refusal(seen: Look) -> str | None:
    """Why this machine cannot run a Hopper kernel, in one sentence and what still works.

    None where it can.
    """
    why = _why_not(seen)
    return f"{why} {STILL_WORKS}" if why else None


def _why_not(seen: Look) -> str | None:
    if seen.toolkit is None:
        return (
            "CuPy cannot be imported, and it launches the kernels: "
            "install it with pip install cupy-cuda13x."
        )
    if seen.driver is None:
        return "There is no NVIDIA driver here (libcuda.so.1 was not found)."
    if seen.driver[0] < seen.toolkit:
        major, minor = seen.driver
        or_older = ", or install requirements-cuda12.txt" if seen.toolkit > 12 <= major else ""
        return (
            f"The NVIDIA driver supports CUDA {major}.{minor}, and kernels here are compiled by "
            f"CUDA {seen.toolkit}: update the driver{or_older}."
        )
    if seen.cu_init not in (0, _NO_DEVICE):
        return (
            f"The NVIDIA driver does not start (cuInit returns {seen.cu_init}): nvidia-smi should "
            f"say why."
        )
    if not seen.devices:
        return "There is a driver, but it shows no GPU (is CUDA_VISIBLE_DEVICES empty?)."
    first, *others = seen.devices
    if _runs_wgmma(first):
        return None
    major, minor = first.capability
    if first.capability == (9, 0):
        why = (
            f"{first.name} is a MIG slice: its share of the SMs makes timings incomparable; switch "
            f"MIG off to use the whole GPU."
        )
    else:
        gone = "; it was removed after Hopper" if major > 9 else ""
        why = (
            f"{first.name} is compute capability {major}.{minor}, and wgmma exists only on 9.0 "
            f"(H100, H200, GH200){gone}."
        )
    hopper = next((i for i, device in enumerate(others, 1) if _runs_wgmma(device)), None)
    if hopper is not None:
        why += f" GPU {hopper} would do: set CUDA_VISIBLE_DEVICES={hopper}."
    return why


def _runs_wgmma(device: Device) -> bool:
    # The driver names a slice after its GPU: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
    return device.capability == (9, 0) and " MIG " not in f"{device.name} "


@cache
def look() -> Look:
    """Look at this machine through the driver's own library. Starts the driver if there is one."""
    try:
        from cupy.cuda import nvrtc

        toolkit = nvrtc.getVersion()[0]
    except (ImportError, RuntimeError, OSError):
        return Look(toolkit=None)
    try:
        driver = load_driver()
    except NoHopper:
        return Look(toolkit)
    status = driver.cuInit(0)
    version = _int_from(driver.cuDriverGetVersion)
    return Look(
        toolkit,
        (version // 1000, version % 1000 // 10),
        status,
        _devices(driver) if status == 0 else (),
    )


def _devices(driver: ctypes.CDLL) -> tuple[Device, ...]:
    found = []
    for ordinal in range(_int_from(driver.cuDeviceGetCount)):
        handle = _int_from(driver.cuDeviceGet, ordinal)
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, len(name), handle)
        major, minor, sm_count = (
            _int_from(driver.cuDeviceGetAttribute, attribute, handle)
            for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _SM_COUNT)
        )
        found.append(Device(name.value.decode(), (major, minor), sm_count))
    return tuple(found)


def _int_from(function, *args: int) -> int:
    """Call a driver function that returns an int through its first argument."""
    out = ctypes.c_int()
    function(ctypes.byref(out), *args)
    return out.value


def find_hopper(seen: Look | None = None) -> HopperGpu:
    """The Hopper GPU of this machine. Raises NoHopper with one sentence and what still works."""
    seen = seen or look()
    why = refusal(seen)
    if why:
        raise NoHopper(why)
    return HopperGpu(seen.devices[0].name, seen.devices[0].sm_count)


def available() -> HopperGpu | None:
    """The Hopper GPU of this machine, or None."""
    return None if refusal(look()) else find_hopper()


def backend() -> HopperGpu | EmulatedGpu:
    """What runs kernels here: the Hopper GPU of this machine, or else the emulator.

    Both take the same calls, so a cell that uses one runs on the other; ``is_hopper`` tells which.
    """
    return available() or _emulated()


def backend_of(array: Any) -> HopperGpu | EmulatedGpu:
    """What runs a kernel on ``array``: a Hopper GPU for a CuPy array, the emulator for NumPy's.

    Raises NoHopper for a CuPy array without a Hopper GPU.
    """
    return find_hopper() if memory_of(array).on_gpu else _emulated()


def _emulated() -> EmulatedGpu:
    # The emulator reads tensor maps, and those ask this module for the driver.
    from hopper.emulator.backend import EmulatedGpu

    return EmulatedGpu()


def why_not() -> str:
    """Why there is no Hopper GPU here; empty where there is one."""
    return refusal(look()) or ""
