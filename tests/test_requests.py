"""Launches under ncu, and what was counted between L2 and the SMs for the pages on v8 and v9."""

import math
import sys
from types import SimpleNamespace

import pytest

from hopper.attempts import compile_attempt
from hopper.attempts.shapes import V7, V8, V9
from hopper.counters import Profiled
from hopper.errors import HopperError
from hopper.experiments import curves, experiments_of, requests, under_ncu
from hopper.pairs import division, landed_bytes, loaded_bytes, shares_a
from hopper.schema import Metric, Profile

METRICS = list(requests.COUNTERS.values())


def counted(kernels, metrics=METRICS):
    """Profiles as ncu makes them: launch i has 1e9 (i + 1) sectors of the first counter."""
    return tuple(
        Profile(
            f"{kernel}(TensorMap, ...)",
            {name: Metric(1e9 * (i + 1) + 1e8 * j, "sector") for j, name in enumerate(metrics)},
        )
        for i, kernel in enumerate(kernels)
    )


@pytest.fixture
def ncu(monkeypatch):
    """ncu, played: what it counts, and with which commands it was asked."""
    state = SimpleNamespace(profiles=(), asked=[])

    def profile(command, *, timeout, environment, metrics):
        state.asked.append((command, metrics))
        return Profiled("ncu", state.profiles, ())

    monkeypatch.setattr(under_ncu, "profile", profile)
    return state


@pytest.mark.parametrize("kernel", requests.VARIANTS)
def test_a_sweep_has_each_counter_of_each_variant(ncu, kernel):
    variants = requests.VARIANTS[kernel]
    ncu.profiles = counted([one.kernel for one in variants])
    (experiment,) = (one for one in experiments_of(kernel) if one.name == requests.REQUESTS)
    sweep = experiment.run(None, None)
    assert ncu.asked == [
        ([sys.executable, "-m", "hopper.experiments.requests", kernel], METRICS),
    ]
    assert list(sweep.axis_values) == [requests.place(kernel, one.name) for one in variants]
    assert list(sweep.series) == list(requests.COUNTERS)
    for j, name in enumerate(requests.COUNTERS):
        expected = [32 * (i + 1) + 3.2 * j for i in range(len(variants))]
        assert sweep.series[name] == pytest.approx(expected), name
    assert sweep.unit == "GB"


def test_other_launches_and_counters_that_lack_are_refused(ncu):
    kernels = [one.kernel for one in requests.VARIANTS[V8]]
    ncu.profiles = counted(kernels[::-1])
    with pytest.raises(HopperError, match=f"ncu saw .*, and not .'{V7}'"):
        requests.requests(V8, None, None)
    ncu.profiles = counted(kernels, METRICS[1:])
    with pytest.raises(HopperError, match=f"{METRICS[0]}: ncu did not count it"):
        requests.requests(V8, None, None)


def test_the_process_under_ncu_launches_each_variant_with_its_places(monkeypatch):
    log = []

    def checked_pair(program, *arrays, places):
        log.append(("checked", program.kernel, places))
        return SimpleNamespace(run=lambda: log.append(("run", program.kernel)))

    runtime = SimpleNamespace(
        profilerStart=lambda: log.append("start"), profilerStop=lambda: log.append("stop")
    )
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    monkeypatch.setattr(requests, "find_hopper", lambda: SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(requests, "inputs_on", lambda gpu, problem: ())
    monkeypatch.setattr(requests, "checked_pair", checked_pair)
    requests.launch_variants(V8)
    assert log == [
        ("checked", V7, "gpc"), ("checked", V8, "dealt"), ("checked", V8, "gpc"),
        "start", ("run", V7), ("run", V8), ("run", V8), "stop",
    ]  # fmt: skip


# ---- what the pages say of the record -----------------------------------------------------------


def recorded(kernel):
    """Name of a variant -> name of a series -> GB; empty where nothing was recorded."""
    found = curves(kernel, requests.REQUESTS)
    if found.sweep is None:
        return {}
    return {
        one.name: {
            name: found.at(name, requests.place(kernel, one.name)) for name in requests.COUNTERS
        }
        for one in requests.VARIANTS[kernel]
    }


def arithmetic(name, kernel):
    """GB asked for, landing, and asked for by pairs, of a variant at 8192³."""
    (attempt,) = (one for one in requests.VARIANTS[kernel] if one.name == name)
    facts = compile_attempt(attempt).facts
    steps = (of := division(facts, 8192, 8192, 8192)).tiles * of.steps / 1e9
    box = facts.a_box if shares_a(facts) else facts.b_box
    shared = box[0] * facts.tile_k * 2 if facts.cluster > 1 else 0
    return steps * loaded_bytes(facts), steps * landed_bytes(facts), steps * shared


@pytest.mark.parametrize("name", ["v7", "v8-as-dealt", "v8"])
def test_what_is_asked_and_what_arrives_is_what_the_arithmetic_says(name):
    if one := recorded(V8).get(name):
        asked, landing, by_pairs = arithmetic(name, V8)
        assert one["asked"] == pytest.approx(asked, rel=1e-3)
        assert one["to the GPCs"] == pytest.approx(landing, rel=1e-3)
        assert one["into the crossbar, multicast"] == pytest.approx(by_pairs, rel=1e-3), (
            "the unit joined nothing of what a pair shares"
        )


@pytest.mark.parametrize("kernel", requests.VARIANTS)
def test_what_leaves_l2_is_what_was_asked_less_what_was_joined_and_crosses_once(kernel):
    for one in recorded(kernel).values():
        # Several launches, as ncu collects not all counters in one: the least alike differ by 1%.
        assert one["from L2"] == pytest.approx(one["asked"] - one["joined"], rel=0.02)
        assert one["into the crossbar"] == pytest.approx(one["from L2"], rel=0.02)


def joined_share(kernel, name):
    """Joined, as a share of what blocks ask for alone; NaN where nothing was recorded."""
    one = recorded(kernel).get(name)
    if not one:
        return math.nan
    return one["joined"] / (one["asked"] - one["into the crossbar, multicast"])


def test_neighbours_on_the_chip_join_what_the_pair_does_not_share():
    if math.isnan(joined_share(V8, "v8")) or math.isnan(joined_share(V9, "tall")):
        return  # the page says that it has no recording
    for kernel, name in ((V8, "v8"), (V9, "tall"), (V9, "wide")):
        dealt, by_place = joined_share(kernel, f"{name}-as-dealt"), joined_share(kernel, name)
        assert dealt < 0.2 < by_place and by_place > 2 * dealt
    assert joined_share(V9, "tall-down-columns") < 0.05
    assert joined_share(V8, "v7") > 0.1, "v7 has a part of it by itself"
