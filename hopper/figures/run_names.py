"""Names in a timeline: variables of shared memory, lines of CUDA C++, events as sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from hopper.compile import Program
from hopper.emulator.ptx import Source, parse
from hopper.emulator.spaces import SYSTEM_SHARED_BYTES
from hopper.emulator.trace import Event

# _ZZ8v1_wgmmaE6tile_a: a variable tile_a of a function v1_wgmma, in the Itanium C++ ABI's spelling.
_LOCAL_NAME = re.compile(r"_ZZ.*E(\d+)(\w+)$")
_BARRIER_BYTES = 8
_LINE = 90  # characters of a source line that are shown


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters, the last one … where something is left out."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def plain_name(mangled: str) -> str:
    """A variable's name as the kernel's source spells it."""
    found = _LOCAL_NAME.match(mangled)
    if not found:
        return mangled
    length, rest = int(found[1]), found[2]
    return rest[:length]


class Names:
    """Looks up a program's names.

    ``given``: shared address -> name, before all others; ``per_block``: places of a block's warps.
    """

    def __init__(self, program: Program, given: Mapping[int, str], per_block: int) -> None:
        self._per_block = per_block
        kernel = parse(program.ptx, program.kernel)
        self.given = dict(given)
        self._instructions = {x.line: x for x in kernel.code}
        # NVRTC gets the source and each header as text; a line of them says more than its number.
        unit = program._unit
        self._texts = {unit.name: unit.source.splitlines()}
        self._texts |= {name.rsplit("/", 1)[-1]: text.splitlines() for name, text in unit.headers}
        self._waited: dict[tuple, int] = {}
        self._variables: list[tuple[int, int, str]] = []
        at = SYSTEM_SHARED_BYTES
        for variable in kernel.variables:
            if variable.space == "shared" and variable.bytes is not None:
                at = -(-at // variable.align) * variable.align
                self._variables.append((at, at + variable.bytes, plain_name(variable.name)))
                at += variable.bytes

    def memory(self, address: int, size: int) -> str:
        """Shared memory in words: "tile_a", or an address and a size where it has no name."""
        if address in self.given:
            return self.given[address]
        for start, stop, name in self._variables:
            if start <= address < stop:
                inside = address - start
                return f"{name} + {inside:,}" if inside or size < stop - start else name
        return f"shared {address:#x}"

    def barrier(self, address: int) -> str:
        """An mbarrier in words: "loaded", "full[2]"."""
        if address in self.given:
            return self.given[address]
        for start, stop, name in self._variables:
            if start <= address < stop:
                one = stop - start == _BARRIER_BYTES
                return name if one else f"{name}[{(address - start) // _BARRIER_BYTES}]"
        return f"mbarrier {address:#x}"

    def place(self, line: int) -> str:
        """Where a line of PTX comes from: "v1_wgmma.cu:74", or "PTX line 114"."""
        source = self._outermost(line)
        return str(source) if source else f"PTX line {line}" if line else ""

    def source(self, line: int) -> str:
        """The same with the text of the line, and the helper that it calls."""
        where = self.place(line)
        outer = self._outermost(line)
        if outer is None:
            x = self._instructions.get(line)
            return f"{where}: {shorten(x.text, _LINE)}" if x else where
        lines = self._texts.get(outer.file.rsplit("/", 1)[-1], [])
        statement = ""
        for text in lines[outer.line - 1 : outer.line + 2]:
            space = " " if statement and not statement.endswith("(") else ""
            statement += space + text.split("//")[0].strip()
            if statement.endswith((";", "{", "}")):
                break
        return f"{where}: {shorten(statement, _LINE)}" if statement else where

    def opcode(self, line: int) -> str:
        """The opcode at a line of PTX."""
        x = self._instructions.get(line)
        return x.opcode if x else ""

    def _outermost(self, line: int) -> Source | None:
        x = self._instructions.get(line)
        source = x.source if x else None
        while source and source.inlined_at:
            source = source.inlined_at
        return source

    def learn(self, events: Sequence[Event]) -> None:
        """Learn which mbarriers warps are parked for: the trace tells that right before."""
        for before, event in pairwise(events):
            if event.kind == "warp.wait" and before.kind == "mbarrier.wait":
                self._waited[event.detail["on"]] = before.detail["address"]

    def waits_for(self, key: tuple) -> str:
        """What parked warps wait for, in words. ``key``: what wakes them."""
        kind = key[0]
        if kind == "mbarrier":
            address = self._waited.get(key)
            return "an mbarrier" if address is None else self.barrier(address)
        return _WAITS.get(kind, str(kind))

    def sentence(self, event: Event, copies: Mapping[int, Event]) -> str:
        """An event in words; empty for one that another event says as well."""
        detail, kind = event.detail, event.kind
        who = f"Warp {event.warp}"
        if "owner" in detail:
            name = self.barrier(detail["address"])
        if kind == "mbarrier.init":
            return f"{who} initialises {name}: {_arrivals(detail['count'])} a phase."
        if kind == "mbarrier.arrive":
            told = f" and announces {detail['bytes']:,} bytes" if detail["bytes"] else ""
            return f"{who} arrives at {name}{told}."
        if kind == "mbarrier.expect_tx":
            return f"{who} announces {detail['bytes']:,} bytes to {name}."
        if kind == "mbarrier.phase":
            return f"Phase {detail['phase']} of {name} is complete."
        if kind == "tma.copy":
            return f"{who} asks TMA for a copy: {self.copy(event)}."
        if kind == "tma.read":
            return "TMA has read the source of a store."
        if kind == "tma.complete" and detail["copy"] in copies:
            return f"TMA is done: {self.copy(copies[detail['copy']])}."
        if kind == "wgmma.issue":
            return f"{_warpgroup(event)} issue {detail['instruction'].split('.')[4]}."
        if kind == "wgmma.wait":
            retired = detail["retired"]
            return f"{_warpgroup(event)} wait: {retired} group{'s' * (retired != 1)} retired."
        if kind in _SENTENCES:
            return _SENTENCES[kind].format(group=_warpgroup(event))
        if kind in _DEEDS:
            warps = self._warps(event)
            one, several, what = _DEEDS[kind]
            what = what or f" for {self.waits_for(detail['on'])}"
            return f"{warps} {one if warps.startswith('Warp ') else several}{what}."
        return ""

    def _warps(self, event: Event) -> str:
        everyone = event.detail.get("warps", [event.warp])
        return warps_in_words(sorted({warp % self._per_block for warp in everyone}))

    def copy(self, event: Event) -> str:
        """What a ``tma.copy`` moves."""
        detail = event.detail
        size = f"{detail['bytes']:,} bytes"
        if "writes" in detail:
            return f"{size} to {self.memory(*detail['writes'][1:])}"
        return f"{size} from {self.memory(*detail['reads'][1:])} to global memory"


_WAITS = {
    "bar": "a block barrier",
    "cluster": "the cluster's barrier",
    "bulk group": "its bulk copies",
    "meeting": "the rest of its warpgroup",
}
#: What one warp does, what several do, and to what.
_DEEDS = {
    "warp.wait": ("waits", "wait", ""),
    "warp.wake": ("goes", "go", " on"),
    "warp.exit": ("leaves", "leave", " the kernel"),
    "ldmatrix": ("loads", "load", " operands from shared memory to registers"),
    "mma": ("multiplies", "multiply", " registers by registers"),
}
_SENTENCES = {
    "wgmma.fence": "{group} execute wgmma.fence.",
    "wgmma.commit": "{group} commit a group.",
    "cluster.phase": "The cluster's barrier is complete.",
}


def _arrivals(count: int) -> str:
    return f"{count} arrival{'s' * (count != 1)}"


def _warpgroup(event: Event) -> str:
    return f"Warps {event.warp}–{event.warp + 3}"


def warps_in_words(warps: list[int]) -> str:
    """ "Warp 2", "Warps 0–3", "Warps 1, 5"."""
    if len(warps) == 1:
        return f"Warp {warps[0]}"
    if warps == list(range(warps[0], warps[-1] + 1)):
        return f"Warps {warps[0]}–{warps[-1]}"
    return f"Warps {', '.join(map(str, warps))}"
