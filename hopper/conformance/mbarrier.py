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
    """Operations that are legal in their order, by counting what they do."""
    chosen = random.Random(seed)
    count = chosen.choice((1, 1, 2, 3, 5, 32, 1000))
    script = [("look", count)]
    pending, bytes = count, 0

    def completes_or_not() -> None:
        nonlocal pending
        if pending == 0 and bytes == 0:
            pending = count

    while len(script) < LENGTH:
        name = chosen.choice(OPERATIONS)
        some = chosen.choice((1, 16, 128, 4096, 1000))
        room = pending - 1 if name.endswith("open") else pending
        if name.startswith("drop"):
            room = min(room, count - 1)
        if name in ("expect", "complete", "look"):
            if pending == 0 and name == "expect" and bytes + some == 0:
                continue  # asked by a script of its own
            if pending == 0 and name == "complete" and chosen.random() < 0.7 and bytes > 0:
                some = bytes
            bytes += {"expect": some, "complete": -some, "look": 0}[name]
            script.append((name, some))
        elif room < 1:
            if pending == 0:
                some = abs(bytes)
                script.append(("complete", some) if bytes > 0 else ("expect", some - 1))
                bytes += -some if bytes > 0 else some - 1
                if bytes < 0 or pending == 0 and bytes == -1:
                    script.append(("expect", 2))
                    bytes += 2
            else:
                continue
        else:
            if name in ("one", "arrive_tx", "drop_tx"):
                number = 1
            else:
                number = chosen.randint(1, room)
            if name.endswith("_tx"):
                bytes += some
            if name.startswith("drop"):
                count -= number
            pending -= number
            script.append((name, some if name.endswith("_tx") else number))
        completes_or_not()
    return script[:LENGTH]


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


RANDOM = [_random_script(seed) for seed in range(48)]


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
    _scripted("words.random", RANDOM, (2,)),
    *(_scripted(f"words.{name}", [list(script)], (2,)) for name, script in WRITTEN.items()),
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
