"""`{emulator-instructions}`: what the emulator executes, read from its units."""

import inspect

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.freshness import note_computed
from extension.tables import table
from hopper.emulator.forms import by_form, form_builders
from hopper.emulator.instructions import builders


class EmulatorInstructions(SphinxDirective):
    """A row a builder: the opcodes it was entered for, and the first line of its docstring."""

    def run(self) -> list[nodes.Node]:
        """The table, sorted by opcode."""
        note_computed(self.env, self.env.docname)
        rows = []
        whole = [(build, names) for build, names in builders() if build is not by_form]
        for build, opcodes in sorted([*whole, *form_builders()], key=lambda row: row[1]):
            names = nodes.inline()
            for number, opcode in enumerate(opcodes):
                names += [nodes.Text(", ")] if number else []
                names += nodes.literal("", opcode)
            rows.append((names, inspect.getdoc(build).splitlines()[0]))
        return [table(("Instruction", "What it does"), rows)]


def setup(app: Sphinx) -> None:
    """Register the directive."""
    app.add_directive("emulator-instructions", EmulatorInstructions)
