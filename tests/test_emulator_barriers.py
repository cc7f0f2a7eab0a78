"""Barriers of a block and of a cluster, and registers that warpgroups trade."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.emulator import Deadlock, Emulator, Fault, Unsupported
from hopper.emulator.ptx import parse
from hopper.emulator.setmaxnreg import registers_at_launch
from hopper.paths import KERNELS

BOTH = (Emulator(), Emulator(schedule="random", seed=5), Emulator(schedule="random", seed=6))
HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def launch(source: str, kernel: str, *args, blocks=1, threads=128, emulator=BOTH[0], **defines):
    program = compile_cuda(KERNELS / f"probes/{source}.cu", kernel, defines=defines)
    return emulator.launch(program.ptx, kernel, blocks, threads, args=args)


def run_ptx(body: str, threads: int = 64, emulator=BOTH[0], header="", cluster=1, blocks=1):
    """Instructions between the thread's number in %r0 and its exit; nothing is stored."""
    text = (
        f"{HEAD}.visible .entry k() {header}\n{{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n"
        f"mov.u32 %r0, %tid.x;\n{body}\nret;\n}}\n"
    )
    return emulator.launch(text, "k", blocks, threads, cluster=(cluster, 1, 1))


# ---- reductions and counts


@settings(max_examples=25)
@given(st.data())
def test_reductions_count_the_living(data):
    threads = data.draw(st.sampled_from((32, 96, 100, 128)))
    votes = data.draw(st.lists(st.integers(0, 255), min_size=threads, max_size=threads))
    gone = data.draw(st.sets(st.integers(0, threads - 1), max_size=threads - 1))
    exits = [int(thread in gone) for thread in range(threads)]
    living = [vote for thread, vote in enumerate(votes) if thread not in gone]

    def bits(bit: int) -> list[bool]:
        return [bool(vote >> bit & 1) for vote in living]

    expected = [
        sum(bits(0)),
        sum(not vote for vote in bits(1)),
        sum(bits(2)),
        all(bits(3)),
        any(bits(4)),
        not any(bits(5)),
        not all(bits(6)),
        all(bits(7)),
    ]
    for emulator in BOTH[:2]:
        out = numpy.full((8, threads), 999, numpy.uint32)
        arrays = (numpy.array(x, numpy.uint32) for x in (votes, exits))
        launch(
            "warps_barriers", "barriers_reduce", *arrays, out, threads=threads, emulator=emulator
        )
        for thread in range(threads):
            assert out[:, thread].tolist() == ([999] * 8 if exits[thread] else expected)


def test_pairs_of_warps_meet_by_number_and_count():
    a = numpy.arange(512, dtype=numpy.uint32) * 7
    for emulator in BOTH:
        out = numpy.zeros((2, 512), numpy.uint32)
        launch("warps_barriers", "barriers_pairs", a, out, threads=512, emulator=emulator)
        numpy.testing.assert_array_equal(out[0], a.reshape(-1, 2, 32)[:, ::-1].reshape(-1))
        assert (out[1] == 32).all()  # odd values among 64


def test_who_arrives_does_not_wait():
    a = numpy.arange(6 * 32, dtype=numpy.uint32).reshape(6, 32)
    for emulator in BOTH:
        out = numpy.zeros((6, 4, 32), numpy.uint32)
        launch("warps_barriers", "barriers_produce", a, out, emulator=emulator)
        for warp in (1, 2, 3):
            numpy.testing.assert_array_equal(out[:, warp], a + warp)
    arrives = run_ptx("setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.arrive 3, 64;\n@!%p0 bar.sync 3, 64;")
    assert arrives.counts["bar.sync"] == 2  # each warp meets it, one with no thread active


def test_a_warp_comes_to_a_barrier_in_parts():
    a = numpy.arange(128, dtype=numpy.uint32) * 9
    early = numpy.arange(128) % 32 < 7
    published = numpy.where(early, a, 2 * a)
    for emulator in BOTH:
        out = numpy.zeros(128, numpy.uint32)
        launch("warps_barriers", "barriers_in_parts", a, out, emulator=emulator)
        numpy.testing.assert_array_equal(out, published[::-1] + numpy.where(early, 1, 2))


