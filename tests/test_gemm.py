import importlib

import numpy
import pytest

from hopper import backends
from hopper.check import check
from hopper.compile import compile_cuda, compile_kernel
from hopper.dtypes import numpy_dtype
from hopper.errors import CompileError, NoHopper, ProblemError
from hopper.gemm import DISTRIBUTIONS, Problem, gemm, plan, validate
from hopper.paths import KERNELS

# The package exports the function of the same name.
module = importlib.import_module("hopper.gemm")
BF16 = numpy_dtype("bfloat16")


@pytest.fixture(scope="module")
def v1():
    return compile_kernel("v1_wgmma")


def arrays(m: int, n: int, k: int) -> tuple[numpy.ndarray, ...]:
    return tuple(numpy.zeros(shape, numpy.float16) for shape in ((m, k), (n, k), (m, n)))


# ---- problems -----------------------------------------------------------------------------------


def test_a_problem_counts_its_operations():
    assert Problem(3, 5, 8).flop == 240
    assert Problem(8192, 8192, 8192).flop == 1_099_511_627_776


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_inputs_are_the_same_every_time_and_of_the_stated_shape(distribution):
    problem = Problem(33, 17, 64, distribution=distribution)
    (a, b), (again_a, again_b) = problem.inputs(), problem.inputs()
    assert (a.shape, b.shape, a.dtype, b.dtype) == ((33, 64), (17, 64), "float16", "float16")
    assert numpy.array_equal(a, again_a) and numpy.array_equal(b, again_b)
    assert distribution == "zeros" or not numpy.array_equal(a[:17], b)


def test_the_seed_changes_the_inputs_and_is_part_of_the_problem():
    first, second = Problem(8, 8, 8), Problem(8, 8, 8, seed=1)
    assert first != second
    assert not numpy.array_equal(first.inputs()[0], second.inputs()[0])


def test_the_first_inputs_are_those_of_every_machine():
    a, b = Problem(2, 2, 8).inputs()
    assert a[0, :3].tolist() == [1.1171875, -1.38671875, -0.426513671875]
    assert b[0, :3].tolist() == [-1.275390625, -1.365234375, -1.474609375]


def test_distributions_are_what_they_are_called():
    normal, uniform, integers, zeros = (
        Problem(256, 8, 256, distribution=name).inputs()[0].astype(float)
        for name in ("normal", "uniform", "integers", "zeros")
    )
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert abs(uniform.mean()) < 0.02 and -1 <= uniform.min() < -0.99 < 0.99 < uniform.max() <= 1
    assert set(integers.flat) == set(range(-3, 4))
    assert not zeros.any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 0}, "M=0: M is at least 1"),
        ({"n": 0}, "N=0: N is at least 1"),
        ({"k": 0}, "K=0: K is at least 1"),
        ({"m": -64}, "M=-64"),
        ({"k": 100}, "K=100: a row of A is 200 bytes, not a multiple of 16, .*pad .*K=104"),
        ({"n": 2**31}, "N=2147483648: a kernel counts N in 32 bits"),
        ({"m": 64.0}, "m=64.0: m is a whole number"),
        ({"seed": -1}, "seed=-1"),
        ({"dtype": "float32"}, "dtype='float32': the kernels multiply float16"),
        ({"distribution": "cauchy"}, "distribution='cauchy': .*normal, uniform, integers, zeros"),
    ],
)
def test_an_impossible_problem_is_refused(fields, message):
    with pytest.raises(ProblemError, match=message):
        Problem(**({"m": 64, "n": 64, "k": 64} | fields))


def test_sizes_from_numpy_become_plain_integers():
    assert type(Problem(numpy.int64(8), 8, 8).m) is int


# ---- arrays that a kernel can take --------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 8), (127, 129, 72), (64, 128, 64)])
def test_any_m_and_n_and_each_k_that_is_a_multiple_of_8(v1, shape):
    assert validate(v1.facts, *arrays(*shape)) == shape


def padded(rows: int, columns: int) -> numpy.ndarray:
    return numpy.zeros((rows, columns + 8), numpy.float16)[:, :columns]


def shifted(rows: int, columns: int) -> numpy.ndarray:
    """An array whose first element is 8 bytes past a multiple of 16."""
    flat = numpy.zeros(rows * columns + 16, numpy.float16)
    start = (8 - flat.ctypes.data) % 16 // 2
    return flat[start : start + rows * columns].reshape(rows, columns)


A, B, C = arrays(64, 32, 16)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        (A.astype("float32"), B, C, "A is float32: .*float16; convert it"),
        (A, B.view("uint16"), C, "B is uint16"),
        (A.astype(BF16), B, C, "A is bfloat16: .*float16; .*with BF16=1"),
        (A, B, C.astype(BF16), "C is bfloat16: .*float16"),
        (A, B, C.astype("float64"), "C is float64"),
        (A[0], B, C, r"A has shape \(16,\): it is a matrix \(M, K\)"),
        (A, B[None], C, r"B has shape \(1, 32, 16\): it is a matrix \(N, K\)"),
        (A, B, C[None], r"C has shape \(1, 64, 32\)"),
        (A, B.T, C, r"B is \(16, 32\): both are stored with K last, and 16 is not 32"),
        (A, B, C.T, r"C is \(32, 64\): .* is \(64, 32\)"),
        (A[:0], B, C[:0], "M=0"),
        (A, B[:0], C[:, :0], "N=0"),
        (A[:, :0], B[:, :0], C, "K=0"),
        (A[:, :12].copy(), B[:, :12].copy(), C, "K=12: a row of A is 24 bytes, .*K=16"),
        (padded(64, 16), B, C, r"A has strides \(48, 2\)"),
        (numpy.asfortranarray(A), B, C, r"A has strides \(2, 128\) .*ascontiguousarray"),
        (A, padded(32, 16), C, "B has strides"),
        (A, B, padded(64, 32), "C has strides"),
        (A, B, numpy.zeros((64, 64), numpy.float16)[:, ::2], "C has strides"),
        (shifted(64, 16), B, C, "A starts at 0x[0-9a-f]+8, not a multiple of 16"),
        (A, shifted(32, 16), C, "B starts at"),
        (A, B, shifted(64, 32), "C starts at"),
        ("A", B, C, "str: a kernel reads arrays"),
    ],
)
def test_an_array_that_a_kernel_cannot_take_is_refused(v1, a, b, c, message):
    with pytest.raises(ProblemError, match=message):
        validate(v1.facts, a, b, c)


