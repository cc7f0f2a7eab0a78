"""The page of attempts: `{attempts} count`, `bases`, `table`, `ablation`, `best`, `group HEADING`.

Predictions come from `hopper.attempts`, outcomes from recordings; whether an attempt still is what
was timed, the build finds out by compiling it.
"""

from __future__ import annotations

import math
from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.attempt_tables import (
    ablation_table,
    anchor,
    interval,
    overview,
    percent,
    plus_minus,
    signed,
    titled,
)
from extension.freshness import note_computed
from hopper import show
from hopper.attempts import ATTEMPTS, BASES, BURST, EVERY, SUSTAINED, Attempt, number_of, texts
from hopper.attempts.best import Best, best
from hopper.attempts.counted import counted
from hopper.attempts.outcome import (
    AS_PREDICTED,
    NOT_RECORDED,
    NOT_TIMED,
    Outcome,
    Recorded,
    outcomes,
    recorded,
    refusals,
)
from hopper.figures.explorer import static_text

MODES = (BURST, SUSTAINED)
TARGETS = {BURST: 1.06, SUSTAINED: 1.05}


class AttemptsPart(SphinxDirective):
    """`attempts` with one argument: which part of the page; `group` has its heading behind it."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The part, as HTML."""
        note_computed(self.env, self.env.docname)
        name, _, heading = self.arguments[0].partition(" ")
        parts = {
            "count": count,
            "bases": bases,
            "table": table,
            "ablation": ablation,
            "best": best_ratios,
        }
        if name == "group" and heading in groups():
            made = group(heading)
        elif name in parts and not heading:
            made = parts[name]()
        else:
            raise self.error(
                f"attempts {self.arguments[0]!r}: choose {', '.join(parts)}, or group and one of "
                f"{'; '.join(groups())}"
            )
        return [nodes.raw("", made, format="html")]


def _timings(count: int) -> str:
    return "one timing" if count == 1 else f"{count} timings"


def records() -> dict[str, Recorded]:
    """The record of each mode."""
    return {mode: recorded(mode, refusals()) for mode in MODES}


def found() -> dict[str, dict[str, Outcome]]:
    """Mode -> name -> what became of it."""
    return {mode: outcomes(record, refusals()) for mode, record in records().items()}


def groups() -> list[str]:
    """The headings of attempts, in order."""
    return list(dict.fromkeys(one.group for one in ATTEMPTS))


def count() -> str:
    """How many were predicted, measured, refused, and came as predicted."""
    burst = found()[BURST].values()
    label = records()[BURST].label
    verdicts = [one.verdict for one in burst]
    refused, missing = verdicts.count(NOT_TIMED), verdicts.count(NOT_RECORDED)
    measured = len(verdicts) - refused - missing
    told = [f"{len(verdicts)} attempts were predicted.", f"{measured} are measured ({label})."]
    told.append(f"{refused} were refused: they do not compile to what may be launched.")
    if missing:
        told.append(f"{missing} are not recorded as they are now.")
    if measured:
        told.append(
            f"{verdicts.count(AS_PREDICTED)} came as predicted in a burst, "
            f"{measured - verdicts.count(AS_PREDICTED)} did not."
        )
        told.append(
            f"The same kernel, timed again and again in between, moved by up to "
            f"{plus_minus(2 * records()[BURST].drift)} %."
        )
    return f"<p>{escape(' '.join(told))}</p>"


def bases() -> str:
    """What attempts are compared with: macros, and how fast."""
    lines = []
    for one in BASES:
        macros = " ".join(f"-D{name}={value}" for name, value in one.defines.items())
        told = [
            f"{percent(record.timed[one.name].ratio)} of cuBLAS {mode}, "
            + _timings(len(record.timed[one.name].ratios))
            for mode, record in records().items()
            if one.name in record.timed
        ]
        lines.append(
            f"<li><strong>{titled(one)}</strong>: <code>{one.kernel} {macros}</code>; "
            f"{'; '.join(told) or NOT_RECORDED}.</li>"
        )
    return f"<ul>{''.join(lines)}</ul>"


def table() -> str:
    """All attempts in one table."""
    return overview(found(), records())


def ablation() -> str:
    """Each part of v9 alone, and taken away."""
    counters, label = counted(refusals())
    return ablation_table(records()[BURST], counters, label)


