"""Matrices in the registers of a warp: against the PTX ISA's formulas, ptxas, and plain loops."""

from itertools import product

import numpy
import pytest
from emulation import unwatched
from ptxas import refused_by_ptxas, refused_by_the_emulator, vector

from hopper.compile import compile_cuda
from hopper.conformance import emulate
from hopper.conformance import matrix as cases
from hopper.emulator import Fault, Unsupported
from hopper.emulator.mma import FORMS
from hopper.emulator.numbers import FORMATS

MOVES = [case for case in cases.CASES if case.name.startswith("matrix.moves")]
COUNTS = [1, 2, 4, 1, 2, 4] * 2
RANDOM = [unwatched(schedule="random", seed=seed) for seed in range(3)]

# ---- ldmatrix, stmatrix, movmatrix --------------------------------------------------------------


def rows_of(rows: numpy.ndarray, warp: int, matrix: int) -> numpy.ndarray:
    """Bytes where the eight rows of a matrix lie: lanes 8i … 8i+7 bring those of matrix i."""
    return rows[32 * warp + 8 * matrix : 32 * warp + 8 * matrix + 8]


@pytest.mark.parametrize("case", MOVES, ids=lambda case: case.name)
def test_matrices_move_as_the_ptx_isa_draws_them(case):
    image, rows, registers, *_ = case.arguments()
    (loaded, stored, moved), _ = emulate(case)
    for form, count in enumerate(COUNTS):
        transposed = form % 6 >= 3
        expected = image.copy()
        for warp, matrix in product(range(4), range(count)):
            where = rows_of(rows, warp, matrix)
            elements = numpy.stack([image[at : at + 16].view("u2") for at in where])
            held = numpy.empty((8, 8), "u2")
            for lane in range(32):
                mine = [(lane // 4, lane % 4 * 2 + half) for half in (0, 1)]
                word = registers[matrix, 32 * warp + lane]
                for half, (row, column) in enumerate(mine):
                    held[row, column] = word >> 16 * half & 0xFFFF
                if transposed:
                    mine = [(column, row) for row, column in mine]
                low, high = (int(elements[place]) for place in mine)
                assert loaded[form, matrix, 32 * warp + lane] == low | high << 16
            if transposed:
                held = held.T.copy()
            for row, at in enumerate(where):
                expected[at : at + 16] = held[row].view("u1")
        assert (loaded[form, count:] == 0xFFFFFFFF).all(), "no further register is written"
        assert (stored[form] == expected).all()
    for warp in range(4):
        first = registers[0, 32 * warp : 32 * warp + 32].view("u2").reshape(8, 8)
        turned = numpy.ascontiguousarray(moved[32 * warp : 32 * warp + 32]).view("u2").reshape(8, 8)
        assert (turned == first.T).all()


@pytest.mark.parametrize("emulator", RANDOM, ids=lambda one: f"seed{one.seed}")
def test_every_schedule_moves_the_same(emulator):
    for case in MOVES:
        for one, other in zip(emulate(case)[0], emulate(case, emulator)[0], strict=True):
            assert (one == other).all()


MOVE_FORMS = [
    f"{name}.sync.aligned.{shape}.{count}{trans}{space}.{kind} {operands}"
    for name in ("ldmatrix", "stmatrix")
    for shape in ("m8n8", "m16n16", "m16n8")
    for count, number in (("x1", 1), ("x2", 2), ("x4", 4), ("x3", 3))
    for trans in ("", ".trans")
    for space in ("", ".shared", ".shared::cta", ".shared::cluster")
    for kind in ("b16", "b8")
    for operands in (
        f"{vector('r', number)}, [d0];" if name == "ldmatrix" else f"[d0], {vector('r', number)};",
    )
]
MOVE_FORMS += [
    "movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;",
    "movmatrix.sync.aligned.m8n8.b16 r0, r1;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 r0, [r1];",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0}, [r1];",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {r0, _}, [r1 + 16];",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [r1], {r0, r2, r3};",
]


def test_moves_are_accepted_as_ptxas_accepts_them():
    refused = refused_by_ptxas(MOVE_FORMS)
    assert 20 < len(refused) < len(MOVE_FORMS) - 20
    for form in MOVE_FORMS:
        assert (refused_by_the_emulator(form) is not None) == (form in refused), form


def test_what_is_thrown_away_is_not_written():
    source = r"""
extern "C" __global__ void k(const unsigned* from, unsigned* to) {
  __shared__ alignas(16) unsigned rows[64];
  rows[threadIdx.x] = from[threadIdx.x];
  rows[32 + threadIdx.x] = from[32 + threadIdx.x];
  __syncthreads();
  unsigned address = __cvta_generic_to_shared(rows + threadIdx.x % 16 * 4), held;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {_, %0}, [%1];"
               : "=r"(held) : "r"(address));
  to[threadIdx.x] = held;
}"""
    image, held = numpy.arange(64, dtype="u4"), numpy.zeros(32, "u4")
    unwatched().launch(compile_cuda(source).ptx, "k", 1, 32, args=[image, held])
    assert (held == numpy.arange(32, 64)).all()


FAULTY = r"""
extern "C" __global__ void k(unsigned* to, int offset, int lanes) {
  __shared__ alignas(16) unsigned char rows[512];
  extern __shared__ unsigned char more[];
  unsigned address = __cvta_generic_to_shared(rows) + threadIdx.x * 16 + offset;
  unsigned a;
  if (threadIdx.x < lanes)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(address));
  to[threadIdx.x] = a;
}
extern "C" __global__ void generic(unsigned* to) {
  unsigned a;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.b16 {%0}, [%1];" : "=r"(a) : "l"(to));
  to[threadIdx.x] = a;
}"""


@pytest.mark.parametrize(
    ("kernel", "offset", "lanes", "named"),
    [
        ("k", 8, 32, r"0x408 \(block .*thread 0\) is not a multiple of 16"),
        ("k", 512, 32, "0x600 .*the block owns 0x400 up to 0x600"),
        ("k", 1 << 24, 32, "not in this block's own shared memory"),
        ("generic", None, None, "not in this block's own shared memory"),
    ],
)
def test_an_address_that_is_no_row_is_a_fault(kernel, offset, lanes, named):
    args = [numpy.zeros(32, "u4")]
    if kernel == "k":
        args += [numpy.int32(offset), numpy.int32(lanes)]
    program = compile_cuda(FAULTY, kernel)
    with pytest.raises(Fault, match=named):
        unwatched().launch(program.ptx, kernel, 1, 32, args=args)


def test_only_the_rows_that_are_used_need_an_address():
    """.x1 reads the addresses of lanes 0–7; the others' lie behind the end."""
    args = [numpy.zeros(32, "u4"), numpy.int32(512 - 8 * 16), numpy.int32(32)]
    unwatched().launch(compile_cuda(FAULTY, "k").ptx, "k", 1, 32, args=args)


def test_a_warp_without_its_exited_lanes_is_a_fault():
    source = r"""
extern "C" __global__ void k(unsigned* to) {
  unsigned a = 0;
  if (threadIdx.x > 30) return;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(a));
  to[threadIdx.x] = a;
}"""
    with pytest.raises(Fault, match="only a part of a warp"):
        unwatched().launch(compile_cuda(source).ptx, "k", 1, 32, args=[numpy.zeros(32, "u4")])


# ---- mma.sync -----------------------------------------------------------------------------------


def place_a(item_bytes: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of A, as the PTX ISA states it for the type."""
    group, thread = lane >> 2, lane % 4
    if item_bytes == 4:
        return group + 8 * (i % 2), thread + 4 * (i // 2)
    if item_bytes == 2:
        row = group if i in (0, 1, 4, 5) else group + 8
        return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)
    row = group if i < 4 or 8 <= i < 12 else group + 8
    return row, thread * 4 + (i & 3) + (16 if i >= 8 else 0)


def place_b(item_bytes: int, lane: int, i: int) -> tuple[int, int]:
    """Column and k of element i of B."""
    group, thread = lane >> 2, lane % 4
    if item_bytes == 4:
        return group, thread + 4 * i
    if item_bytes == 2:
        return group, thread * 2 + (i & 1) + (8 if i >= 2 else 0)
    return group, thread * 4 + (i & 3) + (16 if i >= 4 else 0)


def place_d(lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of C and D."""
    return (lane >> 2) + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1)


def numbers(words: numpy.ndarray, kind: str) -> numpy.ndarray:
    """(register, thread) of 32 bits -> (thread, element) as float64."""
    words = numpy.ascontiguousarray(words.T)
    if kind in ("s8", "u8", "s32"):
        return words.view({"s8": "i1", "u8": "u1", "s32": "i4"}[kind]).astype(float)
    return FORMATS[kind].decode(words.view(FORMATS[kind].dtype))[0].astype(float)


@pytest.mark.parametrize("it", cases.MULTIPLICATIONS.values(), ids=lambda it: it.name)
def test_a_warp_multiplies_what_its_lanes_hold(it):
    a, b, c, _ = it.case().arguments()
    (d,), _ = emulate(it.case())
    m, k = (int(length) for length in it.shape[1:].split("n8k"))
    item_bytes = FORMS[it.a_type, it.b_type][0]
    a, b = numbers(a, it.a_type), numbers(b, it.b_type)
    c, d = numbers(c, it.d_type), numbers(d, it.d_type)
    for warp in range(len(a) // 32):
        tile_a, tile_b = numpy.full((m, k), numpy.nan), numpy.full((8, k), numpy.nan)
        tile_c, tile_d = numpy.empty((m, 8)), numpy.empty((m, 8))
        for lane in range(32):
            thread = 32 * warp + lane
            for i, value in enumerate(a[thread]):
                # m8n8k16 has the registers of m16n8k16 that hold the upper rows.
                tile_a[place_a(item_bytes, lane, i)] = value
            for i, value in enumerate(b[thread]):
                tile_b[place_b(item_bytes, lane, i)] = value
            for i in range(m // 4):
                tile_c[place_d(lane, i)] = c[thread, i]
                tile_d[place_d(lane, i)] = d[thread, i]
        exact = tile_a @ tile_b.T + tile_c
        if it.d_type == "s32":
            low, high = -(1 << 31), (1 << 31) - 1
            if it.satfinite:
                exact = exact.clip(low, high)
            else:
                exact = (exact - low) % (1 << 32) + low
            assert (tile_d == exact).all()
        else:
            # The arithmetic has tests of its own: here a wrong element would be far off.
            size = numpy.abs(tile_a) @ numpy.abs(tile_b).T + numpy.abs(tile_c)
            half = it.d_type == "f16" or it.a_type in ("e4m3", "e5m2")
            assert (numpy.abs(tile_d - exact) <= size * (2e-3 if half else 1e-6)).all()


def test_saturation_was_reached():
    it = cases.MULTIPLICATIONS["matrix.mma.m16n8k32.s32.u8.u8.satfinite"]
    (d,), _ = emulate(it.case())
    assert 20 < numpy.count_nonzero(d == (1 << 31) - 1) < d.size / 2


@pytest.mark.parametrize("emulator", RANDOM, ids=lambda one: f"seed{one.seed}")
def test_every_schedule_multiplies_the_same(emulator):
    case = cases.MULTIPLICATIONS["matrix.mma.m16n8k16.f32.f16.f16"].case()
    assert (emulate(case)[0][0] == emulate(case, emulator)[0][0]).all()


BITS = dict(f16=16, bf16=16, tf32=32, e4m3=8, e5m2=8, s8=8, u8=8)


def mma_form(m: int, k: int, d: str, a: str, b: str, c: str, satfinite: str = "") -> str:
    """An mma.sync with as many registers as its matrices fill."""
    count = {"f16": m * 8 // 64, "f32": m * 8 // 32, "s32": m * 8 // 32}
    letter = {"f16": "r", "f32": "f", "s32": "r"}
    tiles = [(letter[d], count[d], 0), ("r", m * k * BITS[a] // 1024, 20)]
    tiles += [("r", 8 * k * BITS[b] // 1024, 40), (letter[c], count[c], 60)]
    vectors = ", ".join(vector(letter, max(1, number), at) for letter, number, at in tiles)
    return f"mma.sync.aligned.m{m}n8k{k}.row.col{satfinite}.{d}.{a}.{b}.{c} {vectors};"


def test_mma_is_accepted_as_ptxas_accepts_it():
    forms = [
        mma_form(m, k, d, a, b, c, satfinite)
        for a, b in (
            *((kind, kind) for kind in BITS),
            ("e4m3", "e5m2"),
            ("u8", "s8"),
            ("s8", "f16"),
        )
        for m in (16, 8)
        for k in (4, 8, 16, 32)
        for d, c in (("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("s32", "s32"))
        for satfinite in ("", ".satfinite")
    ]
    refused = refused_by_ptxas(forms)
    accepted = [form for form in forms if form not in refused]
    volta = [form for form in accepted if "m8n8k4." in form]
    assert len(accepted) > 30
    for form in forms:
        if form not in volta:
            assert (refused_by_the_emulator(form) is not None) == (form in refused), form


LEFT_OUT = [
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {g0, g1}, {g4}, {g5}, {g10, g11};",
    "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32 {r0, r1}, {r20}, {r40}, {r60, r61};",
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc {r0, r1}, {r2}, {r4}, {r6, r7};",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 "
    f"{vector('f', 8)}, {{r0, r1}}, {{r2, r3}}, {vector('f', 8)};",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
    f"{vector('f', 4)}, {{r0, r1}}, {{r2, r3}}, {vector('f', 4)}, r9, 0;",
]


def test_what_is_left_out_is_legal_and_said():
    assert not refused_by_ptxas(LEFT_OUT)
    for form in LEFT_OUT:
        assert "the emulator" in refused_by_the_emulator(form), form


def test_constants_among_c_and_results_thrown_away():
    source = r"""
extern "C" __global__ void k(float* to) {
  float d[2];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, _, %1, _}, {%2, %2}, {%2}, "
               "{0f3F800000, 0f00000000, 0f40000000, 0f00000000};"
               : "=f"(d[0]), "=f"(d[1]) : "r"(0x3c003c00));
  to[threadIdx.x] = d[0];
  to[32 + threadIdx.x] = d[1];
}"""
    held = numpy.zeros(64, "f4")
    unwatched().launch(compile_cuda(source).ptx, "k", 1, 32, args=[held])
    assert (held[:32] == 9).all() and (held[32:] == 10).all()


def test_a_number_of_registers_that_no_shape_has_is_refused():
    form = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0, f1}, {r0, r1, r2, r3}, "
    assert "2 registers where this shape takes 4" in refused_by_the_emulator(
        form + "{r4, r5}, {f0, f1, f2, f3};"
    )
    with pytest.raises(Unsupported, match="have 32 bits each"):
        ptx = compile_cuda('extern "C" __global__ void k() {}').ptx.replace(
            "ret;",
            ".reg .f64 %g<4>; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
            "{%g0, %g1, %g2, %g3}, {%g0, %g1, %g2, %g3}, {%g0, %g1}, {%g0, %g1, %g2, %g3}; ret;",
        )
        unwatched().launch(ptx, "k", 1, 32)
