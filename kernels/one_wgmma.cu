// one_wgmma · a single instruction, from its operands to its result
//
//   D (64, N) fp32 = A (64, 16) fp16 · B (N, 16)ᵀ fp16
//
// What it teaches: all that one wgmma needs. Ordinary stores bring A and B into shared memory in
// the order that the tensor core reads, two descriptors say where they lie, four warps issue one
// instruction together, and when it has finished each thread holds its share of D.
//
// Launch: one block of 128 threads. Outputs: D, and the same values as the threads hold them.
#include "core_matrix.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 16  // 8, 16, 24 … 256
#endif
constexpr int TILE_M = 64;
constexpr int TILE_K = 16;
constexpr int THREADS = 128;  // one warpgroup

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
one_wgmma(const half* a, const half* b, float* d_out, float* held_out) {
  // [operands]
  __shared__ alignas(128) half tile_a[TILE_M * TILE_K];  // (64, 16), core matrices
  __shared__ alignas(128) half tile_b[TILE_N * TILE_K];  // (TILE_N, 16), the same

  for (int i = threadIdx.x; i < TILE_M * TILE_K; i += THREADS)
    tile_a[core_matrix_index<TILE_K>(i / TILE_K, i % TILE_K)] = a[i];
  for (int i = threadIdx.x; i < TILE_N * TILE_K; i += THREADS)
    tile_b[core_matrix_index<TILE_K>(i / TILE_K, i % TILE_K)] = b[i];
  fence_proxy_async();  // ordinary stores before reads by the async proxy: wgmma's
  __syncthreads();      // … and so the stores of all threads
  // [/operands]

  // [issue]
  float d[TILE_N / 2];  // this thread's share of D
  wgmma_fence();
  wgmma_f32_f16_f16<TILE_N>::ss(d, descriptor_k_major_unswizzled<TILE_K>(tile_a),
                                descriptor_k_major_unswizzled<TILE_K>(tile_b),
                                /*scale_d=*/false);  // D = A·B, not D = A·B + D
  wgmma_commit_group();
  wgmma_wait_group<0>();
  // [/issue]

  // [result]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < TILE_N / 2; ++r) {
    int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
    int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    d_out[row * TILE_N + column] = d[r];
    held_out[threadIdx.x * (TILE_N / 2) + r] = d[r];
  }
  // [/result]
}
