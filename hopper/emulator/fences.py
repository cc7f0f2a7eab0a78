"""Fences: they order memory accesses and change no value (PTX ISA, "membar / fence").

The emulator performs every access where it stands in the program, so nothing is left to order; a
form that ptxas refuses is refused all the same. The fences of tensor maps are in ``tma``.
"""

from __future__ import annotations

import re

from hopper.emulator.instructions import Step, executes, unsupported
from hopper.emulator.machine import Machine
from hopper.emulator.opcodes import expect
from hopper.emulator.ptx import Instruction

_SCOPE = "(cta|cluster|gpu|sys)"
_RESTRICTED = (
    r"(acquire\.sync_restrict::shared::cluster|release\.sync_restrict::shared::cta)\.cluster"
)
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"fence(\.(sc|acq_rel|acquire|release))?\.{_SCOPE}",
        rf"fence\.{_RESTRICTED}",
        r"fence\.mbarrier_init\.release\.cluster",
        r"fence\.proxy\.async(\.(global|shared::cta|shared::cluster))?",
        rf"fence\.proxy\.async::generic\.{_RESTRICTED}",
        r"fence\.proxy\.alias",
        r"membar\.(cta|gl|sys|proxy\.alias)",
    )
)


@executes("fence", "membar")
def fence(machine: Machine, x: Instruction) -> Step:
    """Memory, proxy and mbarrier.init fences, in every form that sm_90a has."""
    if not any(form.fullmatch(x.opcode) for form in _FORMS):
        raise unsupported(x, "no fence of sm_90a has this form")
    expect(x, 0)
    watch = machine.watch
    if watch and x.opcode.startswith("fence.proxy.async") and not x.has("global"):
        return watch.fence_proxy
    if watch and x.has("mbarrier_init"):
        return watch.fence_initialisations
    if watch and not x.has("proxy"):
        releases, acquires = not x.has("acquire"), not x.has("release")
        wide = not x.has("cta")
        return lambda lanes: watch.fence_memory(
            lanes, wide=wide, releases=releases, acquires=acquires
        )
    return lambda lanes: None
