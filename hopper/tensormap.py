"""The host side of TMA: an array, a box and a swizzle, made into the 128 bytes a kernel takes.

The rules are those of ``cuTensorMapEncodeTiled`` in the CUDA driver API reference; the driver
answers a broken one with a bare "invalid value", so they are checked here first.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy

from hopper.arrays import Memory, memory_of
from hopper.backends import load_driver
from hopper.errors import HopperError, ProblemError

# CUtensorMapDataType. TMA moves bits: int8, bf16 and fp8 travel as unsigned integers of their size.
_DATA_TYPE = {
    "uint8": 0,
    "int8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
# Types that NumPy has not (ml_dtypes has): arrays of these bits can be called by this name too.
_BITS_OF = {"bfloat16": "uint16"}
_FLOATING = ("float16", "float32", "float64", "bfloat16")
_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes of the span -> CUtensorMapSwizzle
_L2_PROMOTION = {0: 0, 64: 1, 128: 2, 256: 3}  # bytes -> CUtensorMapL2promotion
_NO_INTERLEAVE = 0
# What TMA writes for the part of a box that lies outside the array: CUtensorMapFloatOOBfill.
_FILL = {"zeros": 0, "nan": 1}
_BYTES = 128


@dataclass(frozen=True, eq=False)
class TensorMap:
    """How TMA cuts boxes from ``array``.

    ``box``: elements along each axis of the array, in the array's own order, so (rows, columns)
    for a row-major matrix. ``swizzle``: span in bytes, 0 (none), 32, 64 or 128; each row of a box
    takes a whole span of shared memory, also where it is shorter (measured on an H200).
    ``l2_promotion``: bytes that a miss fetches into L2 at once, 0, 64, 128 or 256.
    ``fill``: what a load writes for elements outside the array, "zeros" or, for a floating-point
    type, "nan": the 16 bits 0x7FF7, repeated in wider elements (measured on an H200).
    ``element``: what a reduction or "nan" takes an element for, where it is not the array's dtype:
    "bfloat16" for an array of uint16.
    The array is kept alive as long as its map. Raises ProblemError when a TMA rule is broken.
    """

    array: Any
    box: tuple[int, ...]
    swizzle: int = 128
    l2_promotion: int = 128
    fill: str = "zeros"
    element: str | None = None

    def __post_init__(self) -> None:
        memory = memory_of(self.array)
        _validate(memory, self.box, self.swizzle, self.l2_promotion)
        _validate_element(memory.dtype.name, self.element, self.fill)

    @property
    def element_type(self) -> str:
        """What TMA takes an element for: a dtype's name, or "bfloat16"."""
        return self.element or memory_of(self.array).dtype.name

    def encode(self) -> numpy.void:
        """The 128 bytes, as the NumPy scalar that CuPy passes by value to a kernel.

        Raises ProblemError for an array in host memory, NoHopper without a driver, and
        HopperError when the driver refuses what the rules above allow.
        """
        memory = memory_of(self.array)
        if not memory.on_gpu:
            raise ProblemError(
                "the array lies in host memory: TMA copies from GPU memory; move it there with "
                "find_hopper().array(…)"
            )
        rank = len(memory.shape)
        # The driver wants 64-byte alignment; a buffer of twice the size holds an aligned half.
        buffer = numpy.zeros(2 * _BYTES, numpy.uint8)
        start = -buffer.ctypes.data % 64
        status = load_driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(buffer.ctypes.data + start),
            ctypes.c_int(_DATA_TYPE[self.element_type]),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(memory.address),
            # TMA names the contiguous axis first.
            (ctypes.c_uint64 * rank)(*reversed(memory.shape)),
            (ctypes.c_uint64 * rank)(*reversed(memory.strides[:-1])),
            (ctypes.c_uint32 * rank)(*reversed(self.box)),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            ctypes.c_int(_NO_INTERLEAVE),
            ctypes.c_int(_SWIZZLE[self.swizzle]),
            ctypes.c_int(_L2_PROMOTION[self.l2_promotion]),
            ctypes.c_int(_FILL[self.fill]),
        )
        if status:
            raise HopperError(
                f"cuTensorMapEncodeTiled returns {status} for shape {memory.shape}, strides "
                f"{memory.strides}, box {self.box}, swizzle {self.swizzle}: the driver refuses "
                f"what the documented rules allow; update it, or report this"
            )
        return buffer[start : start + _BYTES].view(f"V{_BYTES}")[0]


