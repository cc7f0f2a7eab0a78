"""v0 without a GPU: the addresses that the kernel computes fetch what mma.sync multiplies.

The index expressions are read out of the kernel's own text and evaluated here, so the proof is
about the file that is compiled. The rest of the block is modelled in NumPy: TMA's swizzle by
address bits, ldmatrix by bytes, mma.sync and the epilogue by the fragments of the PTX ISA.
"""

import re

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hopper import exercises, mma_sync
from hopper.compile import CompileError, compile_kernel
from hopper.exercises.v0_mma_sync import lane_of_b
from hopper.experiments import experiments_of, v0_mma_sync
from hopper.figures import operand_traffic
from hopper.mma_sync import (
    LANES,
    addressing_lane,
    fragment_a,
    fragment_b,
    fragment_d,
    received,
    register_road,
)
from hopper.mutants import find_mutation, mutated_source
from hopper.paths import INCLUDE, KERNELS

SOURCE = (KERNELS / "v0_mma_sync.cu").read_text()
HEADER = (INCLUDE / "mma_sync.cuh").read_text()
MMA = dict(MMA_M=16, MMA_N=8, MMA_K=16)


def expression(name: str, source: str = SOURCE) -> str:
    """The right side of `const int name = …;`, or of `, name = …`, as Python."""
    found = re.findall(rf"\b{name} = ([^;,]*)[;,]", source)
    assert len(found) == 1, f"{name} is set {len(found)} times"
    # For non-negative operands C's / and Python's // agree, and so do the precedences used here.
    return found[0].replace("/", "//").strip()


def swizzle_expression() -> str:
    """What the header's swizzled_128b returns, as Python."""
    (body,) = re.findall(r"swizzled_128b\(int row, int chunk\) \{\s*return ([^;]*);", HEADER)
    assert body == "row * 128 + (chunk ^ row % 8) * 16"  # ^ binds weaker than % in both languages
    return body


# ---- the pieces, against their definitions ------------------------------------------------------


@given(row=some.integers(0, 255), chunk=some.integers(0, 7), base=some.integers(0, 200))
def test_the_swizzled_offset_is_where_tma_puts_the_bytes(row, chunk, base):
    base *= 1024
    offset = eval(swizzle_expression(), {"row": row, "chunk": chunk})
    assert base + offset == mma_sync.swizzled_128b(base + row * 128 + chunk * 16)


def test_the_swizzle_permutes_a_row_of_eight_pieces():
    for row in range(16):
        places = {mma_sync.swizzled_128b(row * 128 + chunk * 16) for chunk in range(8)}
        assert places == {row * 128 + chunk * 16 for chunk in range(8)}


@pytest.mark.parametrize(
    ("fragment", "elements", "shape"),
    [(fragment_a, 8, (16, 16)), (fragment_b, 4, (16, 8)), (fragment_d, 4, (16, 8))],
)
def test_a_fragment_holds_every_element_once(fragment, elements, shape):
    held = [fragment(lane, element) for lane in range(LANES) for element in range(elements)]
    assert sorted(held) == [(row, column) for row in range(shape[0]) for column in range(shape[1])]


def test_the_fragments_are_those_of_the_ptx_isa():
    # Its own words: groupID = lane >> 2, threadID_in_group = lane % 4.
    for lane in range(LANES):
        group, thread = lane >> 2, lane % 4
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            column = thread * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert fragment_a(lane, i) == (row, column)
        for i in range(4):
            assert fragment_b(lane, i) == (thread * 2 + (i & 1) + (8 if i >= 2 else 0), group)
            assert fragment_d(lane, i) == (group if i < 2 else group + 8, thread * 2 + (i & 1))


def test_unswizzled_rows_meet_in_the_same_banks_and_swizzled_ones_do_not():
    for chunk in range(8):
        plain = [row * 128 + chunk * 16 for row in range(8)]
        assert mma_sync.turns(plain) == 8
        assert mma_sync.turns([mma_sync.swizzled_128b(address) for address in plain]) == 1


# ---- a block of the kernel, in NumPy ------------------------------------------------------------


def tma(matrix: numpy.ndarray) -> numpy.ndarray:
    """The bytes of a (rows, 64) fp16 tile in shared memory, as the 128-byte swizzle leaves them."""
    plain = matrix.astype(numpy.float16).tobytes()
    shared = numpy.zeros(len(plain), numpy.uint8)
    for start in range(0, len(plain), 16):
        place = mma_sync.swizzled_128b(start)
        shared[place : place + 16] = numpy.frombuffer(plain[start : start + 16], numpy.uint8)
    return shared


def ldmatrix_x4(shared: numpy.ndarray, addresses: list[int]) -> numpy.ndarray:
    """(LANES, 4 registers, 2 elements): what each lane receives, from the 32 lanes' addresses."""
    registers = numpy.zeros((LANES, 4, 2), numpy.float16)
    for matrix in range(4):
        rows = [
            shared[address : address + 16].view(numpy.float16)
            for address in (addresses[addressing_lane(matrix, row)] for row in range(8))
        ]
        for lane in range(LANES):
            row, column = received(lane)
            registers[lane, matrix] = rows[row][column : column + 2]
    return registers


