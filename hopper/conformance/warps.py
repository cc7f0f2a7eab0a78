"""Cases: threads of a warp, warps of a block and blocks of a cluster that meet."""

from __future__ import annotations

from functools import partial

import numpy

from hopper.conformance import Case, blank

WARP = 32
ANSWERS = 18
CLUSTER = 4


def _words(generator: numpy.random.Generator, count: int) -> numpy.ndarray:
    return generator.integers(0, 2**32, count, numpy.uint32)


def _shuffle(controls: str, blocks: int = 8) -> list:
    """Operands that a compiler writes ("segments"), or any 32 bits ("any")."""
    generator = numpy.random.default_rng(len(controls))
    threads = blocks * 128
    a, b, c = (_words(generator, threads) for _ in range(3))
    if controls == "segments":
        width = 1 << generator.integers(0, 6, threads, numpy.uint32)
        clamp = numpy.where(generator.integers(0, 2, threads) == 0, 0, 31).astype(numpy.uint32)
        b, c = b % 33, (32 - width << 8 | clamp).astype(numpy.uint32)
    shape = (4, threads)
    return [a, b, c, blank(shape, numpy.uint32), blank(shape, numpy.uint32)]


def masks(seed: int, warps: int, *, parts: int, exits: bool) -> numpy.ndarray:
    """A membermask for each thread: up to ``parts`` disjoint masks a warp, 0 for one that exits.

    Exited lanes stay named by the first mask of their warp.
    """
    generator = numpy.random.default_rng(seed)
    part = generator.integers(0, parts, (warps, WARP))
    part[:, 0] = numpy.where(generator.integers(0, 2, warps) == 0, 0, part[:, 0])
    gone = generator.integers(0, 3, (warps, WARP)) == 0 if exits else numpy.zeros_like(part, bool)
    part[gone] = 0
    bits = numpy.uint32(1) << numpy.arange(WARP, dtype=numpy.uint32)
    result = numpy.zeros((warps, WARP), numpy.uint32)
    for one in range(parts):
        mask = ((part == one) * bits).sum(axis=1, dtype=numpy.uint32)
        result = numpy.where(part == one, mask[:, None], result)
    result[gone] = 0
    return result.reshape(-1)


def _ask(parts: int, exits: bool, values: int) -> list:
    generator = numpy.random.default_rng(parts + values)
    mask = masks(parts, 32, parts=parts, exits=exits)
    a = generator.integers(0, values, mask.size).astype(numpy.uint32)
    return [a, mask, blank((ANSWERS, mask.size), numpy.uint32)]


def _elect(exits: bool) -> list:
    """Masks of one lane, of two neighbours, and random ones; a thread outside its mask leaves."""
    warps = 128
    mask = masks(7, warps, parts=1, exits=True)
    if not exits:
        one = numpy.uint32(1) << numpy.arange(WARP, dtype=numpy.uint32)
        rows = _words(numpy.random.default_rng(8), warps)
        rows[:WARP] = one
        rows[WARP : 2 * WARP - 1] = one[:-1] | one[1:]
        mask = numpy.where(rows[:, None] & one, rows[:, None], numpy.uint32(0)).reshape(-1)
    return [mask, blank((2, mask.size), numpy.uint32)]


