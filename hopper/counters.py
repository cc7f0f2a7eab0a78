"""Hardware counters through Nsight Compute's command line, ncu, in a process of its own.

ncu's metric names are kept as they are. Names differ between chips and versions, so each quantity
has a list of candidates, of which those that this ncu knows are asked for.
"""

import csv
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hopper.errors import HopperError
from hopper.processes import run_group
from hopper.schema import Metric, Profile

# alias → candidate metrics, the preferred one first.
WANTED: dict[str, tuple[str, ...]] = {
    "duration": ("gpu__time_duration.sum",),
    "cycles": ("sm__cycles_elapsed.max",),
    "sm_clock": ("sm__cycles_elapsed.avg.per_second",),
    # Share of elapsed cycles in which the tensor pipe worked; wgmma counts as hmma.
    "tensor_pipe": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    ),
    # As warps execute them: a wgmma counts four times. The first counts mma.sync and wgmma alike.
    "tensor_instructions": (
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "sm__inst_executed_pipe_tensor.sum",
    ),
    "wgmma_instructions": ("sm__inst_executed_pipe_tensor_op_gmma.sum",),
    "ldmatrix_instructions": (
        "smsp__inst_executed_op_ldsm.sum",
        "sm__sass_inst_executed_op_ldsm.sum",
        "smsp__sass_inst_executed_op_ldsm.sum",
        "sm__inst_executed_pipe_lsu_mem_shared_cmd_read.sum",
    ),
    "instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
    "sm_throughput": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "dram_read": ("dram__bytes_read.sum",),
    "dram_write": ("dram__bytes_write.sum",),
    "l2_hit_rate": ("lts__t_sector_hit_rate.pct",),
    "l2_sectors": ("lts__t_sectors.sum",),
    "bank_conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    ),
    "ldmatrix_conflicts": ("sm__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum",),
    # Shared memory delivers at most 128 bytes in a wavefront.
    "shared_load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "shared_store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    "wgmma_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",),
    "wgmma_shared_bytes": ("sm__sass_data_bytes_mem_shared_op_gmma.sum",),
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "registers": ("launch__registers_per_thread",),
    "static_shared": ("launch__shared_mem_per_block_static",),
    "dynamic_shared": ("launch__shared_mem_per_block_dynamic",),
    "waves": ("launch__waves_per_multiprocessor",),
}
# The clocks stay as the GPU governs them, as in the timings.
OPTIONS = ("--clock-control", "none", "--print-units", "base")
CHIP = "gh100"
QUERY_SECONDS = 60


def wanted_metrics() -> list[str]:
    """Every candidate, once."""
    return list(dict.fromkeys(name for names in WANTED.values() for name in names))


def known_metrics(listing: str) -> set[str]:
    """Base names (before the first dot) in the output of ``ncu --query-metrics``."""
    return set(re.findall(r"^\s*([a-z0-9]+__\w+)", listing, re.MULTILINE))


def available(wanted: Iterable[str], known: set[str]) -> tuple[list[str], list[str]]:
    """Split ``wanted`` into what ncu knows and what it does not.

    launch__ metrics come from the launch, not from counters, and are in another listing. With an
    empty listing everything is tried.
    """
    have, lack = [], []
    for name in wanted:
        sound = not known or name.startswith("launch__") or name.partition(".")[0] in known
        (have if sound else lack).append(name)
    return have, lack


def unknown_in(message: str, asked: Iterable[str]) -> list[str]:
    """Metrics that ncu's error output complains about."""
    complaints = "\n".join(line for line in message.splitlines() if "rror" in line or "ail" in line)
    return [name for name in asked if name.partition(".")[0] in complaints]


@dataclass(frozen=True)
class Profiled:
    """What one run of ncu brought: kernels in launch order, and metrics it does not know."""

    tool: str
    profiles: tuple[Profile, ...]
    unavailable: tuple[str, ...]


def profile(
    command: Sequence[str],
    *,
    timeout: float,
    environment: dict[str, str],
    metrics: Iterable[str] | None = None,
) -> Profiled:
    """Run ``command`` under ncu; it marks what to profile with cudaProfilerStart and Stop.

    ``metrics``: ncu's names of what to count; those of WANTED if None. Raises HopperError when ncu
    is missing, or returns no counters within ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    wanted = wanted_metrics() if metrics is None else list(metrics)
    have, lack = available(wanted, _query(environment))
    for _ in range(3):
        if not have:
            raise HopperError(f"ncu knows none of {', '.join(lack)}: update Nsight Compute")
        done = _ncu(
            [*OPTIONS, "--profile-from-start", "off", "--csv", "--metrics", ",".join(have)],
            command,
            max(1.0, deadline - time.monotonic()),
            environment,
        )
        profiles = read_csv(done.stdout)
        if profiles:
            return Profiled(tool_version(environment), tuple(profiles), tuple(lack))
        unknown = unknown_in(done.stdout + done.stderr, have)
        if not unknown:
            break
        have = [name for name in have if name not in unknown]
        lack += unknown
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-12:])
    raise HopperError(
        f"ncu returned no counters (status {done.returncode}); counters need root or the "
        f"driver's permission; its last lines:\n{tail}"
    )


def tool_version(environment: dict[str, str]) -> str:
    """'ncu 2025.3.1.0', from ncu itself."""
    done = _ncu(["--version"], [], QUERY_SECONDS, environment)
    found = re.search(r"Version\s+([\d.]+)", done.stdout)
    return f"ncu {found[1]}" if found else "ncu"


def _query(environment: dict[str, str]) -> set[str]:
    try:
        done = _ncu(["--query-metrics", "--chip", CHIP], [], QUERY_SECONDS, environment)
    except HopperError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise
        return set()  # too slow: ask for everything, and drop what ncu refuses
    return known_metrics(done.stdout) if done.returncode == 0 else set()


def _ncu(options, command, timeout: float, environment) -> subprocess.CompletedProcess:
    try:
        return run_group(["ncu", *options, *command], timeout=timeout, environment=environment)
    except FileNotFoundError as error:
        raise HopperError(
            "ncu is not on PATH: counters need Nsight Compute; add the CUDA toolkit's bin folder"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise HopperError(f"ncu did not end within {timeout:.0f} s") from error


def read_csv(text: str) -> list[Profile]:
    """The kernels in ncu's CSV output, in launch order; other lines of the output are skipped.

    One line a metric, with the columns ID, Kernel Name, Metric Name, Metric Unit, Metric Value.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = [line for line in lines[start:] if line.startswith('"')]
    kernels: dict[str, tuple[str, dict[str, Metric]]] = {}
    for row in csv.DictReader(rows):
        name, metrics = kernels.setdefault(row["ID"], (row["Kernel Name"], {}))
        value = _number(row["Metric Value"])
        if value is not None:
            metrics[row["Metric Name"]] = Metric(value, row["Metric Unit"])
    return [Profile(name, metrics) for name, metrics in kernels.values()]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except (ValueError, AttributeError):
        return None  # "n/a" where a counter could not be collected
