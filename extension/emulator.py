"""What the emulator executes and which rules it watches, read from its code.

`{emulator-instructions}` lists instructions by unit, `{emulator-rules}` the kinds of hazards.
"""

import inspect

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.freshness import note_computed
from extension.tables import table
from hopper.emulator.forms import by_form, form_builders
from hopper.emulator.hazards import KINDS
from hopper.emulator.instructions import builders


class EmulatorInstructions(SphinxDirective):
    """A row for each unit and what it does there: the opcodes whose builders say the same."""

    def run(self) -> list[nodes.Node]:
        """The table, sorted by unit and opcode."""
        note_computed(self.env, self.env.docname)
        whole = [(build, names) for build, names in builders() if build is not by_form]
        found: dict[tuple[str, str], set[str]] = {}
        for build, opcodes in [*whole, *form_builders()]:
            unit = build.__module__.rsplit(".", 1)[-1]
            what = inspect.getdoc(build).splitlines()[0]
            found.setdefault((unit, what), set()).update(opcodes)
        rows = []
        for (unit, what), opcodes in sorted(
            found.items(), key=lambda row: (row[0][0], min(row[1]))
        ):
            names = nodes.inline()
            for number, opcode in enumerate(sorted(opcodes)):
                names += [nodes.Text(", ")] if number else []
                names += nodes.literal("", opcode)
            does = nodes.inline("", "", *self.parse_inline(what)[0])
            does += [nodes.Text(" "), nodes.emphasis("", f"({unit})")]
            rows.append((names, does))
        heads = ("Instruction", "What it does, and the unit that does it")
        return [table(heads, rows, classes=["book-words"])]


class EmulatorRules(SphinxDirective):
    """A row a kind of hazard: its rule, what to do, where the rule is written."""

    def run(self) -> list[nodes.Node]:
        """The table, in the order of the code."""
        note_computed(self.env, self.env.docname)
        rows = []
        for kind in KINDS.values():
            name = nodes.inline("", "", nodes.literal("", kind.name))
            name += [nodes.Text(" (a warning)")] if kind.warning else []
            rule = nodes.inline("", f"{kind.rule} ")
            rule += nodes.emphasis("", f"({kind.source})")
            rows.append((name, rule, kind.help))
        heads = ("Kind", "The rule, and where it is written", "What to do")
        return [table(heads, rows, classes=["book-words"])]


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("emulator-instructions", EmulatorInstructions)
    app.add_directive("emulator-rules", EmulatorRules)
