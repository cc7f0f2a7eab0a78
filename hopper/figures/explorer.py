"""What the book's explorers share: a drawing that a script brings to life, in one piece of HTML.

An explorer is a static figure first. Without JavaScript, in print and in a terminal there is the
drawing, its alt text and its caption. The script shows the controls and redraws. Script, style and
data are written into the output: a page opened from disk and JupyterLab need nothing else.

``_static/explorer.css`` styles what all explorers have: ``.wb-explorer-controls`` with its labels,
selects, inputs and buttons, ``.wb-explorer-now``, the line that says what is pointed at, and
``.wb-explorer-table``, the same as a table that scrolls.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hopper.paths import ROOT

from . import palette
from .figure import Figure

# Inline, as a figure's, because themes have a look of their own for captions.
_CAPTION_STYLE = (
    "margin-top:.5rem;font-size:.9em;line-height:1.45;text-align:left;font-weight:400;"
    "color:var(--wb-ink,inherit)"
)


@dataclass(frozen=True)
class Explorer:
    """An interactive figure.

    name      of ``_static/NAME.js`` and, if ``styled``, ``_static/NAME.css``; its <figure> has the
              class ``wb-NAME``, with hyphens for underscores
    figure    what it shows before the script runs, and without one: title, alt, drawing, table
    data      what the script needs, as JSON; computed by ``hopper``, never by hand
    controls  HTML of the controls, hidden until the script shows them
    after     HTML between the drawing and the caption
    before    HTML between the controls and the line that says what is pointed at
    """

    name: str
    figure: Figure
    data: Mapping[str, Any]
    controls: str
    after: str = ""
    before: str = field(default="", kw_only=True)
    styled: bool = field(default=True, kw_only=True)

    def _repr_html_(self) -> str:
        title = html.escape(self.figure.title)
        kind = self.name.replace("_", "-")
        caption = html.escape(self.figure.caption)
        own = static_text(f"{self.name}.css") if self.styled else ""
        return (
            palette.dark_jupyter_style(".wb-figure")
            + f"<style>{static_text('explorer.css')}{own}</style>"
            + f'<figure class="wb-figure wb-explorer wb-{kind}">'
            + f'<div class="wb-explorer-controls" role="group" aria-label="{title}: controls" '
            + f"hidden>{self.controls}</div>{self.before}"
            + '<p class="wb-explorer-now" role="status" hidden></p>'
            + f'<div class="wb-explorer-drawing">{self.figure.svg}</div>{self.after}'
            + f'<figcaption style="{_CAPTION_STYLE}"><strong>{title}.</strong> {caption}'
            + "</figcaption>"
            + f'<script type="application/json" class="wb-explorer-data">{_json(self.data)}'
            + f"</script><script>{static_text(self.name + '.js')}</script></figure>"
        )

    def __repr__(self) -> str:
        return repr(self.figure)


def select(name: str, label: str, options: Mapping[str, str], chosen: str) -> str:
    """HTML of a labelled <select>: ``options`` maps values to what is shown."""
    items = "".join(
        f'<option value="{html.escape(value)}"{" selected" * (value == chosen)}>'
        f"{html.escape(text)}</option>"
        for value, text in options.items()
    )
    return f'<label>{html.escape(label)} <select name="{name}">{items}</select></label>'


def _json(data: Mapping[str, Any]) -> str:
    # "</script>" in a text would end the element.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


@cache
def static_text(name: str) -> str:
    """The text of a file in ``_static``."""
    return (ROOT / "_static" / name).read_text(encoding="utf-8")
