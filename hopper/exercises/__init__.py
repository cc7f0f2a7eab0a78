"""Checks for the chapters' exercises: each prints whether an answer is right, or what is not.

An answer left open (None) is no mistake; the check then says what to fill in. One module a chapter.
"""

from .emulator import broken_rules, executed, fused_sum
from .measuring import acceptance, mistakes
from .v0_mma_sync import instructions, ldmatrix_b
from .v1_wgmma import descriptor, fragment
from .warpgroup import k_loop

__all__ = [
    "acceptance",
    "broken_rules",
    "descriptor",
    "executed",
    "fragment",
    "fused_sum",
    "instructions",
    "k_loop",
    "ldmatrix_b",
    "mistakes",
]