def _reduce(exits: str, threads: int) -> list:
    generator = numpy.random.default_rng(threads)
    count = 4 * threads
    votes = _words(generator, count)
    votes[: 2 * threads] |= 0xFF  # blocks of one mind, so that and and or have both answers
    votes[threads : 2 * threads] &= ~numpy.uint32(0xFF)
    leaves = numpy.zeros(count, numpy.uint32)
    if exits == "warps":
        leaves = numpy.repeat(generator.integers(0, 2, count // WARP), WARP).astype(numpy.uint32)
        leaves.reshape(4, -1)[:, :WARP] = 0
    elif exits == "threads":
        leaves = (generator.integers(0, 3, count) == 0).astype(numpy.uint32)
    return [votes, leaves, blank((8, count), numpy.uint32)]


def _values(threads: int, *shape: int) -> list:
    return [_words(numpy.random.default_rng(threads), threads), blank(shape, numpy.uint32)]


def _cluster_exits(blocks: int) -> list:
    generator = numpy.random.default_rng(blocks)
    exits = generator.integers(0, 5, (blocks, 64)).astype(numpy.uint32)
    exits[1] = 1  # a whole block leaves
    return [exits.reshape(-1), blank(blocks * 64, numpy.uint32)]


def _case(name: str, source: str, kernel: str, arguments, outputs, blocks=1, threads=128, **more):
    return Case(
        name,
        f"probes/{source}.cu",
        kernel,
        arguments,
        outputs,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        **more,
    )


CASES = (
    *(
        _case(f"warps.shuffle.{kind}", "warps", "warps_shuffle", partial(_shuffle, kind), (3, 4), 8)
        for kind in ("segments", "any")
    ),
    *(
        _case(
            f"warps.ask.{parts}parts{'.exits' * exits}.{values}values",
            "warps",
            "warps_ask",
            partial(_ask, parts, exits, values),
            (2,),
            8,
        )
        for parts, exits, values in (
            (1, False, 1),
            (1, False, 3),
            (1, False, 2**31),
            (1, True, 2),
            (2, False, 2),
            (5, False, 3),
            (3, True, 2),
        )
    ),
    *(
        _case(
            f"warps.elect{'.exits' * exits}",
            "warps",
            "warps_elect",
            partial(_elect, exits),
            (1,),
            32,
        )
        for exits in (False, True)
    ),
    _case("warps.active", "warps", "warps_active", lambda: [blank((3, 128), numpy.uint32)], (0,)),
    _case("warps.meet", "warps", "warps_meet", partial(_values, 512, 512), (1,), 4),
    *(
        _case(
            f"warps.barriers.reduce.{threads}{exits and '.exits.' + exits}",
            "warps_barriers",
            "barriers_reduce",
            partial(_reduce, exits, threads),
            (2,),
            4,
            threads,
        )
        for threads, exits in ((128, ""), (100, ""), (256, "warps"), (96, "threads"))
    ),
    _case(
        "warps.barriers.pairs",
        "warps_barriers",
        "barriers_pairs",
        partial(_values, 1024, 2, 1024),
        (1,),
        2,
        512,
    ),
    _case(
        "warps.barriers.produce",
        "warps_barriers",
        "barriers_produce",
        partial(_values, 6 * WARP, 6, 128),
        (1,),
    ),
    _case(
        "warps.barriers.in_parts",
        "warps_barriers",
        "barriers_in_parts",
        partial(_values, 256, 256),
        (1,),
        2,
    ),
    _case(
        "warps.barriers.registers",
        "warps_barriers",
        "barriers_registers",
        partial(_values, 768, 768),
        (1,),
        2,
        384,
    ),
    *(
        _case(
            f"warps.cluster.addresses.{size}",
            "cluster",
            "cluster_addresses",
            lambda size=size: [
                blank((2 * size, 14), numpy.uint32),
                blank((2 * size, size, 10), numpy.uint32),
            ],
            (0, 1),
            2 * size,
            1,
            shared_bytes=64,
            defines={"CLUSTER": size},
        )
        for size in (1, 2, 4, 8)
    ),
    *(
        _case(
            f"warps.cluster.ring.{size}",
            "cluster",
            "cluster_ring",
            partial(_values, 8 * 128, 4, 8 * 128),
            (1,),
            8,
            defines={"CLUSTER": size},
        )
        for size in (1, 2, 4, 8)
    ),
    _case(
        "warps.cluster.exits",
        "cluster",
        "cluster_exits",
        partial(_cluster_exits, 8),
        (1,),
        8,
        64,
        defines={"CLUSTER": CLUSTER},
    ),
)
