"""Changes of a text that must fit it: each old piece stands in the text exactly once."""

from collections.abc import Iterable

from hopper.errors import HopperError


def changed(
    text: str, changes: Iterable[tuple[str, str]], *, where: str, whose: str, home: str
) -> str:
    """``text`` with each (old, new) of ``changes`` applied, one after the other.

    ``where``: the text's name; ``whose``: what the changes are for; ``home``: the file that lists
    them. Raises HopperError when an old piece does not stand in the text exactly once: a change
    that changes nothing would be taken for a harmless one.
    """
    for old, new in changes:
        found = text.count(old)
        if found != 1:
            raise HopperError(
                f"{whose}: {old.strip().partition(chr(10))[0]!r} stands {found} times in {where}, "
                f"it must stand once; update {home} with the kernel"
            )
        text = text.replace(old, new)
    return text
