"""The chapter on v9: launches that overlap, where each reads what the last one wrote.

``a chain of launches``: C = A·Pᵀ with a permutation matrix P moves the columns of A, exactly; the
next launch takes C for its A. How many chains end with a wrong element, with the wait for the last
launch and without it?
"""

from __future__ import annotations

from typing import Any

import numpy

from hopper.attempts.model import Attempt, Edit, compile_attempt
from hopper.compile import Program
from hopper.experiments import Experiment
from hopper.gemm import plan
from hopper.schema import Array, Probe

V8 = "v8_multicast"
CHAIN = "a chain of launches"
#: A bit more than one wave of pairs of tiles: most blocks end a launch while others go on.
SIZE = 2304
CHAINS, LAUNCHES = 20, 20
OVERLAP = {"OVERLAP": 1}
#: The producer does not wait.
NOT_WAITED = (Edit("      wait_for_last_launch();\n", ""),)
#: What is compared -> edits.
VARIANTS: dict[str, tuple[Edit, ...]] = {"waits": (), "does not wait": NOT_WAITED}


def variant(name: str) -> Program:
    """v8 with overlapping launches, in one of VARIANTS."""
    return compile_attempt(Attempt(name, "", V8, OVERLAP, VARIANTS[name]))


def chain(gpu: Any, program: Program, seed: int, *, size: int = SIZE) -> int:
    """Wrong elements at the end of a chain of LAUNCHES launches on this GPU."""
    random = numpy.random.default_rng(seed)
    moved = random.permutation(size)
    permutation = numpy.zeros((size, size), numpy.float16)
    permutation[numpy.arange(size), moved] = 1
    expected = random.integers(-99, 100, (size, size)).astype(numpy.float16)
    here, there = gpu.array(expected), gpu.array(numpy.zeros_like(expected))
    p = gpu.array(permutation)
    both = plan(program, here, p, there), plan(program, there, p, here)
    gpu.synchronize()
    for number in range(LAUNCHES):
        both[number % 2].run()
        expected = expected[:, moved]
    return int((gpu.numpy(both[LAUNCHES % 2].maps[0].array) != expected).sum())


def chains(gpu: Any, program: Program) -> Probe:
    """Wrong elements of each chain, (variants, chains)."""
    wrong = [[chain(gpu, variant(name), seed) for seed in range(CHAINS)] for name in VARIANTS]
    return Probe(
        CHAIN,
        "Does a launch that overlaps with the last one read what that one wrote?",
        {"wrong": Array.of(numpy.array(wrong, numpy.int64))},
    )


EXPERIMENTS = (Experiment(V8, CHAIN, chains),)
