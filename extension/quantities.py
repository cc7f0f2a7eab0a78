"""Numbers in prose: the roles `{recorded}` and `{constant}` and the table of constants.

A measured number is written as the name of a recorded quantity and an architectural one as the
name of a constant. The page shows the value and its unit as a link to where it comes from.
"""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from extension.freshness import note_computed
from hopper.architecture import CONSTANTS, constant
from hopper.errors import HopperError
from hopper.records import NoRecording, quantity

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
MISSING = "(no recording of this variant)"
ATTACHED_UNITS = {"%", "°", "×"}


def format_number(value: float | int | str) -> str:
    """Three significant digits for a measured float, grouped digits for an integer.

    540.3 -> 540, 2.0412 -> 2.04, 0.7312 -> 0.731, 65536 -> 65,536, 0.00021 -> 2.10 × 10⁻⁴.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}".replace("-", MINUS)
    if value == 0 or abs(value) >= 100:
        return format_number(round(value))
    if abs(value) < 1e-3:
        digits, exponent = f"{value:.2e}".split("e")
        power = str(int(exponent)).translate(SUPERSCRIPTS)
        return f"{digits} × 10{power}".replace("-", MINUS).replace(" ", NO_BREAK_SPACE)
    digits = f"{value:#.3g}".rstrip(".")
    return digits.replace("-", MINUS)


def format_quantity(value: float | int | str, unit: str) -> str:
    """The number and its unit, kept together on one line.

    Percent from 100 on keep a digit more: 103.2% and 103.5% of cuBLAS are not the same.
    """
    if not unit:
        return format_number(value)
    if unit == "%" and isinstance(value, float) and 99.95 <= abs(value) < 1000:
        return f"{value:.1f}%".replace("-", MINUS)
    gap = "" if unit in ATTACHED_UNITS else NO_BREAK_SPACE
    return format_number(value) + gap + unit.replace(" ", NO_BREAK_SPACE)


def recorded_text(name: str) -> tuple[str, str]:
    """What `{recorded}` shows and the recording it comes from; HopperError if there is none."""
    value, unit, source = quantity(name)
    return format_quantity(value, unit), str(source)


def constant_text(name: str) -> tuple[str, str]:
    """What `{constant}` shows and where it is documented; HopperError if it is not listed."""
    entry = constant(name)
    return format_quantity(entry.value, entry.unit), f"{entry.meaning} ({entry.where})"


def linked(text: str, title: str, page: str, target: str, docname: str, style: str) -> nodes.Node:
    """A link that shows `text`, explains itself by `title` and leads to `target` of `page`."""
    inner = nodes.inline("", text, classes=["quantity", style])
    link = pending_xref(
        "",
        inner,
        refdomain="",
        reftype="quantity",
        reftarget=target,
        refdoc=docname,
        page=page,
        title=title,
    )
    return link


class RecordedRole(SphinxRole):
    """`` {recorded}`v1_wgmma tflops` ``: a measured value, linked to its recording."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The link, or a warning (an error under -W) when no quantity has that name.

        A kernel that was changed since it was recorded is no error: whoever changes one need not
        own a Hopper GPU, so the page says that there is no recording of this variant.
        """
        note_computed(self.env, self.env.docname)
        try:
            shown, source = recorded_text(self.text)
        except NoRecording:
            return [nodes.emphasis("", MISSING, classes=["quantity", "missing"])], []
        except HopperError as error:
            return self.refuse(error)
        target = nodes.make_id("record-" + self.text.split()[0])
        title = f"Recorded: {source}"
        return [linked(shown, title, "docs/status", target, self.env.docname, "recorded")], []

    def refuse(self, error: HopperError) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """A visible mark on the page and a warning that says what is missing."""
        message = self.inliner.reporter.warning(
            f"{self.name} {self.text!r}: {error}", line=self.lineno
        )
        return [nodes.problematic(self.rawtext, self.rawtext)], [message]


class ConstantRole(RecordedRole):
    """`` {constant}`flop_per_sm_cycle` ``: an architectural constant, linked to its source."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The link, or a warning when the constant is not in `hopper/architecture.py`."""
        note_computed(self.env, self.env.docname)
        try:
            shown, source = constant_text(self.text)
        except HopperError as error:
            return self.refuse(error)
        target = nodes.make_id("constant-" + self.text)
        return [linked(shown, source, "docs/constants", target, self.env.docname, "constant")], []


def resolve(app: Sphinx, env, node: pending_xref, contnode: nodes.Node) -> nodes.Node | None:
    """Turn a quantity into a link to its row on the status page or in the table of constants."""
    if node["reftype"] != "quantity":
        return None
    if node["page"] not in env.found_docs:
        return contnode
    uri = app.builder.get_relative_uri(node["refdoc"], node["page"]) + "#" + node["reftarget"]
    return nodes.reference("", "", contnode, refuri=uri, internal=True, reftitle=node["title"])


class ConstantTable(SphinxDirective):
    """`constant-table`: every constant of `hopper/architecture.py` with its source."""

    def run(self) -> list[nodes.Node]:
        """One row a constant; `{constant}` links here."""
        note_computed(self.env, self.env.docname)
        lines = ["| Name | Value | Meaning and source |", "|---|---|---|"]
        for entry in CONSTANTS:
            value = format_quantity(entry.value, entry.unit)
            lines.append(
                f"| [`{entry.name}`]{{#{nodes.make_id('constant-' + entry.name)}}} | {value} "
                f"| {entry.meaning}. {{cite:p}}`{entry.source}`, {entry.where} |"
            )
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> None:
    """Register the roles and the directive."""
    app.add_role("recorded", RecordedRole())
    app.add_role("constant", ConstantRole())
    app.add_directive("constant-table", ConstantTable)
    app.connect("missing-reference", resolve)
