"""What is wrong with the 64 bits of a matrix descriptor, each mistake by name and in a sentence.

A number alone seldom tells: whether an offset is right depends on how the operand lies and on how
many rows an instruction reads. So ``mistakes`` takes what you meant beside what you have. It
reports what cannot be meant: bits of no field, a tile outside shared memory, rows that the swizzle
would not find, core matrices that lie on one another. Where a known slip explains the number, it
says so. A mode that
is not the one that is meant ends the report: offsets and start would be judged by a wrong span.

Sources: PTX ISA, "Matrix Descriptor Format" of wgmma.mma_async, and "Shared memory descriptor" of
tcgen05 for Blackwell's; CUDA driver API, CUtensorMapSwizzle. An explorer in the browser answers the
same, from the sentences of ``hopper.descriptor.sentences`` and the constants of this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hopper.architecture import constant
from hopper.descriptor import (
    CORE_ROWS,
    FIELD_BITS,
    FIELDS,
    STEP_BYTES,
    SWIZZLE_CODE,
    UNIT_BYTES,
    Descriptor,
    Major,
    decode,
)
from hopper.descriptor.sentences import SENTENCES
from hopper.errors import ProblemError
from hopper.swizzle import PIECE_BYTES, atom_bytes, require_span

#: A block's own shared memory begins here; the system keeps what lies before.
SHARED_START = 1024
#: First shared address behind the most that a block can have.
SHARED_END = SHARED_START + int(constant("shared_bytes_per_cta").value)
#: Span in bytes -> its code in a tensor map, CU_TENSOR_MAP_SWIZZLE_….
TENSOR_MAP_CODE = {0: 0, 32: 1, 64: 2, 128: 3}
CORE_BYTES = CORE_ROWS * PIECE_BYTES
MAX_ROWS = int(constant("wgmma_n_max").value)

#: After these nothing else in the number can be trusted.
_SPOILED = {"start-wide", "leading-wide", "stride-wide", "high-bits"}


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong: ``key`` names it, ``str`` says value, rule and way out."""

    key: str
    values: dict[str, str | int] = field(hash=False, default_factory=dict)

    def __str__(self) -> str:
        return SENTENCES[self.key].format(**self.values)


def mistakes(
    value: int,
    *,
    major: Major,
    item_bytes: int = 2,
    rows: int = 64,
    swizzle: int | None = None,
) -> tuple[Mistake, ...]:
    """What is wrong with a descriptor ``value`` of an operand that is meant to be so.

    ``major``: "K" or "MN". ``item_bytes``: of an element, 1, 2 or 4. ``rows``: that an instruction
    reads, 64 of A, N of B. ``swizzle``: the span in bytes that is meant, 0 for none; None believes
    the descriptor, unless its stride tells that another was meant. Empty for a number that is fine.
    Raises ProblemError for an operand that wgmma has not.
    """
    _require_operand(major, item_bytes, rows)
    if swizzle is not None:
        require_span(swizzle)
    if not 0 <= value < 1 << 64:
        return (Mistake("too-wide", {"value": hex(value)}),)
    found = list(_unused_bits(value))
    if _SPOILED & {one.key for one in found}:
        return tuple(found)
    it = decode(value & FIELD_BITS)
    if major == "MN" and item_bytes != 2:
        found.append(Mistake("mn-not-16-bit", {"bits": 8 * item_bytes}))
        return tuple(found)
    meant, mode = _mode(it, major, rows, swizzle)
    found += mode
    here = list(_start(it))
    if mode:
        return (*found, *here)
    found += here or _alignment(it, meant, major, rows)
    offsets = _offsets(it.leading, it.stride, meant, major, rows)
    last = it.start + _reach(it.leading, it.stride, meant, major, rows) - 1
    if not here and not offsets and last >= SHARED_END:
        offsets = [
            Mistake(
                "tile-beyond", {"start": hex(it.start), "last": hex(last), "end": hex(SHARED_END)}
            )
        ]
    return (*found, *offsets)


def sound_offsets(leading: int, stride: int, *, span: int, major: Major, rows: int) -> bool:
    """Whether an operand that is meant to be so can have these two byte offsets.

    ``span``: of its swizzle in bytes, 0 for none. ``rows``: that an instruction reads.
    """
    return not _offsets(leading, stride, span, major, rows)


