"""Checks for the chapters' exercises: each prints whether an answer is right, or what is not.

An answer left open (None) is no mistake; the check then says what to fill in. One module a chapter.
"""

from .descriptors import byte_offset, n_major, padding, wrong_field
from .emulator import broken_rules, executed, fused_sum
from .fragments import a_bytes, fits, passed_on, row_sum, stmatrix_order, stored
from .layouts import compose_by_hand, copy_layout, core_matrix_layout, read_aloud
from .measuring import acceptance, mistakes
from .protocol import freed, halved, keep_the_rules, two_in_flight
from .tma_mbarrier import counts, in_flight, parities, two_loads
from .v0_mma_sync import instructions, ldmatrix_b
from .v1_wgmma import descriptor, fragment
from .warpgroup import k_loop

__all__ = [
    "a_bytes",
    "acceptance",
    "broken_rules",
    "byte_offset",
    "compose_by_hand",
    "copy_layout",
    "core_matrix_layout",
    "counts",
    "descriptor",
    "executed",
    "fits",
    "fragment",
    "freed",
    "fused_sum",
    "halved",
    "in_flight",
    "instructions",
    "k_loop",
    "keep_the_rules",
    "ldmatrix_b",
    "mistakes",
    "n_major",
    "padding",
    "parities",
    "passed_on",
    "read_aloud",
    "row_sum",
    "stmatrix_order",
    "stored",
    "two_in_flight",
    "two_loads",
    "wrong_field",
]
