// protocol_loop · a loop in which every step of the protocol is needed
//
//   C (M, TILE_N) fp32 = A (M, K) fp16 · B (TILE_N, K)ᵀ int8, all row-major.
//
// What it teaches: what fence, mma, commit and wait order, and what they leave to mbarriers and to
// fence.proxy.async. A tile of A comes by TMA; B is int8 in memory, and threads convert it to fp16,
// so its tile is written by ordinary stores. One group of wgmmas runs while the next tiles come.
//
// M is a multiple of 64, K of 64 and not 0. REPEAT: how often a group multiplies its tiles; 1 for
// a product. More makes a group run longer, and leaves a race more time to show.
// Launch: M / 64 blocks of 256 threads: warps 0–3 multiply, warps 4–7 bring the tiles.
#include "descriptor.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef REPEAT
#define REPEAT 1
#endif
constexpr int TILE_M = 64, TILE_K = 64;  // rows of one instruction; a row of 128 bytes
constexpr int STAGES = 2, THREADS = 256;
constexpr unsigned BYTES_A = TILE_M * TILE_K * sizeof(half);

static_assert(TILE_N % 8 == 0 && TILE_N <= 112, "a multiple of 8; two stages fit 48 KB");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, STAGES);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);  // dynamic; the tiles below are static
LAUNCH_FACT(cluster, 1);

// [convert]
// 128 threads. A tile (TILE_N, 64) of B as fp16, where the 128-byte swizzle has it: in row r, the
// 16-byte piece p lies at place p ^ r % 8. Each thread takes four neighbours of k at a time.
__device__ inline void store_b(half* tile, const signed char* b, int k, int thread) {
  for (int i = thread; i < TILE_N * 16; i += 128) {
    const int row = i / 16, piece = i % 16 / 2, half_piece = i % 2;
    const char4 four = *reinterpret_cast<const char4*>(b + row * k + i % 16 * 4);
    uint2* pieces = reinterpret_cast<uint2*>(tile + row * TILE_K);  // halves of 16 bytes
    pieces[(piece ^ row % 8) * 2 + half_piece] = make_uint2(pack_half2(four.x, four.y), pack_half2(four.z, four.w));
  }
}
// [/convert]

extern "C" __global__ void __launch_bounds__(THREADS, 1)
protocol_loop(const __grid_constant__ TensorMap map_a, const signed char* b, float* c, int k) {
  // [setup]
  __shared__ alignas(1024) half tile_a[STAGES][TILE_M * TILE_K];  // 128-byte swizzle, both
  __shared__ alignas(1024) half tile_b[STAGES][TILE_N * TILE_K];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  const int row = blockIdx.x * TILE_M, steps = k / TILE_K;
  const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
  const bool multiplies = threadIdx.x < 128;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1 + 128);  // who asks TMA, and every thread that stores B
      mbarrier_init(&empty[stage], 4);       // each warp that multiplies
    }
  }
  __syncthreads();  // the barriers are there
  // [/setup]

  if (!multiplies) {
    // [bring]
    for (int step = 0; step < steps; ++step) {
      const int stage = step % STAGES;
      mbarrier_wait_parity(&empty[stage], step / STAGES % 2 ^ 1);  // its tiles are free
      if (thread == 0) {
        mbarrier_arrive_expect_tx(&full[stage], BYTES_A);
        tma_load_2d(tile_a[stage], &map_a, &full[stage], row, step * TILE_K);
      }
      store_b(tile_b[stage], b + step * TILE_K, k, thread);
      fence_proxy_async();  // these stores, before the tensor core's reads
      mbarrier_arrive(&full[stage]);
    }
    // [/bring]
    return;
  }

  // [multiply]
  float d[TILE_N / 2];  // this thread's share of 64 × TILE_N sums
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int stage = step % STAGES;
    mbarrier_wait_parity(&full[stage], step / STAGES % 2);  // its tiles are there
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < REPEAT * TILE_K / 16; ++i)
      wgmma_f32_f16_f16<TILE_N>::ss(
          d, descriptor_k_major_128b(tile_a[stage] + i % 4 * 16),
          descriptor_k_major_128b(tile_b[stage] + i % 4 * 16), /*scale_d=*/step + i > 0);
    wgmma_commit_group();
    wgmma_wait_group<1>();  // all groups but this one have retired
    if (step > 0 && lane == 0) mbarrier_arrive(&empty[(step - 1) % STAGES]);
  }
  wgmma_wait_group<0>();  // now this one, too
  // [/multiply]

  // [store]
  const int top = row + thread / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < TILE_N / 8; ++j) {
    float* left = c + top * TILE_N + j * 8 + lane % 4 * 2;
    left[0] = d[4 * j], left[1] = d[4 * j + 1];
    left[8 * TILE_N] = d[4 * j + 2], left[8 * TILE_N + 1] = d[4 * j + 3];
  }
  // [/store]
}