def _validate(memory: Memory, box: tuple[int, ...], swizzle: int, l2_promotion: int) -> None:
    """Raise ProblemError for the first rule of TMA that is broken."""
    shape, strides, itemsize = memory.shape, memory.strides, memory.dtype.itemsize
    if memory.dtype.name not in _DATA_TYPE:
        known = ", ".join(name for name in _DATA_TYPE if name not in _BITS_OF)
        raise ProblemError(
            f"dtype {memory.dtype.name}: TMA copies {known}; view the array as the "
            f"unsigned integer of the same size"
        )
    if not 1 <= len(shape) <= 5:
        raise ProblemError(f"{len(shape)} axes: TMA takes 1 to 5; reshape the array")
    if len(box) != len(shape):
        raise ProblemError(
            f"box {box} for an array of shape {shape}: a box has one length for each axis; give "
            f"{len(shape)}"
        )
    if swizzle not in _SWIZZLE:
        raise ProblemError(f"swizzle={swizzle}: TMA swizzles spans of 0, 32, 64 or 128 bytes")
    if l2_promotion not in _L2_PROMOTION:
        raise ProblemError(f"l2_promotion={l2_promotion}: TMA knows 0, 64, 128 and 256 bytes")
    for axis, length in enumerate(shape):
        if not 1 <= length <= 2**32:
            raise ProblemError(
                f"axis {axis} has {length} elements: TMA takes 1 to 2^32; leave empty arrays out"
            )
    for axis, length in enumerate(box):
        if not 1 <= length <= 256:
            raise ProblemError(
                f"box {box}: axis {axis} is {length}, and TMA takes 1 to 256; load it in pieces"
            )
    row_bytes = box[-1] * itemsize
    if row_bytes % 16:
        raise ProblemError(
            f"box {box}: its rows are {row_bytes} bytes, not a multiple of 16, which TMA requires; "
            f"make the last length a multiple of {max(1, 16 // itemsize)}"
        )
    if swizzle and row_bytes > swizzle:
        raise ProblemError(
            f"box {box}: its rows are {row_bytes} bytes, wider than the swizzle span of {swizzle}; "
            f"use at most {swizzle // itemsize} elements, and several loads for more"
        )
    if strides[-1] != itemsize and shape[-1] > 1:
        raise ProblemError(
            f"strides {strides}: the last axis of {memory.dtype.name} must be contiguous "
            f"({itemsize} bytes); make the array C-contiguous with ascontiguousarray"
        )
    for axis, stride in enumerate(strides[:-1]):
        if stride % 16 or not 0 < stride < 2**40:
            raise ProblemError(
                f"axis {axis} advances by {stride} bytes: TMA requires a positive multiple of 16 "
                f"below 2^40; pad the last axis to a multiple of {max(1, 16 // itemsize)} elements"
            )
    if memory.address % 16:
        raise ProblemError(
            f"the array starts at {memory.address:#x}, not a multiple of 16 bytes, which TMA "
            f"requires; copy it, or start the view at a multiple of {max(1, 16 // itemsize)} "
            f"elements"
        )


def _validate_element(dtype: str, element: str | None, fill: str) -> None:
    """Raise ProblemError for an element or a fill that does not fit the array's dtype."""
    if element is not None and element != dtype and _BITS_OF.get(element) != dtype:
        raise ProblemError(
            f"element={element!r} for an array of {dtype}: it is the array's dtype, or "
            f"'bfloat16' for an array of uint16; view the array as that"
        )
    if fill not in _FILL:
        raise ProblemError(f"fill={fill!r}: TMA fills with 'zeros' or 'nan'")
    if fill == "nan" and (element or dtype) not in _FLOATING:
        raise ProblemError(
            f"fill='nan' for elements of {element or dtype}, which have no NaN; fill with 'zeros', "
            f"or pass element='bfloat16' if that is what the uint16 are"
        )
