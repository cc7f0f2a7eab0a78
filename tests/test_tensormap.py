import numpy
import pytest

import hopper.tensormap
from hopper.dtypes import numpy_dtype
from hopper.errors import HopperError, NoHopper, ProblemError
from hopper.tensormap import TensorMap

MATRIX = numpy.zeros((128, 64), numpy.float16)
MAP_OPTIONS = ("swizzle", "l2_promotion", "fill", "element")


class Driver:
    """Stands in for libcuda: remembers what it was asked, and writes a pattern as the map."""

    def __init__(self, status: int = 0):
        self.status = status

    def cuTensorMapEncodeTiled(self, out, dtype, rank, address, shape, strides, box, *rest):
        self.out = out.value
        self.asked = {
            "dtype": dtype.value,
            "rank": rank.value,
            "address": address.value,
            "shape": list(shape),
            "strides": list(strides)[: rank.value - 1],
            "box": list(box),
            "element_strides": list(rest[0]),
            "interleave, swizzle, l2, fill": [each.value for each in rest[1:]],
        }
        hopper.tensormap.ctypes.memmove(self.out, bytes(range(128)), 128)
        return self.status


@pytest.fixture
def driver(monkeypatch):
    stand_in = Driver()
    monkeypatch.setattr(hopper.tensormap, "load_driver", lambda: stand_in)
    return stand_in


def test_the_driver_is_given_the_contiguous_axis_first(driver, device_array):
    array = device_array((300, 72))
    encoded = TensorMap(array, (128, 64)).encode()
    assert driver.asked == {
        "dtype": 6,
        "rank": 2,
        "address": array.address,
        "shape": [72, 300],
        "strides": [144],
        "box": [64, 128],
        "element_strides": [1, 1],
        "interleave, swizzle, l2, fill": [0, 3, 2, 0],
    }
    assert driver.out % 64 == 0
    assert encoded.dtype == numpy.dtype("V128")
    assert encoded.tobytes() == bytes(range(128))


def test_padded_rows_and_other_types_are_described_as_they_lie(driver, device_array):
    array = device_array((4, 300, 72), "uint8", strides=(96 * 300, 96, 1))
    TensorMap(array, (1, 128, 64), swizzle=64, l2_promotion=256).encode()
    assert driver.asked["dtype"] == 0
    assert driver.asked["shape"] == [72, 300, 4]
    assert driver.asked["strides"] == [96, 96 * 300]
    assert driver.asked["interleave, swizzle, l2, fill"] == [0, 2, 3, 0]


def test_the_driver_is_told_of_another_element_and_of_the_fill(driver, device_array):
    bits = device_array((300, 72), "uint16")
    described = TensorMap(bits, (128, 64), fill="nan", element="bfloat16")
    assert described.element_type == "bfloat16"
    described.encode()
    assert driver.asked["dtype"] == 9
    assert driver.asked["interleave, swizzle, l2, fill"] == [0, 3, 2, 1]
    assert TensorMap(bits, (128, 64)).element_type == "uint16"


def test_an_array_of_bf16_is_told_by_its_dtype():
    array = numpy.zeros((300, 72), numpy_dtype("bfloat16"))
    assert TensorMap(array, (128, 64), fill="nan").element_type == "bfloat16"


def test_a_refusal_of_the_driver_is_reported(driver, device_array):
    driver.status = 1
    with pytest.raises(HopperError, match=r"returns 1 for shape \(300, 72\)"):
        TensorMap(device_array((300, 72)), (128, 64)).encode()


def test_host_memory_is_described_but_not_encoded():
    described = TensorMap(MATRIX, (128, 64))
    assert described.array is MATRIX
    with pytest.raises(ProblemError, match="lies in host memory"):
        described.encode()


def test_without_a_driver_encoding_says_so(monkeypatch, device_array):
    def missing(name):
        raise OSError

    monkeypatch.setattr("hopper.backends.ctypes.CDLL", missing)
    hopper.tensormap.load_driver.cache_clear()
    with pytest.raises(NoHopper, match="no NVIDIA driver"):
        TensorMap(device_array((300, 72)), (128, 64)).encode()


