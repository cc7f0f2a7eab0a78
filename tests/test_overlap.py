"""Launches that overlap: how they are asked for, and that nothing is touched before the wait."""

import ctypes
from types import SimpleNamespace

import numpy
import pytest
from rungs import SCHEDULES, exact, multiplied

from hopper import overlap
from hopper.attempts.model import Attempt, Edit, compile_attempt
from hopper.bench import Clocks
from hopper.compile import compile_kernel
from hopper.emulator import HazardError
from hopper.errors import HopperError
from hopper.gemm import Problem, plan
from hopper.records import NoRecording, quantity

PAIRED = ("v8_multicast", "v9_stream_k")
SMALL = {"TILE_M": 128, "TILE_N": 128, "STAGES": 2, "SHARE_A": 0, "OVERLAP": 1}
#: More pairs of tiles than the emulator's three clusters: numbers are claimed.
SEVERAL = Problem(520, 392, 136, distribution="integers")

each = pytest.mark.parametrize("kernel", PAIRED)


def small(kernel, *edits):
    """A rung with a small tile whose launches overlap, changed or not."""
    defines = SMALL | ({"HAND_OVER": 0} if kernel == "v9_stream_k" else {})
    return compile_attempt(Attempt("overlap", "", kernel, defines, edits))


# ---- the kernels --------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("emulator", SCHEDULES, ids=lambda one: f"{one.schedule}-{one.tma}")
def test_a_product_is_exact_and_touches_nothing_before_the_wait(kernel, emulator):
    product = multiplied(small(kernel), SEVERAL, emulator)
    assert (product.c == exact(SEVERAL)).all()
    waits = product.issued("griddepcontrol.wait")
    # A producer for each block, and a warp for each cluster that claims its number.
    assert waits == 6 + 3
    assert product.issued("griddepcontrol.launch_dependents") == 6


@each
def test_as_written_launches_do_not_overlap(kernel):
    as_written, overlapping = (compile_kernel(kernel, **more) for more in ({}, {"OVERLAP": 1}))
    assert (as_written.overlaps, overlapping.overlaps) == (False, True)
    # What ptxas makes of griddepcontrol.wait and .launch_dependents.
    for opcode, count in (("ACQBULK", 2), ("PREEXIT", 1)):
        assert as_written.sass().count(opcode) == 0
        assert overlapping.sass().count(opcode) == count
    overlapping.require_clean()


@each
@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (Edit("      wait_for_launch_before();\n", ""), "cp.async.bulk.tensor"),
        (
            Edit("  wait_for_launch_before();  // which claims the same words\n", "", "places.cuh"),
            "atom.",
        ),
    ],
    ids=["producer", "claim"],
)
def test_an_access_without_a_wait_is_found(kernel, edit, what):
    with pytest.raises(HazardError, match="the launch before this one may still run") as raised:
        multiplied(small(kernel, edit), SEVERAL)
    assert raised.value.hazard.kind == "launch-not-waited"
    assert what in small(kernel, edit).ptx.splitlines()[raised.value.hazard.ptx_line - 1]


# ---- the launch ---------------------------------------------------------------------------------


class Driver:
    """Stands in for the CUDA driver: keeps what it is called with, as the driver would read it."""

    def __init__(self, status=0):
        self.status = status

    def cuGetErrorName(self, status, name):  # noqa: N802
        name._obj.value = {1: b"CUDA_ERROR_INVALID_VALUE"}.get(status)

    def cuLaunchKernelEx(self, config, function, pointers, extra):  # noqa: N802
        # cuda.h: seven unsigned, a stream, a pointer to attributes, their number.
        raw = ctypes.string_at(ctypes.addressof(config._obj), 56)
        self.dims = numpy.frombuffer(raw, "u4", 7).tolist()
        self.stream, attributes = numpy.frombuffer(raw, "u8", 2, 32).tolist()
        self.attribute_count = numpy.frombuffer(raw, "u4", 1, 48)[0]
        # An attribute: an id, padding to 8, and a union of 64 bytes.
        self.attribute = numpy.frombuffer(ctypes.string_at(attributes, 72), "u4").tolist()
        self.function, self.extra = function.value, extra
        self.args = [ctypes.string_at(pointer, 8) for pointer in pointers]
        return self.status


ARGS = (
    SimpleNamespace(data=SimpleNamespace(ptr=0x7F0012345678)),  # as of a CuPy array
    numpy.float64(1.5),
    numpy.frombuffer(bytes(range(128)), "V128")[0],
)


