// tma_reduce · a store that adds
//
//   out (M, N) += in (0, M, N) + in (1, M, N) + …, fp32
//
// What it teaches: cp.reduce.async.bulk.tensor. A block brings a tile of one plane of `in` by TMA and
// adds it to `out`, whose tile as many blocks add to as there are planes, in whatever order. A
// product whose K is split over blocks ends like this.
//
// WAY = 0: one thread asks TMA, which adds the tile to the one in global memory.
//       1: each thread adds its words by red.global.add.f32.
//       2: the same with four words at a time.
// Preconditions: rows a multiple of 16 bytes; any number of planes, any M.
// Launch: grid (⌈N / 32⌉, ⌈M / 64⌉, planes), blocks of 32 (WAY 0) or 128 threads.
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "tma_store.cuh"

#ifndef WAY
#define WAY 0
#endif
constexpr int TILE_M = 64;
constexpr int TILE_N = 32;  // words: 128 bytes
constexpr unsigned TILE_BYTES = TILE_M * TILE_N * 4;
constexpr int THREADS = WAY == 0 ? 32 : 128;
static_assert(0 <= WAY && WAY <= 2, "three ways");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, 1);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

// One thread. Adds one word, or four, to global memory, and asks for no answer.
__device__ inline void add_words(float* out, float word) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(out), "f"(word) : "memory");
}
__device__ inline void add_words(float* out, float4 words) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :: "l"(out), "f"(words.x), "f"(words.y), "f"(words.z), "f"(words.w) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
tma_reduce(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out_map,
           float* out, int m, int n) {
  __shared__ alignas(128) float tile[TILE_M * TILE_N];  // (TILE_M, TILE_N), no swizzle
  __shared__ unsigned long long loaded;
  const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;

  // [bring]
  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&loaded, TILE_BYTES);
    tma_load_3d(tile, &in, &loaded, blockIdx.z, row, column);
  }
  // [/bring]
#if WAY == 0
  // [reduce]
  if (threadIdx.x == 0) {
    mbarrier_wait_parity(&loaded, 0);
    tma_reduce_add_2d(&out_map, tile, row, column);
    tma_commit_group();
    tma_wait_group_read<0>();
  }
  // [/reduce]
#else
  __syncthreads();  // the barrier exists
  // [atomics]
  mbarrier_wait_parity(&loaded, 0);
#if WAY == 1
  using Words = float;
#else
  using Words = float4;
#endif
  constexpr int WORDS = sizeof(Words) / 4, ROW = TILE_N / WORDS;
#pragma unroll
  for (int k = 0; k < TILE_M * ROW / THREADS; ++k) {
    const int i = k * THREADS + threadIdx.x;
    const int r = row + i / ROW, c = column + i % ROW * WORDS;
    if (r < m && c < n)
      add_words(out + static_cast<long long>(r) * n + c, reinterpret_cast<Words*>(tile)[i]);
  }
  // [/atomics]
#endif
}
