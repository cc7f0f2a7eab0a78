"""Compile, launch, check and time the Hopper kernels of this book."""

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

__all__ = [
    "CacheError",
    "CheckError",
    "CompileError",
    "HopperError",
    "LaunchFacts",
    "NoHopper",
    "ProblemError",
    "Program",
    "RecordError",
    "compile_cuda",
    "compile_kernel",
    "kernel_names",
]