def test_every_swizzle_takes_rows_up_to_its_span():
    for swizzle in (32, 64, 128):
        TensorMap(MATRIX, (8, swizzle // 2), swizzle=swizzle)
        with pytest.raises(ProblemError, match=f"wider than the swizzle span of {swizzle}"):
            TensorMap(numpy.zeros((8, 256), numpy.float16), (8, swizzle // 2 + 8), swizzle=swizzle)
    TensorMap(numpy.zeros((8, 256), numpy.float16), (8, 256), swizzle=0)


@pytest.mark.parametrize(
    ("shape", "box", "options", "message"),
    [
        ((8, 100), (8, 64), {}, "axis 0 advances by 200 bytes: .*pad the last axis"),
        ((8, 64), (8, 60), {}, r"box \(8, 60\): its rows are 120 bytes, not a multiple of 16"),
        ((8, 64), (257, 64), {}, "axis 0 is 257, and TMA takes 1 to 256"),
        ((8, 64), (8, 0), {}, "axis 1 is 0, and TMA takes 1 to 256"),
        ((8, 64), (64,), {}, r"box \(64,\) for an array of shape \(8, 64\)"),
        ((0, 64), (8, 64), {}, "axis 0 has 0 elements"),
        ((1,) * 5 + (64,), (1,) * 5 + (64,), {}, "6 axes: TMA takes 1 to 5"),
        ((8, 64), (8, 64), {"swizzle": 16}, "swizzle=16: .*0, 32, 64 or 128"),
        ((8, 64), (8, 64), {"l2_promotion": 32}, "l2_promotion=32: .*0, 64, 128 and 256"),
        ((8, 64), (8, 64), {"dtype": "complex64"}, "dtype complex64: TMA copies uint8"),
        ((8, 64), (8, 64), {"strides": (128, 4)}, "the last axis of float16 must be contiguous"),
        ((8, 64), (8, 64), {"strides": (0, 2)}, "axis 0 advances by 0 bytes"),
        ((8, 64), (8, 64), {"strides": (-128, 2)}, "axis 0 advances by -128 bytes"),
        ((8, 64), (8, 64), {"strides": (2**40, 2)}, "below 2.40"),
        ((8, 64), (8, 64), {"address": 0x7F0000000008}, "starts at 0x7f0000000008, not a multiple"),
        ((2**32 + 1, 64), (8, 64), {}, "TMA takes 1 to 2.32"),
        ((8, 64), (8, 64), {"fill": "ones"}, "fill='ones': TMA fills with 'zeros' or 'nan'"),
        ((8, 64), (8, 64), {"dtype": "uint16", "fill": "nan"}, "uint16, which have no NaN"),
        ((8, 64), (8, 64), {"element": "bfloat16"}, "element='bfloat16' for an array of float16"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(device_array, shape, box, options, message):
    of_map = {key: options[key] for key in options if key in MAP_OPTIONS}
    of_array = {key: options[key] for key in options if key not in of_map}
    with pytest.raises(ProblemError, match=message):
        TensorMap(device_array(shape, **of_array), box, **of_map)


def test_what_is_no_array_is_refused():
    with pytest.raises(ProblemError, match="list: a kernel reads arrays"):
        TensorMap([[1.0]], (1, 1))


@pytest.mark.hopper
def test_the_driver_accepts_what_the_rules_allow():
    import cupy

    array = cupy.zeros((300, 72), cupy.float16)
    encoded = TensorMap(array, (128, 64)).encode()
    assert encoded.dtype.itemsize == 128
    assert any(encoded.tobytes())
    assert encoded.tobytes() == TensorMap(array, (128, 64)).encode().tobytes()
    assert encoded.tobytes() != TensorMap(array, (64, 64)).encode().tobytes()
