"""Timing: the statistics, and the choreography of launches on a GPU that is only simulated."""

import numpy
import pytest

from hopper import bench, power, samples
from hopper.errors import CheckError, CompileError, ProblemError
from hopper.gemm import Problem

# Statistics


def test_percentiles_interpolate():
    values = [4.0, 1.0, 3.0, 2.0]
    assert samples.percentile(values, 0) == 1.0
    assert samples.percentile(values, 100) == 4.0
    assert samples.percentile(values, 50) == 2.5
    assert samples.percentile(values, 5) == pytest.approx(float(numpy.percentile(values, 5)))
    assert samples.percentile([7.0], 95) == 7.0


def test_the_ratio_is_taken_pair_by_pair():
    # A GPU that slows down by half under both: medians taken apart would mix fast and slow.
    ours = [1.0, 1.0, 2.0, 2.0, 2.0]
    peer = [0.5, 0.5, 0.5, 1.0, 1.0]
    assert samples.pair_ratios(ours, peer) == [0.5, 0.5, 0.25, 0.5, 0.5]
    assert samples.ratio(ours, peer) == 0.5
    assert samples.ratio_spread(ours, peer) == pytest.approx((0.3, 0.5))


def test_samples_that_do_not_pair_are_refused():
    with pytest.raises(ProblemError, match="2 samples against 1 of the peer"):
        samples.ratio([1.0, 2.0], [1.0])
    with pytest.raises(ProblemError, match="percentile of no samples"):
        samples.percentile([], 50)
    with pytest.raises(ProblemError, match="percentile 101"):
        samples.percentile([1.0], 101)


def test_tflops_counts_in_units_of_1e12():
    assert samples.tflops(Problem(8192, 8192, 8192).flop, 2.0) == pytest.approx(549.755813888)


def test_small_launches_share_a_sample():
    assert bench.launches_per_sample(2.0) == 1
    assert bench.launches_per_sample(0.2) == 1
    assert bench.launches_per_sample(0.005) == 40


def test_a_burst_stays_short_and_has_enough_pairs():
    assert bench.pairs_for(3.2) == 60
    assert bench.pairs_for(50.0) == 20
    assert bench.pairs_for(1000.0) == 10


# Clocks


def readings(**of_sm: tuple[int, int, int, int]) -> numpy.ndarray:
    table = numpy.zeros((power.SM_SLOTS, 4), numpy.uint64)
    for name, values in of_sm.items():
        table[int(name.removeprefix("sm"))] = values
    return table


# globaltimer counts from 1970, beyond what a float holds exactly.
NOW = 1_770_000_000_000_000_000


def test_the_clock_is_cycles_over_nanoseconds():
    before = readings(sm0=(100, NOW, 200, NOW + 100), sm5=(0, NOW, 150, NOW + 100))
    after = readings(
        sm0=(1700, NOW + 1100, 3200, NOW + 2100), sm5=(1850, NOW + 1100, 3350, NOW + 2100)
    )
    assert power.region_clock_mhz(before, after) == 1600.0  # median of 1500 and 1700
    assert power.spin_clock_mhz(after) == 1500.0


def test_an_sm_seen_once_and_a_reset_counter_do_not_count():
    before = readings(sm0=(0, NOW, 10**9, NOW + 1))
    after = readings(sm0=(5, NOW + 1000, 6, NOW + 2000), sm1=(5, NOW + 9, 1505, NOW + 1009))
    assert power.region_clock_mhz(before, after) is None
    assert power.spin_clock_mhz(after) == 1500.0
    assert power.spin_clock_mhz(readings()) is None


def test_the_probe_compiles_clean():
    program = power.probe_program()
    assert program.resources.spill_stores == 0
    assert program.ptx.count("%globaltimer") >= 3 and program.ptx.count("%clock64") == 2
    with pytest.raises(CompileError):
        _ = program.facts  # it is no kernel of the ladder


def test_conditions_take_what_was_read_inside_the_windows():
    looks = [
        power.Reading(0.5, 345.0, 90.0, 30.0, ()),
        power.Reading(1.5, 1500.0, 690.0, 50.0, ("software power cap",)),
        power.Reading(2.5, 1700.0, None, 60.0, ()),
        power.Reading(9.0, 345.0, 90.0, 30.0, ()),
    ]
    found = power.conditions(looks, [(1.0, 2.0), (2.0, 3.0)], [1550.0, None], [None])
    assert found.samples == 2
    assert (found.clock_mhz, found.spin_clock_mhz) == (1550.0, None)
    assert (found.power_watts.median, found.power_watts.samples) == (690.0, 1)
    assert (found.nvml_clock_mhz.low, found.nvml_clock_mhz.high) == (1500.0, 1700.0)
    assert found.throttle == {"software power cap": 1}


