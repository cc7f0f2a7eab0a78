"""The difference between any two rungs of the ladder, chosen by two selects.

``hopper.show.diff`` computes the difference of every pair. The page holds each file once, and of a
difference only which lines of which file it shows; ``_static/ladder_diff.js`` puts them together.
Without a script there are the differences from each rung to the next, folded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, product
from typing import Any

from hopper import show
from hopper.errors import ProblemError

from . import palette
from .explorer import select, static_text

_MARKS = {"": "=", "+": "+", "-": "-"}


@dataclass(frozen=True)
class LadderDiff:
    """Two selects and a difference. ``kernels``: at least two, in the order of the ladder.

    ``labels``: what a select shows of each. Raises ProblemError for fewer than two kernels.
    """

    kernels: tuple[str, ...]
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.kernels) < 2:
            raise ProblemError(
                f"kernels={self.kernels!r}: a difference has two sides; give two or more"
            )

    def data(self) -> dict[str, Any]:
        """What the script needs: every file's lines, and the difference of every pair."""
        return {
            "lines": {kernel: numbered(kernel) for kernel in self.kernels},
            "pairs": {
                f"{before} {after}": packed(before, after)
                for before, after in product(self.kernels, repeat=2)
            },
        }

    def _repr_html_(self) -> str:
        options = dict(zip(self.kernels, self.labels, strict=True))
        before, after = self.kernels[-2:]
        steps = "".join(
            f'<div id="{anchor(*pair)}">{show.diff(*pair, folded=True)._repr_html_()}</div>'
            for pair in pairwise(self.kernels)
        )
        packed_data = json.dumps(self.data(), ensure_ascii=False, separators=(",", ":"))
        return (
            palette.dark_jupyter_style(".wb-ladder-diff")
            + f"<style>{static_text('explorer.css')}{static_text('ladder_diff.css')}</style>"
            + '<div class="wb-explorer wb-code wb-ladder-diff">'
            + '<div class="wb-explorer-controls" role="group" aria-label="Which two" hidden>'
            + select("before", "From", options, before)
            + select("after", "to", options, after)
            + '<button type="button" name="swap">Swap</button></div>'
            + '<p class="wb-explorer-now" role="status" hidden></p>'
            + '<div class="wb-ladder-shown highlight-cuda notranslate" hidden>'
            + '<div class="highlight"><pre tabindex="0" role="group" '
            + 'aria-label="The difference"></pre></div></div>'
            + f'<div class="wb-ladder-steps">{steps}</div>'
            + '<script type="application/json" class="wb-explorer-data">'
            # "</script>" in a kernel would end the element.
            + packed_data.replace("<", "\\u003c")
            + f"</script><script>{static_text('ladder_diff.js')}</script></div>"
        )

    def __repr__(self) -> str:
        return "\n\n".join(
            f"{code.title}\n{code}"
            for code in (show.diff(*pair) for pair in pairwise(self.kernels))
        )


def anchor(before: str, after: str) -> str:
    """The id under which a page shows a difference: ``diff-v1_wgmma-v2_ring``."""
    return f"diff-{before}-{after}"


def numbered(kernel: str) -> list[tuple[int, str]]:
    """A file's lines without region markers: number, and HTML coloured as the page's code is."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    lines = show.whole(kernel).lines
    source = "\n".join(line.text for line in lines)
    lexer = get_lexer_by_name("cuda", stripnl=False)
    coloured = highlight(source, lexer, HtmlFormatter(nowrap=True)).split("\n")
    return [(line.number, code) for line, code in zip(lines, coloured, strict=False)]


def packed(before: str, after: str) -> dict[str, Any]:
    """A difference as ``hopper.show`` computes it, without its text.

    ``runs``: mark, index of the first line, how many follow. "-" counts in ``before``'s lines,
    "=" and "+" in ``after``'s; "~" is a remark, with its text in place of the index.
    """
    code = show.diff(before, after)
    index = {
        kernel: {line.number: at for at, line in enumerate(show.whole(kernel).lines)}
        for kernel in (before, after)
    }
    places = []
    for line in code.lines:
        if line.mark == "gap":
            places.append(("~", line.text))
        else:
            kernel = before if line.mark == "-" else after
            places.append((_MARKS[line.mark], index[kernel][line.number]))
    return {"title": code.title, "runs": _runs(places)}


def _runs(places: Sequence[tuple[str, Any]]) -> list[list[Any]]:
    """Neighbouring lines of one mark as one run."""

    def key(item: tuple[int, tuple[str, Any]]) -> tuple[str, Any]:
        at, (mark, where) = item
        return (mark, where if mark == "~" else where - at)

    found = []
    for (mark, _), run in groupby(enumerate(places), key):
        lines = list(run)
        found.append([mark, lines[0][1][1], len(lines)])
    return found
