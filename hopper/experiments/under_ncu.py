"""Kernels counted by ncu.

ncu starts ``python -m`` of a module of experiments, which passes its launches to ``launched``. The
process that wants the counts calls ``profiled``.
"""

import sys
from collections.abc import Callable, Iterable, Sequence

from hopper.backends import HopperGpu
from hopper.counters import profile
from hopper.errors import HopperError
from hopper.processes import environment
from hopper.schema import Profile

SECTOR_BYTES = 32


def launched(gpu: HopperGpu, launches: Iterable[Callable[[], object]]) -> None:
    """Do each launch between cudaProfilerStart and Stop, so that ncu counts these and no others."""
    import cupy

    gpu.synchronize()
    cupy.cuda.runtime.profilerStart()
    for launch in launches:
        launch()
    gpu.synchronize()
    cupy.cuda.runtime.profilerStop()


def profiled(
    module: str,
    *arguments: str,
    kernels: Sequence[str],
    seconds: float,
    metrics: Iterable[str] | None = None,
) -> tuple[Profile, ...]:
    """Run ``python -m module arguments`` under ncu: a profile of each launch, in their order.

    ``metrics``: ncu's names; those of ``hopper.counters.WANTED`` if None, as far as ncu knows them.
    Raises HopperError where ncu saw other launches than one of each of ``kernels``, where one of
    the ``metrics`` that were asked for was not counted, and as ``profile`` does.
    """
    asked = None if metrics is None else list(metrics)
    command = [sys.executable, "-m", module, *arguments]
    found = profile(command, timeout=seconds, environment=environment(), metrics=asked)
    seen = [one.kernel.partition("(")[0] for one in found.profiles]
    if seen != list(kernels):
        raise HopperError(f"ncu saw {seen}, and not {list(kernels)}")
    for metric in asked or ():
        if any(metric not in one.metrics for one in found.profiles):
            raise HopperError(f"{metric}: ncu did not count it; the recording needs it")
    return found.profiles
