"""The copy engine: boxes, swizzles, reductions, groups, and what it refuses."""

import itertools
from fractions import Fraction
from math import prod

import numpy
import pytest
from emulation import unwatched
from hypothesis import given, settings
from hypothesis import strategies as st

from hopper.compile import compile_cuda
from hopper.conformance import cases, emulate
from hopper.conformance.tma import TO_GLOBAL, TO_PEER
from hopper.conformance.tma_numbers import numbers
from hopper.conformance.tma_stops import STOPS
from hopper.emulator import Deadlock, Fault, Unsupported
from hopper.emulator.boxes import PIECE, Boxes
from hopper.emulator.reduction import reduction
from hopper.tensormap import TensorMap

CASES = {case.name: case for case in cases("tma")}
SCHEDULES = [
    unwatched(tma="lazy"),
    unwatched(tma="eager"),
    *(unwatched(tma="random", schedule="random", seed=seed) for seed in range(3)),
]

# ---- a box, element by element


def swizzled(address, swizzle):
    """The PTX ISA's permutation, bit by bit."""
    bits = {0: (), 32: (0,), 64: (0, 1), 128: (0, 1, 2)}[swizzle]
    for bit in bits:
        address ^= (address >> 7 + bit & 1) << 4 + bit
    return address


def elements_of(shape, box, corner):
    """For each element of a box in its order: where it is in the tensor, or None outside."""
    for index in itertools.product(*map(range, box)):
        at = tuple(c + i for c, i in zip(corner, index, strict=True))
        yield at if all(0 <= a < n for a, n in zip(at, shape, strict=True)) else None


def place_of(number, byte, box, swizzle, itemsize):
    """Where a box's element lies before the swizzle: rows are a span apart, or without gaps."""
    row, column = divmod(number, box[-1])
    return row * (swizzle or box[-1] * itemsize) + column * itemsize + byte


def expected_load(shared, array, box, swizzle, corner, offset):
    """Shared memory (a bytearray that starts at address 1024) after a load to ``offset``."""
    size = array.itemsize
    for number, at in enumerate(elements_of(array.shape, box, corner)):
        value = array[at].tobytes() if at else bytes(size)
        for byte in range(size):
            place = 1024 + offset + place_of(number, byte, box, swizzle, size)
            address = swizzled(place, swizzle) - 1024
            shared[address] = value[byte]


def expected_store(array, shared, box, swizzle, corner, offset, combine=lambda old, new: new):
    size = array.itemsize
    for number, at in enumerate(elements_of(array.shape, box, corner)):
        if at:
            place = 1024 + offset + place_of(number, 0, box, swizzle, size)
            start = swizzled(place, swizzle) - 1024
            new = numpy.frombuffer(bytes(shared[start : start + size]), array.dtype)[0]
            array[at] = combine(array[at], new)


