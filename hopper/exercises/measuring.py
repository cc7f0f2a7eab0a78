"""Exercises of the chapter ``measuring``: mistakes in timing, and what to accept as right."""

from collections.abc import Callable

import numpy

MISTAKES = {
    "no wait": "launches return before the kernel is done: this is the time to queue them",
    "first launch": "the first launch loads the kernel and finds the clock low; warm up before",
    "other work": "one side allocates its result or converts it, and the other does not",
    "no turns": "the sides are timed at other times, and so at other clocks",
    "old output": "C still holds an earlier result, so what is not written is right all the same",
}
_WRONG_WITH = {"first": "no wait", "second": "other work", "third": "old output"}


def mistakes(first: str | None = None, second: str | None = None, third: str | None = None) -> None:
    """Check which of MISTAKES each of the measuring chapter's three snippets makes."""
    for name, answer in {"first": first, "second": second, "third": third}.items():
        print(f"{name}: {_mistake_verdict(name, answer)}")


def _mistake_verdict(name: str, answer: str | None) -> str:
    if answer is None:
        return "not answered yet; one of " + ", ".join(MISTAKES)
    if answer not in MISTAKES:
        return f"{answer!r} is none of " + ", ".join(MISTAKES)
    if answer == _WRONG_WITH[name]:
        return f"right: {MISTAKES[answer]}"
    return f"not yet: {answer!r} would mean that {MISTAKES[answer]}"


def acceptance(answer: Callable[[numpy.ndarray, numpy.ndarray], bool | None]) -> None:
    """Check a reader's ``answer(c, reference)``: does it accept a product exactly if it is right?

    ``c``: fp16 (64, 64), ``reference``: the same in fp64. Tried on right results, whose values are
    about 0.001, 16 and 256, and on five kinds of wrong ones of each size.
    """
    for scale in (2.0**-7, 1.0, 4.0):
        reference, results = _products(scale)
        size = f"values of about {reference.std():.2g}"
        for name, c in results.items():
            accepted = answer(c, reference)
            if accepted is None:
                print("not answered yet: return True for a right product, False for a wrong one")
                return
            if bool(accepted) != (name == "right"):
                verb = "accepts" if accepted else "refuses"
                print(f"not yet: it {verb} this one: {name}, {size}")
                return
    print("right: it accepts every right product and none of the wrong ones, at three scales")


def _products(scale: float) -> tuple[numpy.ndarray, dict[str, numpy.ndarray]]:
    """A product in fp64, and fp16 results for it: the right one, and five that are wrong."""
    random = numpy.random.default_rng(7)
    a, b = ((scale * random.standard_normal((64, 256))).astype("float16") for _ in range(2))
    reference = a.astype("float64") @ b.astype("float64").T
    right = reference.astype("float16")
    one_off, gap = right.copy(), right.copy()
    typical = abs(abs(reference) - reference.std()).argmin()
    one_off.flat[typical] *= numpy.float16(1.02)
    gap[32:, :32] = numpy.nan
    results = {"right": right, "one element off by a fiftieth": one_off}
    results["a tile never written"] = gap
    results["all zeros"] = numpy.zeros_like(right)
    short_a, short_b = (matrix[:, :-16].astype("float64") for matrix in (a, b))
    results["last K step skipped"] = (short_a @ short_b.T).astype("float16")
    results["transposed"] = numpy.ascontiguousarray(right.T)
    return reference, results
