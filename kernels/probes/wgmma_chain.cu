// wgmma_chain · several wgmmas that add to one accumulator, in two groups, by two warpgroups
//
//   D = ± A0 · B0 ± A1 · B1 ± A2 · B2 ± A3 · B3 + C      wherever scale-d is true
//
// What it probes: scale-d as a predicate that differs from step to step and from warpgroup to
// warpgroup, negation, transposition, saturation, A in registers, and that a chain adds in order.
// Operands lie wherever the descriptors say: the launch fills shared memory byte by byte.
//
// Launch: one block of 256 threads. `image` fills IMAGE_BYTES of shared memory; `a_descriptors` and
// `scale` have an entry a warpgroup and step, `b_descriptors` a step; with A_IN_REGISTERS `a_held`
// holds A (warpgroup, step, thread, register). C and D as the threads hold them.
// Dynamic shared memory: 1024 + IMAGE_BYTES. Outputs: d.
#include "mbarrier.cuh"
#include "wgmma.cuh"

#ifndef INSTRUCTION
#define INSTRUCTION wgmma_f32_f16_f16
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR float  // float, int, or unsigned for pairs of f16
#endif
#ifndef REGISTERS
#define REGISTERS (TILE_N / 2)  // of a thread's accumulators: N/2, or N/4 for pairs of f16
#endif
#ifndef FLAGS
#define FLAGS  // <-1, 1, 0, 1>: A is negated, B is MN-major
#endif
#ifndef A_IN_REGISTERS
#define A_IN_REGISTERS 0
#endif
#ifndef IMAGE_BYTES
#define IMAGE_BYTES 32768
#endif
constexpr int THREADS = 256, STEPS = 4;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_chain(const uint4* image, const unsigned long long* a_descriptors,
            const unsigned long long* b_descriptors, const unsigned* a_held, const int* scale,
            const ACCUMULATOR* c, ACCUMULATOR* d_out) {
  extern __shared__ unsigned char dynamic[];
  const int thread = threadIdx.x, warpgroup = thread / 128;
  unsigned char* base = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  for (int i = thread; i < IMAGE_BYTES / 16; i += THREADS)
    reinterpret_cast<uint4*>(base)[i] = image[i];
  fence_proxy_async();
  __syncthreads();

  unsigned long long a_from[STEPS], b_from[STEPS];
  unsigned a[STEPS][4];
  bool adds[STEPS];
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    a_from[step] = a_descriptors[warpgroup * STEPS + step] + (shared_address(base) >> 4);
    b_from[step] = b_descriptors[step] + (shared_address(base) >> 4);
    adds[step] = scale[warpgroup * STEPS + step];
#pragma unroll
    for (int r = 0; r < 4; ++r)
      a[step][r] = a_held[((warpgroup * STEPS + step) * 128 + thread % 128) * 4 + r];
  }
  ACCUMULATOR d[REGISTERS];
#pragma unroll
  for (int r = 0; r < REGISTERS; ++r) d[r] = c[thread * REGISTERS + r];

  wgmma_fence();
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
#if A_IN_REGISTERS
    INSTRUCTION<TILE_N>::rs FLAGS(d, a[step], b_from[step], adds[step]);
#else
    INSTRUCTION<TILE_N>::ss FLAGS(d, a_from[step], b_from[step], adds[step]);
#endif
    if (step % 2) wgmma_commit_group();
  }
  wgmma_wait_group<1>();  // the first group's operands are free; D is still being written
  wgmma_wait_group<0>();
#pragma unroll
  for (int r = 0; r < REGISTERS; ++r) d_out[thread * REGISTERS + r] = d[r];
}
