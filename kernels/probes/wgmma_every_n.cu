// wgmma_every_n · one wgmma of every legal N
//
//   D (64, N) = A (64 × 32 bytes) · B (first N rows × 32 bytes)ᵀ
//
// What it probes: that registers and rows go on as the smaller N began, up to 256. Operands lie in
// core matrices.
//
// Launch: one block of 128 threads for each entry of `n`; `a`: 64 rows, `b`: 256 rows of 32 bytes.
// Outputs: d, a slab of 128 registers × 128 threads for each N.
#include "mbarrier.cuh"
#include "wgmma.cuh"

#ifndef INSTRUCTION
#define INSTRUCTION wgmma_f32_f16_f16
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR float  // float, int, or unsigned for pairs of f16
#endif
#ifndef PAIRS
#define PAIRS 0  // 1: f16 accumulators, two a register
#endif
#ifndef EACH_N
#define EACH_N WGMMA_EACH_N  // WGMMA_EACH_INTEGER_N for integers
#endif
constexpr int THREADS = 128;

__device__ inline unsigned long long known(const void* tile) {
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  return kFixed | shared_address(tile) >> 4;
}

template <int N, int R>
__device__ inline void one(unsigned long long a, unsigned long long b, ACCUMULATOR* d_out) {
  ACCUMULATOR d[R];
  wgmma_fence();
  INSTRUCTION<N>::ss(d, a, b, false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
#pragma unroll
  for (int r = 0; r < R; ++r) d_out[r * THREADS + threadIdx.x] = d[r];
}

// Bytes of 32-byte row `i / 2`, piece `i % 2`, in core matrices, in units of 16.
__device__ inline int place(int i) { return (i / 16 * 2 + i % 2) * 8 + i / 2 % 8; }

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_every_n(const uint4* a, const uint4* b, const int* n, ACCUMULATOR* d_out) {
  __shared__ alignas(128) uint4 tile_a[64 * 2], tile_b[256 * 2];
  for (int i = threadIdx.x; i < 64 * 2; i += THREADS) tile_a[place(i)] = a[i];
  for (int i = threadIdx.x; i < 256 * 2; i += THREADS) tile_b[place(i)] = b[i];
  fence_proxy_async();
  __syncthreads();
  d_out += blockIdx.x * 128 * THREADS;
#define X(N, R, H)                                              \
  case N:                                                       \
    one<N, PAIRS ? H : R>(known(tile_a), known(tile_b), d_out); \
    break;
  switch (n[blockIdx.x]) {
    EACH_N(X)
  }
#undef X
}
