// v0 · tensor cores the old way: operands to registers with ldmatrix, then mma.sync
//
//   C (M,N) fp16 = A (M,K) fp16 · B (N,K)ᵀ fp16, all row-major, accumulated in fp32.
//
// What it teaches: what wgmma replaces. Each of four warps copies its operands from shared memory
// into registers, multiplies registers by registers, and has the result when the instruction
// returns. Tile, loads, barriers and store are those of v1: what differs is how it multiplies.
//
// Any M and N (TMA fills with zeros, the store is guarded) whose tiles fit the grid. K is a
// multiple of 8, because TMA needs rows of a multiple of 16 bytes.
// Launch: ceil(M / TILE_M) × ceil(N / TILE_N) blocks of 128 threads.
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "mma_sync.cuh"
#include "store_pair.cuh"
#include "tma.cuh"

// [tile]
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
constexpr int TILE_K = 64;   // elements: a row of 128 bytes, the widest swizzle
constexpr int MMA_M = 16, MMA_N = 8, MMA_K = 16;         // one instruction, of one warp
constexpr int WARP_M = TILE_M / 2, WARP_N = TILE_N / 2;  // one warp's quarter of the tile
constexpr int THREADS = 128; // four warps, two by two

constexpr unsigned BYTES_A = TILE_M * TILE_K * sizeof(half);
constexpr unsigned BYTES_B = TILE_N * TILE_K * sizeof(half);
// [/tile]

static_assert(TILE_M % (2 * MMA_M) == 0, "each warp's rows are a whole number of 16");
static_assert(TILE_N % (4 * MMA_N) == 0 && TILE_N <= 256, "each warp's columns come in sixteens");
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
v0_mma_sync(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
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

  // [warps]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / 2 * WARP_M, warp_column = warp % 2 * WARP_N;
  float d[WARP_M / MMA_M][WARP_N / MMA_N][4] = {};  // this thread's share of the accumulators
  // [/warps]
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
#pragma unroll
    for (int kk = 0; kk < TILE_K; kk += MMA_K) {
      unsigned a[WARP_M / MMA_M][4], b[WARP_N / 16][4];  // operands, in registers
#pragma unroll
      for (int i = 0; i < WARP_M / MMA_M; ++i) {
        const int a_row = warp_row + i * MMA_M + lane % 16;
        const int a_chunk = kk / 8 + lane / 16;  // 16 bytes are eight values of k
        ldmatrix_x4(a[i], shared_address(tile_a) + swizzled_128b(a_row, a_chunk));
      }
#pragma unroll
      for (int j = 0; j < WARP_N / 16; ++j) {
        const int b_row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
        const int b_chunk = kk / 8 + lane / 8 % 2;
        ldmatrix_x4(b[j], shared_address(tile_b) + swizzled_128b(b_row, b_chunk));
      }
#pragma unroll
      for (int i = 0; i < WARP_M / MMA_M; ++i) {
#pragma unroll
        for (int j = 0; j < WARP_N / MMA_N; ++j) {
          mma_m16n8k16(d[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    // [/multiply]

    // [release]
    fence_proxy_async();  // this thread's reads come before TMA's writes: another proxy
    __syncthreads();      // and so do every warp's: the tiles may be overwritten
    // [/release]
  }

  // [epilogue]
  // A warp's part of C is made of 16×8 pieces; lane l holds rows l/4 and l/4 + 8 of each,
  // columns 2(l%4) and 2(l%4) + 1.
#pragma unroll
  for (int i = 0; i < WARP_M / MMA_M; ++i) {
    const int top = row + warp_row + i * MMA_M + lane / 4;
#pragma unroll
    for (int j = 0; j < WARP_N / MMA_N; ++j) {
      const int left = column + warp_column + j * MMA_N + lane % 4 * 2;
      store_pair(c, m, n, top, left, d[i][j][0], d[i][j][1]);
      store_pair(c, m, n, top + 8, left, d[i][j][2], d[i][j][3]);
    }
  }
  // [/epilogue]
}