def test_throttle_reasons_have_names_and_idleness_is_none():
    assert power.throttle_names(0x1) == ()
    assert power.throttle_names(0x5) == ("software power cap",)
    assert power.throttle_names(0x48) == ("hardware slowdown", "hardware thermal slowdown")


def test_without_nvml_a_timing_goes_on_and_says_nothing(monkeypatch):
    import pynvml

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    with power.Nvml() as nvml:
        assert nvml.driver() is None and nvml.power_limit_watts() is None
        assert nvml.look().power_watts is None


# Choreography


class SimulatedGpu:
    """A stream on which time passes by what is queued; stands in for the clock probe too.

    ``order``: what was queued, a letter each: a name, or g(ate), p(robe), | for an event, w(ait).
    ``pause_costs``: what a launch takes longer, as a factor, within PAUSE_MS behind a gate.
    """

    PAUSE_MS = 0.15

    def __init__(self, pause_costs: float = 1.0) -> None:
        self.now = 0.0
        self.queued: list[str] = []
        self.gates_ns: list[int] = []
        self.pause_costs, self.slow_until = pause_costs, 0.0

    @property
    def order(self) -> str:
        return "".join(self.queued)

    def launch(self, name: str, ms: float):
        def run() -> None:
            self.queued.append(name)
            self.now += ms * (self.pause_costs if self.now < self.slow_until else 1.0)

        return run

    def gate(self, spin_ns: int) -> None:
        self.queued.append("g")
        self.gates_ns.append(spin_ns)
        self.now += spin_ns / 1e6
        self.slow_until = self.now + self.PAUSE_MS

    def probe(self) -> float:
        self.queued.append("p")
        return self.now

    def event(self) -> float:
        self.queued.append("|")
        return self.now

    def elapsed(self, start: float, end: float) -> float:
        return end - start

    def synchronize(self) -> None:
        self.queued.append("w")

    def read(self, before: float, after: float) -> tuple[float, float]:
        return 1500.0, 1600.0


def estimate(own_ms: float, peer_ms: float, queueing_ns: float = 20_000.0) -> bench.Estimate:
    return bench.Estimate(own_ms, peer_ms, queueing_ns, 15)


def test_a_burst_alternates_launch_by_launch():
    gpu = SimulatedGpu()
    timed = bench._burst(gpu, gpu.launch("k", 2.0), gpu.launch("c", 1.5), estimate(2.0, 1.5))
    assert gpu.order == "gp" + 60 * "|k|c|" + "pw"
    assert timed.samples_ms == 60 * (2.0,)
    assert timed.peer_samples_ms == 60 * (1.5,)
    assert (timed.launches_per_sample, timed.warm_up) == (1, 15)
    assert timed.conditions.clock_mhz == 1500.0
    assert timed.peer_conditions is None


def test_small_launches_follow_one_another_where_the_host_keeps_ahead():
    gpu = SimulatedGpu()
    found = estimate(0.04, 0.05)
    timed = bench._burst(gpu, gpu.launch("k", 0.04), gpu.launch("c", 0.05), found)
    assert gpu.order == "gp" + 60 * ("|" + 5 * "k" + "|" + 5 * "c" + "|") + "pw"
    assert timed.samples_ms == 60 * (0.04,)
    assert timed.peer_samples_ms == 60 * (0.05,)
    assert (timed.launches_per_sample, timed.warm_up) == (5, 15)
    # By the time the first of them starts, a pair of samples is queued.
    assert gpu.gates_ns[0] > 5 * found.queueing_ns


def test_behind_a_gate_launches_of_both_lead_in_that_are_not_timed():
    gpu = SimulatedGpu()
    found = estimate(0.01, 0.02)
    timed = bench._burst(gpu, gpu.launch("k", 0.01), gpu.launch("c", 0.02), found)
    pair = "g" + 7 * "k" + 7 * "c" + "|" + 20 * "k" + "|" + 20 * "c" + "|"
    assert gpu.order == "gp" + 60 * pair + "pw"
    assert timed.samples_ms == 60 * (0.01,)
    assert timed.peer_samples_ms == 60 * (0.02,)
    assert (timed.launches_per_sample, timed.warm_up) == (20, 15 + 7)
    assert min(gpu.gates_ns[1:]) > (7 + 20) * found.queueing_ns


