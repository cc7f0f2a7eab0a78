"""The chapter on the warpgroup: its kernels, its exercise, and its experiments without a GPU."""

import json
import re
import sys
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace

import numpy
import pytest

from hopper import exercises, notebooks
from hopper.backends import find_hopper
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.errors import CheckError, CompileError, HopperError
from hopper.exercises.warpgroup import issued
from hopper.experiments import experiments_of, warpgroup
from hopper.fragment import held_by
from hopper.paths import KERNELS
from hopper.schema import Conditions, Probe, Spread, Sweep, parse
from hopper.tensormap import TensorMap

# ---- the operands of one_wgmma ------------------------------------------------------------------


def offset(row: int, k: int, leading: int, stride: int) -> int:
    """Bytes from a tile's start to an fp16 element: K-major, no swizzle, as wgmma reads it."""
    return row % 8 * 16 + row // 8 * stride + k // 8 * leading + k % 8 * 2


@pytest.mark.parametrize("depth", [16, 64])
def test_elements_are_stored_where_the_descriptor_says_they_lie(depth):
    leading, stride = 128, depth // 8 * 128
    asserted = "\n".join(
        f"static_assert(core_matrix_index<{depth}>({row}, {k}) * 2 == "
        f"{offset(row, k, leading, stride)});"
        for row in (0, 1, 7, 8, 15, 63)
        for k in (0, 1, 7, 8, depth - 1)
    )
    source = f"""
#include "core_matrix.cuh"
{asserted}
extern "C" __global__ void k(unsigned long long* out) {{
  __shared__ alignas(128) half tile[64 * {depth}];
  *out = descriptor_k_major_unswizzled<{depth}>(tile);
}}"""
    ptx = compile_cuda(source).ptx
    fixed = {int(n) for n in re.findall(r"or\.b64\s+%rd\d+, %rd\d+, (\d+);", ptx)}
    assert fixed == {stride >> 4 << 32 | leading >> 4 << 16}


def test_one_wgmma_is_exactly_one():
    for n in (8, 16, 136, 256):
        ops = issued(compile_kernel("one_wgmma", TILE_N=n).ptx)
        assert [one.op for one in ops] == ["fence", "mma_async", "commit_group", "wait_group"]
        assert ops[-1].pending == 0


# ---- the rounds of ceiling ----------------------------------------------------------------------


@pytest.mark.parametrize(("n", "sums"), [(8, 4), (64, 4), (72, 2), (128, 2), (136, 1), (256, 1)])
@pytest.mark.parametrize("source", warpgroup.SOURCES)
def test_a_round_is_nothing_but_wgmma_with_as_many_sums_as_fit(n, sums, source):
    flag = warpgroup.SOURCES[source]
    code = compile_kernel("ceiling", TILE_N=n, A_FROM_REGISTERS=flag).sass().instructions
    ends = [index for index, line in enumerate(code) if line.startswith("HGMMA") and "gsb0" in line]
    # From the end of an unrolled round to the end of the next.
    between = code[ends[0] + 1 : ends[1] + 1]
    products = [line for line in between if line.startswith("HGMMA")]
    others = [line for line in between if line not in products and line != "NOP"]
    assert [line.split()[0] for line in others] == ["WARPGROUP.DEPBAR.LE", "WARPGROUP.ARRIVE"]
    accumulators = [re.match(r"HGMMA\.64x\d+x16\.F32 (R\d+), (R\d+)?", line) for line in products]
    assert len({found[1] for found in accumulators}) == sums
    assert all(bool(found[2]) == (source == "RS") for found in accumulators)


@pytest.mark.parametrize(("kernel", "n"), [("one_wgmma", 20), ("one_wgmma", 264), ("ceiling", 12)])
def test_an_n_that_the_instruction_lacks_does_not_compile(kernel, n):
    with pytest.raises(CompileError, match="a multiple of 8 up to 256"):
        compile_kernel(kernel, TILE_N=n)


# ---- the exercise -------------------------------------------------------------------------------


