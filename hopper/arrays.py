"""Where an array lies and how, for NumPy and CuPy alike."""

from dataclasses import dataclass
from math import prod

import numpy

from hopper.errors import ProblemError


@dataclass(frozen=True)
class Memory:
    """The memory of an array: ``address`` and ``strides`` in bytes, ``shape`` in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: numpy.dtype
    on_gpu: bool

    @property
    def c_contiguous(self) -> bool:
        """Whether the last axis is contiguous and each axis follows the next without a gap."""
        return self.strides == _c_strides(self.shape, self.dtype.itemsize)

    def overlaps(self, other: "Memory") -> bool:
        """Whether two C-contiguous arrays share a byte."""
        return (
            self.on_gpu == other.on_gpu
            and self.address < other.address + prod(other.shape) * other.dtype.itemsize
            and other.address < self.address + prod(self.shape) * self.dtype.itemsize
        )


def memory_of(array) -> Memory:
    """The memory of ``array``, by ``__cuda_array_interface__`` or ``__array_interface__``.

    Raises ProblemError for anything that is no array.
    """
    on_gpu = hasattr(array, "__cuda_array_interface__")
    protocol = "__cuda_array_interface__" if on_gpu else "__array_interface__"
    interface = getattr(array, protocol, None)
    if interface is None:
        raise ProblemError(
            f"{type(array).__name__}: a kernel reads arrays; pass a CuPy array (or a NumPy one "
            f"where no GPU is needed)"
        )
    # The protocols know NumPy's own types only; bf16 is two bytes of anything to them.
    own = getattr(array, "dtype", None)
    dtype = own if isinstance(own, numpy.dtype) else numpy.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or _c_strides(shape, dtype.itemsize)
    return Memory(interface["data"][0], shape, tuple(strides), dtype, on_gpu)


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) * itemsize for axis in range(len(shape)))
