// rs_wgmma · A built in registers, on its way into the product
//
//   D (64, N) fp32 = Â (64, K) · B (N, K)ᵀ fp16,   Â[i, k] = fp16(A[i, k] · scale[i, k / 64])
//
// What it teaches: A lies in memory as int8 with a scale for every 64 of K, so it has to become
// fp16 before it is multiplied, and the scale cannot wait for the epilogue. Each thread makes the
// elements of its own fragment and passes them in registers. Shared memory never sees Â.
//
// Launch: one block of 128 threads. K is TILE_K · STAGES. B stays in shared memory for all of it.
#include "core_matrix.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef STAGES
#define STAGES 4  // chunks of K
#endif
constexpr int TILE_M = 64;
constexpr int TILE_K = 64;            // elements of K that share a scale
constexpr int STEPS = TILE_K / 16;    // instructions of a chunk
constexpr int DEPTH = TILE_K * STAGES;
constexpr int THREADS = 128;

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(TILE_N * DEPTH * sizeof(half) <= 48 * 1024, "B fits 48 KB of static memory");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
rs_wgmma(const signed char* a, const float* scale, const half* b, float* d_out) {
  __shared__ alignas(128) half tile_b[TILE_N * DEPTH];  // (TILE_N, DEPTH), core matrices

#pragma unroll 1  // the PTX stays short enough to read
  for (int i = threadIdx.x; i < TILE_N * DEPTH; i += THREADS)
    tile_b[core_matrix_index<DEPTH>(i / DEPTH, i % DEPTH)] = b[i];
  fence_proxy_async();
  __syncthreads();
  const unsigned long long desc_b = descriptor_k_major_unswizzled<DEPTH>(tile_b);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float d[TILE_N / 2];
#pragma unroll 1  // one chunk after the other, in the same registers
  for (int chunk = 0; chunk < STAGES; ++chunk) {
    // [fragment]
    unsigned fragment[STEPS][4];  // this thread's share of Â, 64 × 64: two elements a register
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = warp * 16 + lane / 4 + r % 2 * 8;
      const float factor = scale[row * STAGES + chunk];
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        const int k = chunk * TILE_K + step * 16 + r / 2 * 8 + lane % 4 * 2;
        const char2 pair = *reinterpret_cast<const char2*>(a + row * DEPTH + k);
        fragment[step][r] = pack_half2(pair.x * factor, pair.y * factor);
      }
    }
    // [/fragment]

    // [multiply]
    wgmma_fence();  // the registers of D, and those of the fragment, which were just written
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
      wgmma_f32_f16_f16<TILE_N>::rs(d, fragment[step], desc_b + (chunk * STEPS + step) * 16,
                                    /*scale_d=*/chunk + step > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();  // now the fragment may be written again
    // [/multiply]
  }

  // [epilogue]
#pragma unroll
  for (int r = 0; r < TILE_N / 2; ++r) {
    const int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
    const int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    d_out[row * TILE_N + column] = d[r];
  }
  // [/epilogue]
}
