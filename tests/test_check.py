import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper.check import check, compare, reference_rows, tolerance
from hopper.dtypes import ELEMENT_TYPES
from hopper.errors import CheckError, ProblemError
from hopper.gemm import Problem


def rounded_product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """A·Bᵀ in fp64, rounded to fp16: as right as a result can be."""
    return reference_rows(a, b, slice(None)).astype(numpy.float16)


def truncated_to_24_bits(x: numpy.ndarray) -> numpy.ndarray:
    significand, exponent = numpy.frexp(x)
    return numpy.ldexp(numpy.trunc(numpy.ldexp(significand, 24)), exponent - 24)


def tensor_core_product(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """A·Bᵀ with the accumulation observed on an NVIDIA H200, rounded to fp16 at the end.

    Each instruction sums 16 products and the accumulator at once: every term is aligned to the
    largest exponent e and truncated at 2^(e-25), the sum is exact, the result is truncated to 24
    bits. A product's exponent is the sum of its operands'.
    """
    a, b = a.astype(numpy.float64), b.astype(numpy.float64)
    exponent_a, exponent_b = numpy.frexp(a)[1] - 1, numpy.frexp(b)[1] - 1
    total = numpy.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], 16):
        terms = a[:, None, k : k + 16] * b[None, :, k : k + 16]
        exponents = exponent_a[:, None, k : k + 16] + exponent_b[None, :, k : k + 16]
        exponents = numpy.where(terms == 0, -200, exponents)
        largest = numpy.maximum(exponents.max(axis=2), numpy.frexp(total)[1] - 1)
        cut = numpy.ldexp(1.0, largest - 25)
        kept = numpy.trunc(terms / cut[:, :, None]).sum(axis=2) + numpy.trunc(total / cut)
        total = truncated_to_24_bits(kept * cut)
    return total.astype(numpy.float16)


# ---- right results pass -------------------------------------------------------------------------

SHAPES = [(64, 128, 64), (63, 65, 8), (1, 1, 8), (129, 31, 200), (7, 9, 8192), (33, 17, 1000)]


@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers", "zeros"])
@pytest.mark.parametrize("shape", SHAPES)
def test_correctly_rounded_results_pass(shape, distribution):
    a, b = Problem(*shape, distribution=distribution).inputs()
    found = check(rounded_product(a, b), a, b)
    assert found.ok
    assert found.wrong == 0


@pytest.mark.parametrize("distribution", ["normal", "uniform", "integers"])
@pytest.mark.parametrize("k", [8, 16, 64, 1024, 8192])
def test_the_rounding_of_the_hardware_passes(k, distribution):
    a, b = Problem(9, 11, k, distribution=distribution).inputs()
    assert check(tensor_core_product(a, b), a, b).ok


def test_truncation_that_always_falls_the_same_way_passes():
    a, b = (abs(matrix) for matrix in Problem(9, 11, 8192, distribution="uniform").inputs())
    c = tensor_core_product(a, b)
    # Not by chance: sums of positive values do come out too small.
    assert (c.astype(float) - reference_rows(a, b, slice(None))).mean() < 0
    assert check(c, a, b).ok


def test_sums_in_fp16_do_not_pass():
    a, b = Problem(64, 64, 2048).inputs()
    c = numpy.zeros((64, 64), numpy.float16)
    for k in range(0, 2048, 16):
        step = a[:, k : k + 16].astype(numpy.float32) @ b[:, k : k + 16].astype(numpy.float32).T
        c = (c + step).astype(numpy.float16)
    with pytest.raises(CheckError, match="relative norm"):
        check(c, a, b)


def test_subnormal_results_pass_and_wrong_ones_do_not():
    a = numpy.full((4, 8), 2.0**-12, numpy.float16)
    b = numpy.full((4, 8), 1.3 * 2.0**-12, numpy.float16)
    c = rounded_product(a, b)
    assert 0 < c[0, 0] < 2.0**-14
    assert check(c, a, b).ok
    c[2, 1] += numpy.float16(2.0**-23)
    assert not compare(c, a, b).ok


def test_an_overflow_to_infinity_is_right_where_the_sum_is_too_large():
    a = numpy.full((2, 8), 200, numpy.float16)
    b = numpy.full((2, 8), 200, numpy.float16)
    c = numpy.full((2, 2), numpy.inf, numpy.float16)
    assert check(c, a, b).ok
    assert not compare(-c, a, b).ok
    assert not compare(c, a, b / 8).ok


