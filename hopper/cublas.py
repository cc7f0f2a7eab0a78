"""cuBLAS's product on a stream that is being captured into a CUDA graph.

``cupy.matmul`` refuses such a stream, although cuBLAS itself can be captured (cuBLAS documentation,
CUDA Graphs Support). So this calls cublasGemmEx directly, with the arguments ``cupy.matmul`` passes
for fp16 and bf16: fp32 compute, output of the same type, the default algorithm. Of fp16 it can also
be asked for a compute type of fp16, which ``cupy.matmul`` does not offer.
"""

import ctypes
from collections.abc import Callable

from hopper.dtypes import ELEMENT_TYPES
from hopper.errors import HopperError

# From cublas_api.h and library_types.h.
TRANSPOSED, AS_STORED = 1, 0
COMPUTE_FLOAT16, COMPUTE_FLOAT32, DEFAULT_ALGORITHM = 64, 68, 99
_HALF_ONE = 0x3C00  # the bits of 1 in fp16
# What cuBLAS allocates for itself on Hopper; its own must not be allocated during a capture.
WORKSPACE_BYTES = 32 * 2**20


class Cublas:
    """A cuBLAS handle of one stream. Use it in a ``with`` block; products outlive neither."""

    def __init__(self, stream) -> None:
        import cupy

        # CuPy's extension is linked against the cuBLAS that cupy.matmul uses, so symbols looked up
        # through it are that library's, wherever it is installed.
        self._library = ctypes.CDLL(cupy.cuda.cublas.__file__)
        self._stream = stream
        self._workspace = cupy.empty(WORKSPACE_BYTES, "uint8")
        self._handle = ctypes.c_void_p()
        # Factors of the product and of C, in the type of the sums.
        self._factors = {
            COMPUTE_FLOAT32: (ctypes.c_float(1), ctypes.c_float(0)),
            COMPUTE_FLOAT16: (ctypes.c_uint16(_HALF_ONE), ctypes.c_uint16(0)),
        }

    def __enter__(self) -> "Cublas":
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        # In this order: a new stream takes the workspace away.
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(self._stream.ptr))
        workspace = ctypes.c_void_p(self._workspace.data.ptr)
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self._call("cublasSetWorkspace_v2", self._handle, workspace, size)
        return self

    def __exit__(self, *_) -> None:
        self._call("cublasDestroy_v2", self._handle)

    def product(self, a, b, c, *, fp16_sums: bool = False) -> Callable[[], None]:
        """A launch of C (M, N) = A (M, K) · B (N, K)ᵀ; CuPy arrays of fp16 or bf16, row-major.

        ``fp16_sums``: compute in fp16, of fp16 only; what cuBLAS then rounds, and when, it does not
        say. The launch raises HopperError when cuBLAS refuses.
        """
        compute = COMPUTE_FLOAT16 if fp16_sums else COMPUTE_FLOAT32
        one, zero = self._factors[compute]
        (m, k), n, element = a.shape, b.shape[0], ELEMENT_TYPES[a.dtype.name].cublas
        # cuBLAS thinks in columns, so it computes Cᵀ = B·Aᵀ, and sees A and B transposed.
        arguments = (
            self._handle,
            TRANSPOSED,
            AS_STORED,
            n,
            m,
            k,
            ctypes.byref(one),
            ctypes.c_void_p(b.data.ptr),
            element,
            k,
            ctypes.c_void_p(a.data.ptr),
            element,
            k,
            ctypes.byref(zero),
            ctypes.c_void_p(c.data.ptr),
            element,
            n,
            compute,
            DEFAULT_ALGORITHM,
        )
        return lambda: self._call("cublasGemmEx", *arguments)

    def _call(self, name: str, *arguments) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise HopperError(f"{name} returned {status}; cublasStatus_t in cublas_api.h says why")
