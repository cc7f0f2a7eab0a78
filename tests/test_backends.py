import ctypes
import sys

import numpy
import pytest

from hopper import backends
from hopper.backends import STILL_WORKS, Device, Look, find_hopper, refusal
from hopper.errors import NoHopper

H200 = Device("NVIDIA H200", (9, 0), 132)
SLICE = Device("NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9, 0), 16)
A100 = Device("NVIDIA A100-SXM4-80GB", (8, 0), 108)
B200 = Device("NVIDIA B200", (10, 0), 148)
RTX = Device("NVIDIA GeForce RTX 5090", (12, 0), 170)


def machine(*devices: Device, **seen) -> Look:
    return Look(**({"toolkit": 13, "driver": (13, 0), "devices": devices} | seen))


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (Look(toolkit=None), "CuPy cannot be imported, .*pip install cupy-cuda13x"),
        (Look(toolkit=13), "There is no NVIDIA driver here"),
        (machine(H200, driver=(12, 8)), "driver supports CUDA 12.8, .*update the driver"),
        (machine(cu_init=803), r"driver does not start \(cuInit returns 803\)"),
        (machine(cu_init=100), "it shows no GPU"),
        (machine(), "it shows no GPU"),
        (machine(A100), "NVIDIA A100-SXM4-80GB is compute capability 8.0, and wgmma exists only"),
        (machine(B200), "NVIDIA B200 is compute capability 10.0, .*removed after Hopper"),
        (machine(RTX), "RTX 5090 is compute capability 12.0, .*removed after Hopper"),
        (machine(SLICE), "MIG 1g.10gb is a MIG slice: .*switch MIG off"),
        (machine(A100, B200, H200), "GPU 2 would do: set CUDA_VISIBLE_DEVICES=2"),
    ],
)
def test_each_machine_without_a_hopper_gpu_is_told_why_and_what_works(seen, message):
    with pytest.raises(NoHopper, match=message) as caught:
        find_hopper(seen)
    assert str(caught.value).endswith(STILL_WORKS)
    assert "\n" not in str(caught.value)


def test_an_older_generation_was_not_removed_and_a_slice_does_not_help():
    assert "removed" not in refusal(machine(A100))
    assert "CUDA_VISIBLE_DEVICES" not in refusal(machine(A100, SLICE))


@pytest.mark.parametrize("driver", [(13, 0), (13, 2), (14, 0)])
def test_a_hopper_gpu_is_found(driver):
    gpu = find_hopper(machine(H200, A100, driver=driver))
    assert (gpu.gpu, gpu.sm_count, gpu.is_hopper) == ("NVIDIA H200", 132, True)


def test_only_a_driver_that_they_run_on_is_offered_the_cuda_12_packages():
    assert "requirements-cuda12.txt" in refusal(machine(H200, driver=(12, 8)))
    assert "requirements-cuda12.txt" not in refusal(machine(H200, driver=(11, 8)))
    assert "requirements-cuda12.txt" not in refusal(machine(H200, toolkit=12, driver=(11, 8)))


def test_cuda_12_packages_do_with_a_cuda_12_driver():
    assert find_hopper(machine(H200, toolkit=12, driver=(12, 4))).gpu == "NVIDIA H200"


class Driver:
    """Stands in for libcuda on a machine with an A100 and an H200."""

    def __init__(self, status: int = 0):
        self.status = status

    def cuInit(self, flags):
        return self.status

    def cuDriverGetVersion(self, out):
        return self._answer(out, 13010)

    def cuDeviceGetCount(self, out):
        return self._answer(out, 2)

    def cuDeviceGet(self, out, ordinal):
        return self._answer(out, ordinal)

    def cuDeviceGetName(self, out, length, device):
        out.value = (A100, H200)[device].name.encode()

    def cuDeviceGetAttribute(self, out, attribute, device):
        it = (A100, H200)[device]
        answers = {75: it.capability[0], 76: it.capability[1], 16: it.sm_count}
        return self._answer(out, answers[attribute])

    def _answer(self, out, value):
        ctypes.cast(out, ctypes.POINTER(ctypes.c_int))[0] = value
        return 0


@pytest.fixture
def driver(monkeypatch):
    stand_in = Driver()
    monkeypatch.setattr(backends, "load_driver", lambda: stand_in)
    return stand_in


def test_a_look_lists_the_driver_and_every_gpu(driver):
    seen = backends.look.__wrapped__()
    assert seen.driver == (13, 1)
    assert seen.toolkit in (12, 13)
    assert seen.devices == (A100, H200)


def test_a_driver_that_does_not_start_is_not_asked_for_devices(driver):
    driver.status = 803
    seen = backends.look.__wrapped__()
    assert (seen.cu_init, seen.devices) == (803, ())


def test_a_look_without_cupy_or_driver_is_no_crash(monkeypatch):
    def missing():
        raise NoHopper("none")

    monkeypatch.setattr(backends, "load_driver", missing)
    assert backends.look.__wrapped__().driver is None
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    assert backends.look.__wrapped__() == Look(toolkit=None)


def test_available_and_why_not_agree(monkeypatch):
    monkeypatch.setattr(backends, "look", lambda: machine(A100))
    assert backends.available() is None
    assert backends.why_not() == refusal(machine(A100))
    monkeypatch.setattr(backends, "look", lambda: machine(H200))
    assert backends.available() == find_hopper(machine(H200))
    assert backends.why_not() == ""


@pytest.mark.hopper
def test_this_gpu_is_a_hopper():
    import cupy

    gpu = backends.find_hopper()
    assert cupy.cuda.Device().compute_capability == "90"
    assert gpu.sm_count == cupy.cuda.Device().attributes["MultiProcessorCount"]
    host = cupy.asnumpy(cupy.arange(5))
    assert gpu.numpy(gpu.array(host)).tolist() == [0, 1, 2, 3, 4]


def test_where_there_is_no_hopper_the_emulator_runs_kernels(monkeypatch):
    monkeypatch.setattr(backends, "look", lambda: machine(A100))
    here = backends.backend()
    assert (here.name, here.is_hopper) == ("emulator", False)
    assert here == backends.backend_of(numpy.zeros(3))
    host = numpy.arange(6).reshape(2, 3)
    there = here.array(host.T)
    assert there.flags.c_contiguous
    there[0, 0] = 7
    assert (host[0, 0], here.numpy(there)[0, 0]) == (0, 7)
    monkeypatch.setattr(backends, "look", lambda: machine(H200))
    assert backends.backend().is_hopper