def bf16_product(shape: tuple[int, int, int]) -> tuple[numpy.ndarray, ...]:
    """A, B and their product in bf16, rounded once."""
    a, b = Problem(*shape, dtype="bfloat16").inputs()
    return a, b, reference_rows(a, b, slice(None)).astype(a.dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_bf16_has_a_tolerance_of_its_own(shape):
    a, b, c = bf16_product(shape)
    found = check(c, a, b, peer=c.copy())
    assert found.max_error <= numpy.abs(c.astype(float)).max() * 2.0**-8
    with pytest.raises(ProblemError, match="C is float16 .*|A is bfloat16 .*must be float16"):
        check(c.astype("float16"), a, b)


@pytest.mark.parametrize("wrong", [0, 1, numpy.nan])
def test_one_wrong_element_of_bf16_is_found(wrong):
    a, b, c = bf16_product((63, 65, 64))
    # As little off as the type can be: two steps, where one is rounding.
    c[40, 31] = wrong if wrong != 1 else c[40, 31] * (1 + 2.0**-6)
    found = compare(c, a, b)
    assert (found.ok, found.wrong) == (False, 1)
    assert found.where == "rows 40–40, columns 31–31"


def test_bf16_overflows_where_fp16_long_has():
    a, b, c = bf16_product((2, 2, 8))
    a[...], b[...] = 2.0**60, 2.0**60
    c[...] = 2.0**123
    assert check(c, a, b).ok
    c[0, 0] = numpy.inf
    assert not compare(c, a, b).ok
    a[...], b[...], c[...] = 2.0**64, 2.0**64, numpy.inf
    assert check(c, a, b).ok


# ---- wrong results fail -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def product():
    a, b = Problem(192, 256, 256).inputs()
    return a, b, rounded_product(a, b)


def refused(c, a, b, **options) -> str:
    with pytest.raises(CheckError) as caught:
        check(c, a, b, **options)
    return str(caught.value)


@pytest.mark.parametrize("bit", [6, 7, 8, 9, 10, 14, 15])
@pytest.mark.parametrize("where", [(0, 0), (100, 200), (191, 255)])
def test_one_flipped_bit_is_found_and_located(product, bit, where):
    a, b, c = product
    wrong = c.copy()
    wrong.view(numpy.uint16)[where] ^= 1 << bit
    report = refused(wrong, a, b)
    row, column = where
    assert f"C[{row}, {column}]" in report
    assert f"1 element is wrong, in rows {row}–{row}, columns {column}–{column}" in report


def test_a_missing_tile_is_found_and_located(product):
    a, b, c = product
    for hole in (numpy.nan, 0):
        wrong = c.copy()
        wrong[64:128, 128:256] = hole
        assert "in rows 64–127, columns 128–255" in refused(wrong, a, b)


@pytest.mark.parametrize("depth", [16, 64])
@pytest.mark.parametrize("start", [0, 128, 192])
def test_a_skipped_k_step_is_found(product, depth, start):
    a, b, _ = product
    kept = numpy.ones(256, bool)
    kept[start : start + depth] = False
    refused(rounded_product(a[:, kept], b[:, kept]), a, b)


def test_a_k_step_counted_twice_is_found(product):
    a, b, _ = product
    order = [*range(256), *range(64)]
    refused(rounded_product(a[:, order], b[:, order]), a, b)


@pytest.mark.parametrize("value", [numpy.nan, numpy.inf, -numpy.inf])
def test_one_nan_or_infinity_is_found(product, value):
    a, b, c = product
    wrong = c.copy()
    wrong[17, 3] = value
    assert "rows 17–17, columns 3–3" in refused(wrong, a, b)


def test_an_output_of_zeros_or_of_nan_is_found(product):
    a, b, c = product
    refused(numpy.zeros_like(c), a, b)
    assert "49,152 elements are wrong" in refused(numpy.full_like(c, numpy.nan), a, b)


def test_swapped_rows_columns_and_a_transposed_output_are_found():
    a, b = Problem(64, 64, 128).inputs()
    c = rounded_product(a, b)
    order = numpy.arange(64)
    order[[8, 9]] = [9, 8]
    assert "rows 8–9, columns 0–63" in refused(c[order], a, b)
    assert "rows 0–63, columns 8–9" in refused(c[:, order], a, b)
    refused(c.T.copy(), a, b)


def test_a_wrong_product_of_zeros_is_found():
    a, b = Problem(8, 8, 8, distribution="zeros").inputs()
    c = numpy.zeros((8, 8), numpy.float16)
    assert check(c, a, b).relative_norm == 0
    c[1, 1] = 2.0**-24
    refused(c, a, b)


def test_errors_within_every_tolerance_but_all_of_one_sign_are_found_by_the_norm():
    a, b = Problem(16, 16, 32768).inputs()
    expected = reference_rows(a, b, slice(None))
    spread = numpy.sqrt(reference_rows(a**2, b**2, slice(None)))
    slack = tolerance(expected, spread, 32768) - ELEMENT_TYPES["float16"].half_ulp * abs(expected)
    found = compare((expected + 0.9 * slack).astype(numpy.float16), a, b)
    assert found.wrong == 0
    assert found.relative_norm > found.norm_limit
    assert not found.ok
    right = check(rounded_product(a, b), a, b)
    assert right.relative_norm < found.norm_limit / 2


# ---- samples and peers --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """Too large for fp64 throughout on a CPU."""
    a, b = Problem(1500, 1501, 1000).inputs()
    c = (a.astype(numpy.float32) @ b.astype(numpy.float32).T).astype(numpy.float16)
    return a, b, c


def test_a_large_product_is_sampled_and_says_so(large):
    a, b, c = large
    found = check(c, a, b)
    assert "of 2,251,500 elements" in found.compared
    rows = int(found.compared.split("(")[1].split()[0])
    assert 30 <= rows <= 66


def test_samples_reach_the_first_and_the_last_row(large):
    a, b, c = large
    for row in (0, 1499):
        wrong = c.copy()
        wrong[row, 1500] += 8
        assert f"rows {row}–{row}, columns 1500–1500" in refused(wrong, a, b)


def test_nan_is_found_in_rows_that_are_not_sampled(large):
    a, b, c = large
    wrong = c.copy()
    wrong[700, 700] = numpy.nan
    assert "1 element is wrong, in rows 700–700" in refused(wrong, a, b, rows=[0, 1])


def test_the_peer_sees_every_element(large):
    a, b, c = large
    wrong = c.copy()
    wrong[700, 1300] += 8
    assert compare(wrong, a, b, rows=[0, 1]).ok
    report = refused(wrong, a, b, rows=[0, 1], peer=c)
    assert "C[700, 1300]" in report
    assert "rows 700–700, columns 1300–1300" in report
    found = check(c, a, b, rows=[5], peer=c)
    assert found.compared == (
        "1,501 of 2,251,500 elements (1 rows) against fp64, "
        "all 2,251,500 elements against the peer with twice the tolerance"
    )


def test_a_wrong_peer_does_not_excuse_a_wrong_result(product):
    a, b, c = product
    wrong = c.copy()
    wrong[64:128] = 0
    refused(wrong, a, b, peer=wrong)


@pytest.mark.parametrize("rows", [[], [-1], [1500], [0, 9999]])
def test_rows_that_do_not_exist_are_refused(large, rows):
    a, b, c = large
    with pytest.raises(ProblemError, match="C has rows 0–1499"):
        check(c, a, b, rows=rows)


def test_arrays_that_cannot_be_compared_are_refused(product, device_array):
    a, b, c = product
    with pytest.raises(ProblemError, match=r"C is float16 \(256, 192\)"):
        check(c.T, a, b)
    with pytest.raises(ProblemError, match="C is float32"):
        check(c.astype("float32"), a, b)
    with pytest.raises(ProblemError, match=r"B is float16 \(256, 128\)"):
        check(c, a, b[:, :128])
    with pytest.raises(ProblemError, match="the peer is"):
        check(c, a, b, peer=c[1:])
    with pytest.raises(ProblemError, match="different memories"):
        check(c, device_array(a.shape), b)


def test_the_report_names_what_was_compared_and_the_tolerance(product):
    a, b, c = product
    found = check(c, a, b)
    worst = found.worst
    assert str(found).startswith("right: compared all 49,152 elements against fp64\n")
    assert f"expected {worst.expected:.6g} ± {worst.tolerance:.3g}" in str(found)
    assert worst.got == c[worst.row, worst.col]
    assert worst.expected == pytest.approx(float(reference_rows(a, b, [worst.row])[0, worst.col]))
    assert abs(worst.got - worst.expected) <= worst.tolerance
    errors = abs(c - reference_rows(a, b, slice(None)))
    assert found.max_error == pytest.approx(errors.max())


def test_the_tolerance_is_the_written_formula():
    assert tolerance(numpy.array(100.0), numpy.array(3.0), 64) == pytest.approx(
        2**-11 * 100 + 2**-25 + 5 * 2**-23 * (8 * 3 + 100)
    )


# ---- properties ---------------------------------------------------------------------------------

sizes = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 64).map(lambda k: 8 * k))