def cell(name: str) -> str:
    """The code cell of the chapter that sets ``name``, executed: the text it sets."""
    source = next(
        c for c in notebooks.code_cells("warpgroup") if re.search(rf"^{name} = ", c, re.M)
    )
    scope: dict = {}
    exec(source, {"exercises": exercises}, scope)
    return scope[name]


@pytest.fixture(scope="module")
def solution():
    return cell("solution")


def test_the_chapters_blanks_are_four_and_open(capsys):
    loop = cell("loop")
    assert set(re.findall(r"__(\d)__", loop)) == {"1", "2", "3", "4"}
    capsys.readouterr()
    exercises.k_loop(loop.replace("__2__", "16"))
    assert capsys.readouterr().out == (
        "still open: blank 1 (the fence), 3 (the commit), 4 (the wait)\n"
    )


def test_the_chapters_solution_is_right_and_is_the_blanks_filled(solution, capsys):
    filled = cell("loop")
    for number, answer in {
        1: "wgmma_fence()",
        2: "16",
        3: "wgmma_commit_group()",
        4: "wgmma_wait_group<0>()",
    }.items():
        filled = filled.replace(f"__{number}__", answer)
    assert filled == solution
    capsys.readouterr()
    exercises.k_loop(solution)
    assert capsys.readouterr().out.startswith("right: fence, four wgmmas 16 apart, commit, wait")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("wgmma_fence();", "", "blank 1"),
        ("wgmma_fence();", "wgmma_wait_group<0>();", "blank 1"),
        ("step * 16", "step * 2", "blank 2: wgmma 1 reads A 32 bytes into the tile"),
        ("desc_b + step * 16", "desc_b + step * 256", "blank 2: wgmma 1 reads B 4096 bytes"),
        ("step * 16", "step * 0", "blank 2: wgmma 1 reads A 0 bytes"),
        ("wgmma_commit_group();", "", "blank 3"),
        ("wgmma_commit_group();", "wgmma_fence();", "blank 3"),
        ("wgmma_wait_group<0>();", "", "blank 4: nobody waits"),
        ("wgmma_wait_group<0>();", "wgmma_wait_group<1>();", "blank 4: wait_group 1 returns"),
        ("wgmma_wait_group<0>();", "wgmma_commit_group();", "blank 4: nobody waits"),
        ("#pragma unroll\n", "#pragma unroll 1\n", "leave the loop and its #pragma unroll"),
        ("wgmma_fence();", "wgmma_fence(); wgmma_fence();", "more is issued"),
    ],
)
def test_a_wrong_blank_is_named(solution, capsys, old, new, named):
    assert old in solution
    exercises.k_loop(solution.replace(old, new))
    out = capsys.readouterr().out
    assert out.startswith("not yet: ") and named in out


def test_what_the_compiler_repaired_is_told_with_the_blank(solution, capsys):
    exercises.k_loop(solution.replace("wgmma_fence();", ""))
    assert "the compiler noticed, C7519" in capsys.readouterr().out


def test_what_does_not_compile_is_no_verdict(solution, capsys):
    exercises.k_loop(solution.replace("wgmma_commit_group", "wgmma_comit_group"))
    out = capsys.readouterr().out
    assert out.startswith("it does not compile:") and "wgmma_comit_group" in out


def test_another_way_to_write_the_same_passes(solution, capsys):
    exercises.k_loop(
        """
  wgmma_fence();
  wgmma_f32_f16_f16<16>::ss(d, desc_a, desc_b, false);
  wgmma_f32_f16_f16<16>::ss(d, desc_a + 16, desc_b + 16, true);
  wgmma_f32_f16_f16<16>::ss(d, desc_a + 32, desc_b + 32, true);
  wgmma_f32_f16_f16<16>::ss(d, desc_a + 48, desc_b + 48, true);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  wgmma_wait_group<0>();
"""
    )
    assert capsys.readouterr().out.startswith("right")


def test_the_exercises_kernel_compiles_clean():
    program = compile_cuda(KERNELS / "exercises" / "k_loop.cu", "k_loop")
    assert advisories(program.log) == {}
    program.require_clean()


