"""The compiler's messages, each with the change that provokes it: a list that a phone can show.

A table of such texts is wider than any phone, and puts what to do off the screen. Here each message
is a card: beside each other where there is room, one below the other where there is not.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from hopper.experiments.protocol_messages import Provoked, is_serialised, reason

from . import palette
from .palette import colour

_STYLE = (
    ".wb-messages{display:grid;gap:.9rem;padding:0;margin:.4rem 0 0}"
    f".wb-code .wb-message{{border:1px solid {colour('line')};border-radius:6px;"
    f"padding:.5rem .8rem;background:{colour('paper')};color:{colour('ink')}}}"
    ".wb-code .wb-message p{margin:0 0 .35rem;font-size:.92rem;line-height:1.45;color:inherit}"
    ".wb-code .wb-message p:last-child{margin-bottom:0}"
    ".wb-message-parts{display:grid;gap:.4rem 1.2rem;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr))}"
    # Of the same specificity as quoted code, and behind it.
    ".wb-code .wb-message pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;border:0;"
    f"padding:.4rem .6rem;font-size:.82rem;background:{colour('code-paper')};"
    f"color:{colour('ink')}}}"
    f".wb-message .wb-added{{background:{colour('add')};color:{colour('add-ink')}}}"
    f".wb-message .wb-removed{{background:{colour('remove')};color:{colour('remove-ink')}}}"
)


@dataclass(frozen=True)
class Card:
    """A message: its code, whether it serialises, its reason; what provokes it; what to do."""

    code: str
    serialised: bool
    reason: str
    difference: str
    help: str
    cause: str

    @property
    def heading(self) -> str:
        """The code, and that it serialises."""
        return self.code + (", serialised" if self.serialised else "")


@dataclass(frozen=True)
class Cards:
    """Cards under a title: HTML on a page, paragraphs in a terminal."""

    title: str
    cards: tuple[Card, ...]

    def __str__(self) -> str:
        parts = [self.title]
        for card in self.cards:
            lines = (f"{card.heading}: {card.reason}", card.difference, card.cause)
            parts.append("\n".join([*lines, f"What to do: {card.help}"]))
        return "\n\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cards = "".join(_html(card) for card in self.cards)
        return (
            f"<style>{_STYLE}</style>{palette.dark_jupyter_style('.wb-code')}"
            f'<div class="wb-code"><div class="wb-code-title">{html.escape(self.title)}</div>'
            f'<div class="wb-messages" role="list">{cards}</div></div>'
        )


def message_cards(provoked: Sequence[Provoked], title: str) -> Cards:
    """A card for each message that these changes provoke, compiled here and now."""
    cards = []
    for one in provoked:
        serialised = is_serialised(one.compile())
        for code, (said, *_) in one.messages.items():
            card = Card(code, serialised, reason(said), one.difference, one.help, one.cause)
            cards.append(card)
    return Cards(title, tuple(cards))


def _html(card: Card) -> str:
    heading, told, cause, todo = (
        html.escape(text) for text in (card.heading, card.reason, card.cause, card.help)
    )
    return (
        '<div class="wb-message" role="listitem">'
        f"<p><strong>{heading}</strong>: {told}</p>"
        f'<div class="wb-message-parts"><pre>{_coloured(card.difference)}</pre>'
        f"<div><p>{cause[:1].upper()}{cause[1:]}.</p>"
        f"<p><strong>What to do:</strong> {todo}.</p></div></div></div>"
    )


def _coloured(difference: str) -> str:
    """The lines of a difference; those that are changed have a colour beside their sign."""
    kinds = {"+": "wb-added", "−": "wb-removed"}
    lines = []
    for line in difference.splitlines():
        kind, text = kinds.get(line[0]), html.escape(line)
        lines.append(f'<span class="{kind}">{text}</span>' if kind else text)
    return "\n".join(lines)
