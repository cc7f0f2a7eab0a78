"""Exercises of the chapter ``v9_stream_k``: equal shares, an order of additions, a hand-over."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from hopper.exercises.v4_two_consumers import called

_STREAMS = ((1, 1), (7, 3), (640, 66), (34048, 66), (5, 8), (2**31 - 7, 132))


def equal_shares(answer: Callable[[int, int, int], int | None]) -> None:
    """Check (cost, sharers, sharer) → where in a stream of that cost a sharer's share begins.

    In whole numbers, with shares that cover the stream and differ by one at most.
    """
    for cost, sharers in _STREAMS:
        cuts = []
        for sharer in range(sharers + 1):
            got, wrong = called(answer, cost, sharers, sharer)
            if wrong:
                print(f"not yet: {wrong}")
                return
            if got is None or got is Ellipsis:
                print("not answered yet: return where the share begins")
                return
            if isinstance(got, bool) or not isinstance(got, int | numpy.integer):
                print(f"not yet: a place is a whole number; this is {got!r}, so divide with //")
                return
            cuts.append(int(got))
        where = f"a stream of {cost} for {sharers}"
        if cuts[0] != 0 or cuts[-1] != cost:
            print(
                f"not yet: {where}: the first share begins at {cuts[0]}, and the one behind the "
                f"last at {cuts[-1]}; the shares must cover 0 to {cost}"
            )
            return
        lengths = [after - before for before, after in zip(cuts, cuts[1:], strict=False)]
        if max(lengths) - min(lengths) > 1:
            print(
                f"not yet: {where}: the shortest share is {min(lengths)} and the longest "
                f"{max(lengths)}; what is left by the division goes to many sharers, one each"
            )
            return
    print(f"right: shares of {len(_STREAMS)} streams, equal to within one")


def added_up(answer: Callable[[Any, Sequence[Any]], Any]) -> None:
    """Check (own, gifts) → the sum that v9 stores, bit for bit, in fp32.

    ``own``: the finisher's sums of the last steps, fp32. ``gifts``: those of the clusters before
    it, nearest first.
    """
    random = numpy.random.default_rng(9)
    for givers in (1, 2, 3, 5):
        own, *gifts = random.standard_normal((givers + 1, 4096), numpy.float32) * 10
        right = own.copy()
        for gift in gifts:
            right += gift
        got, wrong = called(answer, own.copy(), [gift.copy() for gift in gifts])
        if wrong:
            print(f"not yet: {wrong}")
            return
        if got is None or got is Ellipsis:
            print("not answered yet: return the sums")
            return
        found = numpy.asarray(got)
        if found.shape != right.shape or found.dtype.kind != "f":
            print(f"not yet: {right.size} sums are expected, this is {str(got)[:60]!r}")
            return
        if found.dtype != numpy.float32:
            print(f"not yet: these sums are {found.dtype}; v9 adds in fp32")
            return
        same = int((found.view("uint32") == right.view("uint32")).sum())
        if same < right.size:
            far = float(numpy.abs(found - right).max())
            hint = (
                "the values are right and their order is not: which is added first?"
                if far < 1e-3
                else "something is missing, or there twice"
            )
            print(
                f"not yet: {givers} givers: {right.size - same} of {right.size} sums have other "
                f"bits, by up to {far:.2g}; {hint}"
            )
            return
    print("right: the same bits with one, two, three and five givers")


_STEPS = ("store", "fence giver", "barrier", "release", "acquire", "fence taker", "copy")
_RULES = (
    ("store", "fence giver", "the giver's fence puts what was stored before what TMA reads"),
    ("fence giver", "barrier", "each thread fences its own stores before it says that it is done"),
    ("store", "barrier", "the barrier says that all have stored"),
    ("barrier", "release", "one thread raises the flag for all: it must know that all are done"),
    ("release", "acquire", "the taker sees the flag when it has been raised"),
    ("acquire", "fence taker", "the taker's fence comes behind the flag that it has seen"),
    ("fence taker", "copy", "the copy goes through the asynchronous proxy: the fence before it"),
)


def handed_over(order: Sequence[str] | None) -> None:
    """Check the order of a hand-over through global memory.

    ``order``: "store", "fence giver", "barrier", "release", "acquire", "fence taker", "copy".
    """
    if order is None or order is Ellipsis:
        print("not answered yet: a list of seven names, the first one first")
        return
    if isinstance(order, str) or not isinstance(order, Sequence):
        print(f"not yet: a list of names, and not {order!r}")
        return
    named = [str(one).strip().lower() for one in order]
    strange = [one for one in named if one not in _STEPS]
    if strange:
        print(f"not yet: {strange[0]!r} is none of {', '.join(_STEPS)}")
        return
    missing = [one for one in _STEPS if named.count(one) != 1]
    if missing:
        print(f"not yet: {missing[0]!r} stands {named.count(missing[0])} times; each stands once")
        return
    for before, after, rule in _RULES:
        if named.index(before) > named.index(after):
            print(f"not yet: {before!r} stands behind {after!r}; {rule}")
            return
    print("right: stores, fence, barrier, flag; flag, fence, copy")