@given(sizes, st.sampled_from(["normal", "uniform", "integers"]), st.integers(0, 2**32))
def test_fp32_accumulation_rounded_to_fp16_always_passes(shape, distribution, seed):
    a, b = Problem(*shape, distribution=distribution, seed=seed).inputs()
    c = (a.astype(numpy.float32) @ b.astype(numpy.float32).T).astype(numpy.float16)
    assert check(c, a, b, peer=rounded_product(a, b)).ok


@given(sizes, st.integers(0, 2**32), st.sampled_from([-8, 8]))
def test_an_error_of_eight_ulp_in_one_element_never_passes(shape, seed, ulps):
    a, b = Problem(*shape, seed=seed).inputs()
    expected = reference_rows(a, b, slice(None))
    # Near zero an ulp is smaller than what accumulation may lose, so go where the sums are large.
    row, column = divmod(int(abs(expected).argmax()), shape[1])
    c = rounded_product(a, b)
    c[row, column] += ulps * numpy.spacing(c[row, column])
    assert not compare(c, a, b).ok


@pytest.mark.hopper
def test_arrays_in_gpu_memory_are_judged_alike(product):
    import cupy

    a, b, c = product
    wrong = c.copy()
    wrong[64:128, 128:256] = numpy.nan
    on_gpu = [cupy.asarray(array) for array in (c, a, b)]
    here, there = check(c, a, b, peer=c), check(*on_gpu, peer=on_gpu[0])
    assert there.compared == here.compared
    assert there.relative_norm == pytest.approx(here.relative_norm)
    with pytest.raises(CheckError, match="rows 64–127, columns 128–255"):
        check(cupy.asarray(wrong), *on_gpu[1:])
