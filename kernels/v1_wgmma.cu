// v1 · the first wgmma: one warpgroup, one stage, one thing at a time
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//
// What it teaches: the tensor core reads A and B straight from shared memory, 128 threads issue
// one instruction together, and it finishes later: fence, mma, commit, wait.
// It waits for each load and then for each product, so load and compute take turns.
//
// Any M and N (TMA fills with zeros, the store is guarded) whose tiles fit the grid. K is a
// multiple of 8, because TMA needs rows of a multiple of 16 bytes.
// Launch: ceil(M / TILE_M) × ceil(N / TILE_N) blocks of 128 threads.
#include "descriptor.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "store_pair.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int WGMMA_M = 64;  // rows of one instruction
constexpr int WGMMA_K = 16;  // its depth: 32 bytes of fp16
constexpr int THREADS = 128; // one warpgroup

constexpr unsigned BYTES_A = TILE_M * TILE_K * sizeof(half);
constexpr unsigned BYTES_B = TILE_N * TILE_K * sizeof(half);
// [/tile]

static_assert(TILE_M % WGMMA_M == 0, "a block tile is a whole number of 64-row instructions");
static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(TILE_M <= 256, "a TMA box has at most 256 rows");
static_assert(BYTES_A + BYTES_B + 8 <= 48 * 1024, "tiles and barrier fit 48 KB of static memory");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);  // dynamic; the tiles below are static
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
v1_wgmma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
         half* c, int m, int n, int k) {
  // [setup]
  __shared__ alignas(1024) half tile_a[TILE_M * TILE_K];  // (TILE_M, 64) fp16, 128-byte swizzle
  __shared__ alignas(1024) half tile_b[TILE_N * TILE_K];  // (TILE_N, 64) fp16, 128-byte swizzle
  __shared__ unsigned long long loaded;                   // mbarrier: both tiles have landed

  const int row = blockIdx.x * TILE_M;     // this block's corner of C
  const int column = blockIdx.y * TILE_N;

  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);  // one arrival a phase: the thread that asks TMA
    fence_proxy_async();        // as older CUDA guides ask; recent PTX needs only what follows
  }
  __syncthreads();
  // [/setup]

  float d[TILE_M / WGMMA_M][TILE_N / 2];  // this thread's share of the tile's fp32 accumulators
  unsigned phase = 0;

#pragma unroll 1  // the PTX stays short enough to read
  for (int k0 = 0; k0 < k; k0 += TILE_K) {
    // [load]
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&loaded, BYTES_A + BYTES_B);
      tma_load_2d(tile_a, &map_a, &loaded, row, k0);
      tma_load_2d(tile_b, &map_b, &loaded, column, k0);
    }
    mbarrier_wait_parity(&loaded, phase);
    phase ^= 1;
    // [/load]

    // [multiply]
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
#pragma unroll
      for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
        wgmma_f32_f16_f16<TILE_N>::ss(
            d[i], descriptor_k_major_128b(tile_a + i * WGMMA_M * TILE_K + kk),
            descriptor_k_major_128b(tile_b + kk), /*scale_d=*/k0 + kk > 0);
      }
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    // [/multiply]

    __syncthreads();  // every warp's share has retired: the tiles may be overwritten
  }

  // [epilogue]
  // Warp w holds rows 16w … 16w+15 of each 64; lane l holds rows l/4 and l/4 + 8 of those,
  // columns 2(l%4) and 2(l%4) + 1 of every eight.
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
    const int top = row + i * WGMMA_M + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      const int left = column + j * 8 + lane % 4 * 2;
      store_pair(c, m, n, top, left, d[i][4 * j], d[i][4 * j + 1]);
      store_pair(c, m, n, top + 8, left, d[i][4 * j + 2], d[i][4 * j + 3]);
    }
  }
  // [/epilogue]
}
