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
from hopper.descriptor.mistakes import mistakes, sound_offsets
from hopper.descriptor.pieces import pieces
from hopper.descriptor.sentences import DIRECTIONS
from hopper.placement import Placement
from hopper.swizzle import PIECE_BYTES

FINE = "✓ Nothing is wrong with it."
#: What stands in the boxes of the drawing; the braces are filled in, here and by the script.
NOTES = {
    "tile": "In each box: first row and first k of what the tile keeps there.",
    "bits": (
        "In each box: first row and first k that these 64 bits read there. Start and step are in "
        "the bits."
    ),
    "other": (
        "Dashed: {some} of {all} boxes in which the chosen tile, from the same start on, keeps "
        "something else."
    ),
    "same": "The chosen tile, from the same start on, keeps the same there.",
    "more": (
        "A + counts further places of the operand that fall on the same 16 bytes: up to {n} here."
    ),
}
#: Bytes of K in a tile that is chosen, unless a span is narrower.
DEEP_BYTES = 128


@dataclass(frozen=True)
class Operand:
    """What is shown: a descriptor's operand, or a whole tile and one instruction's part of it.

    ``pasted``: the former, and ``swizzle`` is the one that was meant.
    """

    value: int
    major: Major
    item_bytes: int
    rows: int
    swizzle: int
    whole: Descriptor
    depth: int
    first_k: int
    pasted: bool = False

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

    def stored(self) -> Descriptor:
        """The tile that was meant, as it would lie from the start of pasted bits on.

        Their offsets are believed where such a tile can have them.
        """
        one = self.whole
        deep = self.swizzle if self.major == "K" and self.swizzle else DEEP_BYTES
        unit = (self.swizzle or PIECE_BYTES) // 2 if self.major == "MN" else CORE_ROWS
        rows = -(-self.rows // unit) * unit
        tile = Placement(rows, deep // self.item_bytes, self.major, self.swizzle, self.item_bytes)
        leading, stride = one.leading, one.stride
        layout = {"span": self.swizzle, "major": self.major, "rows": self.rows}
        if not sound_offsets(leading, stride, **layout):
            leading, stride = tile.leading, tile.stride
        begins = UNIT_BYTES
        if self.swizzle:
            begins = STEP_BYTES if self.major == "K" else self.swizzle
        return Descriptor(one.start // begins * begins, leading, stride, swizzle=self.swizzle)

    def strangers(self) -> set[int]:
        """Addresses of boxes that hold something else in the tile that was meant."""
        if not (self.pasted and self.mistakes()):
            return set()
        r, k = pieces(self.rows, self.depth, major=self.major, item_bytes=self.item_bytes)
        kept = self.stored().address(r, k, major=self.major, item_bytes=self.item_bytes)
        held = dict(zip(kept.ravel().tolist(), zip(r.flat, k.flat, strict=True), strict=True))
        return {at for at, places in self.addresses().items() if [held.get(at)] != places}

    def mistakes(self) -> list[str]:
        """What is wrong with the bits, in sentences."""
        found = mistakes(
            self.value,
            major=self.major,
            item_bytes=self.item_bytes,
            rows=self.rows,
            swizzle=self.swizzle,
        )
        return [str(each) for each in found]

    def note(self) -> str:
        """What the boxes of the drawing say."""
        if not self.pasted:
            return NOTES["tile"]
        placed, others = self.addresses(), self.strangers()
        said = [NOTES["bits"]]
        if others:
            said.append(NOTES["other"].format(some=len(others), all=len(placed)))
        elif self.mistakes():
            said.append(NOTES["same"])
        most = max(map(len, placed.values()))
        if most > 1:
            said.append(NOTES["more"].format(n=most - 1))
        return " ".join(said)


def panel(shown: Operand) -> str:
    """The value, its fields, the highest bits first, the verdict, and what the boxes say."""
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
    found = shown.mistakes()
    verdict = [f"✗ {each}" for each in found] or [FINE]
    return (
        f'<div class="wb-descriptor-bits"><p><code class="wb-descriptor-value">'
        f'{shown.value:#018x}</code></p><ol aria-label="Fields, the highest bits first">'
        f"{''.join(filter(None, items))}</ol>"
        f'<div class="wb-descriptor-verdict{" is-wrong" * bool(found)}" role="status">'
        f"{_paragraphs(verdict)}</div>"
        f'<p class="wb-descriptor-note">{html.escape(shown.note())}</p></div>'
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
