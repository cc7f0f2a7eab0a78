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
from .v2_ring import ask_later, blocks_that_fit, ring_depth
from .v3_specialized import causes, hung, releases, two_blocks
from .v4_two_consumers import three_consumers, tile_of_block, traded
from .v5_in_flight import last_release, one_stage, step_time
from .v6_fp16_acc import room_for_sums, stands_still, without_turns
from .v7_persistent import drained_parity, lost, order_read, share_used
from .v8_multicast import pair_bytes, pair_producer, two_by_two
from .v9_stream_k import added_up, equal_shares, handed_over
from .warpgroup import k_loop

__all__ = [
    "a_bytes",
    "acceptance",
    "added_up",
    "ask_later",
    "blocks_that_fit",
    "broken_rules",
    "byte_offset",
    "causes",
    "compose_by_hand",
    "copy_layout",
    "core_matrix_layout",
    "counts",
    "descriptor",
    "drained_parity",
    "equal_shares",
    "executed",
    "fits",
    "fragment",
    "freed",
    "fused_sum",
    "halved",
    "handed_over",
    "hung",
    "in_flight",
    "instructions",
    "k_loop",
    "keep_the_rules",
    "last_release",
    "lost",
    "ldmatrix_b",
    "mistakes",
    "n_major",
    "one_stage",
    "order_read",
    "padding",
    "pair_bytes",
    "pair_producer",
    "parities",
    "passed_on",
    "read_aloud",
    "releases",
    "ring_depth",
    "room_for_sums",
    "row_sum",
    "share_used",
    "stands_still",
    "step_time",
    "stmatrix_order",
    "stored",
    "three_consumers",
    "tile_of_block",
    "traded",
    "two_blocks",
    "two_by_two",
    "two_in_flight",
    "two_loads",
    "without_turns",
    "wrong_field",
]
