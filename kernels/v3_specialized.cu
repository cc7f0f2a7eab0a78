// v3 · roles: one warp loads, one warpgroup multiplies, and they meet at mbarriers only
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//   With -DBF16=1 they are bf16.
//
// What it teaches: a producer warp that does nothing but ask for tiles, and a consumer warpgroup that
// does nothing but multiply. A stage has two mbarriers: `full` says that its tiles have landed,
// `empty` that they have been used. Nobody waits for more than that, so loads run during products.
//
// Any M and N (TMA fills with zeros, the store is guarded) whose tiles fit the grid. K is a
// multiple of 8, because TMA needs rows of a multiple of 16 bytes.
// Launch: ceil(M / TILE_M) × ceil(N / TILE_N) blocks of 160 threads: warps 0 to 3 multiply, warp 4
// loads.
#include "descriptor.cuh"
#include "element.cuh"
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
#ifndef STAGES
#define STAGES 3
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int WGMMA_M = 64;  // rows of one instruction
constexpr int WGMMA_K = 16;  // its depth: 32 bytes of fp16
constexpr int CONSUMERS = 1; // warpgroups that multiply
constexpr int THREADS = 128 * CONSUMERS + 32;  // and a warp that loads

struct Stage {
  alignas(1024) Element a[TILE_M * TILE_K];  // (TILE_M, 64), 128-byte swizzle
  alignas(1024) Element b[TILE_N * TILE_K];  // (TILE_N, 64), 128-byte swizzle
};
constexpr unsigned SHARED_BYTES = STAGES * sizeof(Stage) + 1024;  // 1024 to round its start up
// [/tile]

static_assert(TILE_M % WGMMA_M == 0, "a block tile is a whole number of 64-row instructions");
static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(TILE_M <= 256, "a TMA box has at most 256 rows");
static_assert(STAGES >= 1, "the ring has a stage");
static_assert(SHARED_BYTES + STAGES * 16 <= 227 * 1024, "tiles and barriers fit 227 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, SHARED_BYTES);  // dynamic: more than 48 KB must be
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
v3_specialized(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               Element* c, int m, int n, int k) {
  // [setup]
  extern __shared__ unsigned char dynamic[];
  Stage* ring = reinterpret_cast<Stage*>(dynamic + (-shared_address(dynamic) & 1023));
  __shared__ unsigned long long full[STAGES];   // mbarriers: both tiles of a stage have landed
  __shared__ unsigned long long empty[STAGES];  // and: every warp has used them

  const int row = blockIdx.x * TILE_M;     // this block's corner of C
  const int column = blockIdx.y * TILE_N;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);               // an arrival a phase: the thread that asks TMA
      mbarrier_init(&empty[stage], CONSUMERS * 4);  // of each warp that multiplies
    }
    fence_proxy_async();  // as older CUDA guides ask; recent PTX needs only what follows
  }
  __syncthreads();
  // [/setup]

  const int steps = (k + TILE_K - 1) / TILE_K;
  // The shuffle tells the compiler that a warp's lanes agree.
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;

  int stage = 0;

  if (warp == CONSUMERS * 4) {
    // [produce]
    if (elect_one()) {
      // Parity 1 at first: the phase before the first counts as complete, and the stage is free.
      unsigned parity = 1;
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        mbarrier_wait_parity(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], sizeof(Stage));
        tma_load_2d(ring[stage].a, &map_a, &full[stage], row, step * TILE_K);
        tma_load_2d(ring[stage].b, &map_b, &full[stage], column, step * TILE_K);
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    // [/produce]
    return;
  }

  float d[TILE_M / WGMMA_M][TILE_N / 2];  // this thread's share of the tile's fp32 accumulators
  unsigned parity = 0;

#pragma unroll 1  // the PTX stays short enough to read
  for (int step = 0; step < steps; ++step) {
    // [multiply]
    mbarrier_wait_parity(&full[stage], parity);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += WGMMA_K) {
#pragma unroll
      for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
        wgmma_f32<TILE_N>::ss(
            d[i], descriptor_k_major_128b(ring[stage].a + i * WGMMA_M * TILE_K + kk),
            descriptor_k_major_128b(ring[stage].b + kk), /*scale_d=*/step + kk > 0);
      }
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    if (lane == 0) mbarrier_arrive(&empty[stage]);  // this warp's share has retired
    if (++stage == STAGES) stage = 0, parity ^= 1;
    // [/multiply]
  }

  // [epilogue]
  // Warp w holds rows 16w … 16w+15 of each 64; lane l holds rows l/4 and l/4 + 8 of those,
  // columns 2(l%4) and 2(l%4) + 1 of every eight.
#pragma unroll
  for (int i = 0; i < TILE_M / WGMMA_M; ++i) {
    const int top = row + i * WGMMA_M + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      const int left = column + j * 8 + lane % 4 * 2;
      store_pair<pack_elements>(c, m, n, top, left, d[i][4 * j], d[i][4 * j + 1]);
      store_pair<pack_elements>(c, m, n, top + 8, left, d[i][4 * j + 2], d[i][4 * j + 3]);
    }
  }
  // [/epilogue]
}