def test_more_warps_than_the_count_are_the_next_round():
    for emulator in BOTH:
        run_ptx("bar.sync 1, 64;", threads=256, emulator=emulator)
        with pytest.raises(Deadlock, match=r"barrier 1: 32 of 64 threads have arrived"):
            run_ptx("bar.sync 1, 64;", threads=160, emulator=emulator)


def test_threads_that_exit_are_waited_for_no_longer():
    """Warp 1 leaves at once, half of warp 2 later, while the others already wait."""
    body = """
    setp.ge.u32 %p0, %r0, 32;
    setp.lt.u32 %p1, %r0, 64;
    and.pred %p0, %p0, %p1;
    @%p0 exit;
    setp.ge.u32 %p2, %r0, 80;
    @!%p2 bra MEET;
    mov.u32 %r1, 0;
    LOOP:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p3, %r1, 20;
    @%p3 bra LOOP;
    exit;
    MEET:
    bar.sync 0;"""
    for emulator in BOTH:
        assert run_ptx(body, 96, emulator).counts["bar.sync"] >= 2


# ---- what is wrong


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("add.u32 %r1, %r0, 16;\nmov.u32 %r1, 16;\nbar.sync %r1;", "barrier 16: .* 0 to 15"),
        ("mov.u32 %r1, 48;\nbar.sync 1, %r1;", "48 threads: .* multiple of 32"),
        ("mov.u32 %r1, 0;\nbar.sync 1, %r1;", "0 threads: .* multiple of 32"),
        (
            "setp.lt.u32 %p0, %r0, 32;\nselp.b32 %r1, 64, 96, %p0;\nbar.sync 1, %r1;",
            "in use with 64 threads, and a warp comes with 96",
        ),
        (
            "setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 1;\n@!%p0 bar.sync 1, 64;",
            "in use with all threads of the block, and a warp comes with 64",
        ),
        (
            "setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 2, 64;\n"
            "@!%p0 barrier.red.or.pred %p1, 2, 64, %p0;",
            "in use by sync or arrive, and a warp comes by red.or",
        ),
        (
            "setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.arrive 1, 64;\n@%p0 bar.arrive 1, 64;",
            "warp 0 arrives at barrier 1 twice",
        ),
        (
            "and.b32 %r1, %r0, 1;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 bra A;\nbar.sync 0;\nbra B;\n"
            "A:\nbar.sync 0;\nB:",
            "by different instructions .* not .aligned",
        ),
        (
            "and.b32 %r1, %r0, 1;\nbarrier.sync %r1;",
            "at barrier 0 with all threads of the block and at barrier 1",
        ),
    ],
)
def test_wrong_arrivals_are_named(body, why):
    with pytest.raises(Fault, match=f"(?s){why}"):
        run_ptx(body)


def test_a_barrier_that_part_of_the_block_reaches_says_who_is_missing():
    """Warps 0 and 2 wait at barrier 0; warps 1 and 3 at barrier 5, for each other and one more."""
    body = """
    shr.u32 %r1, %r0, 5;
    and.b32 %r1, %r1, 1;
    setp.eq.u32 %p0, %r1, 1;
    @%p0 bra OTHER;
    bar.sync 0;
    bra END;
    OTHER:
    bar.sync 5, 96;
    END:"""
    for emulator in BOTH:
        with pytest.raises(Deadlock) as error:
            run_ptx(body, 128, emulator)
        said = str(error.value).splitlines()
        assert len(said) == 5
        zero = "bar.sync 0: barrier 0: 64 of 128 threads have arrived; not yet: warps 1, 3"
        five = "bar.sync 5, 96: barrier 5: 64 of 96 threads have arrived; not yet: warps 0, 2"
        for line, warp in zip(said[1:], range(4), strict=True):
            assert f"warp {warp} (32 threads)" in line
            assert line.endswith(five if warp % 2 else zero)


