"""The chapter on v8: bytes that pass L2, and joules, of tiles alone and of pairs that share.

``bytes``, ``hits``: what ncu counts for each of VARIANTS, in a process of its own, which this
module is as a command. ``energy of …``, ``clock of …``, ``rate of …``: two variants in turns under
sustained load, one against the other. Each variant is checked before it is timed or profiled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from hopper.backends import find_hopper
from hopper.bench import checked_pair, inputs_on, interleaved
from hopper.compile import Program, compile_kernel
from hopper.errors import HopperError
from hopper.experiments import Experiment
from hopper.experiments.two_consumers import counted
from hopper.experiments.under_ncu import SECTOR_BYTES, launched, profiled
from hopper.records import HEADLINE
from hopper.samples import median, tflops
from hopper.schema import Conditions, Profile, Sweep

V7, V8 = "v7_persistent", "v8_multicast"
_WIDE = {"TILE_M": 256, "TILE_N": 192, "STAGES": 3}
#: What is compared: kernel, and ``-D`` names. Its place here is its number on the sweeps' axis.
VARIANTS: dict[str, tuple[str, dict[str, int]]] = {
    "alone": (V7, {}),
    "A shared": (V8, {"SHARE_A": 1}),
    "B shared": (V8, {}),
    "256 × 192, alone": (V7, _WIDE),
    "256 × 192, A shared": (V8, {"SHARE_A": 1, **_WIDE}),
}
AXIS = ("variant", "in the order of VARIANTS")


def program_of(variant: str) -> Program:
    """A variant, compiled. Raises CompileError as compile_kernel does."""
    kernel, defines = VARIANTS[variant]
    return compile_kernel(kernel, **defines)


def place(variant: str) -> float:
    """Where a variant stands on the axis of a sweep."""
    return float(list(VARIANTS).index(variant))


# ---- bytes --------------------------------------------------------------------------------------

BYTES, HITS = "bytes", "hits"
NCU_SECONDS = 120


def launch_variants() -> None:
    """Launch each of VARIANTS for ncu; each is checked first."""
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    pairs = [checked_pair(program_of(variant), *arrays) for variant in VARIANTS]
    launched(gpu, [pair.run for pair in pairs])


@cache
def profiled_variants() -> tuple[Profile, ...]:
    """What ncu counted, in the order of VARIANTS; once in a process, for both experiments of it.

    Raises HopperError as ``under_ncu.profiled`` does.
    """
    kernels = [kernel for kernel, _ in VARIANTS.values()]
    return profiled("hopper.experiments.multicast", kernels=kernels, seconds=NCU_SECONDS)


def bytes_moved(gpu: Any, program: Program) -> Sweep:
    """Gigabytes that passed L2, and that memory read and wrote, of each variant."""
    found = profiled_variants()
    series = {
        "through L2": counted(found, "l2_sectors") * SECTOR_BYTES / 1e9,
        "read": counted(found, "dram_read") / 1e9,
        "written": counted(found, "dram_write") / 1e9,
    }
    return _over(VARIANTS, BYTES, "GB", {name: one.tolist() for name, one in series.items()})


def hits(gpu: Any, program: Program) -> Sweep:
    """Percent of the sectors that were asked of L2 and were there, of each variant."""
    found = profiled_variants()
    return _over(VARIANTS, HITS, "%", {"L2": counted(found, "l2_hit_rate").tolist()})


def _over(
    variants: Sequence[str], name: str, unit: str, series: dict[str, Sequence[float]]
) -> Sweep:
    rounded = {label: tuple(round(v, 3) for v in values) for label, values in series.items()}
    return Sweep(name, *AXIS, tuple(place(one) for one in variants), unit, rounded)


# ---- joules -------------------------------------------------------------------------------------

#: Two variants that take turns, a second each.
TURNS = {"one operand": ("alone", "B shared"), "larger tiles": ("A shared", "256 × 192, A shared")}
#: What is told of each: unit -> the first word of the sweep's name.
QUANTITIES = {"pJ": "energy", "MHz": "clock", "TFLOPS": "rate"}


@dataclass(frozen=True)
class Sustained:
    """One variant under sustained load: TFLOPS, mean SM clock in MHz, watts."""

    rate: float
    clock: float
    power: float

    @property
    def energy(self) -> float:
        """Picojoules for an operation: watts over operations a second."""
        return self.power / self.rate  # W / (1e12 / s) = 1e-12 J


def sustained_name(quantity: str, turns: str) -> str:
    """'energy of larger tiles': a sweep's name."""
    return f"{quantity} of {turns}"


def sustained_of(samples_ms: Sequence[float], state: Conditions | None) -> Sustained:
    """What a timing says. Raises HopperError where clock or power could not be read."""
    if state is None or state.clock_mhz is None or state.power_watts is None:
        raise HopperError("the SM clock or the power could not be read on this machine")
    rate = tflops(HEADLINE.flop, median(samples_ms))
    return Sustained(rate, state.clock_mhz, state.power_watts.median)


@cache
def in_turns(turns: str) -> tuple[Sustained, Sustained]:
    """Two variants under sustained load; once in a process, for all experiments of it."""
    gpu = find_hopper()
    arrays = inputs_on(gpu, HEADLINE)
    runs = [checked_pair(program_of(variant), *arrays).run for variant in TURNS[turns]]
    timed = interleaved(gpu, *runs, mode="sustained")
    return (
        sustained_of(timed.samples_ms, timed.conditions),
        sustained_of(timed.peer_samples_ms, timed.peer_conditions),
    )


def sustained(turns: str, unit: str, gpu: Any, program: Program) -> Sweep:
    """One quantity of two variants that took turns."""
    values = [getattr(one, QUANTITIES[unit]) for one in in_turns(turns)]
    name = sustained_name(QUANTITIES[unit], turns)
    return _over(TURNS[turns], name, unit, {"sustained": values})


EXPERIMENTS = (
    Experiment(V8, BYTES, bytes_moved),
    Experiment(V8, HITS, hits),
    *(
        Experiment(V8, sustained_name(quantity, turns), partial(sustained, turns, unit))
        for turns in TURNS
        for unit, quantity in QUANTITIES.items()
    ),
)

if __name__ == "__main__":
    launch_variants()
