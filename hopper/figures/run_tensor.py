"""Lanes of the tensor core: groups of wgmma from issue to retirement, or runs of mma.sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .run_names import Names
from .run_parts import Lane, Span, Timed, packed

_WARPGROUP_WARPS = 4


@dataclass
class Group:
    """Products that belong together. ``warps``: who issued them, in the block.

    ``begin``, ``committed``, ``end``: moments; ``end`` is that of the ``wait_group`` which retires
    the group, and of the next thing that happens for mma.sync. ``reads``: shared memory, addresses.
    ``reader``: "wgmma", "mma.sync" or "ldmatrix"; ``line``: of the PTX of its first instruction.
    """

    reader: str
    warps: tuple[int, ...]
    begin: int
    line: int
    number: int
    end: int = -1
    committed: int = -1
    instructions: int = 0
    shape: str = ""
    reads: list[tuple[int, int]] = field(default_factory=list)


def groups(timed: Sequence[Timed], end: int, block: int, per_block: int) -> list[Group]:
    """Of a block, in the order of issue; one that nobody waits for ends at ``end``."""
    found: list[Group] = []
    pending: dict[int, list[Group]] = {}
    for t in timed:
        event = t.event
        if event.kind in ("mma", "ldmatrix"):
            mine = [w % per_block for w in event.detail["warps"] if w // per_block == block]
            if mine:
                reader = "mma.sync" if event.kind == "mma" else "ldmatrix"
                one = Group(reader, tuple(mine), t.moment, event.line, 0, t.moment + 1)
                one.instructions = event.detail["times"]
                one.reads = [(at, at + 1) for at in event.detail["reads"]]
                found.append(one)
        if event.block != block or not event.kind.startswith("wgmma"):
            continue
        mine = pending.setdefault(event.warp, [])
        if event.kind == "wgmma.issue":
            if not mine or mine[-1].committed >= 0:
                number = sum(g.reader == "wgmma" and g.warps[0] == event.warp for g in found)
                warps = tuple(range(event.warp, event.warp + _WARPGROUP_WARPS))
                mine.append(Group("wgmma", warps, t.moment, event.line, number))
                found.append(mine[-1])
            mine[-1].instructions += 1
            mine[-1].shape = event.detail["instruction"].split(".")[4]
            mine[-1].reads += event.detail["reads"]
        elif event.kind == "wgmma.commit" and mine and mine[-1].committed < 0:
            mine[-1].committed = t.moment
        elif event.kind == "wgmma.wait":
            closed = [group for group in mine if group.committed >= 0]
            for group in closed[: max(len(closed) - event.detail["pending"], 0)]:
                group.end = t.moment
                mine.remove(group)
    for left in pending.values():
        for group in left:
            group.end = end
            group.number = -1 - group.number
    return found


def tensor_lanes(
    timed: Sequence[Timed], end: int, block: int, per_block: int, known: Names, prefix: str
) -> list[Lane]:
    """A row for each warpgroup, and more where several of its groups are under way at once."""
    every = [g for g in groups(timed, end, block, per_block) if g.reader != "ldmatrix"]
    issuers = dict.fromkeys(g.warps for g in every)
    lanes = []
    for warps in issuers:
        spans = [_span(g, known) for g in every if g.warps == warps]
        who = f", warps {warps[0]}–{warps[-1]}" if len(issuers) > 1 and warps else ""
        for row, row_spans in enumerate(packed(spans)):
            label = f"{prefix}tensor core{who}" + (f" · {row + 1}" if row else "")
            lanes.append(Lane(label, "tensor", tuple(row_spans)))
    return lanes


def _span(group: Group, known: Names) -> Span:
    source = known.source(group.line)
    if group.reader == "mma.sync":
        words = f"{group.instructions} instructions of mma.sync, warp by warp"
        return Span(group.begin, group.end, "product", ("mma.sync", "mma", "m"), words, source)
    waited = group.number >= 0
    number = group.number if waited else -1 - group.number
    many = f"{group.instructions} × {group.shape}"
    words = f"wgmma group {number}: {many}, from the first issue to "
    words += "the wait that retires it" if waited else "the end: no wait_group retires it"
    kind = "product" if waited else "pending"
    name = f"group {number}"
    return Span(group.begin, group.end, kind, (f"{name}: {many}", name, f"{number}"), words, source)
