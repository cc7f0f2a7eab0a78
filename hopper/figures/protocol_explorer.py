"""The protocol's explorer: take a step out of the loop, or swap two, and see what becomes of it.

Everything that can be chosen was compiled and run by the emulator when the page was built. A run's
timeline is long and much like the next one's, so it travels packed (zlib, base64), and
``_static/protocol_explorer.js`` unpacks it where it is looked at. The timeline itself is
``run_timeline``'s, brought to life by the same script.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hopper.emulator import Run
from hopper.experiments import Arrays, arrays
from hopper.experiments.protocol import returned
from hopper.experiments.protocol_variants import (
    KERNEL,
    SCHEDULES,
    STEPS,
    Step,
    Variant,
    single_changes,
    verdict,
)

from .explorer import Explorer, static_text
from .figure import Figure
from .protocol_steps import protocol_steps
from .protocol_stores import observed_run, stores_timeline
from .run_timeline import _CONTROLS, RunTimeline

#: K of the run that is shown: three steps, so that a stage is filled a second time.
SHOWN_K = 192
_PARTS = {
    "bring": "Warps 4–7, in each step",
    "multiply": "Warps 0–3, in each step",
    "end": "Warps 0–3, behind the loop",
}
_WARPS = {"warps 0–3 multiply": range(4), "warps 4–7 bring": range(4, 8)}
_CAPTION = (
    "Choose a step, then take it away, or choose another of the same warps to swap the two. "
    "Verdict and timeline are those of the kernel as it then stands, compiled and run by the "
    "emulator: one block, N = 8, three steps along K, copies as late as possible. In the timeline "
    "tile_b[0] is the tile of B in stage 0, which threads store, and tile_a[0] that of A, which "
    "TMA writes. Rules in brackets were found on other schedules, or further along K. An H200 ran "
    "it in four shapes:"
)


@cache
def shown_run(variant: Variant) -> tuple[Run, RunTimeline]:
    """The run that the figure shows of a variant, and its timeline."""
    program = variant.compile()
    seen = observed_run(program, SHOWN_K, SCHEDULES[1])
    title = f"{KERNEL} {variant.name}"
    drawn = stores_timeline(seen, program, title=title, alt=f"Timeline of {title}.", roles=_WARPS)
    return seen.run, drawn


def state(variant: Variant, recorded: Arrays | None = None) -> dict[str, Any]:
    """What the script shows of a variant; "timeline" is packed."""
    drawn = shown_run(variant)[1]
    found, lines = verdict(variant), variant.source.splitlines()
    here = list(dict.fromkeys(one.kind for one in drawn.model.broken))
    broken = []
    for one in drawn.model.broken:
        place, _, _ = one.source.partition(": ")
        line = int(place.rpartition(":")[2] or 0)
        told = one.words.split("; ")[0].split("\n")[0]
        code = lines[line - 1].split("//")[0].strip() if line else ""
        broken.append([one.kind, one.warning, told, code])
    return {
        "name": variant.name,
        "compiler": [
            [code, said[0].replace("kernel.cu", "")] for code, said in variant.messages.items()
        ],
        "broken": broken,
        "elsewhere": [kind for kind in found.kinds if kind not in here],
        "right": found.right,
        "returned": returned(variant, recorded),
        "timeline": _packed(drawn),
    }


def _packed(drawn: RunTimeline) -> str:
    title = html.escape(drawn.title)
    parts = {
        "controls": _CONTROLS.replace("TITLE", title),
        "label": f"{drawn.title}: drawing",
        "svg": drawn.svg,
        "letters": drawn._letters(),
        "data": drawn._data(),
    }
    # The changed kernel is no file.
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("kernel.cu:", "line ")
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _step(step: Step) -> dict[str, str]:
    return {"key": step.key, "part": step.part, "name": step.name, "code": step.code}


def protocol_explorer() -> Explorer:
    """Take a step of ``protocol_loop`` away, or swap two; see verdict and timeline."""
    recorded = arrays(KERNEL, "trials")
    variants = {" + ".join(keys): state(variant, recorded) for keys, variant in single_changes()}
    drawing = protocol_steps()
    label = recorded.label if recorded.probe else "not recorded yet"
    figure = Figure(
        title="The loop, without a step or with two swapped",
        alt=drawing.alt,
        body=drawing.body,
        width=drawing.width,
        height=drawing.height,
        columns=_COLUMNS,
        rows=tuple(_row(one) for one in variants.values()),
        caption=f"{_CAPTION} {label}.",
    )
    data = {"parts": _PARTS, "steps": [_step(step) for step in STEPS], "variants": variants}
    return Explorer("protocol_explorer", figure, data, _BUTTONS, _after(figure), before=_LISTS)


_COLUMNS = ("change", "the compiler says", "the emulator says", "the H200 returned")
_BUTTONS = (
    '<button type="button" name="away">Take it away</button>'
    '<button type="button" name="reset">As written</button>'
)
_LISTS = '<div class="wb-protocol-lists" hidden></div>'


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = dict.fromkeys([kind for kind, *_ in one["broken"]] + one["elsewhere"])
    emulator = ", ".join(kinds) or ("right" if one["right"] else "a wrong result")
    compiler = ", ".join(code for code, _ in one["compiler"]) or "nothing"
    return one["name"], compiler, emulator, one["returned"]


def _after(figure: Figure) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in figure.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in figure.rows
    )
    return (
        '<div class="wb-protocol-verdict" hidden></div><div class="wb-protocol-run"></div>'
        "<details><summary>Every single change, as a table</summary>"
        '<div class="wb-explorer-table wb-protocol-table" role="group" tabindex="0" '
        'aria-label="Every single change">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
        f"<style>{static_text('run_timeline.css')}</style>"
        f"<script>{static_text('run_timeline.js')}</script>"
    )