def _require_operand(major: Major, item_bytes: int, rows: int) -> None:
    if major not in ("K", "MN"):
        raise ProblemError(f"major={major!r}: an operand is K-major or MN-major; pass 'K' or 'MN'")
    if item_bytes not in (1, 2, 4):
        raise ProblemError(
            f"item_bytes={item_bytes}: wgmma's operands have 1, 2 or 4 bytes an element; pass one "
            f"of these"
        )
    if rows % CORE_ROWS or not CORE_ROWS <= rows <= MAX_ROWS:
        raise ProblemError(
            f"rows={rows}: an instruction reads 64 rows of A and N of B, multiples of 8 from 8 to "
            f"{MAX_ROWS}; pass one of these"
        )


# ---- bits ---------------------------------------------------------------------------------------


def _unused_bits(value: int) -> Iterator[Mistake]:
    between, high = value >> 46 & 7, value >> 52 & 0x3FF
    if value >> 14 & 3:
        low = value & 0xFFFF
        yield Mistake("start-wide", {"low": hex(low), "shifted": hex(low >> 4)})
    if value >> 30 & 3:
        yield Mistake("leading-wide")
    # A stride that was not shifted leaves nothing in its field where it reaches bit 46.
    if between == 1 and FIELDS[2].of(value):
        yield Mistake("blackwell")
    elif between:
        yield Mistake("stride-wide", {"code": between})
    if high == 1 << 9:
        yield Mistake("mode-at-61")
    elif high:
        yield Mistake("high-bits", {"code": hex(high)})


# ---- the mode -----------------------------------------------------------------------------------


def _mode(
    it: Descriptor, major: Major, rows: int, meant: int | None
) -> tuple[int, tuple[Mistake, ...]]:
    """The span by which everything else is judged, and what is wrong with the mode."""
    mode = SWIZZLE_CODE[it.swizzle]
    if meant is None:
        meant, key = _meant(it, major, rows)
    elif meant == it.swizzle:
        key = ""
    else:
        key = "mode-of-tensor-map" if mode == TENSOR_MAP_CODE[meant] else "mode-other"
    values = {
        "mode": mode,
        "span": it.swizzle,
        "meant": meant,
        "code": SWIZZLE_CODE[meant],
        "stride": it.stride,
        "said": _in_words(it.swizzle),
        "wanted": _in_words(meant),
    }
    if key == "mode-of-stride":
        values["atom"] = atom_bytes(it.swizzle)
    if key == "mode-missing":
        values |= {"span": meant, "leading": it.leading}
    return meant, (Mistake(key, values),) if key else ()


def _in_words(span: int) -> str:
    return f"{span} bytes" if span else "no swizzle"


def _meant(it: Descriptor, major: Major, rows: int) -> tuple[int, str]:
    """The span that the stride speaks of, and the mistake if the mode says another."""
    groups = major == "MN" or rows > CORE_ROWS
    eighth = it.stride // CORE_ROWS
    if not groups or it.stride % CORE_ROWS or eighth not in (32, 64, 128):
        return it.swizzle, ""
    if it.swizzle == 0 and major == "K" and it.leading <= UNIT_BYTES:
        return eighth, "mode-missing"
    if it.swizzle == 128 and eighth == 32:
        return eighth, "mode-of-tensor-map"
    if it.swizzle == 32 and eighth == 128 and major == "K":
        return eighth, "mode-of-tensor-map"
    if it.swizzle > eighth:
        return eighth, "mode-of-stride"
    return it.swizzle, ""


# ---- the start ----------------------------------------------------------------------------------


