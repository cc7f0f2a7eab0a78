"""Repair what other parts write into pages that assistive software cannot use.

docutils marks an entry of a bibliography with a role that ARIA has withdrawn and that may not
stand in a list; it is an item of the list. It writes an empty corner of a table as a heading that
says nothing; it is an empty cell.
"""

from sphinx.application import Sphinx

REPAIRS = {
    'role="doc-biblioentry"': 'role="listitem"',
    '<th class="head"><p></p></th>': "<td></td>",
}


def repair(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    """Apply the repairs to the body of a page."""
    for wrong, right in REPAIRS.items():
        if wrong in context.get("body", ""):
            context["body"] = context["body"].replace(wrong, right)


def setup(app: Sphinx) -> None:
    """Repair each page before its template is filled."""
    app.connect("html-page-context", repair)
