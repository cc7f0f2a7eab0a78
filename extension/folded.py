"""Fold admonitions that carry the class `dropdown`, such as an exercise's solution.

They become HTML's own `details`, which needs no script, opens by keyboard and is found by search.
"""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx


class Folded(nodes.General, nodes.Element):
    """A `details` element: its `summary` is plain text, its children are the folded content."""


def is_folded(node: nodes.Node) -> bool:
    """Whether a node is an admonition, or built like one, that asks to be folded."""
    return isinstance(node, nodes.Admonition) and "dropdown" in node.get("classes", ())


def fold(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace every such admonition that has a title."""
    for node in list(doctree.findall(is_folded)):
        title = next((child for child in node.children if isinstance(child, nodes.title)), None)
        if title is None:
            continue
        folded = Folded(
            "",
            *(child for child in node.children if child is not title),
            summary=title.astext(),
            classes=node["classes"],
            ids=node["ids"],
        )
        node.replace_self(folded)


def visit(translator, node: Folded) -> None:
    """Open the element and write its summary."""
    translator.body.append(translator.starttag(node, "details", CLASS="admonition folded"))
    translator.body.append(
        f'<summary class="admonition-title">{escape(node["summary"])}</summary>\n'
    )


def depart(translator, node: Folded) -> None:
    """Close the element."""
    translator.body.append("</details>\n")


def setup(app: Sphinx) -> None:
    """Fold after exercises have resolved their titles."""
    app.add_node(Folded, html=(visit, depart))
    app.connect("doctree-resolved", fold, priority=600)
