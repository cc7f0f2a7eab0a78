"""Drawings of the book, each a function that returns a themed inline SVG `Figure`."""

from .descriptor_explorer import descriptor_explorer
from .descriptor_pictures import bank_picture, leading_and_stride, swizzle_dump
from .figure import Figure
from .fragment_explorer import fragment_explorer
from .fragment_pictures import accumulator_fragment, stmatrix_matrices, store_sectors
from .fragments import ldmatrix_addresses, mma_fragment
from .hierarchy import hierarchy
from .instructions import issue_order, tile_to_instructions
from .layouts import (
    layout_composition,
    layout_division,
    layout_grid,
    layout_memory,
    thread_values,
)
from .mbarrier_stepper import mbarrier_stepper
from .operands import operand_path, operand_traffic
from .pair_pictures import pair_loads, pair_tiles
from .protocol_explorer import protocol_explorer
from .protocol_steps import protocol_steps
from .raster import raster_patch
from .register_pool import register_pool
from .ring_names import ring_names
from .ring_pictures import ring_schedule, stage_life, two_roles
from .ring_run import ring_timeline
from .run_timeline import run_timeline
from .stream_shares import stream_clusters, stream_cut
from .streams import streams
from .tile_run import tile_timeline
from .tile_turns import tile_turns
from .timeline import timeline
from .tma_pictures import mbarrier_phase, multicast_pair, tensor_map_fields
from .turns import turns
from .warpgroup import warpgroup_tile

__all__ = [
    "Figure",
    "accumulator_fragment",
    "bank_picture",
    "descriptor_explorer",
    "fragment_explorer",
    "hierarchy",
    "issue_order",
    "ldmatrix_addresses",
    "layout_composition",
    "layout_division",
    "layout_grid",
    "layout_memory",
    "leading_and_stride",
    "mbarrier_phase",
    "mbarrier_stepper",
    "mma_fragment",
    "multicast_pair",
    "operand_path",
    "operand_traffic",
    "pair_loads",
    "pair_tiles",
    "protocol_explorer",
    "protocol_steps",
    "raster_patch",
    "register_pool",
    "ring_names",
    "ring_schedule",
    "ring_timeline",
    "run_timeline",
    "stage_life",
    "stmatrix_matrices",
    "store_sectors",
    "stream_clusters",
    "stream_cut",
    "streams",
    "swizzle_dump",
    "tensor_map_fields",
    "thread_values",
    "tile_timeline",
    "tile_turns",
    "tile_to_instructions",
    "timeline",
    "turns",
    "two_roles",
    "warpgroup_tile",
]
