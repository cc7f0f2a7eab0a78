"""Statistics of timings: medians, percentiles, and ratios of adjacent pairs.

A kernel and its peer are timed in turns, so sample i of one was taken beside sample i of the
other, on equally warm silicon. Ratios are therefore taken pair by pair, and only then summarised.
"""

from collections.abc import Sequence
from statistics import median

from hopper.errors import ProblemError

__all__ = ["median", "pair_ratios", "percentile", "ratio", "ratio_spread", "tflops"]


def percentile(values: Sequence[float], percent: float) -> float:
    """The ``percent``-th percentile (0–100), interpolated linearly between sorted samples.

    Raises ProblemError without samples or outside 0–100.
    """
    if not values:
        raise ProblemError("percentile of no samples: time at least one launch first")
    if not 0 <= percent <= 100:
        raise ProblemError(f"percentile {percent}: it must lie between 0 and 100")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def pair_ratios(samples_ms: Sequence[float], peer_samples_ms: Sequence[float]) -> list[float]:
    """Peer time over own time of each adjacent pair: above 1, the kernel was faster.

    Raises ProblemError unless there are as many samples of the one as of the other.
    """
    if len(samples_ms) != len(peer_samples_ms) or not samples_ms:
        raise ProblemError(
            f"{len(samples_ms)} samples against {len(peer_samples_ms)} of the peer: ratios are "
            f"taken pair by pair; time both in turns"
        )
    return [theirs / ours for ours, theirs in zip(samples_ms, peer_samples_ms, strict=True)]


def ratio(samples_ms: Sequence[float], peer_samples_ms: Sequence[float]) -> float:
    """Median of the pairwise ratios."""
    return median(pair_ratios(samples_ms, peer_samples_ms))


def ratio_spread(
    samples_ms: Sequence[float], peer_samples_ms: Sequence[float]
) -> tuple[float, float]:
    """The 5th and the 95th percentile of the pairwise ratios."""
    ratios = pair_ratios(samples_ms, peer_samples_ms)
    return percentile(ratios, 5), percentile(ratios, 95)


def tflops(flop: int, milliseconds: float) -> float:
    """Rate in TFLOPS (1e12 floating-point operations a second)."""
    return flop / milliseconds / 1e9