def test_a_plots_argument_is_no_kernel():
    """The kernel ceiling has the name of an argument that other chapters use."""
    assert notebooks.kernels_named(["plots.bars(rows, ceiling=('peak', 1.0))"]) == []
    assert notebooks.kernels_named(['curves("ceiling", "burst")']) == ["ceiling"]


# ---- the experiments, on a GPU that is played ---------------------------------------------------

MEGAHERTZ, WATTS = 1500, 650.0


@dataclass(frozen=True, eq=False)
class PlayedGpu:
    """Does in NumPy what the two kernels do; ``fault`` is added to one element of D.

    An instruction takes N/2 + 1 cycles of a clock of MEGAHERTZ.
    """

    sm_count: int = 3
    fault: float = 0.0

    def array(self, host):
        return host

    def numpy(self, device):
        return device

    def synchronize(self):
        pass

    def launch(self, program, grid, block, args, shared_bytes):
        play = {"one_wgmma": self.one_wgmma, "ceiling": self.ceiling}[program.kernel]
        assert shared_bytes == program.facts.shared_bytes
        assert block == (program.facts.threads, 1, 1)
        play(program, grid, *args)

    def one_wgmma(self, program, grid, a, b, d, held):
        assert grid == (1, 1, 1)
        d[:] = a.astype("float64") @ b.astype("float64").T
        d[5, 3] += self.fault
        for thread in range(128):
            held[thread] = [d[held_by(thread, r)] for r in range(held.shape[1])]

    def ceiling(self, program, grid, a, b, d, clocks, rounds):
        assert grid == (self.sm_count, 1, 1) and type(rounds) is numpy.int32
        d[:] = ((rounds - 1) % 128 + 1) * (a.astype("float64") @ b.astype("float64").T)
        d[-1, 70, 3] += self.fault
        cycles = (program.facts.tile_n // 2 + 1) * 8 * int(rounds)
        first = numpy.arange(self.sm_count)[:, None] * 1000 + numpy.array([0, 7])
        clocks[:, :, 0, 0], clocks[:, :, 1, 0] = first, cycles
        clocks[:, :, 0, 1], clocks[:, :, 1, 1] = 0, cycles * 1000 // MEGAHERTZ
        clocks[:, :, 1, 0] += first[:, :1]


@pytest.fixture
def played(monkeypatch):
    """CuPy, TMA's encoding, events and NVML, as far as the experiments use them."""
    events = SimpleNamespace(Event=lambda: SimpleNamespace(record=lambda: None))
    events.get_elapsed_time = lambda start, end: 100.0
    names = ("full", "zeros", "empty", "nan")
    cupy = SimpleNamespace(cuda=events, **{name: getattr(numpy, name) for name in names})
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(TensorMap, "encode", lambda self: self.array)
    monkeypatch.setattr(warpgroup.time, "sleep", lambda seconds: None)
    state = Conditions(None, None, None, Spread(WATTS, WATTS, WATTS, 1), None, {}, 1)
    monkeypatch.setattr(warpgroup.power, "conditions", lambda *given: state)
    monkeypatch.setattr(warpgroup, "EVERY_N", (8, 64, 256))
    return PlayedGpu()


def recorded_data(gpu, kernel: str, name: str):
    """What the experiment of that name returns."""
    one = next(one for one in experiments_of(kernel) if one.name == name)
    data = one.run(gpu, compile_kernel(kernel))
    assert data.name == name
    return data


@pytest.mark.parametrize("name", ["coordinates", "integers"])
def test_a_probe_keeps_what_went_in_and_came_out(played, name):
    data = recorded_data(played, "one_wgmma", name)
    assert isinstance(data, Probe)
    a, b, d, held = (data.arrays[key].array() for key in ("a", "b", "d", "held"))
    assert a.dtype == b.dtype == "float16" and d.dtype == held.dtype == "float32"
    assert (d == a.astype("float64") @ b.astype("float64").T).all() and d.any()
    assert held.shape == (128, 8)


def test_the_coordinates_say_where_they_stand():
    a, b = warpgroup.coordinates(256)
    d = a.astype("float64") @ b.astype("float64").T
    assert (d == 100 * numpy.arange(64)[:, None] + numpy.arange(256)).all()


def test_the_cycles_are_those_between_the_first_start_and_the_last_end(played):
    data = recorded_data(played, "ceiling", "cycles")
    assert isinstance(data, Sweep) and data.axis_values == (8, 64, 256)
    assert data.series["SS"] == data.series["RS"] == pytest.approx((5, 33, 129))


@pytest.mark.parametrize("mode", warpgroup.PACES)
def test_a_rate_comes_with_its_clock_and_its_power(played, mode):
    rate, clock, power = (
        recorded_data(played, "ceiling", mode + suffix) for suffix in ("", " clock", " power")
    )
    assert [one.unit for one in (rate, clock, power)] == ["TFLOPS", "MHz", "W"]
    assert set(rate.series) == set(clock.series) == set(power.series) == set(warpgroup.RATES)
    for values in clock.series.values():
        assert values == pytest.approx([MEGAHERTZ] * 4, rel=1e-3)
    assert set(power.series["zeros SS"]) == {WATTS}
    launches = round(warpgroup.PACES[mode].counted / (warpgroup.LAUNCH_CYCLES / 1.7e9))
    variant = warpgroup.ceiling(played, 256, "SS")
    operations = 2 * 64 * 256 * 16 * 8 * variant.rounds * played.sm_count * launches
    assert rate.series["normal SS"][-1] == pytest.approx(operations / 0.1 / 1e12)


def test_a_rate_without_its_power_is_not_recorded(played, monkeypatch):
    unread = Conditions(None, None, None, None, None, {}, 0)
    monkeypatch.setattr(warpgroup.power, "conditions", lambda *given: unread)
    with pytest.raises(HopperError, match="NVML gave no power"):
        recorded_data(played, "ceiling", "burst")


@pytest.mark.parametrize("fault", [1.0, numpy.nan])
@pytest.mark.parametrize(
    ("kernel", "name"),
    [("one_wgmma", "integers"), ("one_wgmma", "coordinates"), ("ceiling", "cycles")],
)
def test_a_single_wrong_element_is_not_recorded(played, kernel, name, fault):
    with pytest.raises(CheckError, match="1 of .* elements are wrong"):
        recorded_data(replace(played, fault=fault), kernel, name)


@pytest.mark.parametrize("kernel", ["one_wgmma", "ceiling"])
def test_what_is_measured_survives_a_record(played, kernel):
    for one in experiments_of(kernel):
        data = one.run(played, compile_kernel(kernel))
        written = json.loads(json.dumps(asdict(data)))
        assert parse(type(data), written, "record", "data") == data


# ---- with a Hopper GPU --------------------------------------------------------------------------


@pytest.mark.hopper
@pytest.mark.parametrize("n", range(8, 257, 8))
def test_one_wgmma_is_right_to_the_last_bit_for_every_n(n):
    program = compile_kernel("one_wgmma", TILE_N=n)
    for make in (warpgroup.coordinates, warpgroup.integers):
        a, b = make(n)
        d, held = warpgroup.launch_one(find_hopper(), program, a, b)
        assert (d == a.astype("float64") @ b.astype("float64").T).all()
        for thread in range(128):
            places = [held_by(thread, r) for r in range(n // 2)]
            assert (held[thread] == [d[place] for place in places]).all()


@pytest.mark.hopper
@pytest.mark.parametrize("n", [8, 64, 72, 128, 136, 256])
@pytest.mark.parametrize("source", warpgroup.SOURCES)
def test_ceiling_is_right_to_the_last_bit(n, source):
    warpgroup.check_ceiling(find_hopper(), n, source)


@pytest.mark.hopper
def test_the_solution_runs_and_is_right(solution, capsys):
    exercises.k_loop(solution)
    assert "all 1024 elements are right to the last bit" in capsys.readouterr().out
