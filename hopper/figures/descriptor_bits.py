"""The 64 bits of a descriptor as HTML: each field, what it means here, and what is wrong.

Without a script it stays as it is; ``_static/descriptor_explorer.js`` writes the same anew.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from hopper.descriptor import (
    CORE_ROWS,
    FIELD_BITS,
    FIELDS,
    STEP_BYTES,
    UNIT_BYTES,
    Descriptor,
    Major,
    decode,
)
from hopper.descriptor.mistakes import mistakes
from hopper.descriptor.pieces import pieces
from hopper.descriptor.sentences import DIRECTIONS

FINE = "✓ Nothing is wrong with it."


@dataclass(frozen=True)
class Operand:
    """What is shown: a descriptor's operand, or a whole tile and one instruction's part of it."""

    value: int
    major: Major
    item_bytes: int
    rows: int
    swizzle: int
    whole: Descriptor
    depth: int
    first_k: int

    def addresses(self) -> dict[int, list[tuple[int, int]]]:
        """Address of each 16-byte piece -> first row and first k of what lies there."""
        r, k = pieces(self.rows, self.depth, major=self.major, item_bytes=self.item_bytes)
        found = self.whole.address(r, k, major=self.major, item_bytes=self.item_bytes)
        placed: dict[int, list[tuple[int, int]]] = {}
        for address, row, column in zip(found.flat, r.flat, k.flat, strict=True):
            placed.setdefault(int(address), []).append((int(row), int(column)))
        return placed

    def read(self) -> set[int]:
        """Addresses of the pieces that one instruction reads."""
        depth = STEP_BYTES // self.item_bytes
        r, k = pieces(self.rows, depth, major=self.major, item_bytes=self.item_bytes)
        one = decode(self.value & FIELD_BITS)
        return set(one.address(r, k, major=self.major, item_bytes=self.item_bytes).ravel().tolist())


def panel(shown: Operand) -> str:
    """The value, its fields, the highest bits first, and the verdict."""
    one = decode(shown.value & FIELD_BITS)
    items = []
    behind = 64
    for number, field in reversed(list(enumerate(FIELDS))):
        items.append(_unused(shown.value, field.last + 1, behind))
        digits = f"{field.of(shown.value):0{field.bits}b}"
        words = _meaning(number, one, shown)
        items.append(
            f"<li><b>{field.name}</b> <span>bits {field.first}–{field.last}</span> "
            f"<code>{digits}</code> <span>{html.escape(words)}</span></li>"
        )
        behind = field.first
    found = mistakes(
        shown.value,
        major=shown.major,
        item_bytes=shown.item_bytes,
        rows=shown.rows,
        swizzle=shown.swizzle,
    )
    verdict = [f"✗ {each}" for each in found] or [FINE]
    return (
        f'<div class="wb-descriptor-bits"><p><code class="wb-descriptor-value">'
        f'{shown.value:#018x}</code></p><ol aria-label="Fields, the highest bits first">'
        f"{''.join(filter(None, items))}</ol>"
        f'<div class="wb-descriptor-verdict{" is-wrong" * bool(found)}" role="status">'
        f"{_paragraphs(verdict)}</div></div>"
    )


def _unused(value: int, first: int, behind: int) -> str:
    if first == behind:
        return ""
    digits = f"{value >> first & (1 << behind - first) - 1:0{behind - first}b}"
    return (
        f'<li class="wb-descriptor-unused"><b>unused</b> <span>bits {first}–{behind - 1}</span> '
        f"<code>{digits}</code></li>"
    )


def _meaning(number: int, one: Descriptor, shown: Operand) -> str:
    code = FIELDS[number].of(shown.value)
    if number == 0:
        return f"{code:#x} × 16 = {one.start:#x}"
    if number in (1, 2):
        length = (one.leading, one.stride)[number - 1]
        where = DIRECTIONS[shown.major][bool(one.swizzle)][number - 1].format(e=one.swizzle // 2)
        if shown.major == "MN" and one.swizzle and number == 1 and 2 * shown.rows <= one.swizzle:
            where = "unused"
        if number == 2 and shown.rows <= CORE_ROWS and where == "to the next 8 rows":
            where = "unused"
        return f"{code:#x} × {UNIT_BYTES} = {length} bytes, {where}"
    if number == 3:
        return str(code)
    return f"{code}: {f'{one.swizzle} bytes' if one.swizzle else 'none'}"


def _paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)
