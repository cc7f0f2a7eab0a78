"""An interactive timeline of an emulated run, drawn from its trace.

    program = compile_cuda(KERNELS / "v1_wgmma.cu", lineinfo=True)
    run = Emulator(on_hazard="collect").launch(program.ptx, program.kernel, …)
    figures.run_timeline(run, program, title="…", alt="…")

Without JavaScript it is a drawing that scrolls, the broken rules, and a table of what happens. The
script adds controls, a place in time, and what is under the pointer or the focus in words. Script,
style and data are written into the output: a page opened from disk and JupyterLab need nothing.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from hopper.compile import Program
from hopper.emulator import Run
from hopper.errors import ProblemError
from hopper.paths import ROOT

from . import palette
from .figure import Figure
from .run_drawing import drawing, places
from .run_model import run_model
from .run_parts import Lane, RunModel

CAPTION = (
    "From left to right: the steps of the emulator, in the order in which things happened. The "
    "emulator knows no time, so a long bar is not a long while; long stretches are drawn shorter."
)
# Inline, as a figure's, because themes have a look of their own for captions.
_CAPTION_STYLE = (
    "margin-top:.5rem;font-size:.9em;line-height:1.45;text-align:left;font-weight:400;"
    "color:var(--wb-ink,inherit)"
)
#: Letter of a mark -> what it stands for.
LEGEND = {
    "i": "initialise an mbarrier",
    "a": "arrive",
    "e": "expect bytes",
    "T": "ask TMA for a copy",
    "f": "wgmma.fence",
    "w": "wgmma",
    "c": "commit the group",
    "r": "wait_group: groups retire",
    "l": "ldmatrix",
    "m": "mma.sync",
}
_IDLE = {
    "warps": "has left",
    "tma": "no copy under way",
    "tensor": "no product under way",
    "memory": "nothing has been written",
    "mbarrier": "not initialised",
}


@dataclass(frozen=True)
class RunTimeline:
    """The figure. ``model``: what it shows; ``title``, ``alt``, ``caption``: as for a Figure."""

    model: RunModel
    title: str
    alt: str
    caption: str = ""

    @cached_property
    def figure(self) -> Figure:
        """The drawing alone."""
        return drawing(self.model, self.title, self.alt)

    @property
    def svg(self) -> str:
        """The <svg> element, shown in its own size."""
        width, height = f"{self.figure.width:g}", f"{self.figure.height:g}"
        size = f'width="{width}" height="{height}"'
        style = f"display:block;width:{width}px;height:{height}px;max-width:none"
        return self.figure.svg.replace("<svg ", f"<svg {size} ", 1).replace(
            "display:block;width:100%;height:auto", style, 1
        )

    def _repr_html_(self) -> str:
        title = html.escape(self.title)
        caption = " ".join(filter(None, (self.caption, CAPTION)))
        return (
            palette.dark_jupyter_style(".wb-figure")
            + f"<style>{_static('run_timeline.css')}</style>"
            + f'<figure class="wb-figure wb-run">{_CONTROLS.replace("TITLE", title)}'
            + f'<div class="wb-run-scroll" tabindex="0" role="group" aria-label="{title}: drawing">'
            + f"{self.svg}</div>"
            + self._letters()
            + '<table class="wb-run-states" hidden></table>'
            + self._broken()
            + f'<figcaption style="{_CAPTION_STYLE}"><strong>{title}.</strong> '
            + f"{html.escape(caption)}</figcaption>"
            + self._words()
            + f'<script type="application/json" class="wb-run-data">{self._data()}</script>'
            + f"<script>{_static('run_timeline.js')}</script></figure>"
        )

    def __repr__(self) -> str:
        lines = [self.title, self.alt, ""]
        for moment in self.model.moments:
            lines.append(f"{moment.step:>7}  {' '.join(moment.words)}")
        for one in self.model.broken:
            lines.append(f"broken: {one.kind}: {one.source}: {one.words} ({one.threads})")
        return "\n".join([*lines, CAPTION])

    def _letters(self) -> str:
        used = {mark.letter for lane in self.model.lanes for mark in lane.marks}
        told = ", ".join(f"<b>{k}</b> {v}" for k, v in LEGEND.items() if k in used)
        return f'<p class="wb-run-letters">Letters: {told}.</p>' if told else ""

    def _broken(self) -> str:
        items = []
        for one in self.model.broken:
            step = self.model.moments[one.moment].step
            more = f" The same {one.more} times more at this line." if one.more else ""
            items.append(
                f"<li><strong>{html.escape(one.kind)}</strong>{' (a warning)' * one.warning} "
                f"at step {step}, "
                f"<code>{html.escape(one.source)}</code>: {html.escape(one.words)} "
                f"({html.escape(one.threads)}).{more}</li>"
            )
        if not items:
            return ""
        return f'<div class="wb-run-broken"><p>✗ Broken rules</p><ol>{"".join(items)}</ol></div>'

    def _words(self) -> str:
        rows = "".join(
            f"<tr><td>{moment.step}</td><td>{html.escape(' '.join(moment.words))}"
            f"<code>{html.escape(moment.source)}</code></td></tr>"
            for moment in self.model.moments
        )
        label = html.escape(f"{self.title}: in words")
        dropped = self.model.dropped
        cut = f"<p>The trace was full: {dropped:,} later events are missing.</p>" if dropped else ""
        return (
            "<details><summary>The same in words</summary>"
            f'<div class="wb-run-words" role="group" tabindex="0" aria-label="{label}"><table>'
            '<thead><tr><th scope="col">Step</th><th scope="col">What happens, and its source</th>'
            f"</tr></thead><tbody>{rows}</tbody></table></div>{cut}"
            "</details>"
        )

    def _data(self) -> str:
        model = self.model
        data = {
            "places": [round(place, 1) for place in places(model.moments)],
            "moments": [[m.step, " ".join(m.words), m.source] for m in model.moments],
            "broken": sorted({one.moment for one in model.broken}),
            "lanes": [[one.label, _states(one, len(model.moments) - 1)] for one in model.lanes],
            "start": min((one.moment for one in model.broken), default=0),
        }
        # "</script>" in a source line would end the element.
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


_CONTROLS = (
    '<div class="wb-run-controls" role="group" aria-label="TITLE: controls" hidden>'
    '<button type="button" class="wb-run-play">Play</button>'
    '<button type="button" class="wb-run-back" aria-label="Step back">◀</button>'
    '<button type="button" class="wb-run-forward" aria-label="Step forward">▶</button>'
    '<input type="range" min="0" value="0" step="1" class="wb-run-scrub" aria-label="Moment">'
    "</div>"
    '<p class="wb-run-now" role="status" hidden></p>'
)


def run_timeline(
    run: Run,
    program: Program,
    *,
    title: str,
    alt: str,
    caption: str = "",
    steps: tuple[int, int] | None = None,
    blocks: Sequence[int] = (0,),
    warps: Mapping[str, Sequence[int]] | None = None,
    names: Mapping[int, str] | None = None,
) -> RunTimeline:
    """What ``run`` of ``program`` did, as lanes of warps, TMA, tensor core, memory and mbarriers.

    program  that was launched; compiled with ``lineinfo=True``, so that lines are those of CUDA C++
    title, alt, caption   as for every figure; alt says in words what is to be seen
    steps    first and last step to show; all of them if left out
    blocks   which blocks of the first wave, by their place in it
    warps    a lane for each role, {"producer": [0], "consumer": [4, 5, 6, 7]}; if left out, one for
             all warps that ran and waited alike
    names    of shared memory by address, {0x400: "A, stage 0"}: for dynamic shared memory, whose
             parts have no names of their own

    Raises ProblemError for an empty title or alt, a window or blocks of which the trace tells
    nothing, and more moments than anybody would step through.
    """
    for name, text in (("title", title), ("alt", alt)):
        if not text.strip():
            raise ProblemError(f"{name}={text!r}: a figure needs its {name} in words")
    model = run_model(run, program, blocks=blocks, steps=steps, warps=warps, names=names)
    return RunTimeline(model, title, alt, caption)


def _states(lane: Lane, last: int) -> list[list[object]]:
    """[moment, words] wherever a lane's state changes, from moment 0 on; ``last``: moment drawn.

    What was written to memory stays there until the block leaves, or the figure ends.
    """
    idle = _IDLE[lane.unit]
    if lane.states:
        found = [list(one) for one in lane.states]
        return found if found[0][0] == 0 else [[0, idle], *found]
    found: list[list[object]] = []
    end = 0
    for span in lane.spans:
        if span.begin > end:
            found.append([end, idle])
        found.append([span.begin, span.words])
        end = span.end
    if lane.unit == "memory" and found:
        return [*found, [end, "the block has left"]] if end < last else found
    return [*found, [end, idle]]


@cache
def _static(name: str) -> str:
    return (ROOT / "_static" / name).read_text(encoding="utf-8")
