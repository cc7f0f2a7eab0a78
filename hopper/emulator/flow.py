"""Which instructions can follow another one, by the control flow of a kernel."""

from __future__ import annotations

from collections.abc import Collection

from hopper.emulator.ptx import Kernel, Label


def reaches(kernel: Kernel, start: int, goals: Collection[int]) -> bool:
    """Whether a thread at instruction ``start`` may come to one of ``goals``, by their indices."""
    seen, todo = set(), [start]
    while todo:
        index = todo.pop()
        if index in seen or index >= len(kernel.code):
            continue
        if index in goals:
            return True
        seen.add(index)
        x = kernel.code[index]
        ends = x.guard is None and x.parts[0] in ("bra", "ret", "exit", "trap")
        if x.parts[0] == "bra" and isinstance(x.operands[0], Label):
            todo.append(x.operands[0].index)
        if not ends:
            todo.append(index + 1)
    return False
