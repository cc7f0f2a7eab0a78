"""What a run leaves behind: how often each instruction ran, and what happened when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy

EVENT_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a reader of the protocol would want to see.

    ``step``: how many steps the machine had taken. ``kind``: "mbarrier.phase", "tma.complete" …
    ``block``, ``warp``: who (block's place in the wave, warp in the block), -1 for an asynchronous
    unit. ``line``: of the PTX, 0 where no instruction caused it.
    """

    step: int
    kind: str
    block: int
    warp: int
    line: int
    detail: dict[str, object]


@dataclass
class Trace:
    """Events in order. After ``limit`` of them the rest is only counted, in ``dropped``."""

    limit: int = EVENT_LIMIT
    events: list[Event] = field(default_factory=list)
    dropped: int = 0

    def add(self, event: Event) -> None:
        """Append, or count where the trace is full."""
        if len(self.events) < self.limit:
            self.events.append(event)
        else:
            self.dropped += 1

    def again(self, kind: str, warps: list[int], step: int, reads: Iterable[int]) -> bool:
        """Extend the last event where it is of this kind and of these warps; whether it was.

        Its detail counts: ``times``, ``until`` (the last step), ``reads`` (a set of addresses).
        """
        last = self.events[-1] if self.events and not self.dropped else None
        if last is None or last.kind != kind or last.detail["warps"] != warps:
            return False
        last.detail["times"] += 1
        last.detail["until"] = step
        last.detail["reads"].update(reads)
        return True

    def __iter__(self):
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def of(self, kind: str) -> list[Event]:
        """Events whose kind starts with ``kind``."""
        return [event for event in self.events if event.kind.startswith(kind)]


def counted(opcodes: list[str], executed: numpy.ndarray) -> Counter[str]:
    """Warp-level executions of each opcode, as a GPU's own counters count: once a warp."""
    counts: Counter[str] = Counter()
    for opcode, times in zip(opcodes, executed.tolist(), strict=True):
        if times:
            counts[opcode] += times
    return counts
