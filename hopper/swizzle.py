"""The swizzle of shared memory: how TMA permutes 16-byte pieces, and wgmma finds them again.

Both XOR bits 4–6 of a byte's shared address with its bits 7–9, so neither needs to know where a
tile starts. The widest mode uses all three bits, a narrower one fewer. Sources: PTX ISA, "Swizzling
Modes" and the wgmma matrix descriptor; that the XOR acts on the absolute address is what probes on
an H200 showed. An address is a Python int or a NumPy array of integers, in bytes.
"""

from __future__ import annotations

import numpy

from hopper.errors import ProblemError

PIECE_BYTES = 16
# Span in bytes, 0 for no swizzle -> which of the bits 7–9 take part.
_MASK = {128: 7, 64: 3, 32: 1, 0: 0}
SPANS = tuple(_MASK)
# Eight spans, in which the pattern runs through once.
_SPANS_AN_ATOM = 8


def require_span(swizzle: int) -> None:
    """Raise ProblemError unless ``swizzle`` is a span in bytes: 128, 64, 32, or 0 for none."""
    if swizzle not in _MASK:
        raise ProblemError(
            f"swizzle={swizzle}: a mode is named by its span in bytes, and the spans are 128, 64, "
            f"32, and 0 for no swizzle; choose one of them"
        )


def swizzled(address: int | numpy.ndarray, swizzle: int) -> int | numpy.ndarray:
    """Where the byte of unswizzled shared ``address`` lies. Its own inverse.

    ``swizzle``: span in bytes, 128, 64, 32 or 0. Raises ProblemError for another.
    """
    require_span(swizzle)
    return address ^ (address >> 7 & _MASK[swizzle]) << 4


def atom_bytes(swizzle: int) -> int:
    """Bytes after which the pattern repeats: 1024, 512 or 256; 0 without a swizzle.

    An atom is eight rows of one span. Raises ProblemError for an unknown swizzle.
    """
    require_span(swizzle)
    return _SPANS_AN_ATOM * swizzle


def alignment(swizzle: int) -> int:
    """Bytes of which a tile's start is a multiple, so that its descriptor's base offset is 0.

    The atom; without a swizzle 16, the unit of a descriptor. (TMA asks for 128 by itself.)
    Raises ProblemError for an unknown swizzle.
    """
    return max(PIECE_BYTES, atom_bytes(swizzle))
