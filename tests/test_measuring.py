"""The experiments of the chapter on measuring, on a GPU that is only simulated."""

import math
from types import SimpleNamespace

import numpy
import pytest

from hopper import exercises, experiments, power
from hopper.bench import Pair
from hopper.compile import compile_kernel
from hopper.errors import HopperError
from hopper.exercises.measuring import MISTAKES
from hopper.experiments import measuring
from hopper.gemm import Launch, Problem


class SimulatedGpu:
    """A stream on which time passes by what is queued; stands in for the clock probe too."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited: list[float] = []

    def launch(self, ms):
        """A launch that takes ``ms``, or ``ms(now)``."""

        def run() -> None:
            self.now += ms(self.now) if callable(ms) else ms

        return run

    def gate(self, spin_ns: int) -> None:
        self.now += spin_ns / 1e6

    def probe(self) -> float:
        return self.now

    def event(self) -> float:
        return self.now

    def elapsed(self, start: float, end: float) -> float:
        return end - start

    def wait(self, event: float) -> None:
        self.waited.append(event)

    def synchronize(self) -> None:
        pass

    def read(self, before: float, after: float) -> tuple[float, float]:
        return 1000.0 + before, 0.0


@pytest.fixture
def no_nvml(monkeypatch):
    """Readings that fell before the load: two that could be read, one that could not."""
    looks = [power.Reading(0.0, 345.0, 90.0, 30.0, ()), power.Reading(0.1, None, None, 30.0, ())]

    class Sampler:
        readings = looks

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(measuring.power, "Sampler", Sampler)
    return looks


def test_a_load_is_cut_into_stretches_of_whole_launches(no_nvml):
    gpu = SimulatedGpu()
    found = measuring.under_load(gpu, gpu.launch(2.0), 10**12, 2.0, (0.01, 0.03, 0.07))
    assert [one.middle for one in found] == pytest.approx([0.005, 0.02, 0.05])
    assert [one.tflops for one in found] == pytest.approx([500.0] * 3)
    assert [one.clock_mhz for one in found] == pytest.approx([1000.0, 1010.0, 1030.0])
    assert gpu.waited == pytest.approx([10.0, 30.0, 70.0])  # each stretch is waited for once


def test_a_kernel_that_slows_down_gets_fewer_launches_a_stretch(no_nvml):
    gpu = SimulatedGpu()
    slower = gpu.launch(lambda now: 1.0 if now < 100 else 2.0)
    ends = (0.1, 0.2, 0.3, 0.4, 0.5)
    found = measuring.under_load(gpu, slower, 10**12, 1.0, ends)
    assert [one.tflops for one in found] == pytest.approx([1000.0] + 4 * [500.0])
    # It has learnt of the change by the fourth stretch: 50 launches in 100 ms again.
    lengths = numpy.diff([one.middle for one in found])
    assert lengths[-1] == pytest.approx(0.1)
    rates = measuring.on_grid(found, "tflops", ends)
    assert rates[0] == 1000.0 and rates[-1] == 500.0


def test_the_last_reading_stands_for_a_stretch_without_one(no_nvml):
    first, second = no_nvml
    assert measuring.looked_at(no_nvml, 0.0, 0.05) == [first]
    assert measuring.looked_at(no_nvml, 0.3, 0.4) == [second]
    assert measuring.looked_at(no_nvml, -2.0, -1.0) == [first]
    assert measuring.typical([90.0, None, 110.0]) == 100.0
    assert measuring.typical([None]) is None


def test_what_could_not_be_read_is_not_recorded():
    stretches = [measuring.Stretch(0.1, 500.0, 1500.0, None, None)]
    assert measuring.on_grid(stretches, "watts", (0.2,)) == [None]
    with pytest.raises(HopperError, match="power over time: cuBLAS could not be read"):
        measuring.sweep("power over time", ("t", "s", [1.0]), "W", {"cuBLAS": [None]})


def test_windows_give_the_ratio_whatever_the_order():
    gpu = SimulatedGpu()
    pair = Pair(gpu.launch(2.0), gpu.launch(1.5), None)
    for order in measuring.ORDERS:
        assert measuring.window_ratio(gpu, pair, order, 5) == pytest.approx(75.0)


def test_a_gpu_that_slows_down_favours_whoever_comes_first():
    ratios = {}
    for order in measuring.ORDERS:
        gpu = SimulatedGpu()
        warm = gpu.launch(lambda now: 1.0 + now / 100)
        ratios[order] = measuring.window_ratio(gpu, Pair(warm, warm, None), order, 20)
    assert ratios["kernel first"] > 115 and ratios["cuBLAS first"] < 87
    assert ratios["in turns"] == pytest.approx(101, abs=0.1)


def test_small_launches_are_timed_in_four_ways():
    gpu = SimulatedGpu()
    found = measuring.launch_times(gpu, gpu.launch(0.005))
    assert found["events around many"] == pytest.approx(5.0)
    assert found["behind a gate"] == pytest.approx(5.0)  # the gate itself is not timed
    assert 0 < found["no wait"] < 5000 and 0 < found["a wait each"] < 5000


def test_a_graph_is_replayed_behind_a_gate():
    gpu = SimulatedGpu()
    calls = []

    class Stream:
        def begin_capture(self):
            calls.append("begin")

        def end_capture(self):
            calls.append(f"end after {len(calls) - 1}")
            return SimpleNamespace(launch=lambda stream: gpu.launch(0.4)())

        def synchronize(self):
            pass

    found = measuring.graph_time(gpu, Stream(), lambda: calls.append("node"))
    assert found == pytest.approx(4.0)  # 0.4 ms for 100 nodes
    assert calls[0] == "begin" and calls[-1] == "end after 100"


def test_arrays_in_rotation_exceed_l2_several_times():
    for size in measuring.L2_SIZES:
        sets = measuring.sets_for(Problem(size, size, size))
        assert sets >= 2 and sets * 3 * 2 * size * size >= 4 * 60e6
    taken = []
    launch = measuring.in_turn([lambda: taken.append("a"), lambda: taken.append("b")])
    for _ in range(5):
        launch()
    assert "".join(taken) == "ababa"


def test_a_faulty_launch_does_only_its_share():
    args = ("map_a", "map_b", "c", *(numpy.int32(4096) for _ in range(3)))
    sound = Launch(None, None, (32, 32, 1), (128, 1, 1), args, (), None)
    fewer = measuring.faulty(sound, measuring.FEWER_BLOCKS, 0.25)
    assert fewer.grid == (32, 8, 1) and fewer.args == args
    smaller = measuring.faulty(sound, measuring.SMALLER_K, 0.75)
    assert smaller.grid == sound.grid and smaller.args[:5] == args[:5]
    assert smaller.args[5] == 3072 and isinstance(smaller.args[5], numpy.int32)
    for share in measuring.SHARES:
        assert measuring.faulty(sound, measuring.SMALLER_K, share).args[5] % 64 == 0


def test_the_experiments_of_one_unit_come_from_one_run(monkeypatch):
    stretches = [measuring.Stretch(t, 500.0, 1500.0, 1600.0, 700.0) for t in measuring.LONG]
    runs = []

    def load(gpu, program):
        runs.append(1)
        return {name: stretches for name in (measuring.KERNEL, measuring.PEER)}

    monkeypatch.setattr(measuring, "long_load", load)
    for one in measuring.EXPERIMENTS:
        if not one.name.endswith("over time"):
            continue
        found = one.run(None, None)
        assert found.name == one.name
        assert len(found.axis_values) == len(measuring.LONG)
    assert found.unit == "W" and set(found.series) == {measuring.KERNEL, measuring.PEER}
    clock = measuring.over_time("clock", None, None)
    assert clock.series[measuring.PEER + measuring.NVML][0] == 1600.0


def test_a_page_has_gaps_where_an_experiment_was_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    found = experiments.curves(measuring.KERNEL, "rate over time")
    assert found.label == "no recording of this variant"
    assert math.isnan(found.at(measuring.KERNEL, 1.0)) and numpy.isnan(found["anything"]).all()
    xs, ys = found.lines(measuring.PEER)[measuring.PEER]
    assert len(xs) == len(ys) == 1 and math.isnan(xs[0]) and math.isnan(ys[0])
    with pytest.raises(HopperError, match="no such experiment"):
        experiments.curves(measuring.KERNEL, "rates")


def test_a_recorded_sweep_is_read_by_curve_and_place():
    recorded = measuring.sweep("s", ("size", "", (64, 128)), "µs", {"ours": [1.0, 2.0]})
    found = experiments.Curves(numpy.array(recorded.axis_values), "here", recorded)
    assert found.at("ours", 128) == 2.0 and found["ours"].tolist() == [1.0, 2.0]
    assert found.lines("ours") == {"ours": ([64.0, 128.0], [1.0, 2.0])}
    with pytest.raises(HopperError, match="no such curve; it has ours"):
        found["theirs"]
    with pytest.raises(HopperError, match="was measured at"):
        found.at("ours", 96)


ALL_CLOSE = (
    lambda c, r: numpy.allclose(c, r, rtol=0, atol=1e-2),
    lambda c, r: numpy.allclose(c, r),
    lambda c, r: numpy.linalg.norm(c - r) < 1e-3 * numpy.linalg.norm(r),
    lambda c, r: not (abs(c - r) > 2**-10 * (abs(r) + r.std())).any(),
    lambda c, r: True,
    lambda c, r: False,
)
NAMED = (
    "accepts this one: one element off",
    "refuses this one: right, values of about 0.00",
    "accepts this one: one element off",
    "accepts this one: a tile never written",  # NaN compares false
    "accepts this one: one element off",
    "refuses this one: right",
)


@pytest.mark.parametrize(("answer", "named"), list(zip(ALL_CLOSE, NAMED, strict=True)))
def test_a_tolerance_is_tried_until_it_fails(answer, named, capsys):
    exercises.acceptance(answer)
    assert named in capsys.readouterr().out


def test_the_printed_tolerance_is_right_and_an_open_one_is_no_mistake(capsys):
    exercises.acceptance(lambda c, r: (abs(c - r) <= 2**-10 * (abs(r) + r.std())).all())
    assert "three scales" in capsys.readouterr().out
    exercises.acceptance(lambda c, r: None)
    assert "not answered yet" in capsys.readouterr().out


def test_the_printed_mistakes_are_right_and_others_are_explained(capsys):
    exercises.mistakes("no wait", "other work", "old output")
    assert capsys.readouterr().out.count(": right: ") == 3
    exercises.mistakes("other work", "speed")
    first, second, third = capsys.readouterr().out.splitlines()
    assert "not yet" in first and MISTAKES["other work"] in first
    assert "is none of" in second and "not answered yet" in third


@pytest.mark.hopper
def test_on_hopper_a_captured_product_is_cublas_own():
    import cupy

    from hopper.bench import Clocks, available
    from hopper.cublas import Cublas

    gpu = available()
    a, b = (cupy.asarray(x) for x in Problem(256, 192, 128).inputs())
    c = cupy.full((256, 192), cupy.nan, "float16")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, Cublas(stream) as cublas:
        product = cublas.product(a, b, c)
        product()
        gpu.synchronize()
        assert (c == cupy.matmul(a, b.T)).all()
        c.fill(cupy.nan)
        assert measuring.graph_time(Clocks(gpu), stream, product) > 0
        gpu.synchronize()
    assert (c == cupy.matmul(a, b.T)).all()


@pytest.mark.hopper
def test_on_hopper_launches_that_do_less_are_found_unless_c_is_old():
    from hopper.bench import available

    found = measuring.claims(available(), compile_kernel(measuring.KERNEL))
    assert found.wrong[measuring.FEWER_BLOCKS] == pytest.approx([0, 25, 50, 75])
    assert found.wrong[measuring.STALE] == [0, 0, 0, 0]
    assert found.wrong[measuring.SMALLER_K][0] == 0 and found.wrong[measuring.SMALLER_K][1] > 90
