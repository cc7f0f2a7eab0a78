"""Tables built from Python, for pages that can only be completed when all pages are read."""

from collections.abc import Sequence

from docutils import nodes


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[nodes.Node | str]],
    ids: Sequence[str] = (),
    classes: Sequence[str] = (),
) -> nodes.table:
    """A plain table; a cell is text or an inline node, and an id not empty is its row's target."""
    group = nodes.tgroup("", cols=len(headings))
    group += [nodes.colspec("", colwidth=1) for _ in headings]
    head = nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in headings))
    group += nodes.thead("", head)
    body = nodes.tbody()
    for number, cells in enumerate(rows):
        row = nodes.row()
        for position, cell in enumerate(cells):
            content = nodes.Text(cell) if isinstance(cell, str) else cell
            entry = nodes.entry("", nodes.paragraph("", "", content))
            if position == 0 and number < len(ids) and ids[number]:
                entry["ids"].append(ids[number])
            row += entry
        body += row
    group += body
    return nodes.table("", group, classes=list(classes))