def test_a_count_beyond_the_block_is_recognised():
    with pytest.raises(Deadlock, match="64 of 128 threads have arrived, more than are left"):
        run_ptx("bar.sync 1, 128;", 64)


@pytest.mark.parametrize(
    "instruction",
    [
        "bar.sync 16",
        "bar.sync 1, 40",
        "bar.arrive 1",
        "barrier.red.popc.pred %p0, 1, %p1",
        "bar.red.add.u32 %r1, 1, %r0",
        "barrier.wait 0",
        "barrier.cluster.sync",
        "barrier.cluster.arrive.acquire",
        "setmaxnreg.inc.sync.aligned.u32 28",
        "setmaxnreg.inc.sync.aligned.u32 %r0",
        "setmaxnreg.dec.sync.aligned.u32 16",
        "setmaxnreg.inc.aligned.u32 32",
    ],
)
def test_forms_that_ptxas_refuses_are_refused(instruction):
    with pytest.raises((Unsupported, Fault)):
        run_ptx(f"{instruction};", header=".maxntid 64 .minnctapersm 1")


# ---- clusters


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_ring_of_blocks_passes_numbers_on(size):
    a = numpy.arange(8 * 128, dtype=numpy.uint32) * 3 + 1
    value = a.reshape(-1, size, 128).copy()
    expected = []
    for round in range(4):
        added = 0 if round % 2 else numpy.where(numpy.arange(128) % 32 < 9, 1, 2)
        expected.append((value + added).astype(numpy.uint32).reshape(-1))
        value = value * 5 + numpy.roll(value, -1, axis=1)
    for emulator in BOTH:
        out = numpy.zeros((4, 8 * 128), numpy.uint32)
        launch("cluster", "cluster_ring", a, out, blocks=8, emulator=emulator, CLUSTER=size)
        numpy.testing.assert_array_equal(out, numpy.stack(expected))


def test_a_cluster_waits_for_no_thread_that_has_exited():
    exits = numpy.random.default_rng(3).integers(0, 5, 8 * 64).astype(numpy.uint32)
    exits[64:128] = 1
    for emulator in BOTH:
        out = numpy.zeros_like(exits)
        launch("cluster", "cluster_exits", exits, out, blocks=8, threads=64, emulator=emulator)
        numpy.testing.assert_array_equal(out, numpy.minimum(exits, 3))


def test_a_thread_arrives_and_waits_in_turn():
    arrive, wait = "barrier.cluster.arrive;\n", "barrier.cluster.wait;\n"
    for aligned in ("", ".aligned"):
        a, w = arrive.replace(";", f"{aligned};"), wait.replace(";", f"{aligned};")
        run_ptx((a + w) * 3, cluster=2, blocks=4)
        with pytest.raises(Fault, match="has arrived and not waited since"):
            run_ptx(a + a + w, cluster=2, blocks=4)
        with pytest.raises(Fault, match="has not arrived"):
            run_ptx(w, cluster=2, blocks=4)


def test_a_cluster_that_does_not_meet_says_which_warps_are_missing():
    body = """
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p0, %r1, 1;
    setp.ge.u32 %p1, %r0, 32;
    and.pred %p0, %p0, %p1;
    @%p0 bar.sync 7, 64;
    barrier.cluster.arrive;
    barrier.cluster.wait;"""
    with pytest.raises(Deadlock) as error:
        run_ptx(body, 64, cluster=2, blocks=2)
    said = str(error.value)
    missing = "cluster barrier: 96 of 128 threads have arrived; not yet: block (1, 0, 0), warp 1"
    assert said.count(missing) == 3
    assert "bar.sync 7, 64: barrier 7: 32 of 64 threads have arrived; not yet: warp 0" in said


# ---- registers


TRADE = """
extern "C" __global__ void BOUNDS trade(int* out) {{
  if (threadIdx.x < 128) {{ asm volatile("setmaxnreg.dec.sync.aligned.u32 {dec};"); out[0] = 1; }}
  else {{ asm volatile("setmaxnreg.inc.sync.aligned.u32 {inc};"); out[threadIdx.x] = 2; }}
}}"""


