"""Which lines of CUDA C++ a line of PTX came from: through inlined functions, into headers.

NVRTC writes a ``.loc`` before the instructions of each source line; where a function was inlined
it names the place of the call, and the ``.loc`` of that place, further up, names the next (PTX ISA,
debugging directives: .loc).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hopper.paths import INCLUDE

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


@dataclass(frozen=True)
class Place:
    """A place in a file, as the reader finds it. ``line``, ``column``: 0 where not known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class SourceLines:
    """The places of a kernel's PTX, which was compiled with line information.

    ``source``: the file that was compiled, as the reader named it. Headers are looked for where
    ``compile_cuda`` found them: beside it, and in ``kernels/include``.
    """

    def __init__(self, ptx: str, source: Path) -> None:
        self.source = source
        self._lines: list[int] = []
        self._stacks: list[tuple[Place, ...]] = []
        self._texts: dict[str, list[str]] = {}
        names = dict(m.groups() for m in map(_FILE.match, ptx.splitlines()) if m)
        files = {number: self._found(name) for number, name in names.items()}
        callers: dict[tuple[str, ...], tuple[Place, ...]] = {}
        for number, text in enumerate(ptx.splitlines(), 1):
            found = _LOC.match(text)
            if not found:
                continue
            at, call = found.groups()[:3], found.groups()[3:]
            outer = ()
            if call[0]:
                outer = callers.get(call) or (_place(files, call),)
            stack = (_place(files, at), *outer) if at[1] != "0" else ()
            callers[at] = stack
            self._lines.append(number)
            self._stacks.append(stack)

    def stack(self, ptx_line: int) -> tuple[Place, ...]:
        """Where an instruction came from: first itself, then who called the function it is in."""
        at = bisect_right(self._lines, ptx_line) - 1
        return self._stacks[at] if at >= 0 else ()

    def split(self, ptx_line: int) -> tuple[Place | None, tuple[Place, ...], tuple[Place, ...]]:
        """The place in the reader's own file; those inside what it calls; those that call it."""
        stack = self.stack(ptx_line)
        for depth, place in enumerate(stack):
            if place.file == str(self.source):
                return place, stack[:depth], stack[depth + 1 :]
        return (stack[0], (), stack[1:]) if stack else (None, (), ())

    def text(self, place: Place) -> str:
        """The line of source at a place, empty where it cannot be read."""
        if place.file not in self._texts:
            try:
                self._texts[place.file] = Path(place.file).read_text().splitlines()
            except (OSError, UnicodeDecodeError):
                self._texts[place.file] = []
        lines = self._texts[place.file]
        return lines[place.line - 1] if 1 <= place.line <= len(lines) else ""

    def _found(self, name: str) -> str:
        """The file of a ``.file`` directive, which puts a folder of its own before the name."""
        parts = PurePosixPath(name).parts
        if parts[-1] == self.source.name:
            return str(self.source)
        for count in range(1, len(parts)):
            for folder in (self.source.parent, INCLUDE):
                path = folder.joinpath(*parts[-count:])
                if path.is_file():
                    return _shown(path)
        return parts[-1]


def _shown(path: Path) -> str:
    """A path as it is best read from the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _place(files: dict[str, str], at: tuple[str, ...]) -> Place:
    return Place(files.get(at[0], "?"), int(at[1]), int(at[2]))
