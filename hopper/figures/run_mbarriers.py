"""Lanes of mbarriers: phases, their parity, and the arrivals and bytes that they still lack."""

from __future__ import annotations

from collections.abc import Sequence

from .run_names import Names
from .run_parts import Lane, Span, Timed


class _Barrier:
    """One mbarrier as the trace tells of it."""

    def __init__(self, name: str, count: int, moment: int, source: str) -> None:
        self.name, self.count, self.pending = name, count, count
        self.tx = self.phase = 0
        self.source = source
        self.spans: list[Span] = []
        self.states: list[tuple[int, str]] = []
        self.since, self.idle = moment, True
        self.say(moment)

    def say(self, moment: int) -> None:
        """Note the state from a moment on."""
        words = (
            f"phase {self.phase} (parity {self.phase & 1}): {self.pending} of {self.count} "
            f"arrivals and {self.tx:,} bytes are missing"
        )
        if self.states and self.states[-1][0] == moment:
            self.states.pop()
        self.states.append((moment, words))

    def cut(self, moment: int, idle: bool, source: str) -> None:
        """End the span that runs, and start one that is ``idle`` or counts."""
        if moment > self.since:
            self.spans.append(self._span(moment))
            self.since = moment
        self.idle = idle
        self.source = source

    def _span(self, end: int) -> Span:
        parity = self.phase & 1
        texts = (f"phase {self.phase}, parity {parity}", f"phase {self.phase}", f"{self.phase}")
        if self.idle:
            words = f"phase {self.phase} (parity {parity}) has begun; nothing has arrived"
            return Span(self.since, end, "idle", texts, words, self.source)
        words = f"phase {self.phase} (parity {parity}) counts arrivals and bytes"
        return Span(self.since, end, "counts", texts, words, self.source)


def mbarrier_lanes(
    timed: Sequence[Timed], end: int, block: int, known: Names, prefix: str
) -> list[Lane]:
    """A row for each mbarrier in the block's shared memory, in the order of their addresses."""
    barriers: dict[int, _Barrier] = {}
    for t in timed:
        event, detail = t.event, t.event.detail
        if detail.get("owner") != block:
            continue
        address, source = detail["address"], known.source(event.line)
        if event.kind == "mbarrier.init":
            name = known.barrier(address)
            barriers[address] = _Barrier(name, detail["count"], t.moment, source)
        it = barriers.get(address)
        if it is None:
            continue
        if event.kind in ("mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.complete_tx"):
            if it.idle:
                it.cut(t.moment, False, source)
            landed = event.kind == "mbarrier.complete_tx"
            it.tx += -detail["bytes"] if landed else detail["bytes"]
            it.pending -= detail["count"] if event.kind == "mbarrier.arrive" else 0
            it.count -= detail["count"] if detail.get("drop") else 0
            it.say(t.moment)
        elif event.kind == "mbarrier.phase":
            it.cut(t.moment, True, source)
            it.phase, it.pending, it.tx = detail["phase"] + 1, it.count, 0
            it.say(t.moment)
    lanes = []
    for _, it in sorted(barriers.items()):
        it.cut(end, True, "")
        lanes.append(Lane(prefix + it.name, "mbarrier", tuple(it.spans), (), tuple(it.states)))
    return lanes
