"""Rules of mbarrier and TMA, from the code that checks them and the recordings that show them.

`{tma-map-rules}` asks `hopper.tensormap` for an example of each rule of a tensor map and quotes its
answer. `{tma-rules} SECTION` lists a section of `tma_rules.toml`: the rule, who reports it, and
what an H200 did.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.error_index import to_message
from extension.freshness import note_computed
from extension.observed import cases, stops, trials_of
from extension.tables import table
from hopper.emulator.mbarrier import MAX_COUNT
from hopper.errors import ProblemError
from hopper.tensormap import TensorMap

RULES = Path(__file__).with_name("tma_rules.toml")
_LIMITS = {"{arrivals}": f"{MAX_COUNT:,}", "{bytes}": f"{MAX_COUNT:,}"}


class Described:
    """A matrix in GPU memory by its description, so that a map can be asked for without a GPU."""

    def __init__(
        self,
        shape: tuple[int, ...] = (512, 512),
        dtype: str = "float16",
        strides: tuple[int, ...] | None = None,
        address: int = 1 << 20,
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": numpy.dtype(dtype).str,
            "strides": strides,
            "data": (address, False),
            "version": 3,
        }


@dataclass(frozen=True)
class MapRule:
    """A rule of a tensor map, and one that breaks it: an array, and arguments of ``TensorMap``."""

    rule: str
    array: Described
    box: tuple[int, ...] = (64, 64)
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def answer(self) -> str:
        """What `hopper.tensormap` says. Raises ValueError where it has nothing to say."""
        try:
            TensorMap(self.array, self.box, **dict(self.options))
        except ProblemError as error:
            return str(error)
        raise ValueError(f"{self.rule}: hopper.tensormap accepts the example")


MAP_RULES: tuple[MapRule, ...] = (
    MapRule("Number of axes", Described((2,) * 6), (1,) * 6),
    MapRule("A length of the box for each axis", Described(), (64,)),
    MapRule("Elements along an axis of the array", Described((2**32 + 1, 64))),
    MapRule("Elements along an axis of the box", Described(), (512, 64)),
    MapRule("Bytes of the box's rows", Described(), (64, 60)),
    MapRule("… not wider than the swizzle", Described(), (64, 128)),
    MapRule("Swizzles", Described(), options=(("swizzle", 16),)),
    MapRule("The last axis is contiguous", Described(strides=(2048, 4))),
    MapRule("Bytes from row to row", Described((512, 100))),
    MapRule("Where the array starts", Described(address=(1 << 20) + 8)),
    MapRule("Types", Described(dtype="complex64"), (64, 8)),
    MapRule("What a miss fetches into L2", Described(), options=(("l2_promotion", 32),)),
    MapRule("What stands for the outside", Described(), options=(("fill", "ones"),)),
    MapRule("What an element is", Described(), options=(("element", "bfloat16"),)),
    MapRule("… NaN for floating point only", Described(dtype="uint16"), options=(("fill", "nan"),)),
)


@dataclass(frozen=True)
class Rule:
    """A rule on the device. For the fields see the head of `tma_rules.toml`."""

    rule: str
    source: str
    kind: tuple[str, ...] = ()
    also: str = ""
    trials: tuple[str, ...] = ()
    stops: str = ""
    error: str = ""
    cases: str = ""

    @property
    def observed(self) -> str:
        """What an H200 did, from recordings; "" where none tells."""
        told = [trials_of(list(self.trials))] if self.trials else []
        told += [stops(self.stops, self.error)] if self.stops else []
        told += [cases(self.cases)] if self.cases else []
        return "; ".join(told)


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """The rules of `tma_rules.toml` by section, limits filled in."""
    found = {}
    for section, entries in tomllib.loads(RULES.read_text(encoding="utf-8")).items():
        made = []
        for entry in entries:
            lists = {key: tuple(entry.pop(key, ())) for key in ("kind", "trials")}
            for mark, value in _LIMITS.items():
                entry["rule"] = entry["rule"].replace(mark, value)
            made.append(Rule(**entry, **lists))
        found[section] = tuple(made)
    return found


class MapRules(SphinxDirective):
    """`tma-map-rules`: what `hopper.tensormap` asks of a map, in its own words."""

    def run(self) -> list[nodes.Node]:
        """A row a rule."""
        note_computed(self.env, self.env.docname)
        rows = [(one.rule, nodes.literal("", one.answer)) for one in MAP_RULES]
        return [table(("What is asked", "Answer to an example"), rows, classes=["book-words"])]


class TmaRules(SphinxDirective):
    """`tma-rules` with one argument, a section of `tma_rules.toml`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A row a rule; an error names the sections there are."""
        note_computed(self.env, self.env.docname)
        if self.arguments[0] not in rules():
            raise self.error(f"tma-rules {self.arguments[0]!r}: choose one of {', '.join(rules())}")
        rows = []
        for one in rules()[self.arguments[0]]:
            rule = self.inline(one.rule)
            rule += [nodes.Text(" "), nodes.emphasis("", f"({one.source})")]
            rows.append((rule, self.told(one)))
        heads = ("Rule, and where it is written", "Who reports it, and what an H200 did")
        return [table(heads, rows, classes=["book-words"])]

    def inline(self, text: str) -> nodes.inline:
        """Markdown as the content of a cell."""
        inline, problems = self.parse_inline(text, lineno=self.lineno)
        return nodes.inline("", "", *inline, *problems)

    def told(self, one: Rule) -> nodes.inline:
        """Who reports a broken rule, linked to the error index, and what an H200 did."""
        cell = nodes.inline()
        for number, kind in enumerate(one.kind):
            cell += nodes.Text(", " if number else "Emulator: ")
            cell += to_message(kind, self.env.docname)
        if one.kind:
            cell += nodes.Text(". ")
        if one.also:
            cell += [self.inline(one.also), nodes.Text(". ")]
        if not (one.kind or one.also):
            cell += nodes.Text("Nobody. ")
        if one.observed:
            cell += self.inline(f"*H200:* {one.observed}.")
        return cell


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("tma-map-rules", MapRules)
    app.add_directive("tma-rules", TmaRules)
