"""Words for descriptors, here and in the browser: of each mistake, and where offsets lead."""

from __future__ import annotations

#: Key of a mistake -> value, rule and way out; the braces are filled in.
SENTENCES = {
    "too-wide": "{value}: a descriptor has 64 bits; pass a whole number from 0 to 2^64 - 1.",
    "blackwell": (
        "Bits 46–48 are 1: that is the version in a descriptor of Blackwell's tcgen05, and belongs "
        "to no field of wgmma's; clear bit 46."
    ),
    "mode-at-61": (
        "Bit 61 is set and belongs to no field: wgmma's swizzle mode has two bits, from bit 62 on "
        "(tcgen05's has three, from bit 61 on); shift the mode by 62."
    ),
    "start-wide": (
        "Bits 14–15 are set, so {low} does not fit the start's field, which counts 16 bytes; if it "
        "is a shared address in bytes, write (address & 0x3ffff) >> 4, which is {shifted}."
    ),
    "leading-wide": (
        "Bits 30–31 are set and belong to no field: the leading byte offset was not shifted right "
        "by 4, or a generic address was joined with all its bits; convert it with "
        "__cvta_generic_to_shared, shift, and mask to 14 bits."
    ),
    "stride-wide": (
        "Bits 46–48 are {code} and belong to no field: the stride byte offset was not shifted "
        "right by 4, or a generic address was joined with all its bits; shift, and mask to 14 bits."
    ),
    "high-bits": (
        "Bits 52–61 are {code} and belong to no field: a pointer or a mode in the wrong place; "
        "mask start and offsets to 14 bits and shift the mode by 62."
    ),
    "mn-not-16-bit": (
        "MN-major with elements of {bits} bits: wgmma transposes 16-bit types only; store the "
        "operand K-major."
    ),
    "mode-missing": (
        "The swizzle mode is 0, yet a stride of {stride} bytes and a leading offset of {leading} "
        "are those of a swizzle of {span} bytes; put mode {code} into bits 62–63."
    ),
    "mode-of-tensor-map": (
        "The swizzle mode is {mode}: a tensor map calls {meant} bytes so, a descriptor {span} "
        "bytes; for {meant} bytes put {code} into bits 62–63. The rest is judged once the mode is "
        "right."
    ),
    "mode-of-stride": (
        "The swizzle mode is {mode}, {span} bytes, yet a stride of {stride} bytes is 8 × {meant}, "
        "that of a swizzle of {meant}; put mode {code} into bits 62–63, or make the stride {atom}."
    ),
    "mode-other": (
        "The swizzle mode is {mode}, which is {said}, and you meant {wanted}; put {code} into "
        "bits 62–63. The rest is judged once the mode is right."
    ),
    "start-low": (
        "The start is {start}: the first {first} bytes of shared memory belong to the system, so "
        "no tile lies there; pass the tile's shared address, shifted right by 4 once."
    ),
    "start-unshifted": (
        "The start's field holds {code}, in units of 16 bytes address {start}, and shared memory "
        "ends at {end}: an address that was not shifted; write (address & 0x3ffff) >> 4, {shifted}."
    ),
    "start-beyond": (
        "The start is {start} and shared memory ends at {end}: not a shared address, rather a "
        "global or a host pointer cut to its low bits; pass the tile's shared address."
    ),
    "base-without-swizzle": (
        "The base offset is {base} and the swizzle mode 0: without a swizzle there is no pattern "
        "to move; put 0 into bits 49–51."
    ),
    "start-inside-atom": (
        "The start {start} is {past} bytes behind a multiple of {atom}, where the pattern of a "
        "{span}-byte swizzle begins. If a step along K led there, it left the row, which holds "
        "{steps} of 32 bytes: go to the tile with the next K. Otherwise align the tile to {atom} "
        "bytes, as the PTX ISA asks, even if data that TMA wrote there was found on an H200."
    ),
    "start-half-step": (
        "The start {start} lies {inside} bytes into a row of {span} bytes, an odd multiple of 16: "
        "an instruction along K begins on a multiple of 32, so this one reads half of one step and "
        "half of the next; add 32 bytes a step, 2 in the descriptor's units."
    ),
    "tile-unaligned": (
        "The start {start} is {past} bytes behind a multiple of {atom}, where the pattern of a "
        "{span}-byte swizzle begins: align the tile to {atom} bytes, as the PTX ISA asks, even if "
        "data that TMA wrote there was found on an H200."
    ),
    "base-of-aligned": (
        "The base offset is {base}, yet the start {start} lies in the first {span} bytes of an "
        "atom of {atom}, where it moves the pattern away from the data; put 0 into bits 49–51."
    ),
    "base-other": (
        "The base offset is {base}, and bits 7–9 of the start {start} are {right}: a base offset "
        "repeats those of the address where the pattern begins; align the tile to {atom} bytes and "
        "put 0 into bits 49–51."
    ),
    "row-crossed": (
        "The start {start} lies {inside} bytes into a span of {span} bytes, and an instruction "
        "reads {need} bytes of a span: it runs over the end; K-major, step along K by 32 bytes "
        "inside a span, then go to the next tile; MN-major, start where a span starts."
    ),
    "swapped": (
        "Leading offset {leading} and stride {stride} bytes do not fit this layout, the other way "
        "round they do; swap bits 16–29 and 32–45."
    ),
    "offsets-unshifted": (
        "Leading offset {leading} and stride {stride} bytes are 16 times what a layout has whose "
        "parts touch: they were not shifted right by 4; bits 16–29 and 32–45 count 16 bytes."
    ),
    "offsets-shifted-twice": (
        "Leading offset {leading} and stride {stride} bytes are too small, 16 times as much would "
        "fit: shifted right by 4 twice, or in units where bytes were meant; pass bytes, shift once."
    ),
    "stride-of-other-swizzle": (
        "The stride is {length} bytes, 8 × {other}: that is the stride of the {other}-byte "
        "swizzle, and this one has {span} bytes, so its next eight {lines} begin a multiple of "
        "{atom} bytes (8 × {span}) further; pass {atom} where they are adjacent."
    ),
    "leading-not-atoms": (
        "The leading offset is {length} bytes: it leads to the next {rows} rows, and with a "
        "swizzle of {span} bytes these begin a multiple of {atom} bytes further; pass such a "
        "multiple."
    ),
    "stride-not-atoms": (
        "The stride is {length} bytes: it leads to the next eight {lines}, and with a swizzle of "
        "{span} bytes these begin a multiple of {atom} bytes (8 × {span}) further; pass {atom} "
        "where they are adjacent."
    ),
    "overlap": (
        "Leading offset {leading} and stride {stride} bytes put two parts of the operand on the "
        "same bytes: each part takes {part}; pass the distances at which the parts were stored."
    ),
    "tile-beyond": (
        "The operand reaches from {start} to {last}, and a block's shared memory ends at {end} at "
        "the latest; correct start or offsets."
    ),
}
#: Where leading and stride lead: by major, without and with a swizzle. {e}: rows of a span.
DIRECTIONS = {
    "K": (("to the next 16 bytes along K", "to the next 8 rows"), ("unused", "to the next 8 rows")),
    "MN": (
        ("to the next 8 of k", "to the next 8 rows"),
        ("to the next {e} rows", "to the next 8 of k"),
    ),
}