def _start(it: Descriptor) -> Iterator[Mistake]:
    code = it.start // UNIT_BYTES
    values = {"start": hex(it.start), "end": hex(SHARED_END)}
    if it.start < SHARED_START:
        yield Mistake("start-low", {"start": hex(it.start), "first": SHARED_START})
    elif it.start >= SHARED_END and code % UNIT_BYTES == 0:
        shifted = hex(code // UNIT_BYTES)
        yield Mistake("start-unshifted", {**values, "code": hex(code), "shifted": shifted})
    elif it.start >= SHARED_END:
        yield Mistake("start-beyond", values)


def _alignment(it: Descriptor, span: int, major: Major, rows: int) -> Iterator[Mistake]:
    """Whether the rows of the swizzle's pattern and those of the operand are the same."""
    values = {"start": hex(it.start), "span": span, "atom": atom_bytes(span)}
    if not span:
        if it.base_offset:
            yield Mistake("base-without-swizzle", {"base": it.base_offset})
        return
    atom = atom_bytes(span)
    values["base"] = it.base_offset
    if (it.start - 128 * it.base_offset) % atom >= span:
        if not it.base_offset:
            key = "start-inside-atom" if major == "K" else "tile-unaligned"
            more = {"past": it.start % atom, "steps": span // STEP_BYTES}
            yield Mistake(key, values | more)
        elif it.start % atom < span:
            yield Mistake("base-of-aligned", values)
        else:
            yield Mistake("base-other", {**values, "right": it.start >> 7 & 7})
    inside = it.start % span
    need = STEP_BYTES if major == "K" else min(2 * rows, span)
    if inside + need > span:
        yield Mistake("row-crossed", {**values, "inside": inside, "need": need})
    elif major == "K" and inside % STEP_BYTES:
        yield Mistake("start-half-step", {**values, "inside": inside})


# ---- the offsets --------------------------------------------------------------------------------


def _parts(span: int, major: Major, rows: int) -> tuple[tuple[int, int], int, int]:
    """How often an operand goes on by leading offset and by stride; bytes of a part; of which
    its offsets are multiples.
    """
    if not span:
        return (STEP_BYTES // PIECE_BYTES, rows // CORE_ROWS), CORE_BYTES, UNIT_BYTES
    atom = atom_bytes(span)
    if major == "K":
        return (1, rows // CORE_ROWS), atom, atom
    return (-(-2 * rows // span), STEP_BYTES // 2 // CORE_ROWS), atom, atom


def _fits(leading: int, stride: int, span: int, major: Major, rows: int) -> bool:
    """Whether the parts lie where parts can lie, and none on another."""
    counts, part, unit = _parts(span, major, rows)
    if any(
        count > 1 and length % unit for count, length in zip(counts, (leading, stride), strict=True)
    ):
        return False
    return not _overlap(counts, leading, stride, part)


def _overlap(counts: tuple[int, int], leading: int, stride: int, part: int) -> bool:
    starts = sorted(i * leading + j * stride for i in range(counts[0]) for j in range(counts[1]))
    return any(after - one < part for one, after in zip(starts, starts[1:], strict=False))


def _reach(leading: int, stride: int, span: int, major: Major, rows: int) -> int:
    """Bytes from the start to behind the last one that is read, before the XOR."""
    (along, down), part, _ = _parts(span, major, rows)
    used = part
    if span:
        line = STEP_BYTES if major == "K" else min(2 * rows, span)
        used = part - span + line
    return (along - 1) * leading + (down - 1) * stride + used


def _offsets(leading: int, stride: int, span: int, major: Major, rows: int) -> list[Mistake]:
    layout = (span, major, rows)
    counts, part, unit = _parts(*layout)
    values = {"leading": leading, "stride": stride}
    if _fits(leading, stride, *layout):
        return (
            [Mistake("offsets-unshifted", values)] if _unshifted(leading, stride, *layout) else []
        )
    if _fits(stride, leading, *layout):
        return [Mistake("swapped", values)]
    others = [8 * other for other in SWIZZLE_CODE if other not in (0, span)] if span else []
    borrowed = counts[1] > 1 and stride % unit and stride in others
    small = all(
        count == 1 or length < part for count, length in zip(counts, (leading, stride), strict=True)
    )
    if small and not borrowed and _fits(16 * leading, 16 * stride, *layout):
        return [Mistake("offsets-shifted-twice", values)]
    found = []
    if counts[0] > 1 and leading % unit:
        values |= {"length": leading, "rows": span // 2, "span": span, "atom": part}
        found.append(Mistake("leading-not-atoms", values))
    if counts[1] > 1 and stride % unit:
        lines = "rows" if major == "K" else "of k"
        key = "stride-of-other-swizzle" if borrowed else "stride-not-atoms"
        more = {"length": stride, "lines": lines, "span": span, "atom": part}
        found.append(Mistake(key, values | more | {"other": stride // CORE_ROWS}))
    return found or [Mistake("overlap", values | {"part": part})]


def _unshifted(leading: int, stride: int, span: int, major: Major, rows: int) -> bool:
    """Offsets that fit, and are 16 times those of parts that touch."""
    counts, part, _ = _parts(span, major, rows)
    if not span or counts[0] > 1:
        return all(length and length % (16 * part) == 0 for length in (leading, stride))
    return counts[1] > 1 and stride == 16 * part
