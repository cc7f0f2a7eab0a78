"""Reads layouts as CuTe prints them.

(4,(2,8)):(1,(64,8))                            plain
(_4,(_2,_8)):(_1,(_64,_8))                      with CuTe's mark for compile-time integers
Sw<3,3,3> o (8,64):(64,1)                       with a swizzle of its offsets
Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)   where the swizzle counts bytes
"""

from __future__ import annotations

import re

from hopper.errors import ProblemError

from .core import IntTuple, Layout
from .swizzle import Swizzle, SwizzledLayout

_SWIZZLE = re.compile(r"\s*Sw<\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*>\s*(?:o|∘)\s*")
_POINTER = re.compile(r"smem_ptr\[(\d+)b\]\(\w*\)\s*(?:o|∘)\s*")
_TOKEN = re.compile(r"\s*(_?\d+|[(),:])")
_WAY_OUT = "write shape:stride, as in (4,(2,8)):(1,(64,8))"


def parse(text: str) -> Layout | SwizzledLayout:
    """The layout that ``text`` writes down; a SwizzledLayout where it begins with Sw<B,M,S> o.

    With ``smem_ptr[16b](unset) o`` in between, as CuTe prints layouts of shared memory, the swizzle
    counts bytes and the layout elements of that many bits; the result counts elements. Raises
    ProblemError for anything else, naming where it goes wrong, and for a layout that is none.
    """
    swizzle = _SWIZZLE.match(text)
    if not swizzle:
        return _Reader(text).layout(0)
    found = Swizzle(*map(int, swizzle.groups()))
    start = swizzle.end()
    pointer = _POINTER.match(text, start)
    if pointer:
        bits = int(pointer[1])
        if bits % 8:
            raise ProblemError(f"{text!r}: elements of {bits} bits; only whole bytes are read here")
        found, start = found.in_items(bits // 8), pointer.end()
    return SwizzledLayout(found, _Reader(text).layout(start))


class _Reader:
    """Walks over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.token = ""
        self.place = 0  # of the token
        self.end = 0

    def layout(self, start: int) -> Layout:
        self.end = start
        self._next()
        shape = self._tuple("a shape")
        self._take(":", "between shape and stride")
        stride = self._tuple("a stride")
        if self.token:
            raise self._wrong("the end")
        return Layout(shape, stride)

    def _tuple(self, what: str) -> IntTuple:
        if self.token.lstrip("_").isdigit():
            number = int(self.token.lstrip("_"))
            self._next()
            return number
        if self.token != "(":
            raise self._wrong(f"{what}: a number or an opening parenthesis")
        parts: list[IntTuple] = []
        while not parts or self.token == ",":
            self._next()
            parts.append(self._tuple(what))
        self._take(")", f"or a comma, inside {what}")
        return tuple(parts)

    def _take(self, token: str, where: str) -> None:
        if self.token != token:
            raise self._wrong(f"{token!r} {where}")
        self._next()

    def _next(self) -> None:
        rest = self.text[self.end :]
        found = _TOKEN.match(rest)
        self.place = self.end + len(rest) - len(rest.lstrip())
        if not found and rest.strip():
            raise ProblemError(
                f"{self.text!r}: character {self.text[self.place]!r} at place {self.place} belongs "
                f"to no layout; {_WAY_OUT}"
            )
        self.token = found[1] if found else ""
        self.end += found.end() if found else len(rest)

    def _wrong(self, expected: str) -> ProblemError:
        found = f"{self.token!r} at place {self.place}" if self.token else "the end"
        return ProblemError(f"{self.text!r}: {found} where {expected} should be; {_WAY_OUT}")
