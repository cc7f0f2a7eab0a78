"""Experiments behind a chapter's claims: small measurements that are recorded under a name.

An experiment belongs to a kernel and is stale when that kernel changes. It runs on a Hopper GPU,
inside ``make record``, and gives a Sweep (curves over an axis) or a Probe (arrays); a chapter reads
it back with ``experiment(kernel, name)``, or with ``curves`` and ``arrays``, which leave gaps where
nothing was recorded. One module a chapter; this one lists them.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy

from hopper.compile import Program
from hopper.errors import HopperError
from hopper.records import GPU, NoRecording, find, freshness
from hopper.schema import Entry, Probe, Sweep


@dataclass(frozen=True)
class Experiment:
    """``run(gpu, program)`` does it, on the kernel as written, and returns what is recorded.

    ``name`` is what chapters ask for; the returned Sweep or Probe carries the same.
    """

    kernel: str
    name: str
    run: Callable[[Any, Program], Sweep | Probe]


def registered() -> tuple[Experiment, ...]:
    """Every experiment of the book."""
    # Each of these needs this module, so they are loaded late.
    from hopper.experiments import (
        ablation,
        attempts,
        chip,
        descriptors,
        fp16_sums,
        fragments,
        ladder,
        layouts,
        measuring,
        multicast,
        persistent,
        protocol,
        requests,
        shared_reads,
        stream_k,
        tma_mbarrier,
        two_consumers,
        v0_mma_sync,
        warpgroup,
        waves,
    )

    return (
        *warpgroup.EXPERIMENTS,
        *v0_mma_sync.EXPERIMENTS,
        *measuring.EXPERIMENTS,
        *fragments.EXPERIMENTS,
        *layouts.EXPERIMENTS,
        *descriptors.EXPERIMENTS,
        *shared_reads.EXPERIMENTS,
        *tma_mbarrier.EXPERIMENTS,
        *protocol.EXPERIMENTS,
        *two_consumers.EXPERIMENTS,
        *fp16_sums.EXPERIMENTS,
        *ladder.EXPERIMENTS,
        *chip.EXPERIMENTS,
        *multicast.EXPERIMENTS,
        *requests.EXPERIMENTS,
        *persistent.EXPERIMENTS,
        *waves.EXPERIMENTS,
        *stream_k.EXPERIMENTS,
        *attempts.EXPERIMENTS,
        *ablation.EXPERIMENTS,
    )


def experiments_of(kernel: str) -> list[Experiment]:
    """The experiments of one kernel, in the order they are recorded."""
    return [one for one in registered() if one.kernel == kernel]


def experiment(kernel: str, name: str, *, gpu: str = GPU) -> Entry:
    """The recorded entry of an experiment; ``.data`` is its Sweep or Probe.

    Raises HopperError for a name that is no experiment, and NoRecording where it was not recorded
    or its kernel changed since.
    """
    known = [one.name for one in experiments_of(kernel)]
    if name not in known:
        listed = ", ".join(known) or "(none)"
        raise HopperError(f"{name!r}: {kernel} has no such experiment; there are {listed}")
    with suppress(NoRecording):  # without a record at all, it lacks this one too
        for kind in ("sweep", "probe"):
            for entry in find(kind, kernel, gpu=gpu):
                if entry.data.name == name and freshness(entry) != "stale":
                    return entry
    raise NoRecording(f"{kernel}, {name}: no recording of this variant on {gpu}")


@dataclass(frozen=True)
class Curves:
    """A recorded Sweep, for a page. Where nothing was recorded every number is NaN.

    ``x``: values of the axis. ``label``: the recording, or that there is none, for beside a plot.
    """

    x: numpy.ndarray
    label: str
    sweep: Sweep | None

    def __getitem__(self, series: str) -> numpy.ndarray:
        """One curve, a value for each of ``x``. Raises HopperError for a name that is none."""
        if self.sweep is None:
            return numpy.array([math.nan])
        if series not in self.sweep.series:
            listed = ", ".join(self.sweep.series)
            raise HopperError(f"{series!r}: {self.sweep.name} has no such curve; it has {listed}")
        return numpy.array(self.sweep.series[series])

    def at(self, series: str, x: float) -> float:
        """The value of a curve measured at exactly ``x``. Raises HopperError elsewhere."""
        values = dict(zip(self.x.tolist(), self[series].tolist(), strict=True))
        if self.sweep is None:
            return math.nan
        if x not in values:
            raise HopperError(f"{x}: {self.sweep.name} was measured at {self.x.tolist()}")
        return values[x]

    def lines(self, *series: str) -> dict[str, tuple[list[float], list[float]]]:
        """Curves as ``hopper.plots.lines`` takes them."""
        return {name: (self.x.tolist(), self[name].tolist()) for name in series}


def curves(kernel: str, name: str, *, gpu: str = GPU) -> Curves:
    """A recorded Sweep of ``kernel``, with gaps where it was not recorded.

    Raises HopperError for a name that is no experiment, RecordError for a damaged record.
    """
    try:
        entry = experiment(kernel, name, gpu=gpu)
    except NoRecording:
        return Curves(numpy.array([math.nan]), "no recording of this variant", None)
    return Curves(numpy.array(entry.data.axis_values), entry.provenance.label, entry.data)


@dataclass(frozen=True)
class Arrays:
    """A recorded Probe, for a page. Where nothing was recorded each array is a single NaN.

    ``label``: the recording, for beside what is shown, or why there is none.
    """

    label: str
    probe: Probe | None

    def __getitem__(self, name: str) -> numpy.ndarray:
        """One array. Raises HopperError for a name that is none."""
        if self.probe is None:
            return numpy.full((1, 1), math.nan)
        if name not in self.probe.arrays:
            listed = ", ".join(self.probe.arrays)
            raise HopperError(f"{name!r}: {self.probe.name} has no such array; it has {listed}")
        return self.probe.arrays[name].array()


def arrays(kernel: str, name: str, *, gpu: str = GPU) -> Arrays:
    """A recorded Probe of ``kernel``, with gaps where it was not recorded.

    Raises HopperError for a name that is no experiment, RecordError for a damaged record.
    """
    try:
        entry = experiment(kernel, name, gpu=gpu)
    except NoRecording as error:
        return Arrays(str(error), None)
    return Arrays(entry.provenance.label, entry.data)
