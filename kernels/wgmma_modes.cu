// wgmma_modes · does it matter to wgmma how its operands lie?
//
// What it teaches: the same product from any layout that a descriptor can describe, and what it
// costs. It is the kernel `ceiling` with its layout taken out: the host lays the tiles out and
// describes them, the kernel copies that image to shared memory and multiplies, over and over.
//
//   D (128, N) fp32 of each block = rounds since the last restart · A (128, 64) · B (N, 64)ᵀ
//
// A_MN, B_MN = 1: that operand is MN-major. Both come from shared memory.
// `image`: A, then B, as they lie. Descriptors count from the image's start. Step s of the four
// along K lies (s % 2)·step + (s / 2)·pair behind the first, in units of 16 bytes; the second
// warpgroup's rows of A lie `a_group` units behind the first's.
// Launch: blocks of 256 threads, one an SM. Each warpgroup writes %clock64 before and after.
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef A_MN
#define A_MN 0
#endif
#ifndef B_MN
#define B_MN 0
#endif
constexpr int WARPGROUPS = 2;
constexpr int TILE_M = 64 * WARPGROUPS;
constexpr int TILE_K = 64;
constexpr int STEPS = TILE_K / 16;  // instructions of a round, of one warpgroup
constexpr int THREADS = 128 * WARPGROUPS;
constexpr int SUMS = TILE_N <= 64 ? STEPS : TILE_N <= 128 ? 2 : 1;  // as in `ceiling`
constexpr int RESTART = 128;                                        // rounds: D starts anew
constexpr int IMAGE_BYTES = (TILE_M + TILE_N) * TILE_K * sizeof(half);

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, IMAGE_BYTES + 1024);  // dynamic, 1024 to round its start up
LAUNCH_FACT(cluster, 1);

__device__ inline long long clock_now() {
  long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
  return now;
}

extern "C" __global__ void __launch_bounds__(THREADS)
wgmma_modes(const uint4* image, unsigned long long desc_a, unsigned long long desc_b, int a_step,
            int a_pair, int a_group, int b_step, int b_pair, float* d_out, long long* clocks,
            int rounds) {
  extern __shared__ char dynamic[];
  // [image]
  char* shared = dynamic + (-shared_address(dynamic) & 1023);
  for (int i = threadIdx.x; i < IMAGE_BYTES / 16; i += THREADS)
    reinterpret_cast<uint4*>(shared)[i] = image[i];
  fence_proxy_async();
  __syncthreads();
  // [/image]

  // The shuffle tells the compiler that a warp's lanes agree: descriptors go to uniform registers.
  const int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  desc_a += (shared_address(shared) >> 4) + group * a_group;
  desc_b += shared_address(shared) >> 4;
  float d[SUMS][TILE_N / 2];
  const long long start = clock_now();
  // [loop]
#pragma unroll 4
  for (int round = 0; round < rounds; ++round) {
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
      const unsigned long long a = desc_a + s % 2 * a_step + s / 2 * a_pair;
      const unsigned long long b = desc_b + s % 2 * b_step + s / 2 * b_pair;
      const bool add = round % RESTART + s / SUMS > 0;
      wgmma_f32_f16_f16<TILE_N>::ss<1, 1, A_MN, B_MN>(d[s % SUMS], a, b, add);
    }
    wgmma_commit_group();
    wgmma_wait_group<3>();
  }
  wgmma_wait_group<0>();
  // [/loop]
  const long long end = clock_now();

  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  if (threadIdx.x % 128 == 0) {
    long long* mine = clocks + (blockIdx.x * WARPGROUPS + group) * 2;
    mine[0] = start, mine[1] = end;
  }
  float* out = d_out + (static_cast<long long>(blockIdx.x) * TILE_M + group * 64) * TILE_N;
#pragma unroll
  for (int r = 0; r < TILE_N / 2; ++r) {
    int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
    int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    float sum = d[0][r];
#pragma unroll
    for (int s = 1; s < SUMS; ++s) sum += d[s][r];
    out[row * TILE_N + column] = sum;
  }
}