def mma(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """(LANES, 4): the product of A (LANES, 4, 2) and B (LANES, 2, 2), both held in fragments."""
    matrix_a, matrix_b = numpy.zeros((16, 16)), numpy.zeros((16, 8))
    for lane in range(LANES):
        for element in range(8):
            matrix_a[fragment_a(lane, element)] = a[lane, element // 2, element % 2]
        for element in range(4):
            matrix_b[fragment_b(lane, element)] = b[lane, element // 2, element % 2]
    product = matrix_a @ matrix_b
    return numpy.array([[product[fragment_d(lane, e)] for e in range(4)] for lane in range(LANES)])


def block(a: numpy.ndarray, b: numpy.ndarray, source: str = SOURCE) -> numpy.ndarray:
    """C of one block and one K step, a (tile_m, 64) and b (tile_n, 64), by the kernel's indices."""
    tile_m, tile_n = len(a), len(b)
    names = {**MMA, "TILE_M": tile_m, "TILE_N": tile_n, "row": 0, "column": 0}
    for constant in ("WARP_M", "WARP_N"):
        names[constant] = eval(expression(constant, source), names)
    indices = "warp_row warp_column a_row a_chunk b_row b_chunk top left".split()
    code = {name: compile(expression(name, source), name, "eval") for name in indices}
    swizzle = compile(swizzle_expression(), "swizzle", "eval")

    def place(row: int, chunk: int) -> int:
        return eval(swizzle, {"row": row, "chunk": chunk})

    if "a_row * 128 + a_chunk * 16" in source:  # the mutation

        def place_a(row: int, chunk: int) -> int:
            return row * 128 + chunk * 16
    else:
        place_a = place
    shared_a, shared_b = tma(a), tma(b)
    c = numpy.full((tile_m, tile_n), numpy.nan)
    for warp in range(4):
        names["warp"] = warp
        for name in ("warp_row", "warp_column"):
            names[name] = eval(code[name], names)
        across = names["WARP_N"] // 8
        d = numpy.zeros((names["WARP_M"] // 16, across, LANES, 4))
        for kk in range(0, 64, 16):

            def load(shared, where, row, chunk, **indices):
                each = [{**names, **indices, "kk": kk, "lane": lane} for lane in range(LANES)]  # noqa: B023
                return ldmatrix_x4(
                    shared, [where(eval(code[row], one), eval(code[chunk], one)) for one in each]
                )

            loaded_a = [load(shared_a, place_a, "a_row", "a_chunk", i=i) for i in range(len(d))]
            loaded_b = [load(shared_b, place, "b_row", "b_chunk", j=j) for j in range(across // 2)]
            for i in range(len(d)):
                for j in range(across):
                    pair = loaded_b[j // 2][:, [j % 2 * 2, j % 2 * 2 + 1]]
                    d[i, j] += mma(loaded_a[i], pair)
        for i in range(len(d)):
            for j in range(across):
                for lane in range(LANES):
                    here = {**names, "i": i, "j": j, "lane": lane}
                    top, left = eval(code["top"], here), eval(code["left"], here)
                    assert numpy.isnan(c[top, left]), "an element is stored twice"
                    c[top, left : left + 2] = d[i, j, lane, :2]
                    c[top + 8, left : left + 2] = d[i, j, lane, 2:]
    return c


def tiles(tile_m: int, tile_n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    random = numpy.random.default_rng(tile_m + tile_n)
    return random.integers(-8, 9, (tile_m, 64)), random.integers(-8, 9, (tile_n, 64))


def test_the_model_uses_the_registers_that_the_kernel_names():
    assert "mma_m16n8k16(d[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);" in SOURCE
    assert "shared_address(tile_a) + swizzled_128b(a_row, a_chunk)" in SOURCE
    assert "shared_address(tile_b) + swizzled_128b(b_row, b_chunk)" in SOURCE
    assert "store_pair(c, m, n, top, left, d[i][j][0], d[i][j][1]);" in SOURCE
    assert "store_pair(c, m, n, top + 8, left, d[i][j][2], d[i][j][3]);" in SOURCE


@pytest.mark.parametrize("tile", [(128, 128), (64, 64), (96, 128), (64, 192)], ids=str)
def test_a_block_computes_the_product(tile):
    a, b = tiles(*tile)
    assert (block(a, b) == a @ b.T).all()


@pytest.mark.parametrize("name", ["A read unswizzled", "B addressed like A"])
def test_the_model_sees_an_address_that_is_wrong(name):
    a, b = tiles(64, 64)
    broken = mutated_source(find_mutation("v0_mma_sync", name))
    wrong_rows = (block(a, b, broken) != a @ b.T).any(axis=1)
    if name == "A read unswizzled":
        assert (wrong_rows == (numpy.arange(64) % 8 > 0)).all(), "row 0 of each eight stays put"
    else:
        assert wrong_rows.all()
    ones = numpy.ones((64, 64), int)
    assert (block(ones, ones, broken) == 64).all(), "a test with ones does not see it"


# ---- counts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [(128, 128), (64, 64), (64, 256), (96, 128), (128, 192)], ids=str)
def test_the_code_holds_the_instructions_that_the_arithmetic_predicts(tile):
    sass = compile_kernel("v0_mma_sync", TILE_M=tile[0], TILE_N=tile[1]).sass()
    # One K step stands in the code once, and all four warps execute it.
    road = register_road(*tile, 64)
    assert 4 * sass.count("HMMA.16816.F32") == road.mma
    assert 4 * sass.count("LDSM.16.M88.4") == road.ldmatrix


def test_warps_that_share_rows_load_them_twice():
    road, least = register_road(128, 128, 64), operand_traffic(128, 128, 64)
    assert road.loaded_bytes == 2 * least.bytes
    assert road.mma == least.mma_sync and road.named_bytes == least.mma_sync_bytes
    assert register_road(128, 128, 64, warps=(4, 1)).ldmatrix > road.ldmatrix


@pytest.mark.parametrize(
    ("defines", "rule"),
    [
        ({"TILE_M": 48}, "a whole number of 16"),
        ({"TILE_N": 80}, "come in sixteens"),
        ({"TILE_M": 192, "TILE_N": 224}, "48 KB"),
    ],
)
def test_a_tile_that_breaks_a_rule_of_v0_does_not_compile(defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel("v0_mma_sync", **defines)


def test_v1_holds_a_tile_that_spills_in_v0():
    tile = {"TILE_M": 128, "TILE_N": 224}
    compile_kernel("v1_wgmma", **tile).require_clean()
    with pytest.raises(CompileError, match="spills"):
        compile_kernel("v0_mma_sync", **tile).require_clean()


# ---- the experiment -----------------------------------------------------------------------------


class SlowGpu:
    """Stands for a GPU on which an mma.sync takes a scheduler eight cycles."""

    sm_count = 3

    def array(self, host):
        return host

    def numpy(self, device):
        return device

    def launch(self, program, grid, block, args, shared_bytes):
        cycles, sums, ones = args
        chains = int(program.defines["CHAINS"])
        assert grid == (self.sm_count, 1, 1) and sums.size == grid[0] * block[0]
        assert numpy.array([ones]).view(numpy.float16).tolist() == [1.0, 1.0]
        cycles[:] = v0_mma_sync.STEPS * chains * (block[0] // 128) * 8
        sums[:] = chains * v0_mma_sync.STEPS * 16


def test_the_rate_is_operations_over_cycles_of_one_sm():
    (experiment,) = experiments_of("v0_mma_sync")
    sweep = experiment.run(SlowGpu(), compile_kernel("v0_mma_sync"))
    assert sweep.name == experiment.name
    assert {value for curve in sweep.series.values() for value in curve} == {4 * 4096 / 8}


@pytest.mark.parametrize("chains", v0_mma_sync.CHAINS)
def test_the_measuring_kernel_is_nothing_but_mma_sync(chains):
    program = v0_mma_sync.rate_program(chains)
    program.require_clean()
    assert program.sass().count("HMMA") == 4 * chains  # the loop is unrolled four times
    assert program.sass().count("LDSM") == 0


# ---- the exercises ------------------------------------------------------------------------------


def test_the_printed_solution_of_the_addresses_is_right(capsys):
    exercises.ldmatrix_b(lambda column, chunk: column // 8 * 16 + chunk * 8 + column % 8)
    assert capsys.readouterr().out.startswith("right")
    exercises.ldmatrix_b(lambda column, chunk: column + 16 * chunk)
    assert "column 0, chunk 1: your map says lane 16" in capsys.readouterr().out
    exercises.ldmatrix_b(lambda column, chunk: None)
    assert "not answered" in capsys.readouterr().out


def test_the_kernel_addresses_b_as_the_exercise_says():
    for lane in range(LANES):
        names = {"warp_column": 0, "j": 0, "kk": 0, "lane": lane}
        column, chunk = (eval(expression(name), names) for name in ("b_row", "b_chunk"))
        assert lane_of_b(column, chunk) == lane


def test_the_printed_counts_are_right(capsys):
    exercises.instructions(ldmatrix=40, mma=128)
    assert capsys.readouterr().out.count("is right") == 2
    exercises.instructions(ldmatrix=160, mma=None)
    out = capsys.readouterr().out
    assert "not yet" in out and "all four warps" in out and "not answered" in out
    exercises.instructions(ldmatrix=41, mma=129)
    assert capsys.readouterr().out.count("not yet") == 2
