"""Launches that overlap: a kernel may begin before the one in front of it in its stream has ended.

The CUDA guide calls it programmatic dependent launch. It is an attribute of a launch, which CuPy
does not pass on: so the driver is called here, by ``cuLaunchKernelEx`` (CUDA driver API, Execution
Control). The kernel must wait in front of its first access to global memory
(``kernels/include/overlap.cuh``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy

from hopper.errors import HopperError

_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute; the value is a union of 64 bytes."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("_pad", ctypes.c_char * 4),
        ("allowed", ctypes.c_int),
        ("_rest", ctypes.c_char * 60),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


def launch_overlapping(
    driver: ctypes.CDLL,
    function: int,
    stream: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    args: Sequence[Any],
    shared_bytes: int,
) -> None:
    """Launch on a stream, allowed to begin once all blocks of the launch before it let it.

    ``driver``: the CUDA driver's library. ``function``, ``stream``: its handles. ``args``: as
    ``HopperGpu.launch`` takes them; the driver reads as many as the kernel has, and their number is
    not checked. Returns at once. Raises HopperError for an argument of another kind, and where the
    driver refuses the launch, or knows none of this kind.
    """
    values = [ctypes.create_string_buffer(argument_bytes(arg)) for arg in args]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    overlaps = _Attribute(_STREAM_SERIALIZATION, allowed=1)
    config = _Config(grid, block, shared_bytes, stream, ctypes.pointer(overlaps), 1)
    try:
        launch = driver.cuLaunchKernelEx
    except AttributeError:
        raise HopperError(
            "this CUDA driver has no cuLaunchKernelEx, by which launches overlap: update it, or "
            "compile without OVERLAP"
        ) from None
    status = launch(ctypes.byref(config), ctypes.c_void_p(function), pointers, None)
    if status:
        raise HopperError(
            f"the CUDA driver refuses the launch: {_error_name(driver, status)}, for grid {grid}, "
            f"block {block}, {shared_bytes} bytes of shared memory; an error of an earlier launch "
            f"may show only here"
        )


def _error_name(driver: ctypes.CDLL, status: int) -> str:
    """'CUDA_ERROR_INVALID_VALUE', or the number where the driver has no name for it."""
    name = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {status}"


def argument_bytes(arg: Any) -> bytes:
    """A kernel's argument as the driver copies it: a CuPy array's address, or a scalar's bytes.

    Raises HopperError for anything else.
    """
    if isinstance(arg, numpy.generic):
        return arg.tobytes()
    pointer = getattr(getattr(arg, "data", None), "ptr", None)
    if pointer is None:
        raise HopperError(
            f"{arg!r:.60}: a {type(arg).__name__} is no argument of an overlapping launch; pass a "
            f"CuPy array, an encoded tensor map or a NumPy scalar, such as numpy.int32(3)"
        )
    return int(pointer).to_bytes(8, "little")
