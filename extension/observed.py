"""What a Hopper GPU did, in words, from recordings: broken rules, refused copies, answered cases.

Names of kernels come as Markdown code.
"""

import re
from functools import cache

from hopper.conformance.record import load as load_answers
from hopper.conformance.tma_stops import STOPS
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Trial, Trials, load
from hopper.records import NoRecording


@cache
def _trials() -> Trials | None:
    try:
        return load()
    except NoRecording:
        return None


def verdict(trial: Trial) -> str:
    """How the launches of a broken kernel ended, over all shapes: "right in all 640 launches"."""
    stopped = [one for one in trial.outcomes if one.hung or one.failed]
    launches = sum(one.launches for one in trial.outcomes)
    wrong = sum(one.wrong for one in trial.outcomes)
    if not stopped:
        right = f"right in all {launches:,} launches"
        return f"wrong in {wrong:,} of {launches:,} launches" if wrong else right
    ends = [
        word
        for word, there in (
            ("hangs", any(one.hung for one in stopped)),
            ("ends with an error", any(one.failed for one in stopped)),
        )
        if there
    ]
    shapes = len(trial.outcomes)
    told = " or ".join(ends)
    if len(stopped) < shapes:
        told += f" in {len(stopped)} of {shapes} shapes"
    return told + (f"; wrong in {wrong:,} launches" if wrong else "")


def trials_of(names: list[str]) -> str:
    """What the recorded trials of these hazard kernels found, "" for none.

    Raises KeyError for a name that no hazard kernel has.
    """
    known = {kernel.name for kernel in HAZARD_KERNELS}
    if missing := set(names) - known:
        raise KeyError(f"{', '.join(sorted(missing))}: there is no such kernel in kernels/hazards")
    recorded = _trials()
    if not names:
        return ""
    if recorded is None:
        return "not recorded"
    told = {
        name: verdict(recorded.trials[name]) if name in recorded.trials else "not recorded"
        for name in names
    }
    return "; ".join(f"`{name}`: {words}" for name, words in told.items())


def trials_of_rule(kind: str) -> str:
    """The trials of every hazard kernel that breaks this rule."""
    return trials_of([kernel.name for kernel in HAZARD_KERNELS if kernel.kind == kind])


def stops(pattern: str, error: str) -> str:
    """How many launches of `hopper.conformance.tma_stops` are meant, and how each ended there.

    Raises KeyError where the pattern fits none.
    """
    count = len(stops_like(pattern))
    if not count:
        raise KeyError(f"{pattern}: fits no case of hopper.conformance.tma_stops")
    return f"each of {count} launches ended with `{error}`"


def stops_like(pattern: str) -> list[str]:
    """Names of the cases whose whole name fits a pattern."""
    return [case.name for case in STOPS if re.fullmatch(pattern, case.name)]


def cases(prefix: str) -> str:
    """How many recorded cases of a unit begin so; the emulator returns the same bits in each.

    Raises KeyError where none does.
    """
    names = load_answers(prefix.split(".", 1)[0]).answers
    count = sum(name == prefix or name.startswith(f"{prefix}.") for name in names)
    if not count:
        raise KeyError(f"{prefix}: no recorded case begins so")
    return f"{count} recorded {'case' if count == 1 else 'cases'}, the same in the emulator"
