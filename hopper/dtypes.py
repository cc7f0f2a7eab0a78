"""The element types of the ladder's matrices: fp16, and bf16, which NumPy has from ml_dtypes.

What depends on the type is here: how it rounds, and how its values are widened. Widening and
filling go by the bits, so that nothing is asked of NumPy or CuPy but to carry bf16.
"""

from dataclasses import dataclass
from typing import Any

import numpy

from hopper.errors import ProblemError


@dataclass(frozen=True)
class ElementType:
    """How a 16-bit floating-point type rounds.

    ``half_ulp``: largest relative error of rounding a normal number. ``half_subnormal``: largest
    absolute error below those. ``overflow``: from here on, rounding gives infinity.
    ``defines``: macros with which a kernel of the ladder is compiled for it. ``cublas``: the
    type's number in cudaDataType.
    """

    name: str
    half_ulp: float
    half_subnormal: float
    overflow: float
    nan_bits: int
    defines: tuple[tuple[str, int], ...]
    cublas: int


ELEMENT_TYPES = {
    one.name: one
    for one in (
        # 11 significant bits, exponents from -14 to 15; and 8, from -126 to 127.
        ElementType("float16", 2.0**-11, 2.0**-25, (2 - 2.0**-11) * 2.0**15, 0x7E00, (), 2),
        ElementType(
            "bfloat16",
            2.0**-8,
            2.0**-134,
            (2 - 2.0**-8) * 2.0**127,
            0x7FC0,
            (("BF16", 1),),
            14,
        ),
    )
}
DTYPES = tuple(ELEMENT_TYPES)


def numpy_dtype(name: str) -> numpy.dtype:
    """The dtype of arrays of a type. Raises ProblemError for bf16 without ml_dtypes."""
    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ProblemError(
            "bfloat16: NumPy has no such type, and ml_dtypes brings it; pip install ml_dtypes"
        ) from None
    return numpy.dtype(ml_dtypes.bfloat16)


def bits_of(array: Any) -> Any:
    """A bf16 array seen as uint16, any other as it is; NumPy or CuPy, without a copy."""
    return array.view("uint16") if array.dtype.name == "bfloat16" else array


def widened(block: Any, dtype: str) -> Any:
    """fp64 values of what ``bits_of`` returned for an array of ``dtype``. Always exact."""
    if dtype == "bfloat16":
        block = (block.astype("uint32") << 16).view("float32")
    return block.astype("float64")


def filled_with_nan(module: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A new array of NaN. ``module``: numpy or cupy."""
    bits = module.full(shape, ELEMENT_TYPES[dtype].nan_bits, "uint16")
    return bits.view(numpy_dtype(dtype))
