// tma_swizzle · what TMA writes, piece by piece
//
// What it teaches: where each 16-byte piece of a box lands, for each swizzle. The elements of the
// tensor are their own numbers; TMA loads a box of them, and the kernel dumps shared memory as it
// then is, byte after byte. What TMA left alone is 0xffff.
//
// Block b puts its tile 128·b bytes behind a multiple of 1024: does the pattern move along?
// Preconditions: TMA writes 1024 bytes, a row of the box taking one swizzle span (all of it, also
// where the row is shorter); `bytes` is what the box itself holds.
// Launch: up to 8 blocks of 128 threads. Out: (blocks, 1024) elements.
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"

constexpr int THREADS = 128;
constexpr int TILE_BYTES = 1024;                 // one atom of the 128-byte swizzle
constexpr int START_STEP = 128;                  // TMA's own rule: a multiple of 128
constexpr int MEMORY_BYTES = 2 * TILE_BYTES;

static_assert(TILE_BYTES + 7 * START_STEP <= MEMORY_BYTES, "eight starts lie in the memory");

LAUNCH_FACT(tile_m, 8);
LAUNCH_FACT(tile_n, 8);
LAUNCH_FACT(tile_k, TILE_BYTES / 2 / 8);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
tma_swizzle(const __grid_constant__ TensorMap map, unsigned short* dump, int bytes) {
  __shared__ alignas(1024) unsigned short memory[MEMORY_BYTES / 2];
  __shared__ unsigned long long loaded;  // mbarrier: the box has landed
  unsigned short* tile = memory + blockIdx.x * START_STEP / 2;

  for (int i = threadIdx.x; i < MEMORY_BYTES / 2; i += THREADS) memory[i] = 0xffff;
  if (threadIdx.x == 0) mbarrier_init(&loaded, 1);
  fence_proxy_async();  // these ordinary stores before TMA's
  __syncthreads();

  // [load]
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&loaded, bytes);
    tma_load_2d(tile, &map, &loaded, 0, 0);
  }
  mbarrier_wait_parity(&loaded, 0);
  // [/load]

  // [dump]
  for (int i = threadIdx.x; i < MEMORY_BYTES / 2; i += THREADS)
    dump[blockIdx.x * (MEMORY_BYTES / 2) + i] = memory[i];
  // [/dump]
}
