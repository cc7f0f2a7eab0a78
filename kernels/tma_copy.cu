// tma_copy · a tile in, a tile out, and no thread touches an element
//
//   out (M, N) = in (M, N), 16-bit elements, row-major
//
// What it teaches: a TMA load, the mbarrier that tells when it has landed, a TMA store, and the group
// that tells when its source may go. One thread does it all. A swizzle permutes the tile in shared
// memory on the way in, and the same swizzle undoes it on the way out.
//
// SWIZZLE = 0, 32, 64 or 128: of both maps. A row of the box is one span of it.
// Preconditions: rows a multiple of 16 bytes. Any M and N besides: TMA fills with zeros what a load
// finds outside the tensor, and a store leaves it out.
// Launch: one block of 32 threads for each tile, grid (⌈N / TILE_N⌉, ⌈M / TILE_M⌉).
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "tma_store.cuh"

#ifndef SWIZZLE
#define SWIZZLE 128
#endif
constexpr unsigned TILE_BYTES = 8192;
constexpr int SPAN = SWIZZLE ? SWIZZLE : 128;  // bytes of a row of the box
constexpr int TILE_N = SPAN / 2;
constexpr int TILE_M = TILE_BYTES / SPAN;
constexpr int THREADS = 32;

static_assert(SWIZZLE == 0 || SWIZZLE == 32 || SWIZZLE == 64 || SWIZZLE == 128,
              "TMA swizzles spans of 32, 64 or 128 bytes, or not at all");
static_assert(TILE_M <= 256 && TILE_N <= 256, "a side of a box has at most 256 elements");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, 1);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);
LAUNCH_FACT(swizzle, SWIZZLE);

extern "C" __global__ void __launch_bounds__(THREADS)
tma_copy(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out) {
  __shared__ alignas(1024) unsigned char tile[TILE_BYTES];  // (TILE_M, TILE_N), swizzled
  __shared__ unsigned long long loaded;                     // mbarrier: the tile has landed
  const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;

  if (elect_one()) {
    // [load]
    mbarrier_init(&loaded, 1);  // one arrival a phase: the one that announces the bytes
    fence_proxy_async();
    mbarrier_arrive_expect_tx(&loaded, TILE_BYTES);  // zeros count too
    tma_load_2d(tile, &in, &loaded, row, column);
    mbarrier_wait_parity(&loaded, 0);
    // [/load]
    // [store]
    tma_store_2d(&out, tile, row, column);
    tma_commit_group();
    tma_wait_group_read<0>();  // the block must outlive the reads of its shared memory
    // [/store]
  }
}