def best_ratios() -> str:
    """The best ratio in each mode, beside the target."""
    lines = []
    for mode in MODES:
        top = best(records()[mode])
        target = f"The target was {TARGETS[mode]:.2f}"
        if top is None:
            lines.append(f"<li><strong>{mode}</strong>: not recorded. {target}.</li>")
            continue
        reached = "reached" if top.ratio >= TARGETS[mode] else "not reached"
        lines.append(
            f"<li><strong>{mode}: {top.ratio:.3f} of cuBLAS</strong>, {best_name(top)} "
            f"({escape(top.label)}){_beside(top, records()[mode])}. {target}: {reached}.</li>"
        )
    return f"<ul>{''.join(lines)}</ul>"


def _beside(top: Best, record: Recorded) -> str:
    """What the best attempt is compared with, and its ratio: the best of many is partly luck."""
    base = EVERY[top.name].against if top.name else ""
    if base not in record.timed:
        return ""
    return f"; {titled(EVERY[base])}, which it is compared with, has {record.timed[base].ratio:.3f}"


def best_name(top: Best) -> str:
    """What was best: v9 as written, a base, or an attempt with its number."""
    if not top.name:
        return "v9 as written"
    one = EVERY[top.name]
    return titled(one) if one.base else f"attempt {number_of(top.name)}: {_link(one)}"


def group(heading: str) -> str:
    """The attempts under one heading, one after the other."""
    chosen, known = [one for one in ATTEMPTS if one.group == heading], found()
    style = f"<style>{static_text('attempts.css')}</style>"
    return style + "".join(one_attempt(one, known) for one in chosen)


def one_attempt(attempt: Attempt, known: dict[str, dict[str, Outcome]]) -> str:
    """Title, argument, prediction and outcome in each mode, lessons that hold, the change."""
    mine = [known[mode][attempt.name] for mode in MODES if attempt.name in known[mode]]
    lessons = dict.fromkeys(text for one in mine for text in one.lessons)
    taught = f'<p class="wb-attempt-lesson">{escape(" ".join(lessons))}</p>' if lessons else ""
    return (
        f'<section class="wb-attempt" id="{anchor(attempt.name)}">'
        f"<h4>{number_of(attempt.name)}. {titled(attempt)}"
        f'<a class="headerlink" href="#{anchor(attempt.name)}" '
        f'title="Link to this heading">#</a></h4>'
        f"<p>{escape(attempt.why)}</p>"
        f'<dl class="wb-attempt-outcome">{"".join(map(_outcome_line, mine))}</dl>'
        f"{taught}{_changes(attempt)}</section>"
    )


def _outcome_line(one: Outcome) -> str:
    said = f"predicted {interval(one.prediction)}; "
    if one.verdict == NOT_TIMED:
        said += f"refused: {one.reason.partition('; ')[0]}"
    elif math.isnan(one.change):
        said += one.verdict
    else:
        said += (
            f"measured {signed(one.change)} ± {plus_minus(one.noise)} %, {percent(one.ratio)} of "
            f"cuBLAS: {one.verdict}"
        )
    return f"<dt>{one.mode}</dt><dd>{escape(said)}</dd>"


def _changes(attempt: Attempt) -> str:
    """What is compiled: macros that differ from what it is compared with, and edits, folded."""
    base = EVERY[attempt.against]
    told = [f"Compared with {_link(base)}."]
    if attempt.kernel != base.kernel:
        told.append(f"Another kernel: <code>kernels/{attempt.kernel}.cu</code>.")
    macros = [
        f'<code class="wb-macro">-D{name}={value}</code>'
        for name, value in attempt.defines.items()
        if base.defines.get(name) != value
    ]
    if macros:
        told.append(f"Compiled with {', '.join(macros)}.")
    if attempt.blocks:
        told.append(f"Launched with {attempt.blocks} blocks.")
    if attempt.places != base.places:
        told.append(f'Launched with <code>places="{attempt.places}"</code>.')
    shown = "".join(
        show.edited(f"The change of {name}", *both)._repr_html_()
        for name, both in texts(attempt).items()
    )
    return f"<p>{' '.join(told)}</p>{shown}"


def _link(attempt: Attempt) -> str:
    title = titled(attempt)
    return title if attempt.base else f'<a href="#{anchor(attempt.name)}">{title}</a>'


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("attempts", AttemptsPart)
