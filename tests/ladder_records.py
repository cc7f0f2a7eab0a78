"""Invented records of the ladder's kernels, in a folder of a test's own."""

from dataclasses import replace
from pathlib import Path

from test_records import PASSED, STATE, WHERE

from hopper import bench, ladder, records, schema
from hopper.compile import compile_kernel
from hopper.paths import KERNELS
from hopper.records import HEADLINE

METRICS = {
    "sm__cycles_elapsed.max": (2.0e6, "cycle"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": (88.25, "%"),
    "smsp__inst_executed.sum": (132 * 4 * 0.2e6, "inst"),
    "lts__t_sector_hit_rate.pct": (77.5, "%"),
    "dram__bytes_read.sum": (1.5e9, "byte"),
    "dram__bytes_write.sum": (0.25e9, "byte"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": (0.0, ""),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum": (132 * 1.5e6, ""),
    "launch__registers_per_thread": (168, "register/thread"),
    "launch__shared_mem_per_block_static": (0, "byte/block"),
    "launch__shared_mem_per_block_dynamic": (188636, "byte/block"),
}


def timing(problem, mode: str, ratio: float, peer_ms: float) -> schema.Timing:
    """A timing whose median is so much of cuBLAS, and its pairs one percent around it."""
    around = (1.01, 1.0, 0.99)
    own = tuple(peer_ms / (ratio * one) for one in around)
    times = (peer_ms,) * 3
    return schema.Timing(problem, mode, bench.PEER, 15, 1, own, times, STATE, None, PASSED)


def counted() -> schema.Counters:
    metrics = {name: schema.Metric(float(value), unit) for name, (value, unit) in METRICS.items()}
    own, peer = schema.Profile("own", metrics), schema.Profile("nvjet", metrics)
    return schema.Counters(HEADLINE, "ncu 2025.3.1.0", (), own, peer, ())


def entry(kernel: str, data: schema.Data, *, stale: bool = False, **defines: int) -> schema.Entry:
    kind = next(name for name, cls in schema.KINDS.items() if isinstance(data, cls))
    identity = records.identity_of(compile_kernel(kernel, **defines))
    if stale:
        identity = replace(identity, ptx="0" * 64)
    return schema.Entry(kernel, kind, identity, WHERE, data)


def tuned(kernel: str, ratio: float) -> schema.Tuning:
    rows = []
    for stages, share in ((2, ratio), (3, ratio / 2)):
        identity = records.identity_of(compile_kernel(kernel, STAGES=stages))
        rows.append(
            schema.TuningRow(
                {"STAGES": stages}, identity, 154, "timed", None, 1, (1.5 / share,), (1.5,), PASSED
            )
        )
    return schema.Tuning(HEADLINE, bench.PEER, tuple(rows))


def write(kernel: str, entries: list[schema.Entry]) -> Path:
    path = records.record_path(kernel)
    records.write_record(records.Record(kernel, "NVIDIA H200", tuple(entries)), path)
    return path


def ceiling() -> list[schema.Entry]:
    """Both modes' rates; 850 and 800 at N = 256."""
    sweeps = [
        schema.Sweep(mode, "N", "columns", (64.0, 256.0), "TFLOPS", {"normal SS": (700.0, rate)})
        for mode, rate in (("burst", 850.0), ("sustained", 800.0))
    ]
    return [entry("ceiling", sweep) for sweep in sweeps]


def write_all() -> None:
    """Every rung, in fp16 and where its file knows it in bf16, and the ceiling."""
    for number, kernel in enumerate(ladder.names()):
        ratio = min(0.5 + 0.1 * number, 0.9 + 0.01 * number)  # below the ceiling
        entries = [
            entry(kernel, timing(HEADLINE, "burst", ratio, 1.5)),
            entry(kernel, timing(HEADLINE, "sustained", ratio + 0.02, 1.6)),
            entry(kernel, counted()),
        ]
        if number >= 2:
            entries.append(entry(kernel, tuned(kernel, ratio + 0.03)))
        if "element.cuh" in (KERNELS / f"{kernel}.cu").read_text(encoding="utf-8"):
            bf16 = timing(ladder.BF16, "burst", ratio - 0.01, 1.4)
            entries.append(entry(kernel, bf16, BF16=1))
        write(kernel, entries)
    write("ceiling", ceiling())
