"""The emulator's benchmark: recorded, read back, and said to be missing where it is."""

import json
from dataclasses import asdict

import pytest

from hopper.emulator import benchmark as module
from hopper.errors import RecordError
from hopper.gemm import Problem


def test_a_timing_counts_what_the_kernel_executes():
    one = module.timed("v1_wgmma", Problem(128, 128, 64))
    # Four warps execute every line of v1 at least once.
    assert one.instructions > 4 * 200
    assert min(one.seconds, one.first, one.unwatched) > 0
    assert one.target == 0.15


def test_a_benchmark_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    with pytest.raises(RecordError, match="no benchmark of the emulator"):
        module.load()
    timing = module.Timing("v1_wgmma", Problem(128, 128, 64), 0.1, 0.2, 0.05, 1900)
    found = module.Benchmark("2 cores", "2026-01-31T12:00:00Z", (timing,))
    module.record_path().parent.mkdir()
    module.record_path().write_text(json.dumps(asdict(found)))
    assert module.load() == found
    module.record_path().write_text("{}")
    with pytest.raises(RecordError, match="no benchmark of the emulator"):
        module.load()


def test_the_recorded_one_covers_every_kernel_and_size():
    covered = {(one.kernel, one.problem) for one in module.load().timings}
    assert covered == {(k, p) for k in module.KERNELS for p in module.TARGETS}