@pytest.mark.parametrize(
    ("bounds", "dec", "inc"),
    [
        ("__launch_bounds__(256, 1)", 24, 240),
        ("__launch_bounds__(256, 1)", 24, 128),
        ("__launch_bounds__(256, 2)", 24, 240),
        ("__launch_bounds__(384, 1)", 40, 232),
        ("__launch_bounds__(300, 1)", 40, 232),
        ("__launch_bounds__(448, 1)", 24, 160),
        ("__launch_bounds__(640, 1)", 24, 160),
        ("__launch_bounds__(1024, 1)", 24, 88),
        ("__maxnreg__(64)", 24, 160),
        ("__launch_bounds__(256)", 24, 240),
    ],
)
def test_registers_at_launch_are_those_that_ptxas_gives(bounds, dec, inc):
    program = compile_cuda(TRADE.format(dec=dec, inc=inc).replace("BOUNDS", bounds), "trade")
    expected = registers_at_launch(parse(program.ptx, "trade"))
    if "C7508" in program.log:
        assert expected is None
    else:
        assert expected == program.resources.registers


def test_what_one_warpgroup_gives_the_others_take():
    a = numpy.arange(384, dtype=numpy.uint32)
    for emulator in BOTH:
        out = numpy.zeros(384, numpy.uint32)
        run = launch("warps_barriers", "barriers_registers", a, out, threads=384, emulator=emulator)
        numpy.testing.assert_array_equal(out, numpy.where(a < 128, a + 1, 3 * a))
        assert run.counts["setmaxnreg.inc.sync.aligned.u32"] == 8  # warps, however long they wait
        assert run.counts["setmaxnreg.dec.sync.aligned.u32"] == 4


BOUNDS_384 = ".maxntid 384 .minnctapersm 1"


def trade(first: str, others: str) -> str:
    return f"setp.lt.u32 %p0, %r0, 128;\n@%p0 bra FIRST;\n{others}\nbra END;\nFIRST:\n{first}\nEND:"


def test_registers_that_are_never_given_are_a_deadlock_that_counts_them():
    body = trade("setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 240;")
    with pytest.raises(Deadlock) as error:
        run_ptx(body, 384, header=BOUNDS_384)
    said = str(error.value)
    # 168 at launch: 128 · 128 were given, each of the two asks for 72 · 128.
    assert said.count("has 168 registers a thread and asks for 240, 9216 more in all; ") == 4
    assert "the block's pool holds 7168: 2048 are missing" in said


def test_inc_raises_and_dec_lowers():
    dec, inc = "setmaxnreg.dec.sync.aligned.u32", "setmaxnreg.inc.sync.aligned.u32"
    with pytest.raises(Fault, match=r"dec to 232: warpgroup 0 has 168 .* inc raises it"):
        run_ptx(trade(f"{dec} 232;", f"{inc} 240;"), 384, header=BOUNDS_384)
    with pytest.raises(Fault, match=r"inc to 96: warpgroup 0 has 168 .* dec lowers it"):
        run_ptx(trade(f"{inc} 96;", f"{inc} 240;"), 384, header=BOUNDS_384)


def test_a_warpgroup_changes_its_registers_as_a_whole():
    half = "setp.lt.u32 %p0, %r0, 64;\n@%p0 setmaxnreg.dec.sync.aligned.u32 24;\nbar.sync 0;"
    with pytest.raises(Deadlock, match="waits for the other threads of its warpgroup"):
        run_ptx(half, 128, header=".maxntid 128 .minnctapersm 1")


def test_without_a_known_number_at_launch_nothing_happens():
    run_ptx("setmaxnreg.inc.sync.aligned.u32 240;", 384, header=".maxntid 384")


def test_a_dependent_launch_has_nothing_to_wait_for():
    counts = run_ptx("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;").counts
    assert counts["griddepcontrol.wait"] == 2
