"""Cases: mbarriers, by scripts of operations whose answers are recorded, and between threads."""

from __future__ import annotations

import random
from functools import partial

import numpy

from hopper.conformance import Case, blank

LENGTH = 32
OPERATIONS = (
    "arrive",
    "drop",
    "arrive_tx",
    "drop_tx",
    "expect",
    "complete",
    "arrive_open",
    "drop_open",
    "one",
    "look",
)
MOST = (1 << 20) - 1

#: Written by hand: the first operand is the count.
WRITTEN = {
    # A phase that only expect_tx could complete, and one that arrive.expect_tx completes.
    "expect_last": (("look", 1), ("complete", 16), ("one", 0), ("expect", 16)),
    "arrive_tx_last": (("look", 1), ("complete", 16), ("arrive_tx", 16), ("one", 0)),
    # Bytes before, between and behind arrivals; zero bytes.
    "bytes": (
        ("look", 2),
        ("expect", 100),
        ("complete", 40),
        ("one", 0),
        ("complete", 60),
        ("one", 0),
        ("arrive_tx", 0),
        ("arrive_tx", 7),
        ("complete", 3),
        ("complete", 4),
    ),
    # As many as the object can count.
    "most_arrivals": (
        ("look", MOST),
        ("arrive", 1),
        ("arrive", MOST - 2),
        ("one", 0),
        ("arrive", MOST),
        ("drop", MOST - 1),
        ("one", 0),
        ("one", 0),
    ),
    "most_bytes": (
        ("look", 2),
        ("expect", MOST),
        ("complete", MOST),
        ("complete", MOST),
        ("one", 0),
        ("arrive_tx", MOST),
        ("expect", 1),
        ("complete", 1),
        ("arrive", 2),
    ),
    # The last one drops: nobody is expected any more.
    "drops": (("look", 3), ("drop", 1), ("drop", 1), ("one", 0), ("one", 0), ("drop", 1)),
}


def _random_script(seed: int) -> list[tuple[str, int]]:
    """Operations that are legal in their order: the counts are followed here."""
    chosen = random.Random(seed)
    count = chosen.choice((1, 1, 2, 3, 5, 32, 1000))
    pending, bytes = count, 0
    script = [("look", count)]
    while len(script) < LENGTH:
        name, operand = chosen.choice(OPERATIONS), chosen.choice((1, 16, 128, 1000, 4096))
        arrivals = 0
        if name not in ("expect", "complete", "look"):
            most = min(pending, count - 1) if name.startswith("drop") else pending
            most -= name.endswith("open")
            if most < 1:
                continue
            arrivals = 1 if name == "one" or name.endswith("_tx") else chosen.randint(1, most)
        if name == "complete" and bytes > 0 and chosen.random() < 0.5:
            operand = bytes
        if not name.endswith("_tx") and arrivals:
            operand = arrivals
        if name == "expect" and pending == 0 and bytes + operand == 0:
            continue  # what this does is asked by a script of its own
        script.append((name, operand))
        count -= arrivals if name.startswith("drop") else 0
        pending -= arrivals
        if name == "expect" or name.endswith("_tx"):
            bytes += operand
        elif name == "complete":
            bytes -= operand
        if pending == 0 and bytes == 0:
            pending = count
    return script


def scripts(of: list[list[tuple[str, int]]]) -> numpy.ndarray:
    """Scripts as the kernel reads them (script, LENGTH, 2); short ones end in looking."""
    table = numpy.zeros((len(of), LENGTH, 2), numpy.uint32)
    table[:, :, 0] = OPERATIONS.index("look")
    for row, script in zip(table, of, strict=True):
        for at, (name, operand) in enumerate(script):
            row[at] = OPERATIONS.index(name), operand
    return table


def _script(of: list[list[tuple[str, int]]]) -> list:
    table = scripts(of)
    return [
        table,
        blank((len(of), LENGTH, 5), numpy.uint32),
        blank((len(of), LENGTH, 2), numpy.uint64),
    ]


def _values(count: int, *shape: int) -> list:
    generator = numpy.random.default_rng(count)
    return [generator.integers(0, 2**32, count, numpy.uint32), blank(shape, numpy.uint32)]


RANDOM = [_random_script(seed) for seed in range(64)]


def _scripted(name: str, of: list[list[tuple[str, int]]], outputs: tuple[int, ...]) -> Case:
    return Case(
        f"mbarrier.{name}",
        "probes/mbarrier.cu",
        "mbarrier_script",
        partial(_script, of),
        outputs,
        grid=(len(of), 1, 1),
        block=(1, 1, 1),
    )


CASES = (
    *(_scripted(f"script.{name}", [list(script)], (1,)) for name, script in WRITTEN.items()),
    _scripted("script.random", RANDOM, (1,)),
    Case(
        "mbarrier.forms",
        "probes/mbarrier.cu",
        "mbarrier_forms",
        partial(_values, 128, 12, 128),
        (1,),
    ),
    Case(
        "mbarrier.ring",
        "probes/mbarrier.cu",
        "mbarrier_ring",
        partial(_values, 8 * 32, 8, 96),
        (1,),
        block=(96, 1, 1),
    ),
    Case(
        "mbarrier.reuse", "probes/mbarrier.cu", "mbarrier_reuse", partial(_values, 128, 128), (1,)
    ),
    *(
        Case(
            f"mbarrier.cluster.{size}",
            "probes/mbarrier_cluster.cu",
            "mbarrier_cluster",
            partial(_values, 8 * 64, 6, 8 * 64),
            (1,),
            grid=(8, 1, 1),
            block=(64, 1, 1),
            defines={"CLUSTER": size},
        )
        for size in (1, 2, 4, 8)
    ),
)
