"""The GPU's clocks, power and temperature while something is timed.

Two witnesses, both recorded. NVML is sampled by a thread: SM clock, instantaneous power,
temperature, reasons for throttling. And the GPU's own counters are read by a small kernel before
and after the region: cycles of ``%clock64`` over nanoseconds of ``%globaltimer`` is the mean clock
of the whole region on each SM (PTX ISA, special registers).
"""

import threading
import time
from dataclasses import dataclass
from statistics import median

import numpy

from hopper.compile import Program, compile_cuda
from hopper.schema import Conditions, Spread

SAMPLE_SECONDS = 0.01
# Slots of the probe's output; more than any Hopper has SMs.
SM_SLOTS = 256
# A mean clock outside these bounds is a counter that was reset, not a clock.
PLAUSIBLE_MHZ = (100, 3000)

PROBE_SOURCE = r"""
// Each SM that gets a block writes cycles and nanoseconds at both ends of a spin.
extern "C" __global__ void clock_probe(unsigned long long* out, unsigned spin_ns) {
  unsigned sm;
  unsigned long long previous, t0, c0, t1, c1;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(previous));
  do {  // start on a tick of the timer, which may be coarser than the spin
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t0));
  } while (t0 == previous);
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c0));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t1));
  } while (t1 - t0 < spin_ns);
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c1));
  if (sm < SM_SLOTS) {
    out[4 * sm] = c0;
    out[4 * sm + 1] = t0;
    out[4 * sm + 2] = c1;
    out[4 * sm + 3] = t1;
  }
}
"""


def probe_program() -> Program:
    """The clock probe, compiled: one thread a block, ``out`` uint64 (SM_SLOTS, 4)."""
    return compile_cuda(PROBE_SOURCE, "clock_probe", defines={"SM_SLOTS": SM_SLOTS})


def spin_clock_mhz(reading: numpy.ndarray) -> float | None:
    """Median SM clock during a probe's own spin; ``reading`` is (SM_SLOTS, 4), zeros unused."""
    return _median_clock(reading, reading[:, 0:2], reading[:, 2:4])


def region_clock_mhz(before: numpy.ndarray, after: numpy.ndarray) -> float | None:
    """Median over SMs of the mean clock from the end of one probe to the start of the next."""
    used = numpy.where((before[:, 1] > 0)[:, None], after, 0)
    return _median_clock(used, before[:, 2:4], after[:, 0:2])


def _median_clock(used: numpy.ndarray, start: numpy.ndarray, end: numpy.ndarray) -> float | None:
    seen = used[:, 1] > 0
    # Subtract as integers: nanoseconds since 1970 do not fit a float's 53 bits.
    cycles, nanoseconds = (end[seen].astype(numpy.int64) - start[seen].astype(numpy.int64)).T
    megahertz = [
        int(c) / int(ns) * 1e3 for c, ns in zip(cycles, nanoseconds, strict=True) if ns > 0
    ]
    low, high = PLAUSIBLE_MHZ
    plausible = [value for value in megahertz if low < value < high]
    return round(median(plausible), 2) if plausible else None


@dataclass(frozen=True)
class Reading:
    """One look at NVML at ``seconds`` of time.monotonic(). None: could not be read."""

    seconds: float
    clock_mhz: float | None
    power_watts: float | None
    temperature_c: float | None
    throttle: tuple[str, ...]


class Nvml:
    """NVML on CuPy's current device. Every reading is None where NVML does not give it.

    A machine may lack NVML or a single field of it, and a timing is good without.
    """

    def __enter__(self) -> "Nvml":
        self._handle = None
        try:
            import cupy
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id)
        except Exception:  # no package, no library, no device: all the same here
            self._handle = None
        return self

    def __exit__(self, *_) -> None:
        if self._handle is not None:
            self._nvml.nvmlShutdown()

    def _read(self, name: str, *arguments):
        if self._handle is None:
            return None
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError:
            return None

    def driver(self) -> str | None:
        """The driver's version, '580.159.04'."""
        return self._read("nvmlSystemGetDriverVersion")

    def power_limit_watts(self) -> float | None:
        """The enforced power limit."""
        milliwatts = self._read("nvmlDeviceGetEnforcedPowerLimit", self._handle)
        return None if milliwatts is None else milliwatts / 1e3

    def look(self) -> Reading:
        """Clock, instantaneous power, temperature and throttle reasons, now."""
        temperature = clock = None
        if self._handle is not None:
            nvml = self._nvml
            clock = self._read("nvmlDeviceGetClockInfo", self._handle, nvml.NVML_CLOCK_SM)
            temperature = self._read(
                "nvmlDeviceGetTemperature", self._handle, nvml.NVML_TEMPERATURE_GPU
            )
        return Reading(
            time.monotonic(),
            None if clock is None else float(clock),
            self._power_watts(),
            None if temperature is None else float(temperature),
            self._throttle(),
        )

    def _power_watts(self) -> float | None:
        if self._handle is None:
            return None
        field = self._nvml.NVML_FI_DEV_POWER_INSTANT
        values = self._read("nvmlDeviceGetFieldValues", self._handle, [field])
        if values is None or values[0].nvmlReturn != self._nvml.NVML_SUCCESS:
            return None
        return values[0].value.uiVal / 1e3

    def _throttle(self) -> tuple[str, ...]:
        mask = self._read("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        return throttle_names(mask or 0)


# Bits of nvmlClocksEventReasons (NVML API reference).
THROTTLE_BITS = {
    0x2: "applications clocks setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}


def throttle_names(mask: int) -> tuple[str, ...]:
    """Names of the reasons set in NVML's mask; idleness (bit 0) is no throttling."""
    return tuple(name for bit, name in THROTTLE_BITS.items() if mask & bit)


class Sampler:
    """A thread that looks at NVML every few milliseconds while the ``with`` block runs."""

    def __enter__(self) -> "Sampler":
        self.readings: list[Reading] = []
        self._stop = threading.Event()
        self._nvml = Nvml().__enter__()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
        self._nvml.__exit__()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.readings.append(self._nvml.look())
            self._stop.wait(SAMPLE_SECONDS)


def conditions(
    readings: list[Reading],
    windows: list[tuple[float, float]],
    clocks_mhz: list[float | None],
    spins_mhz: list[float | None],
) -> Conditions:
    """Summarise the readings that fall into ``windows`` (start, end of time.monotonic()).

    ``clocks_mhz``: mean clock of each window from the GPU's counters; ``spins_mhz``: after it.
    """
    inside = [one for one in readings if any(a <= one.seconds <= b for a, b in windows)]
    counted: dict[str, int] = {}
    for one in inside:
        for name in one.throttle:
            counted[name] = counted.get(name, 0) + 1
    return Conditions(
        clock_mhz=_median(clocks_mhz),
        spin_clock_mhz=_median(spins_mhz),
        nvml_clock_mhz=_spread([one.clock_mhz for one in inside]),
        power_watts=_spread([one.power_watts for one in inside]),
        temperature_c=_spread([one.temperature_c for one in inside]),
        throttle=counted,
        samples=len(inside),
    )


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _spread(values: list[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(median(known), min(known), max(known), len(known)) if known else None