def launched(driver, shared=1 << 16):
    overlap.launch_overlapping(driver, 0x1234, 0x77, (132, 1, 1), (384, 2, 1), ARGS, shared)


def test_the_driver_is_asked_to_let_launches_overlap():
    driver = Driver()
    launched(driver)
    assert driver.dims == [132, 1, 1, 384, 2, 1, 1 << 16]
    assert (driver.stream, driver.function, driver.extra) == (0x77, 0x1234, None)
    # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, allowed, and nothing else.
    assert driver.attribute_count == 1
    assert driver.attribute == [6, 0, 1, *[0] * 15]


def test_arguments_are_passed_by_their_bytes():
    driver = Driver()
    launched(driver)
    address, number, map_ = driver.args
    assert int.from_bytes(address, "little") == 0x7F0012345678
    assert numpy.frombuffer(number, "f8")[0] == 1.5
    assert map_ == bytes(range(8))
    assert overlap.argument_bytes(ARGS[2]) == bytes(range(128))


@pytest.mark.parametrize(
    ("status", "name"), [(1, "CUDA_ERROR_INVALID_VALUE"), (12345, "error 12345")]
)
def test_what_the_driver_refuses_is_an_error_with_its_name(status, name):
    with pytest.raises(HopperError, match=rf"refuses the launch: {name}, for grid \(132, 1, 1\)"):
        launched(Driver(status))


def test_a_driver_that_is_too_old_is_told_from_a_launch_that_is_wrong():
    with pytest.raises(HopperError, match="has no cuLaunchKernelEx.* compile without OVERLAP"):
        launched(SimpleNamespace())


@pytest.mark.parametrize("arg", [3, 1.5, None, numpy.zeros(4)], ids=repr)
def test_an_argument_that_has_no_bytes_of_its_own_is_refused(arg):
    with pytest.raises(HopperError, match=f"a {type(arg).__name__} is no argument .* numpy.int32"):
        overlap.argument_bytes(arg)


# ---- what the page says of its record -----------------------------------------------------------


def spread(kernel, size, config=""):
    names = (f"{kernel} {config}{size} {end}" for end in ("ratio low", "ratio", "ratio high"))
    return [quantity(name).value for name in names]


@each
def test_the_smaller_a_product_the_more_overlapping_brings(kernel):
    try:
        gains = [
            spread(kernel, size, "OVERLAP=1 ")[1] / spread(kernel, size)[1]
            for size in (4096, 2048, 1024)
        ]
    except NoRecording:
        return  # the page says so
    assert 1 < gains[0] < gains[1] < gains[2]


def test_at_4096_the_spreads_of_v9_overlap():
    try:
        plain, overlapping = (spread("v9_stream_k", 4096, more) for more in ("", "OVERLAP=1 "))
    except NoRecording:
        return
    assert plain[2] > overlapping[0] and overlapping[2] > plain[0]


# ---- with a Hopper GPU --------------------------------------------------------------------------

LAUNCHES = 20


def wrong_at_the_end_of_a_chain(gpu, program, size, seed=1):
    """Each launch moves the columns of what the last one wrote; how many elements end up wrong?

    C = A·Pᵀ with a permutation matrix P is exact. The GPU is held until all launches are queued.
    """
    random = numpy.random.default_rng(seed)
    moved = random.permutation(size)
    permutation = numpy.zeros((size, size), numpy.float16)
    permutation[numpy.arange(size), moved] = 1
    expected = random.integers(-99, 100, (size, size)).astype(numpy.float16)
    arrays = [gpu.array(expected), gpu.array(numpy.zeros_like(expected))]
    p = gpu.array(permutation)
    both = plan(program, arrays[0], p, arrays[1]), plan(program, arrays[1], p, arrays[0])
    Clocks(gpu).gate(20_000_000)
    for number in range(LAUNCHES):
        both[number % 2].run()
        expected = expected[:, moved]
    return int((gpu.numpy(arrays[LAUNCHES % 2]) != expected).sum())


@pytest.mark.hopper
@pytest.mark.parametrize("size", [512, 2304, 4096])
@each
def test_a_gpu_reads_what_the_last_launch_wrote(gpu, kernel, size):
    program = compile_kernel(kernel, OVERLAP=1)
    assert wrong_at_the_end_of_a_chain(gpu, program, size) == 0
