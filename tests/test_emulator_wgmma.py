"""wgmma in the emulator: what is read, held and computed; what is legal; what is a fault."""

from itertools import product

import numpy
import pytest
from emulation import unwatched
from ptxas import refused_by_ptxas, refused_by_the_emulator, vector

from hopper.compile import compile_cuda
from hopper.conformance import emulate
from hopper.conformance import wgmma as cases
from hopper.conformance import wgmma_layout as layouts
from hopper.conformance.wgmma_numbers import item_bytes, read_back
from hopper.descriptor import Descriptor, decode
from hopper.emulator import Emulator, Fault
from hopper.emulator.numbers import FORMATS
from hopper.emulator.watch import Watch
from hopper.fragment import a_held_by, f16_held_by, held_by

RANDOM = [unwatched(schedule="random", seed=seed) for seed in range(2)]


def tile(held: numpy.ndarray, d_type: str) -> numpy.ndarray:
    """Accumulators (…, 128 threads, registers) -> (…, 64, N) as float64."""
    if d_type == "f16":
        held = numpy.ascontiguousarray(held).view(numpy.float16)
        halves = numpy.indices((128, held.shape[-1]))
        row, column = f16_held_by(halves[0], halves[1] // 2, halves[1] % 2)
    else:
        row, column = held_by(*numpy.indices(held.shape[-2:]))
    found = numpy.full((*held.shape[:-2], 64, held.shape[-1] * 2), numpy.nan)
    found[..., row, column] = held
    return found


# ---- where operands are read, and who holds what ------------------------------------------------

SAMPLE = [
    f"wgmma.layout.{form}.{theme}"
    for theme in ("plain", "odd")
    for form in (
        "f32.f16.f16.B.K.n136",
        "f32.f16.f16.B.MN.n256",
        "f32.f16.f16.A.K.n32",
        "f32.f16.f16.A.MN.n32",
        "f16.f16.f16.B.MN.n48",
        "f32.tf32.tf32.B.K.n48",
        "f16.e5m2.e4m3.A.K.n32",
        "s32.s8.u8.B.K.n48",
    )
] + ["wgmma.layout.f32.f16.f16.B.MN.n64.base", "wgmma.layout.f32.f16.f16.B.K.n64.crossing"]


@pytest.mark.parametrize("name", SAMPLE)
def test_an_operand_is_read_where_its_descriptor_says(name):
    it = layouts.LAYOUTS[name]
    (held,), _ = emulate(it.case())
    size = item_bytes(it.kind)
    depth = 32 // size
    found = read_back(it.kind, tile(held, it.d_type))
    descriptors = it.descriptors()
    assert len(descriptors) > 10
    r, k = numpy.indices((it.rows, depth))
    for one, read in zip(descriptors, found, strict=True):
        numbers = one.address(r, k, major=it.major, item_bytes=size) // size
        if it.tested == "A":
            assert (read[:, :depth] == numbers[:, : it.n]).all(), one
        else:
            assert (read[:depth] == numbers.T).all(), one


@pytest.mark.parametrize("name", layouts.HELD)
def test_a_comes_from_the_registers_that_hold_it(name):
    it = layouts.HELD[name]
    (held,), _ = emulate(it.case())
    (found,) = read_back(it.kind, tile(held, it.d_type))
    items = 4 // item_bytes(it.kind)
    thread, register, item = numpy.indices((128, 4, items))
    row, k = a_held_by(thread, register, item, item_bytes=item_bytes(it.kind))
    assert (found[row, k] == (thread * 4 + register) * items + item).all()


# ---- chains -------------------------------------------------------------------------------------


def values(kind: str, data: numpy.ndarray) -> numpy.ndarray:
    """Bytes as float64 numbers of a type."""
    if kind in ("s8", "u8"):
        return data.view({"s8": "i1", "u8": "u1"}[kind]).astype(float)
    return FORMATS[kind].decode(data.view(FORMATS[kind].dtype))[0].astype(float)


def operand(kind: str, image: numpy.ndarray, encoded: int, rows: int, major: str) -> numpy.ndarray:
    """(rows, K) that a descriptor of the image leads to."""
    size = item_bytes(kind)
    r, k = numpy.indices((rows, 32 // size))
    address = decode(int(encoded)).address(r, k, major=major, item_bytes=size)
    return values(kind, image)[address // size]


# The others differ from these in signs; the recorded digests of all of them are compared anyway.
SOME_CHAINS = [name for name in cases.CHAINS if not name.endswith("negate_b")]


@pytest.mark.parametrize("name", SOME_CHAINS)
def test_a_chain_adds_up(name):
    it = cases.CHAINS[name]
    image, a_from, b_from, a_held, scale, c, _ = it.case().arguments()
    (held,), _ = emulate(it.case())
    sign = -1 if it.negate[0] != it.negate[1] else 1
    low, high = -(1 << 31), (1 << 31) - 1
    size = item_bytes(it.a_type)
    for warpgroup in range(2):
        mine = slice(128 * warpgroup, 128 * (warpgroup + 1))
        expected = tile(c[mine], it.d_type)
        magnitude = abs(expected)
        for step in range(4):
            b = operand(it.b_type, image, b_from[step], it.n, it.majors[1])
            if it.a_in_registers:
                fragment = a_held.reshape(2, 4, 128, 4)[warpgroup, step]
                a = numpy.empty((64, 32 // size))
                places = a_held_by(*numpy.indices((128, 4, 4 // size)), item_bytes=size)
                a[places] = values(it.a_type, fragment.view("u1")).reshape(128, 4, -1)
            else:
                where = a_from[4 * warpgroup + step]
                a = operand(it.a_type, image, where, 64, it.majors[0])
            adds = scale[4 * warpgroup + step]
            expected = sign * (a @ b.T) + (expected if adds else 0)
            magnitude = abs(a) @ abs(b).T + (magnitude if adds else 0)
            if it.d_type == "s32" and it.satfinite:
                expected = expected.clip(low, high)
            elif it.d_type == "s32":
                expected = (expected - low) % (1 << 32) + low
        got = tile(held[mine], it.d_type)
        if it.d_type == "s32":
            assert (got == expected).all()
        else:
            # The arithmetic has tests of its own: here a wrong element would be far off.
            coarse = 4e-3 if it.d_type == "f16" or size == 1 else 2e-6
            assert (abs(got - expected) <= coarse * magnitude).all()


def test_saturation_was_reached():
    it = cases.CHAINS["wgmma.chain.s32.s8.s8.n48.K.K.satfinite"]
    (held,), _ = emulate(it.case())
    for end in (-(1 << 31), (1 << 31) - 1):
        assert 20 < numpy.count_nonzero(held == end) < held.size / 4


BLOCKS = r"""
#include "mbarrier.cuh"
#include "wgmma.cuh"
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(128) k(float* out) {
  __shared__ alignas(128) unsigned short ones[64 * 16], own[8 * 16];
  for (int i = threadIdx.x; i < 64 * 16; i += 128) ones[i] = 0x3c00;
  own[threadIdx.x] = 0x3c00 + (blockIdx.x << 10);  // 2 to the power of blockIdx.x
  fence_proxy_async();
  __syncthreads();
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  float d[4];
  wgmma_fence();
  wgmma_f32_f16_f16<8>::ss(d, kFixed | (shared_address(ones) & 0x3ffff) >> 4,
                           kFixed | (shared_address(own) & 0x3ffff) >> 4, false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int r = 0; r < 4; ++r) out[(blockIdx.x * 4 + r) * 128 + threadIdx.x] = d[r];
}"""


@pytest.mark.parametrize("cluster", [1, 2])
def test_each_block_reads_its_own_shared_memory(cluster):
    program = compile_cuda(BLOCKS, "k", defines={"CLUSTER": cluster})
    held = numpy.zeros((4, 4, 128), "f4")
    unwatched().launch(program.ptx, "k", 4, 128, args=[held])
    for block in range(4):
        assert (held[block] == 16 << block).all()


@pytest.mark.parametrize("emulator", RANDOM, ids=lambda one: f"seed{one.seed}")
@pytest.mark.parametrize(
    "name", ["f32.f16.f16.n64.MN.MN", "f32.bf16.bf16.n16.K.MN.negate_a.registers"]
)
def test_every_schedule_computes_the_same(name, emulator):
    case = cases.CHAINS[f"wgmma.chain.{name}"].case()
    assert (emulate(case)[0][0] == emulate(case, emulator)[0][0]).all()


def test_the_ways_to_write_scale_d():
    case = next(case for case in cases.CASES if case.name == "wgmma.forms")
    a, b, c, *_ = case.arguments()
    (held,), run = emulate(case)
    fresh = a.astype(float) @ b.astype(float).T
    for form, adds in enumerate((False, True, True, False)):
        expected = fresh + (tile(c[form], "f32") if adds else 0)
        assert abs(tile(held[form], "f32") - expected).max() < 1e-5
    commits = [event.detail["instructions"] for event in run.trace.of("wgmma.commit")]
    waits = [event.detail["retired"] for event in run.trace.of("wgmma.wait")]
    assert commits == [0, 2, 2] and waits == [0, 3]


@pytest.mark.parametrize("name", ["f16.f16.f16", "s32.u8.s8"])
def test_every_n_multiplies_as_many_rows_of_b(name):
    it = cases.EVERY[f"wgmma.every_n.{name}"]
    a, b, *_ = it.case().arguments()
    (held,), _ = emulate(it.case())
    a, b = values(it.a_type, a).reshape(64, -1), values(it.b_type, b).reshape(256, -1)
    assert it.every_n[0] == 8 and it.every_n[-1] == 256 and len(it.every_n) in (18, 32)
    for n, slab in zip(it.every_n, held, strict=True):
        used = n // 4 if it.d_type == "f16" else n // 2
        assert (slab[used:].view("u4") == 0xFFFFFFFF).all()
        got = tile(numpy.ascontiguousarray(slab[:used].T), it.d_type)
        exact = it.d_type == "s32"
        assert abs(got - a @ b[:n].T).max() <= (0 if exact else 1e-2)


# ---- groups -------------------------------------------------------------------------------------

TWO_GROUPS = r"""
#include "wgmma.cuh"
extern "C" __global__ void __launch_bounds__(256) k(float* out, unsigned long long descriptor) {
  float d[4] = {}, e[4] = {};
  unsigned a[4] = {};
  wgmma_fence();
  wgmma_f32_f16_f16<8>::ss(d, descriptor, descriptor + 128, true);
  wgmma_f32_f16_f16<8>::ss(d, descriptor, descriptor + 128, true);
  wgmma_commit_group();
  wgmma_f32_f16_f16<8>::rs(e, a, descriptor + 256, true);
  wgmma_commit_group();
  WAIT
  for (int r = 0; r < 4; ++r) out[r * 256 + threadIdx.x] = d[r] + e[r];
}"""


def test_the_watch_is_told_what_each_instruction_reads_and_in_which_group(monkeypatch):
    told = {0: [], 1: []}
    monkeypatch.setattr(
        Watch, "issued", lambda _, x, group, chunks, count: told[group].append((count, chunks))
    )
    program = compile_cuda(TWO_GROUPS.replace("WAIT", "wgmma_wait_group<0>();"), "k")
    args = [numpy.zeros((4, 256), "f4"), numpy.uint64(Descriptor(1024, 128, 256).encode())]
    run = Emulator().launch(program.ptx, "k", 1, 256, shared_bytes=8192, args=args)
    commits = [event for event in run.trace.of("wgmma.commit")]
    assert [event.detail["instructions"] for event in commits] == [2, 2, 1, 1]
    for *both, (count, last) in told.values():
        assert [number for number, _ in both] == [1, 1] and count == 2
        assert len(last) == 1, "A is in registers: only B is read from shared memory"
        # Eight rows of 32 bytes: two core matrices of 128 bytes at 1024 + 256 · 16.
        start = (1024 + 4096) // 16
        assert sorted(last[0].flat) == list(range(start, start + 16))
        for _, (a, b) in both:
            assert sorted(a.flat) == list(range(64, 64 + 128))
            assert sorted(b.flat) == list(range(64 + 128, 64 + 128 + 16))


# ---- what is legal ------------------------------------------------------------------------------

KINDS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
#: Constants behind scale-d: signs, then transpositions.
TAILS = ("", ", 1, 1", ", -1, 1, 0", ", 1, -1, 1, 0")


def form(n: int, k: int, d: str, a: str, b: str, tail: str, registers: bool, sat: str = "") -> str:
    """A wgmma with as many accumulators as its shape has."""
    count = n // 4 if d == "f16" else n // 2
    accumulators = vector("f" if d == "f32" else "r", count)
    first = vector("r", 4, 130) if registers else "d0"
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{sat}"
    return f"{opcode} {accumulators}, {first}, d1, p{tail};"


def agree(forms: list[str], least: int) -> None:
    """The emulator refuses what ptxas refuses, and nothing else; some of both are among them."""
    refused = refused_by_ptxas(forms)
    assert len(refused) >= least and len(forms) - len(refused) >= least
    for one in forms:
        assert (refused_by_the_emulator(one) is not None) == (one in refused), one


def test_types_and_flags_are_accepted_as_ptxas_accepts_them():
    depth = {"f16": 16, "bf16": 16, "tf32": 8}
    agree(
        [
            form(16, k, d, a, b, tail, registers, sat)
            for a, b in product(KINDS, KINDS)
            for d in ("f32", "f16", "s32")
            for k in {depth.get(a, 32), depth.get(b, 32)}
            for tail in TAILS
            for registers in (False, True)
            for sat in ("", ".satfinite")
            if not sat or tail == TAILS[0]
        ],
        least=30,
    )


def test_every_n_is_accepted_as_ptxas_accepts_it():
    agree(
        [
            form(n, k, d, a, a, tail, registers)
            for d, a, k, tails in (
                ("f32", "f16", 16, (", 1, 1, 0, 0", ", 1, 1, 0")),
                ("f32", "tf32", 8, (", 1, 1", ", 1, 1")),
                ("f16", "e4m3", 32, (", 1, 1", ", 1, 1")),
                ("s32", "u8", 32, ("", "")),
            )
            for registers, tail in enumerate(tails)
            for n in range(8, 257, 8)
        ],
        least=28,
    )


def test_operands_are_accepted_as_ptxas_accepts_them():
    plain = form(16, 16, "f32", "f16", "f16", ", 1, 1, 0, 0", False)
    agree(
        [plain.replace(", p,", f", {scale},") for scale in ("p", "!p", "1", "0", "2", "r0")]
        + [plain.replace("d0,", f"{a},") for a in ("16", "0x4000004000010040")]
        + [plain.replace(", 1, 1, 0, 0", tail) for tail in (", 0, 1, 0, 0", ", 1, 1, 2, 0")]
        + [f"wgmma.wait_group.sync.aligned {n};" for n in ("0", "7", "100", "-1", "r0")]
        + ["wgmma.fence.sync.aligned;", "wgmma.fence.aligned;", "wgmma.commit_group.sync.aligned;"]
        + [plain.replace("f7}", "f7, f8}"), plain.replace(", f7}", "}")],
        least=8,
    )


LEFT_OUT = [
    f"wgmma.mma_async.sync.aligned.m64n16k256.s32.b1.b1.and.popc {vector('r', 8)}, d0, d1, p;",
    f"wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16 {vector('f', 8)}, d0, d1, r9, 0, p, "
    "1, 1, 0, 0;",
]


def test_what_is_left_out_is_legal_and_said():
    assert not refused_by_ptxas(LEFT_OUT)
    for one in LEFT_OUT:
        assert "the emulator executes dense" in refused_by_the_emulator(one), one


# ---- faults -------------------------------------------------------------------------------------

ONE = r"""
#include "wgmma.cuh"
extern "C" __global__ void k(const unsigned long long* descriptors, const int* scale, float* out) {
  float d[4] = {};
  wgmma_fence();
  if (threadIdx.x < LANES)
    wgmma_f32_f16_f16<8>::ss(d, descriptors[threadIdx.x], descriptors[128], scale[threadIdx.x]);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int r = 0; r < 4; ++r) out[r * 128 + threadIdx.x] = d[r];
}"""


def issue(a: numpy.ndarray | int, *, b: int = 0, scale: numpy.ndarray | int = 1, lanes: int = 128):
    """One wgmma whose threads pass these."""
    program = compile_cuda(ONE, "k", defines={"LANES": lanes})
    descriptors = numpy.empty(129, numpy.uint64)
    descriptors[:128], descriptors[128] = a, b or GOOD
    flags = numpy.broadcast_to(scale, 128).astype(numpy.int32)
    args = [descriptors, flags, numpy.empty((4, 128), numpy.float32)]
    unwatched().launch(program.ptx, "k", 1, 128, shared_bytes=8192, args=args)


GOOD = Descriptor(1024, 128, 256).encode()


def test_a_descriptor_that_is_good_is_no_fault():
    issue(GOOD)
    # The last byte of the tile: 64 rows of 32 bytes at the end of the block's 9216.
    issue(Descriptor(9216 - 2048, 128, 256).encode())


@pytest.mark.parametrize(
    ("descriptor", "named"),
    [
        (
            Descriptor(9216 - 2032, 128, 256),
            r"descriptor of A .*start 0x1c10, .* from 0x1c10 to 0x240f, and .* up to 0x2400",
        ),
        (Descriptor(512, 128, 256), "from 0x200 to .*correct start or offsets"),
        (Descriptor(1024, 128, 2048), "stride byte offset 2048.* to 0x3c[0-9a-f]{2}, "),
        (GOOD | 1 << 15, "bit 15 is set, but bits .* belong to no field"),
        (GOOD | 1 << 60, "bit 60 is set"),
    ],
)
def test_a_descriptor_that_leads_nowhere_is_a_fault(descriptor, named):
    value = descriptor if isinstance(descriptor, int) else descriptor.encode()
    with pytest.raises(Fault, match=named):
        issue(value)
    with pytest.raises(Fault):
        issue(GOOD, b=Descriptor(16384, 128, 256).encode())


def test_threads_that_do_not_agree_are_a_fault():
    mixed = numpy.full(128, GOOD, numpy.uint64)
    mixed[77] += numpy.uint64(1)
    with pytest.raises(Fault, match="descriptor of A .* in thread 77 of the warpgroup"):
        issue(mixed)
    with pytest.raises(Fault, match="scale-d .* thread 5 "):
        issue(GOOD, scale=numpy.arange(128) != 5)


def test_less_than_a_warpgroup_is_no_wgmma():
    with pytest.raises(Exception, match="warpgroup") as caught:
        issue(GOOD, lanes=96)
    assert "wgmma" in str(caught.value)
