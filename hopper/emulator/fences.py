"""Fences: they order memory accesses and change no value (PTX ISA, "membar / fence").

The emulator performs every access where it stands in the program, so nothing is left to order; a
form that ptxas refuses is refused all the same.
"""

from __future__ import annotations

import re

from hopper.emulator.instructions import Step, executes, unsupported
from hopper.emulator.machine import Machine
from hopper.emulator.opcodes import address_at, expect
from hopper.emulator.ptx import Immediate, Instruction

_SCOPE = "(cta|cluster|gpu|sys)"
_RESTRICTED = (
    r"(acquire\.sync_restrict::shared::cluster|release\.sync_restrict::shared::cta)\.cluster"
)
# With [address], 128 behind it; all others have no operands.
_ACQUIRES_MAP = re.compile(rf"fence\.proxy\.tensormap::generic\.acquire\.{_SCOPE}")
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"fence(\.(sc|acq_rel|acquire|release))?\.{_SCOPE}",
        rf"fence\.{_RESTRICTED}",
        r"fence\.mbarrier_init\.release\.cluster",
        r"fence\.proxy\.async(\.(global|shared::cta|shared::cluster))?",
        rf"fence\.proxy\.async::generic\.{_RESTRICTED}",
        r"fence\.proxy\.alias",
        rf"fence\.proxy\.tensormap::generic\.release\.{_SCOPE}",
        r"membar\.(cta|gl|sys|proxy\.alias)",
    )
)


@executes("fence", "membar")
def fence(machine: Machine, x: Instruction) -> Step:
    """Memory, proxy and mbarrier.init fences, in every form that sm_90a has."""
    if _ACQUIRES_MAP.fullmatch(x.opcode):
        expect(x, 2)
        address_at(x, 0)
        if x.operands[1] != Immediate(128):
            raise unsupported(x, "a tensor map has 128 bytes")
    elif any(form.fullmatch(x.opcode) for form in _FORMS):
        expect(x, 0)
    else:
        raise unsupported(x, "no fence of sm_90a has this form")
    return lambda lanes: None
