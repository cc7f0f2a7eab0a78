"""How fast is mma.sync with nothing else to do? Operands stay in registers, nothing is loaded."""

from statistics import median
from typing import Any

import numpy

from hopper.compile import Program, compile_cuda
from hopper.errors import CheckError
from hopper.experiments import Experiment
from hopper.mma_sync import MMA_K, MMA_M, MMA_N
from hopper.schema import Sweep

NAME = "mma rate"
#: Warps an SM: one to four for each of its four schedulers.
WARPS = (4, 8, 12, 16)
#: Independent sums a warp has in flight; the kernel has one for each 16×8 piece of its tile.
CHAINS = (1, 2, 4, 8)
STEPS = 4096
REPEATS = 3

SOURCE = r"""
#include "mma_sync.cuh"

// One block an SM. Each warp adds to CHAINS sums in turn, STEPS times; cycles go out by block.
extern "C" __global__ void __launch_bounds__(512) mma_rate(long long* cycles, float* sums,
                                                           unsigned ones) {
  const unsigned a[4] = {ones, ones, ones, ones};
  float d[CHAINS][4] = {};
  long long start, end;
  __syncthreads();
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(start) :: "memory");
#pragma unroll 4
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int chain = 0; chain < CHAINS; ++chain) mma_m16n8k16(d[chain], a, ones, ones);
  }
  __syncthreads();
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) :: "memory");
  if (threadIdx.x == 0) cycles[blockIdx.x] = end - start;
  float sum = 0;
#pragma unroll
  for (int chain = 0; chain < CHAINS; ++chain) sum += d[chain][0];
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def rate_program(chains: int) -> Program:
    """The measuring kernel with ``chains`` independent sums a warp."""
    return compile_cuda(SOURCE, "mma_rate", defines={"CHAINS": chains, "STEPS": STEPS})


def measure_rate(gpu: Any, program: Program) -> Sweep:
    """Operations an SM does in a cycle, over warps an SM, a curve for each number of sums."""
    series = {}
    for chains in CHAINS:
        rate = rate_program(chains)
        rate.require_clean()
        name = f"{chains} sum{'s' if chains > 1 else ''} a warp"
        series[name] = tuple(_rate(gpu, rate, chains, warps) for warps in WARPS)
    return Sweep(
        name=NAME,
        axis="warps an SM",
        axis_unit="warps",
        axis_values=tuple(map(float, WARPS)),
        unit="FLOP a cycle and SM",
        series=series,
    )


def _rate(gpu: Any, program: Program, chains: int, warps: int) -> float:
    ones = numpy.uint32(0x3C003C00)  # two fp16 ones
    cycles = gpu.array(numpy.zeros(gpu.sm_count, numpy.int64))
    sums = gpu.array(numpy.zeros(gpu.sm_count * warps * 32, numpy.float32))
    taken = []
    for _ in range(REPEATS):
        gpu.launch(program, (gpu.sm_count, 1, 1), (warps * 32, 1, 1), (cycles, sums, ones), 0)
        taken.append(median(gpu.numpy(cycles).tolist()))
    expected = chains * STEPS * MMA_K  # a sum of ones
    if not (gpu.numpy(sums) == expected).all():
        raise CheckError(f"{chains} sums, {warps} warps: a thread's total is not {expected}")
    flop = 2 * MMA_M * MMA_N * MMA_K * chains * STEPS * warps
    return round(flop / min(taken), 1)


EXPERIMENTS = (Experiment("v0_mma_sync", NAME, measure_rate),)
