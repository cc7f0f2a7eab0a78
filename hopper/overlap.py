"""Launches that overlap: a kernel begins while the one before it in its stream ends.

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
    ``HopperGpu.launch`` takes them. Returns at once; raises HopperError where the driver refuses.
    """
    values = [ctypes.create_string_buffer(argument_bytes(arg)) for arg in args]
    pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    overlaps = _Attribute(_STREAM_SERIALIZATION, allowed=1)
    config = _Config(grid, block, shared_bytes, stream, ctypes.pointer(overlaps), 1)
    status = driver.cuLaunchKernelEx(
        ctypes.byref(config), ctypes.c_void_p(function), pointers, None
    )
    if status:
        raise HopperError(
            f"cuLaunchKernelEx returns {status} for grid {grid}, block {block}, {shared_bytes} "
            f"bytes of shared memory; compile without OVERLAP to launch by CuPy"
        )


def argument_bytes(arg: Any) -> bytes:
    """A kernel's argument as the driver copies it: a CuPy array's address, or a scalar's bytes."""
    if isinstance(arg, numpy.generic):
        return arg.tobytes()
    return int(arg.data.ptr).to_bytes(8, "little")