def test_neither_side_pays_for_the_pause_at_a_gate():
    gpu = SimulatedGpu(pause_costs=1.5)
    run, peer = gpu.launch("k", 0.01), gpu.launch("c", 0.01)
    timed = bench._burst(gpu, run, peer, estimate(0.01, 0.01))
    assert gpu.order.count("g") == 1 + 60
    assert timed.samples_ms == timed.peer_samples_ms == 60 * (0.01,)


def test_a_gate_is_needed_where_queueing_takes_more_than_half_of_the_launches_time():
    assert bench.lead_ins(estimate(0.05, 0.05, queueing_ns=50_000.0)) == 0
    assert bench.lead_ins(estimate(0.05, 0.05, queueing_ns=50_001.0)) == 2
    assert bench.lead_ins(estimate(0.002, 0.003)) == 40
    assert bench.lead_ins(estimate(0.3, 0.3, queueing_ns=1e6)) == 1
    assert bench.lead_ins(estimate(2.0, 1.5)) == 0


def test_sustained_blocks_alternate_and_their_first_halves_do_not_count():
    gpu = SimulatedGpu()
    timed = bench._sustained(gpu, gpu.launch("k", 2.0), gpu.launch("c", 1.0), estimate(2.0, 1.0))
    block = 250 * "{0}" + "p|" + 250 * "{0}" + "|pw"
    assert gpu.order == 6 * (block.format("k") + block.format("c"))
    assert timed.samples_ms == 5 * (2.0,)
    assert timed.peer_samples_ms == 5 * (1.0,)
    assert timed.launches_per_sample == 250
    assert timed.peer_conditions is not None


def test_sustained_mode_refuses_launches_that_the_host_cannot_keep_up_with():
    gpu = SimulatedGpu()
    with pytest.raises(ProblemError, match="0.01 ms: sustained mode needs 0.1 ms"):
        bench._sustained(gpu, gpu.launch("k", 0.01), gpu.launch("c", 0.01), estimate(0.01, 0.01))


def test_the_estimate_comes_from_launches_that_waited_behind_a_gate():
    gpu = SimulatedGpu()
    found = bench._estimate(gpu, gpu.launch("k", 2.0), gpu.launch("c", 1.0))
    assert (found.own_ms, found.peer_ms) == pytest.approx((2.0, 1.0))
    assert gpu.order.count("k") == gpu.order.count("c") == found.launches
    assert found.launches == 15 + 17  # 50 ms more, to raise the clock


# measure


def test_a_mode_or_a_define_out_of_place_is_refused():
    problem = Problem(1024, 1024, 1024)
    with pytest.raises(ProblemError, match="mode='warm': a timing is burst or sustained"):
        bench.measure("v1_wgmma", problem, mode="warm")
    program = bench.compile_kernel("v1_wgmma")
    with pytest.raises(ProblemError, match="TILE_M for a compiled v1_wgmma"):
        bench.measure(program, problem, TILE_M=64)
    with pytest.raises(CompileError, match="there is no such kernel"):
        bench.measure("v9", problem)


@pytest.mark.hopper
@pytest.mark.parametrize("size", [1024, 4096])
def test_on_hopper_a_kernel_is_timed_beside_cublas(size, fresh_cache):
    found = bench.measure("v1_wgmma", Problem(size, size, size))
    assert not found.recorded
    assert found.label.endswith("this machine, live")
    low, high = found.ratio_spread
    assert 0.1 < low <= found.ratio <= high < 2
    assert 500 < found.conditions.clock_mhz < 2500
    assert (fresh_cache / "results").is_dir()


@pytest.mark.hopper
def test_on_hopper_cublas_gets_its_operands_without_a_copy():
    import cupy

    a, b = (cupy.ones((256, 512), "float16") for _ in range(2))
    c = cupy.empty((256, 256), "float16")
    cupy.matmul(a, b.T, out=c)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    cupy.matmul(a, b.T, out=c)
    assert pool.total_bytes() == before
    assert (c == 512).all()


@pytest.mark.hopper
def test_on_hopper_an_output_that_was_not_written_is_not_timed(monkeypatch):
    gpu = bench.available()
    a, b = bench.inputs_on(gpu, Problem(256, 256, 256))
    monkeypatch.setattr(type(gpu), "launch", lambda *_: None)
    with pytest.raises(CheckError, match="WRONG"):
        bench.checked_pair(bench.compile_kernel("v1_wgmma"), a, b)