def test_aliasing_is_refused_down_to_one_shared_byte(v1, device_array):
    start = device_array((64, 64)).address
    size = 64 * 64 * 2
    a, far = device_array((64, 64)), device_array((64, 64), address=start + 10 * size)
    for offset in (0, 16, size - 16, 16 - size):
        overlapping = device_array((64, 64), address=start + offset)
        with pytest.raises(ProblemError, match="C shares memory with A"):
            validate(v1.facts, a, far, overlapping)
        with pytest.raises(ProblemError, match="C shares memory with B"):
            validate(v1.facts, far, a, overlapping)
    for offset in (size, -size):
        validate(v1.facts, a, far, device_array((64, 64), address=start + offset))
    # A times its own transpose reads the same memory twice, which is fine.
    validate(v1.facts, a, a, far)


def test_a_grid_that_does_not_fit_is_refused(v1, device_array):
    a = device_array((64, 8))
    limit = 65535 * v1.facts.tile_n
    fits, too_wide = (device_array((n, 8), address=2**45) for n in (limit, limit + 1))
    validate(v1.facts, a, fits, device_array((64, limit), address=2**46))
    with pytest.raises(ProblemError, match=f"N={limit + 1}: .*65536 blocks .*ends at 65535"):
        validate(v1.facts, a, too_wide, device_array((64, limit + 1), address=2**46))


# ---- launching ----------------------------------------------------------------------------------


def test_bad_arrays_are_reported_before_a_missing_gpu(v1, monkeypatch):
    monkeypatch.setattr(module, "backend_of", lambda a: pytest.fail("asked for a GPU"))
    with pytest.raises(ProblemError, match="B is"):
        gemm(v1, A, B.T)


def test_a_kernel_that_must_not_be_launched_is_refused(monkeypatch):
    source = (KERNELS / "v1_wgmma.cu").read_text().replace("wgmma_wait_group<0>();", "")
    monkeypatch.setattr(module, "backend_of", lambda a: pytest.fail("asked for a GPU"))
    with pytest.raises(CompileError, match="C7517"):
        gemm(compile_cuda(source), A, B)


def test_without_a_gpu_the_reason_is_given(v1, monkeypatch, device_array):
    def none():
        raise NoHopper("no GPU here")

    monkeypatch.setattr(backends, "find_hopper", none)
    with pytest.raises(NoHopper, match="no GPU here"):
        plan(
            v1,
            device_array((64, 8)),
            device_array((32, 8), address=2**45),
            device_array((64, 32), address=2**46),
        )


def test_all_three_arrays_lie_in_one_memory(v1, device_array):
    with pytest.raises(ProblemError, match="A lies in host memory and C does not"):
        plan(v1, A, B, device_array((64, 32)))


def test_numpy_arrays_are_multiplied_by_the_emulator(v1):
    a, b = Problem(70, 40, 136, seed=5).inputs()
    assert check(gemm(v1, a, b), a, b).ok


class Recorder:
    """A backend that notes what it is asked to launch."""

    gpu, name, is_hopper = "recorder", "recorder", False

    def __init__(self):
        self.launched = []

    def tensor_map(self, described):
        return "map", described.box

    def launch(self, *what):
        self.launched.append(what)


def test_a_plan_binds_everything_that_a_launch_needs(v1, monkeypatch, device_array):
    backend = Recorder()
    monkeypatch.setattr(module, "backend_of", lambda a: backend)
    a, b = device_array((300, 72)), device_array((700, 72), address=2**45)
    c = device_array((300, 700), address=2**46)
    launch = plan(v1, a, b, c)
    assert backend.launched == []
    launch.run()
    launch.run()
    program, grid, block, args, shared_bytes = backend.launched[0]
    assert backend.launched[1] == backend.launched[0]
    assert program is v1
    assert grid == (3, 6, 1)  # x walks the tiles of M, y those of N
    assert block == (128, 1, 1)
    assert shared_bytes == v1.facts.shared_bytes
    assert args == (("map", (128, 64)), ("map", (128, 64)), c, 300, 700, 72)
    # A Python int would arrive in the kernel as 64 bits.
    assert all(isinstance(size, numpy.int32) for size in args[3:])
    assert launch.maps[0].array is a and launch.maps[1].array is b


def test_a_missing_c_is_made_and_filled_with_nan(v1, monkeypatch):
    monkeypatch.setattr(module, "backend_of", lambda a: Recorder())
    c = gemm(v1, A, B)
    assert (c.shape, c.dtype) == ((64, 32), numpy.float16)
    assert numpy.isnan(c).all()
    mine = numpy.ones((64, 32), numpy.float16)
    assert gemm(v1, A, B, mine) is mine
    assert (mine == 1).all()
