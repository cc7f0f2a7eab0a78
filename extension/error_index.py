"""The error index: every message of `messages.toml`, with cause, way out and where to read on.

`{error-index} SECTION` lists a section. Each message is an object of Sphinx, so that the search
leads to it and `` {message}`C7519` `` links to it from any page. A broken rule of the emulator has
its rule and way out from `hopper.emulator.hazards`, and what a GPU made of it from the recording.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.freshness import note_computed
from extension.observed import trials_of_rule
from hopper.emulator.hazards import KINDS

MESSAGES = Path(__file__).with_name("messages.toml")
RULES = "rules"
#: Pages that say more about a whole section; one that is not there yet is left out.
ABOUT = {
    "repairs": ("chapters/protocol",),
    RULES: ("chapters/emulator",),
}
_VARIES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Message:
    """One entry. ``texts``: as printed, what varies in braces; ``see``: pages that say more."""

    section: str
    name: str
    texts: tuple[str, ...]
    cause: str = ""
    help: str = ""
    see: tuple[str, ...] = ()
    code: int | None = None

    @property
    def anchor(self) -> str:
        """The id of the entry on its page."""
        return nodes.make_id(f"message-{self.name}")


@cache
def messages() -> tuple[Message, ...]:
    """All of `messages.toml`, in its order."""
    found = []
    for section, entries in tomllib.loads(MESSAGES.read_text(encoding="utf-8")).items():
        for entry in entries:
            text = entry.pop("text")
            texts = (text,) if isinstance(text, str) else tuple(text)
            see = tuple(entry.pop("see", ()))
            found.append(Message(section, entry.pop("name"), texts, see=see, **entry))
    return tuple(found)


def pattern(text: str) -> re.Pattern[str]:
    """What a message looks like, whatever stands where it varies and however it is wrapped."""
    parts = _VARIES.split(text)
    fixed = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in parts[::2]]
    return re.compile(r".+?".join(fixed), re.DOTALL)


def plain(text: str) -> str:
    """A message with its examples filled in."""
    return _VARIES.sub(r"\1", text)


def mentions(message: Message, page: str) -> bool:
    """Whether a page's source names a message: a code anywhere, another name as code."""
    if message.section == "repairs":
        return bool(re.search(rf"\b{message.name}\b", page))
    return f"`{message.name}`" in page


def shown(text: str) -> nodes.Node:
    """A message as code; what varies is set apart, and nothing of it is changed."""
    code = nodes.literal(classes=["book-printed"])
    for number, part in enumerate(_VARIES.split(text)):
        if part:
            code += nodes.emphasis("", part) if number % 2 else nodes.Text(part)
    return code


class ErrorIndex(SphinxDirective):
    """`error-index` with one argument, a section of `messages.toml`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A definition list, an entry a message; an error names the sections there are."""
        note_computed(self.env, self.env.docname)
        section = self.arguments[0]
        entries = [one for one in messages() if one.section == section]
        if not entries:
            there = ", ".join(dict.fromkeys(one.section for one in messages()))
            raise self.error(f"error-index {section!r}: choose one of {there}")
        whole = nodes.definition_list(classes=["book-messages"])
        for message in entries:
            whole += self.entry(message)
        return [whole]

    def entry(self, message: Message) -> nodes.definition_list_item:
        """Its texts are the term, its cause and way out the definition."""
        item = nodes.definition_list_item()
        for number, text in enumerate(message.texts):
            term = nodes.term("", "", shown(text))
            if not number:
                term["ids"].append(message.anchor)
            item += term
        standard = self.env.domains.standard_domain
        standard.note_object("message", message.name, message.anchor, location=item)
        body = nodes.definition()
        if message.section == RULES:
            body += self.rule(message)
        else:
            body += self.paragraph(message.cause)
            body += self.paragraph(f"*Way out:* {message.help}")
        body += self.reading(message)
        item += body
        return item

    def rule(self, message: Message) -> list[nodes.Node]:
        """A rule of the emulator, from the code that watches it."""
        kind = KINDS[message.name]
        name = nodes.paragraph("", "", nodes.literal("", kind.name))
        name += nodes.Text(", a warning: " if kind.warning else ": ")
        name += [nodes.Text(f"{kind.rule} "), nodes.emphasis("", f"({kind.source})")]
        way_out = nodes.paragraph("", "", nodes.emphasis("", "Way out:"))
        way_out += nodes.Text(f" {kind.help}.")
        return [name, way_out, self.paragraph(f"*On an H200:* {trials_of_rule(kind.name)}.")]

    def paragraph(self, text: str) -> nodes.paragraph:
        """Text of `messages.toml`, which is Markdown."""
        inline, problems = self.parse_inline(text, lineno=self.lineno)
        return nodes.paragraph("", "", *inline, *problems)

    def reading(self, message: Message) -> list[nodes.Node]:
        """Links to the pages that say more: those listed, and those that name the message."""
        here = self.env.docname
        known = [name for name in (*message.see, *ABOUT.get(message.section, ()))]
        for name in sorted(self.env.found_docs):
            if not name.startswith("chapters/"):
                continue
            path = self.env.doc2path(name)
            self.env.note_dependency(str(path))
            if mentions(message, Path(path).read_text(encoding="utf-8")):
                known.append(name)
        pages = [one for one in dict.fromkeys(known) if one in self.env.found_docs and one != here]
        if not pages:
            return []
        line = nodes.paragraph("", "", nodes.emphasis("", "Read:"), nodes.Text(" "))
        for number, name in enumerate(pages):
            line += [nodes.Text("; ")] if number else []
            line += to_page(name, here)
        return [line]


def to_page(name: str, here: str) -> pending_xref:
    """A link to a page that shows its title."""
    return pending_xref(
        "",
        nodes.inline("", name),
        refdomain="std",
        reftype="doc",
        reftarget=f"/{name}",
        refdoc=here,
        refexplicit=False,
        refwarn=True,
    )


def to_message(name: str, here: str) -> pending_xref:
    """A link to an entry of the index that shows its name."""
    return pending_xref(
        "",
        nodes.literal("", name),
        refdomain="std",
        reftype="message",
        reftarget=name,
        refdoc=here,
        refexplicit=False,
        refwarn=True,
    )


def setup(app: Sphinx) -> None:
    """Register the kind of object, its role and the directive."""
    app.add_object_type("message", "message", objname="message")
    app.add_directive("error-index", ErrorIndex)