@st.composite
def boxes(draw):
    """A tensor, a box, a swizzle, a corner and a destination."""
    rank = draw(st.integers(1, 5))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    row = 16 * draw(st.integers(1, (swizzle or 128) // 16))
    box = (*(draw(st.integers(1, 3)) for _ in range(rank - 1)), row // itemsize)
    shape = [draw(st.integers(1, 4)) for _ in range(rank - 1)]
    shape += [draw(st.integers(1, 8)) * 16 // itemsize]
    corner = tuple(draw(st.integers(-length - 1, n)) for length, n in zip(box, shape, strict=True))
    array = numpy.random.default_rng(rank).integers(1, 255, prod(shape) * itemsize, numpy.uint8)
    array = array.view(f"u{itemsize}").reshape(shape)
    return array, box, swizzle, corner, 128 * draw(st.integers(0, 7))


@settings(max_examples=150, deadline=None)
@given(boxes())
def test_a_load_puts_each_byte_where_the_rules_say(drawn):
    array, box, swizzle, corner, offset = drawn
    shared = numpy.full(16384, 0xFF, numpy.uint8)
    of = Boxes(TensorMap(array, box, swizzle))
    of.scatter(shared.view(PIECE), 1024 + offset, of.read(corner))
    expected = bytearray(b"\xff" * (16384 - 1024))
    expected_load(expected, array, box, swizzle, corner, offset)
    assert shared[1024:].tobytes() == bytes(expected)
    touched = numpy.flatnonzero(shared != 0xFF)
    assert 1024 + offset <= touched.min()
    assert touched.max() < 1024 + offset + of.span < touched.max() + 1 + max(swizzle, 1)
    assert of.bytes == prod(box) * array.itemsize <= of.span
    assert (of.gather(shared.view(PIECE), 1024 + offset) == of.read(corner)).all()


@settings(max_examples=100, deadline=None)
@given(boxes())
def test_a_store_writes_the_elements_that_exist(drawn):
    array, box, swizzle, corner, offset = drawn
    shared = numpy.random.default_rng(1).integers(0, 256, 16384, numpy.uint8)
    expected = array.copy()
    expected_store(expected, shared[1024:].tobytes(), box, swizzle, corner, offset)
    of = Boxes(TensorMap(array, box, swizzle))
    of.write(corner, of.gather(shared.view(PIECE), 1024 + offset))
    assert (array == expected).all()


def test_outside_is_nan_where_the_map_says_so():
    array = numpy.ones((2, 8), numpy.float16)
    box = Boxes(TensorMap(array, (3, 8), 0, fill="nan")).read((0, 0)).view(numpy.float16)
    assert (box[:16] == 1).all()
    assert numpy.isnan(box[16:]).all()
    # The same 16 bits in every element, which is NaN in each type, a signalling one in f64.
    for dtype, element in (
        ("float16", None), ("uint16", "bfloat16"), ("float32", None), ("float64", None),
    ):  # fmt: skip
        array = numpy.ones((2, 8), dtype)
        box = Boxes(TensorMap(array, (2, 8), 0, fill="nan", element=element)).read((-2, 0))
        assert (box.view(numpy.uint16) == 0x7FF7).all()


# ---- kernels, against the same expectations

LOADS = [
    "1d.swizzle0.uint8",
    "1d.swizzle128.uint64",
    "2d.narrow.swizzle128.48",
    "2d.narrow.swizzle64.16",
    "2d.steps",
    "2d.swizzle128.uint16",
    "2d.swizzle64.uint8",
    "2d.own",
    "3d.hints",
    "4d.swizzle32.uint32",
    "5d.swizzle128.uint16",
]


@pytest.mark.parametrize("name", LOADS)
def test_a_kernel_loads_boxes(name):
    case = CASES[f"tma.load.{name}"]
    tiled, plan, *_ = case.arguments()
    (dump, landed), run = emulate(case)
    assert (landed == 1).all()
    for number, row in enumerate(plan.tolist()):
        expected = bytearray(b"\xff" * dump.shape[1])
        corner = row[: len(tiled.box)][::-1]
        expected_load(expected, tiled.argument, tiled.box, tiled.swizzle, corner, row[5])
        assert dump[number].tobytes() == bytes(expected), (number, row)
    assert len(run.trace.of("tma.issue")) == len(run.trace.of("tma.complete")) == len(plan)


STORES = [
    "1d.swizzle32.uint16",
    "2d.narrow",
    "2d.far",
    "2d.swizzle128.uint8",
    "3d.swizzle64.uint64",
]


@pytest.mark.parametrize("name", STORES)
def test_a_kernel_stores_boxes(name):
    case = CASES[f"tma.store.{name}"]
    tiled, tensor, _, plan, _, data, _ = case.arguments()
    for row in plan.tolist():
        corner = row[: len(tiled.box)][::-1]
        expected_store(tensor, data.tobytes(), tiled.box, tiled.swizzle, corner, row[5])
    for emulator in SCHEDULES[:3]:
        (got,), _ = emulate(case, emulator)
        assert (got == tensor).all()


def test_a_kernel_reduces_boxes():
    case = CASES["tma.reduce.add.s32"]
    tiled, tensor, _, plan, _, data, _ = case.arguments()
    with numpy.errstate(over="ignore"):
        for row in plan.tolist():
            expected_store(
                tensor, data.tobytes(), tiled.box, tiled.swizzle, row[1::-1], row[5], numpy.add
            )
    (got,), _ = emulate(case)
    assert (got == tensor).all()


@pytest.mark.parametrize("emulator", SCHEDULES)
@pytest.mark.parametrize("name", ["2", "4", "remote"])
def test_a_multicast_reaches_the_blocks_of_its_mask(name, emulator):
    case = CASES[f"tma.multicast.{name}"]
    tiled, masks, _, rows, size = case.arguments()
    cluster = case.defines["CLUSTER"]
    (dump,), _ = emulate(case, emulator)
    pieces = dump.reshape(len(masks), cluster, size)
    for block, sender in itertools.product(range(len(masks)), range(cluster)):
        issuer = block // cluster * cluster + sender
        if masks[issuer] >> block % cluster & 1:
            expected = bytearray(int(size))
            expected_load(expected, tiled.argument, tiled.box, 128, (issuer * rows, 0), 0)
            assert pieces[block, sender].tobytes() == bytes(expected)
        else:
            assert (pieces[block, sender] == 0xFF).all()


def test_bulk_copies_move_contiguous_bytes():
    case = CASES["tma.bulk.load"]
    source, plan, *_ = case.arguments()
    (dump,), _ = emulate(case)
    for row, (to, start, size) in enumerate(plan.tolist()):
        assert (dump[row, to : to + size] == source[start : start + size]).all()
        assert (dump[row, :to] == 0xFF).all()
        assert (dump[row, to + size :] == 0xFF).all()
    case = CASES["tma.bulk.multicast"]
    source, plan, *_ = case.arguments()
    expected = numpy.full(4096, 0xFF, numpy.uint8)
    for to, start, size in plan.tolist():
        expected[to : to + size] = source[start : start + size]
    (dump,), _ = emulate(case)
    assert (dump == expected).all()


@pytest.mark.parametrize("name", ["store", "global.max.s64", "global.add.f16"])
def test_bulk_copies_and_reductions_to_global_memory(name):
    case = CASES[f"tma.bulk.{name}"]
    target, operation, plan, _, data, _ = case.arguments()
    kind, combine = numpy.uint8, lambda old, new: new
    if operation:
        op, ptx = TO_GLOBAL[operation - 1].split(".")
        kind, combine = f"u{int(ptx[1:]) // 8}", reduction(op, ptx)
    with numpy.errstate(all="ignore"):
        for to, start, size in plan.tolist():
            old = target[to : to + size].view(kind)
            old[:] = combine(old, data[start : start + size].view(kind))
    for emulator in SCHEDULES[:3]:
        (got,), _ = emulate(case, emulator)
        assert (got == target).all()


@pytest.mark.parametrize("name", ["peer", "peer.xor.b32", "peer.dec.u32"])
def test_bulk_copies_and_reductions_to_a_peer(name):
    case = CASES[f"tma.bulk.{name}"]
    data, operation, plan, *_ = case.arguments()
    mine, peers = data.reshape(2, -1)
    combine = reduction(*TO_PEER[operation - 1].split(".")) if operation else lambda old, new: new
    for to, start, size in plan.tolist():
        old = peers[to : to + size].view(numpy.uint32)
        old[:] = combine(old, mine[start : start + size].view(numpy.uint32))
    for emulator in SCHEDULES[:3]:
        (got,), _ = emulate(case, emulator)
        assert (got == data.reshape(2, -1)).all()


@pytest.mark.parametrize("emulator", SCHEDULES)
def test_a_ring_of_stores_that_waits_for_reads_loses_nothing(emulator):
    case = CASES["tma.bulk.ring"]
    _, data, _ = case.arguments()
    (target,), _ = emulate(case, emulator)
    assert (target == data).all()


# ---- the arithmetic of reductions


def reduce(op, kind, memory, value):
    with numpy.errstate(all="ignore"):  # as in a run
        return reduction(op, kind)(memory, value)


def exact(bits, kind):
    """A finite f16 or bf16 number as a fraction."""
    low, bias = (10, 15) if kind == "f16" else (7, 127)
    exponent, fraction = bits >> low & (1 << 15 - low) - 1, bits & (1 << low) - 1
    value = Fraction(fraction + (1 << low if exponent else 0)) * Fraction(2) ** (
        max(exponent, 1) - bias - low
    )
    return -value if bits >> 15 else value


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_halves_round_to_nearest_even_and_keep_subnormals(kind):
    infinity = 0x7C00 if kind == "f16" else 0x7F80
    memory, value = numbers(1500, kind, 1), numbers(1500, kind, 2)
    got = reduce("add", kind, memory, value)
    seen = 0
    for a, b, c in zip(memory.tolist(), value.tolist(), got.tolist(), strict=True):
        a_big, b_big = (x & 0x7FFF > infinity for x in (a, b))
        if a_big or b_big or {a, b} == {infinity, infinity | 0x8000}:
            assert c == 0x7FFF
            continue
        if infinity in (a & 0x7FFF, b & 0x7FFF):
            assert c == (a if a & 0x7FFF == infinity else b)
            continue
        total = exact(a, kind) + exact(b, kind)
        if c & 0x7FFF == infinity:
            assert (
                abs(total)
                >= exact(infinity - 1, kind)
                + (exact(infinity - 1, kind) - exact(infinity - 2, kind)) / 2
            )
            continue
        error = abs(exact(c, kind) - total)
        for other in (c - 1, c + 1):
            if other & 0x7FFF < infinity and (c & 0x7FFF or other == c + 1):
                away = abs(exact(other, kind) - total)
                assert error < away or (error == away and c % 2 == 0)
                seen += error == away
        if not total and not c & 0x7FFF:
            assert c == (0x8000 if a == b == 0x8000 else 0)
    assert seen > 5  # ties were among them


def f32(*values):
    return numpy.array(values, numpy.float32).view(numpy.uint32)


def test_a_sum_of_f32_keeps_subnormals_and_has_one_nan():
    smallest = float(numpy.finfo(numpy.float32).tiny)
    memory = f32(smallest / 2, -smallest / 2, smallest, 1.0, numpy.inf, -0.0)
    value = f32(smallest, -0.0, -1.5 * smallest, 2**-24, -numpy.inf, -smallest / 4)
    got = reduce("add", "f32", memory, value)
    expected = f32(1.5 * smallest, -smallest / 2, -smallest / 2, 1.0, 0, -smallest / 4)
    expected[4] = 0x7FFFFFFF
    assert got.tolist() == expected.tolist()
    assert reduce("add", "f32", numpy.uint32([0x7F800001]), f32(1)).tolist() == [0x7FFFFFFF]


def test_a_sum_of_f64_passes_a_nan_on_as_it_is_the_arriving_one_first():
    one, infinity, quiet, signalling = 0x3FF << 52, 0x7FF << 52, 0x7FF8 << 48 | 5, 0xFFF << 52 | 6
    memory = numpy.uint64([quiet, one, quiet, signalling, infinity, 1])
    value = numpy.uint64([one, signalling, signalling, quiet, infinity | 1 << 63, 2])
    assert reduce("add", "f64", memory, value).tolist() == [
        quiet, signalling, signalling, quiet, 0xFFF8 << 48, 3,
    ]  # fmt: skip


def test_minimum_and_maximum_of_halves_order_zeros_and_prefer_numbers():
    nan, one, minus = 0x7E01, 0x3C00, 0xBC00
    memory = numpy.array([0x8000, 0, nan, one, nan, minus], numpy.uint16)
    value = numpy.array([0, 0x8000, one, nan, nan, one], numpy.uint16)
    assert reduction("min", "f16")(memory, value).tolist() == [
        0x8000, 0x8000, one, one, 0x7FFF, minus,
    ]  # fmt: skip
    assert reduction("max", "f16")(memory, value).tolist() == [0, 0, one, one, 0x7FFF, one]


def test_integer_reductions_wrap_and_count():
    cases = {
        ("add", "u32"): (0xFFFFFFFF, 2, 1),
        ("inc", "u32"): (5, 5, 0),
        ("dec", "u32"): (0, 7, 7),
        ("min", "s32"): (0xFFFFFFFF, 1, 0xFFFFFFFF),
        ("min", "u32"): (0xFFFFFFFF, 1, 1),
        ("max", "s64"): ((1 << 64) - 1, 1, 1),
        ("xor", "b64"): (1 << 63, 3, 1 << 63 | 3),
    }
    for (op, kind), (memory, value, expected) in cases.items():
        arrays = (numpy.array([n], f"u{int(kind[1:]) // 8}") for n in (memory, value))
        assert reduction(op, kind)(*arrays).tolist() == [expected], (op, kind)
    inc, dec = reduction("inc", "u32"), reduction("dec", "u32")
    assert inc(numpy.uint32([4, 9]), numpy.uint32([5, 5])).tolist() == [5, 0]
    assert dec(numpy.uint32([8, 3]), numpy.uint32([7, 7])).tolist() == [7, 2]


# ---- when things happen

MOMENTS = r"""
#include "tma.cuh"
#define GROUP(n) asm volatile("cp.async.bulk.wait_group " #n ";" ::: "memory")
#define GROUP_READ(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
__device__ void store(void* to, const void* from) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"
               :: "l"(to), "r"(shared_address(from)) : "memory");
}
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

extern "C" __global__ void moments(volatile int* to, int* seen) {
  __shared__ alignas(128) volatile int tile[8];
  if (threadIdx.x > 0) { commit(); GROUP(0); return; }
  tile[0] = 1; tile[4] = 2;
  store((void*)to, (void*)tile);
  seen[0] = to[0];
  GROUP(0);                      // it is in no group yet
  seen[1] = to[0];
  commit();
  store((void*)(to + 4), (void*)(tile + 4)); commit();
  GROUP(1); seen[2] = to[0]; seen[3] = to[4];
  GROUP_READ(0); tile[4] = 9; seen[4] = to[4];
  GROUP(0); seen[5] = to[4];
  tile[0] = 3; store((void*)to, (void*)tile); commit(); tile[0] = 4;
  GROUP(0); seen[6] = to[0];
}
"""


def test_groups_wait_for_reads_or_for_all_and_leave_the_last_ones_pending():
    ptx = compile_cuda(MOMENTS, "moments").ptx
    seen, to = numpy.zeros(7, numpy.int32), numpy.full(8, -1, numpy.int32)
    unwatched(tma="lazy").launch(ptx, "moments", 1, 64, args=[to, seen])
    # The last: shared memory was overwritten before the store had read it.
    assert seen.tolist() == [-1, -1, 1, -1, -1, 2, 4]
    assert to[4] == 2
    unwatched(tma="eager").launch(ptx, "moments", 1, 64, args=[to, seen])
    assert seen.tolist() == [1, 1, 1, 2, 2, 2, 3]


PENDING = r"""
#include "tma.cuh"
extern "C" __global__ void pending(const __grid_constant__ TensorMap map, int* seen, int bytes) {
  extern __shared__ __align__(1024) volatile int tile[];
  __shared__ unsigned long long barrier;
  tile[threadIdx.x] = 7;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&barrier, bytes);
    tma_load_2d((void*)tile, &map, &barrier, 0, 0);
    seen[0] = tile[0];
  }
  mbarrier_wait_parity(&barrier, 0);
  if (threadIdx.x == 0) seen[1] = tile[0];
}
"""


def _pending(emulator, bytes=256):
    array = numpy.full((2, 32), 5, numpy.int32)
    seen = numpy.zeros(2, numpy.int32)
    run = emulator.launch(
        compile_cuda(PENDING, "pending").ptx, "pending", 1, 32, shared_bytes=1024,
        args=[TensorMap(array, (2, 32)), seen, numpy.int32(bytes)],
    )  # fmt: skip
    return seen.tolist(), run


def test_a_load_lands_before_its_barrier_completes_and_not_earlier_than_it_must():
    assert _pending(unwatched(tma="lazy"))[0] == [7, 5]
    seen, run = _pending(unwatched(tma="eager"))
    assert seen == [5, 5]
    (issue,) = run.trace.of("tma.issue")
    assert issue.detail["what"] == "load"
    assert issue.detail["corner"] == (0, 0)
    assert issue.detail["bytes"] == 256
    assert run.trace.of("tma.complete")[0].detail["issued_at"] == issue.line


def test_bytes_that_never_come_are_a_deadlock():
    with pytest.raises(Deadlock, match="mbarrier"):
        _pending(unwatched(), bytes=512)


def test_a_barrier_that_is_none_is_named_with_the_copy():
    source = PENDING.replace("if (threadIdx.x == 0) mbarrier_init(&barrier, 1);", "")
    source = source.replace("mbarrier_arrive_expect_tx(&barrier, bytes);", "")
    array, seen = numpy.zeros((2, 32), numpy.int32), numpy.zeros(2, numpy.int32)
    with pytest.raises(Fault, match=r"(?s)mbarrier.*PTX line \d+: cp\.async\.bulk\.tensor\.2d"):
        unwatched(tma="eager").launch(
            compile_cuda(source, "pending").ptx, "pending", 1, 32, shared_bytes=1024,
            args=[TensorMap(array, (2, 32)), seen, numpy.int32(256)],
        )  # fmt: skip


# ---- what is refused

ANY = r"""
#include "tma.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1)
any(const __grid_constant__ TensorMap map, unsigned char* array, int destination, int barrier,
    int mask, int size, int what, const TensorMap* pointer) {
  extern __shared__ __align__(1024) unsigned char tile[];
  const unsigned at = shared_address(tile) + destination, bar = shared_address(tile) + barrier;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(tile) + 4096));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x > 0) return;
  TensorMap copied = map;
  if (what == 10) copied.opaque[size] = 1;
  const TensorMap* wanted = &map;
  if (what == 7) wanted = pointer;
  if (what == 8) wanted = (const TensorMap*)((const char*)wanted + 16);
  if (what == 10) wanted = &copied;
  if (what == 0 || what == 7 || what == 8 || what == 10)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %3}], [%2];" :: "r"(at), "l"(wanted), "r"(bar), "r"(0));
  if (what == 1)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %3}], [%2], %4;"
                 :: "r"(at), "l"(&map), "r"(bar), "r"(0), "h"((unsigned short)mask));
  if (what == 2)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %3, %3}], [%2];" :: "r"(at), "l"(&map), "r"(bar), "r"(0));
  if (what == 3)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %3, [%2];" :: "r"(at), "l"(array + mask), "r"(bar), "r"(size));
  if (what == 4)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(array + mask), "r"(at), "r"(size));
  if (what == 5)
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.inc.bulk_group "
                 "[%0, {%2, %2}], [%1];" :: "l"(&map), "r"(at), "r"(0));
  if (what == 6)
    asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %3}], [%2];" :: "r"(at), "l"(&map), "r"(bar), "r"(0));
  if (what == 9)
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %2}], [%1];"
                 :: "l"(&map), "r"(at), "r"(0));
}
"""
PEER = 1 << 24


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"destination": 64}, r"destination 0x440 is not a multiple of 128 bytes"),
        ({"barrier": 4100}, r"mbarrier address 0x1404 is not a multiple of 8"),
        ({"destination": 8192 - 128}, r"256 bytes from there are not all the block's"),
        ({"destination": PEER}, r"0x1400 lies in the block of rank 0, destination 0x1000400 in"),
        ({"destination": 2 * PEER}, r"names rank 2 of a cluster of 2"),
        ({"what": 1, "mask": 4}, r"multicast mask 0x4 in a cluster of 2: .* 0x1 to 0x3"),
        ({"what": 1, "mask": 0}, r"multicast mask 0x0"),
        ({"what": 2}, r"a map of 2 axes is used with 3 coordinates"),
        ({"what": 3, "size": 24}, r"size 24: a bulk copy moves a multiple of 16"),
        ({"what": 3, "destination": 8}, r"destination 0x408 is not a multiple of 16 bytes"),
        ({"what": 3, "mask": 8}, r"source 0x\w+8 is not a multiple of 16"),
        ({"what": 3, "mask": 496}, r"32 bytes at byte 496 of argument 0, which has 512"),
        ({"what": 4, "mask": 512}, r"32 bytes at byte 512 .* out of bounds"),
        ({"what": 4, "destination": PEER}, r"source 0x1000400 lies in the block of rank 1"),
        ({"what": 4, "destination": 8192 - 16}, r"32 bytes from there are not all the block's"),
        ({"what": 5}, r"reduction inc on a map of int32: it exists for uint32"),
        ({"what": 6, "destination": PEER, "barrier": PEER}, r"\.shared::cta is the thread's own"),
        ({"what": 7}, r"the map was passed by pointer \(argument 0 \+ 0 bytes\)"),
        ({"what": 8}, r"parameter byte 16 is not where a map starts"),
        ({"what": 9, "destination": 64}, r"source 0x440 is not a multiple of 128"),
        ({"what": 10, "size": 3}, r"copied the map to its stack; declare it const"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_its_value(values, message):
    array = numpy.zeros((2, 64), numpy.int32)
    wanted = {"destination": 0, "barrier": 4096, "mask": 0, "size": 32, "what": 0} | values
    args = [TensorMap(array, (2, 32)), array, *map(numpy.int32, wanted.values()), array]
    with pytest.raises(Fault, match=message):
        unwatched().launch(compile_cuda(ANY, "any").ptx, "any", 2, 32, shared_bytes=8192, args=args)


@pytest.mark.parametrize("case", STOPS, ids=lambda case: case.name)
def test_what_an_h200_stops_at_is_a_fault(case):
    words = (
        r"the last coordinate is byte -?\d+ of a row, and TMA requires a multiple of 16"
        r"|begins at no negative coordinate"
        r"|(destination|source) 0x\w+ is not a multiple of 128 bytes"
        r"|reduction \w+ on a map of \w+: it exists for uint32"
    )
    with pytest.raises(Fault, match=words):
        emulate(case)


def test_a_corner_says_what_it_may_be():
    named = {case.name: case for case in STOPS}
    with pytest.raises(Fault, match=r"corner \(0, 2\): .* byte 8 .* begin at a multiple of 4 el"):
        emulate(named["tma.load.2d.uint32.2"])
    with pytest.raises(Fault, match=r"corner \(6, -32\): a store or a reduction begins at no neg"):
        emulate(named["tma.store.corner.6.-32"])


PTX = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{{
 .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .b16 %h<4>;
 mov.b64 %rd1, map;
 {};
 ret;
}}
"""
LOAD = "cp.async.bulk.tensor.{}.shared::cluster.global{}.mbarrier::complete_tx::bytes{} "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOAD.format("3d", ".im2col", "") + "[%r1], [%rd1, {%r1,%r1,%r1}], [%r2], {%h1}", "im2col"),
        (LOAD.format("2d", ".tile::gather4", "") + "[%r1], [%rd1, {%r1,%r1}], [%r2]", "gather4"),
        (LOAD.format("2d", "", "") + "[%r1], [%rd1, {%r1}], [%r2]", r"1 coordinates for \.2d"),
        (LOAD.format("2d", "", ".cta_group::1") + "[%r1], [%rd1, {%r1,%r1}], [%r2]", "cta_group"),
        (LOAD.format("1d", "", "") + "[%r1], [%rd1, {%r1}], [%r2], %h1", "4 operands"),
        ("cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes"
         ".multicast::cluster [%r1], [%rd1, {%r1}], [%r2], %h1", "multicast"),
        ("cp.async.bulk.tensor.1d.global.shared::cta [%rd1, {%r1}], [%r2]", "no .bulk_group"),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16, %h1", "cp_mask"),
        ("cp.async.bulk.global.global.bulk_group [%rd1], [%rd2], 16", "from .global to .global"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd1], [%r1], 16", "refuses"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd1], [%r1], 16", "refuses"),
        ("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.and.b64 "
         "[%r1], [%r2], 16, [%r3]", "no such reduction to .shared::cluster"),
        ("cp.async.bulk.wait_group %r1", "constant"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1", "maps that the host made"),
    ],
)  # fmt: skip
def test_what_is_not_executed_is_said_before_the_run(text, message):
    array = numpy.zeros((8, 8), numpy.float32)
    with pytest.raises(Unsupported, match=message):
        unwatched().launch(PTX.format(text), "k", 1, 32, args=[TensorMap(array, (8, 8), 0)])


def test_every_case_agrees_under_every_schedule():
    for name in ("tma.bulk.peer.add.u64", "tma.load.5d.swizzle64.uint32", "tma.multicast.8"):
        first, _ = emulate(CASES[name], SCHEDULES[0])
        for emulator in SCHEDULES[1:]:
            again, _ = emulate(CASES[name], emulator)
            for a, b in zip(first, again, strict=True):
                assert (a == b).all()
