"""Invented recordings of the attempts, in a folder of a test's own."""

from collections.abc import Mapping

import ladder_records as ladder
import numpy

from hopper import schema
from hopper.attempts import BURST, EVERY
from hopper.attempts.outcome import refusals
from hopper.attempts.shapes import V9
from hopper.experiments import ablation
from hopper.experiments.attempts import NAMES, REPEATED, ROUNDS, Row, _arrays, schedule
from hopper.schema import Array

PAIRS = {BURST: 60, "sustained": ROUNDS}


def ratio_of(name: str, changes: Mapping[str, float]) -> float:
    """An invented ratio to cuBLAS: that of what an attempt is compared with, and the change."""
    attempt = EVERY[name]
    if attempt.base:
        return {"wide": 1.05, "tall": 1.06}.get(name, 1.0)
    return ratio_of(attempt.against, changes) * (1 + changes.get(name, 0.0) / 100)


def row(name: str, ratio: float, mode: str) -> Row:
    """Pairs of one timing, with a quartile range of about 0.2%."""
    spread = 1 + numpy.linspace(-2e-3, 2e-3, PAIRS[mode])
    return Row(name, (1.5 / (ratio * spread)).tolist(), [1.5] * PAIRS[mode], "", [1600.0] * 4)


def timed(mode: str, changes: Mapping[str, float], refused: Mapping[str, str]) -> schema.Probe:
    """A record of a mode. ``changes``: in percent against what each is compared with."""
    today = refusals()
    arrays = {}
    for name in dict.fromkeys(schedule(mode)):
        identity, reason = today[name]
        reason = refused.get(name, reason)
        times = len(REPEATED) if name in REPEATED else 1
        rows = [] if reason else [row(name, ratio_of(name, changes), mode)] * times
        arrays |= _arrays(name, identity, reason, rows)
    return schema.Probe(NAMES[mode], "invented", arrays)


def counters() -> schema.Probe:
    """An ablation in which every variant has counters of its own."""
    today, names = refusals(), ablation.variants()
    identities = numpy.array(
        [numpy.frombuffer(bytes.fromhex(today[name][0]), numpy.uint8) for name in names]
    )
    arrays = {ablation.IDENTITIES: Array.of(identities)}
    for place, alias in enumerate(ablation.COUNTERS):
        values = 1e6 * (1 + place) + numpy.arange(len(names)) * 1e4
        scale = {"tensor_pipe": 1e-5, "l2_hit_rate": 1e-5, "sm_clock": 1e3, "l2_sectors": 1e2}
        arrays[alias] = Array.of(values * scale.get(alias, 1.0))
    return schema.Probe(ablation.NAME, "invented", arrays)


def write_all(
    changes: Mapping[str, float] | None = None, refused: Mapping[str, str] | None = None
) -> None:
    """Both modes and the ablation, into the folder of HOPPER_RESULTS."""
    probes = [timed(mode, changes or {}, refused or {}) for mode in NAMES]
    ladder.write(V9, [ladder.entry(V9, probe) for probe in (*probes, counters())])
