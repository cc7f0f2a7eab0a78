// k_loop · an exercise: one_wgmma with a K of 64, four instructions that add up
//
//   D (64, 16) fp32 = A (64, 64) fp16 · B (16, 64)ᵀ fp16
//
// The region named loop is the solution; hopper/exercises.py puts a reader's text in its place.
// Launch: one block of 128 threads.
#include "core_matrix.cuh"
#include "half.cuh"
#include "wgmma.cuh"

constexpr int TILE_M = 64;
constexpr int TILE_N = 16;
constexpr int TILE_K = 64;
constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS)
k_loop(const half* a, const half* b, float* d_out) {
  __shared__ alignas(128) half tile_a[TILE_M * TILE_K];  // (64, 64) fp16, core matrices
  __shared__ alignas(128) half tile_b[TILE_N * TILE_K];  // (16, 64) fp16, core matrices

  for (int i = threadIdx.x; i < TILE_M * TILE_K; i += THREADS)
    tile_a[core_matrix_index<TILE_K>(i / TILE_K, i % TILE_K)] = a[i];
  for (int i = threadIdx.x; i < TILE_N * TILE_K; i += THREADS)
    tile_b[core_matrix_index<TILE_K>(i / TILE_K, i % TILE_K)] = b[i];
  fence_proxy_async();
  __syncthreads();

  // [given]
  const unsigned long long desc_a = descriptor_k_major_unswizzled<TILE_K>(tile_a);
  const unsigned long long desc_b = descriptor_k_major_unswizzled<TILE_K>(tile_b);
  float d[TILE_N / 2];
  // [/given]
  // [loop]
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < TILE_K / 16; ++step)
    wgmma_f32_f16_f16<TILE_N>::ss(d, desc_a + step * 16, desc_b + step * 16, step > 0);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  // [/loop]

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < TILE_N / 2; ++r) {
    int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
    int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    d_out[row * TILE_N + column] = d[r];
  }
}
