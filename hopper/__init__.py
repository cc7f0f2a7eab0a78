"""Compile, launch, check and time the Hopper kernels of this book.

Figures and quotations are apart: ``from hopper import figures, plots, show``.
"""

from hopper.backends import HopperGpu, available, backend, find_hopper, why_not
from hopper.bench import Measurement, beside_recording, measure
from hopper.check import Comparison, check
from hopper.compile import Program, compile_cuda, compile_kernel, kernel_names
from hopper.errors import (
    CacheError,
    CheckError,
    CompileError,
    HopperError,
    NoHopper,
    ProblemError,
    RecordError,
)
from hopper.facts import LaunchFacts
from hopper.gemm import Launch, Problem, gemm, plan
from hopper.tensormap import TensorMap

__all__ = [
    "CacheError",
    "CheckError",
    "Comparison",
    "CompileError",
    "HopperError",
    "HopperGpu",
    "Launch",
    "LaunchFacts",
    "Measurement",
    "NoHopper",
    "Problem",
    "ProblemError",
    "Program",
    "RecordError",
    "TensorMap",
    "available",
    "backend",
    "beside_recording",
    "check",
    "compile_cuda",
    "compile_kernel",
    "find_hopper",
    "gemm",
    "kernel_names",
    "measure",
    "plan",
    "why_not",
]
