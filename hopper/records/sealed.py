"""Files of recorded answers other than a kernel's measurements: one dataclass, sealed as JSON.

``{"format": 1, "seal": …, "held": …}``: the seal is the SHA-256 of the rest, so that an edited or
truncated file is refused.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from hopper.errors import RecordError
from hopper.records.store import seal
from hopper.schema import parse

FORMAT = 1
AGAIN = "take results/ from git again"

T = TypeVar("T")


def read_sealed(path: Path, kind: type[T]) -> T:
    """Read one file strictly. Raises RecordError when it is truncated, altered or ill-formed."""
    try:
        whole = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not readable ({error}); {AGAIN}") from error
    if not isinstance(whole, dict) or set(whole) != {"format", "seal", "held"}:
        raise RecordError(f"{path}: not a sealed file; {AGAIN}")
    if whole["format"] != FORMAT or whole["seal"] != seal(whole):
        raise RecordError(
            f"{path}: altered since it was recorded (its seal does not match); {AGAIN}"
        )
    return parse(kind, whole["held"], str(path), "held")


def write_sealed(path: Path, held: Any, rows: str) -> None:
    """Seal and write a dataclass; ``rows`` names its dictionary that gets an entry a line."""
    whole = {"format": FORMAT, "held": json.loads(json.dumps(asdict(held)))}
    head, entries = dict(whole["held"]), whole["held"][rows]
    del head[rows]
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(entries[name], sort_keys=True)}"
        for name in sorted(entries)
    )
    inner = json.dumps(head, sort_keys=True)[1:-1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{"format": {FORMAT}, "seal": "{seal(whole)}",\n"held": {{{inner},\n'
        f'"{rows}": {{\n{lines}\n}}}}}}\n'
    )
    read_sealed(path, type(held))
