"""How C is divided among clusters of blocks, and what each block loads: arithmetic from facts.

A *unit* is what one cluster computes at a time: a tile, or with clusters of two a pair of tiles. A
pair lies in one column of tiles and shares B, or in one row and shares A; see ``SHARE_A`` of
kernels/v8_multicast.cu.
"""

import math
from dataclasses import dataclass

from hopper.facts import LaunchFacts

ELEMENT_BYTES = 2  # fp16 and bf16


def shares_a(facts: LaunchFacts) -> bool:
    """Whether the blocks of a cluster each load a part of one tile of A."""
    return facts.cluster > 1 and 0 < facts.a_rows < facts.tile_m


def loaded_bytes(facts: LaunchFacts) -> int:
    """Bytes of operands that a block asks for in a step of K: of a shared one its own part."""
    return (facts.a_box[0] + facts.b_box[0]) * facts.tile_k * ELEMENT_BYTES


def landed_bytes(facts: LaunchFacts) -> int:
    """Bytes of operands that arrive in a block in a step of K, whoever asked for them."""
    return (facts.tile_m + facts.tile_n) * facts.tile_k * ELEMENT_BYTES


def step_flop(facts: LaunchFacts) -> int:
    """Operations of a block in a step of K, a multiply-add counted as two."""
    return 2 * facts.tile_m * facts.tile_n * facts.tile_k


@dataclass(frozen=True)
class Division:
    """C of ``m`` × ``n``, ``k`` deep, in ``rows`` × ``columns`` units of ``unit_m`` × ``unit_n``.

    ``blocks``: of a cluster, so tiles of a unit. ``steps``: of K, for each tile.
    """

    m: int
    n: int
    rows: int
    columns: int
    unit_m: int
    unit_n: int
    blocks: int
    steps: int

    @property
    def units(self) -> int:
        """Pairs, or tiles where a block is alone."""
        return self.rows * self.columns

    @property
    def tiles(self) -> int:
        """Tiles that are computed, those that lie outside C included."""
        return self.units * self.blocks

    @property
    def outside(self) -> float:
        """Share of the products that are of zeros: they lie outside C."""
        return 1 - self.m * self.n / (self.units * self.unit_m * self.unit_n)

    def rounds(self, sms: int) -> int:
        """Units that the busiest cluster computes, one after the other, with one block an SM."""
        return math.ceil(self.units / (sms // self.blocks))

    def filled(self, sms: int) -> float:
        """Share of the SMs' time that has a product of C in it, if all units take equally long."""
        whole = self.rounds(sms) * sms * self.unit_m * self.unit_n / self.blocks
        return self.m * self.n / whole


def division(facts: LaunchFacts, m: int, n: int, k: int) -> Division:
    """How a kernel of the ladder that is launched on a product of this size divides it."""
    down, across = (1, facts.cluster) if shares_a(facts) else (facts.cluster, 1)
    unit_m, unit_n = down * facts.tile_m, across * facts.tile_n
    return Division(
        m,
        n,
        rows=-(-m // unit_m),
        columns=-(-n // unit_n),
        unit_m=unit_m,
        unit_n=unit_n,
        blocks=facts.cluster,
        steps=-(-k // facts.tile_k),
    )
