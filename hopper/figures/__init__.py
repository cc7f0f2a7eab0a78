"""Drawings of the book, each a function that returns a themed inline SVG `Figure`."""

from .figure import Figure
from .fragments import ldmatrix_addresses, mma_fragment
from .hierarchy import hierarchy
from .instructions import issue_order, tile_to_instructions
from .operands import operand_path, operand_traffic
from .run_timeline import run_timeline
from .timeline import timeline
from .warpgroup import warpgroup_tile

__all__ = [
    "Figure",
    "hierarchy",
    "issue_order",
    "ldmatrix_addresses",
    "mma_fragment",
    "operand_path",
    "operand_traffic",
    "run_timeline",
    "tile_to_instructions",
    "timeline",
    "warpgroup_tile",
]
