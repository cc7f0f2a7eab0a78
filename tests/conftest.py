"""What every test shares: a cache of its own, and the rule for tests that need a GPU."""

import os
from dataclasses import dataclass

import hypothesis
import numpy
import pytest
from site_building import shared_book

from hopper.backends import HopperGpu, find_hopper, why_not

# The same examples on every run: a failure that a reader sees, we can see.
hypothesis.settings.register_profile("book", derandomize=True, deadline=None)
hypothesis.settings.load_profile("book")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With `-n auto`: a worker a core and one more, as some wait for a build or a browser, but no
    more than four; a GPU's tests take turns.
    """
    return 0 if why_not() is None else min(4, (os.cpu_count() or 1) + 1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("hopper") and (reason := why_not()):
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory):
    """Compiled kernels of this session, of all its workers, apart from the reader's own cache."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOPPER_CACHE", str(folder))
        yield folder


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    """An empty cache for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HOPPER_CACHE", str(folder))
    return folder


@dataclass(frozen=True)
class DeviceArray:
    """Looks like an array in GPU memory, and is none: for rules that need no GPU to be tested."""

    shape: tuple[int, ...]
    dtype: str = "float16"
    address: int = 0x7F0000000000
    strides: tuple[int, ...] | None = None

    @property
    def __cuda_array_interface__(self) -> dict:
        return {
            "shape": self.shape,
            "typestr": numpy.dtype(self.dtype).str,
            "data": (self.address, False),
            "strides": self.strides,
            "version": 3,
        }


@pytest.fixture(scope="session")
def device_array() -> type[DeviceArray]:
    return DeviceArray


@pytest.fixture(scope="session")
def gpu() -> HopperGpu:
    """What a test marked ``hopper`` launches on."""
    return find_hopper()


@pytest.fixture(scope="session")
def site(session_cache):
    """The book, built once for all tests of pages, of all workers."""
    return shared_book(session_cache.with_name("book"))


# Playwright is imported where it is used: a machine with a GPU may have none.
@pytest.fixture(scope="module")
def browser():
    from browsing import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def visit(browser, folder):
    """Opens visits of the module's ``folder`` of pages; none of them may have complained."""
    from figure_pages import visiting

    with visiting(browser, folder) as start:
        yield start
