// ceiling · nothing but wgmma
//
// What it teaches: how fast the tensor cores go when nothing else happens. Two tiles are loaded
// once; then two warpgroups multiply them over and over, four K steps a round. A GEMM that loads,
// waits and stores reaches some share of this.
//
//   D (128, N) fp32 of each block = rounds since the last restart · A (128, 64) · B (N, 64)ᵀ
//
// A_FROM_REGISTERS = 0: both operands by descriptor (SS). 1: A from registers (RS).
// Launch: blocks of 256 threads, one an SM. Each warpgroup writes %clock64 and %globaltimer (ns)
// before and after its loop: cycles an instruction, whatever the clock was.
#include "descriptor.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "mbarrier.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef A_FROM_REGISTERS
#define A_FROM_REGISTERS 0
#endif
constexpr int WARPGROUPS = 2;
constexpr int TILE_M = 64 * WARPGROUPS;
constexpr int TILE_K = 64;              // a row of 128 bytes, the widest swizzle
constexpr int STEPS = TILE_K / 16;      // instructions of a round, of one warpgroup
constexpr int THREADS = 128 * WARPGROUPS;
// Sums of its own for each step, as long as the registers last: then no instruction of a round
// has to wait for the one before it.
constexpr int SUMS = TILE_N <= 64 ? STEPS : TILE_N <= 128 ? 2 : 1;
constexpr int RESTART = 128;            // rounds: D starts anew as often as with a K of 8192

constexpr unsigned BYTES_A = TILE_M * TILE_K * sizeof(half);
constexpr unsigned BYTES_B = TILE_N * TILE_K * sizeof(half);

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, BYTES_A + BYTES_B + 1024);  // dynamic, 1024 to round its start up
LAUNCH_FACT(cluster, 1);

__device__ inline void read_clocks(long long* out) {
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(out[0]) :: "memory");
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(out[1]) :: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
ceiling(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
        float* d_out, long long* clocks, int rounds) {
  extern __shared__ char dynamic[];
  __shared__ unsigned long long loaded;  // mbarrier: both tiles have landed
  // The swizzle repeats every 1024 bytes, so that is where tiles start.
  char* shared = dynamic + (-shared_address(dynamic) & 1023);
  const half* tile_a = reinterpret_cast<half*>(shared);            // (128, 64), 128-byte swizzle
  const half* tile_b = reinterpret_cast<half*>(shared + BYTES_A);  // (TILE_N, 64), the same

  if (threadIdx.x == 0) {
    mbarrier_init(&loaded, 1);
    fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&loaded, BYTES_A + BYTES_B);
    tma_load_2d(shared, &map_a, &loaded, 0, 0);
    tma_load_2d(shared + BYTES_A, &map_b, &loaded, 0, 0);
  }
  mbarrier_wait_parity(&loaded, 0);

  // The shuffle tells the compiler that a warp's lanes agree: descriptors go to uniform registers.
  const int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  tile_a += group * 64 * TILE_K;
#if A_FROM_REGISTERS
  // Lane l holds rows l/4 and l/4 + 8 of its warp's sixteen, at k = 2(l%4) and at k + 8.
  unsigned a[STEPS][4];
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int row = warp * 16 + lane / 4 + r % 2 * 8, piece = step * 2 + r / 2;  // of 16 bytes
      int swizzled = row * TILE_K + (piece ^ row % 8) * 8 + lane % 4 * 2;
      a[step][r] = *reinterpret_cast<const unsigned*>(tile_a + swizzled);
    }
  }
#else
  const unsigned long long desc_a = descriptor_k_major_128b(tile_a);
#endif
  const unsigned long long desc_b = descriptor_k_major_128b(tile_b);
  float d[SUMS][TILE_N / 2];
  long long start[2], end[2];
  read_clocks(start);
  // [loop]
#pragma unroll 4  // counting rounds must not cost more than the smallest wgmma
  for (int round = 0; round < rounds; ++round) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      const bool add = round % RESTART + step / SUMS > 0;
      float(&sums)[TILE_N / 2] = d[step % SUMS];
#if A_FROM_REGISTERS
      wgmma_f32_f16_f16<TILE_N>::rs(sums, a[step], desc_b + step * 2, add);
#else
      wgmma_f32_f16_f16<TILE_N>::ss(sums, desc_a + step * 2, desc_b + step * 2, add);
#endif
    }
    wgmma_commit_group();
    wgmma_wait_group<3>();  // at most four rounds in flight
  }
  wgmma_wait_group<0>();
  // [/loop]
  read_clocks(end);

  if (threadIdx.x % 128 == 0) {
    long long* mine = clocks + (blockIdx.x * WARPGROUPS + group) * 4;  // cycles, ns; cycles, ns
    mine[0] = start[0], mine[1] = start[1], mine[2] = end[0], mine[3] = end[1];
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
