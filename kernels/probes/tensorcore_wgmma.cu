// tensorcore_wgmma · what one wgmma computes, bit by bit, for thousands of independent instructions
//
//   D (64, N) = A (64 × 32 bytes) · B (N × 32 bytes)ᵀ + C (64, N)
//
// What it probes: the arithmetic alone. Block i runs instruction i on its own operands. A row of
// either operand is 32 bytes for every type (16 f16, 8 tf32, 32 e4m3 …), so one kernel serves all
// of them: INSTRUCTION says which. Results that are f16 lie in pairs in 32-bit words.
//
// Launch: one block of 128 threads an instruction. Outputs: d.
#include "mbarrier.cuh"
#include "wgmma.cuh"

#ifndef INSTRUCTION
#define INSTRUCTION wgmma_f32_f16_f16
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR float  // float, int, or unsigned for pairs of f16
#endif
#ifndef WORDS
#define WORDS 256  // 32-bit words in a row of C and D: N, or N/2 for pairs of f16
#endif
#ifndef A_IN_REGISTERS
#define A_IN_REGISTERS 0
#endif
#ifndef SIGNS
#define SIGNS  // <-1, 1> negates A
#endif
#ifndef SCALE_D
#define SCALE_D 1  // 0: D = A · B, and C is not read
#endif
constexpr int N = 256, THREADS = 128;

// Bytes from the start of a tile to piece `chunk` (0, 1) of 16 bytes of a row: core matrices.
__device__ inline int piece(int row, int chunk) {
  return (row / 8 * 2 + chunk) * 128 + row % 8 * 16;
}

__device__ inline unsigned long long descriptor(const void* tile) {
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  return kFixed | ((shared_address(tile) & 0x3ffff) >> 4);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
tensorcore_wgmma(const uint4* a, const uint4* b, const ACCUMULATOR* c, ACCUMULATOR* d_out) {
  __shared__ alignas(128) unsigned char tile_a[64 * 32];
  __shared__ alignas(128) unsigned char tile_b[N * 32];
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  a += blockIdx.x * 64 * 2;
  b += blockIdx.x * N * 2;
  c += blockIdx.x * 64 * WORDS;
  d_out += blockIdx.x * 64 * WORDS;

  for (int i = thread; i < 64 * 2; i += THREADS)
    *reinterpret_cast<uint4*>(tile_a + piece(i / 2, i % 2)) = a[i];
  for (int i = thread; i < N * 2; i += THREADS)
    *reinterpret_cast<uint4*>(tile_b + piece(i / 2, i % 2)) = b[i];
  fence_proxy_async();
  __syncthreads();

  // Where register r of this thread lies in a (64, WORDS) matrix.
  auto place = [=](int r) {
    const int row = warp * 16 + lane / 4;
    if (WORDS == N) return (row + r / 2 % 2 * 8) * WORDS + r / 4 * 8 + lane % 4 * 2 + r % 2;
    return (row + r % 2 * 8) * WORDS + r / 2 * 4 + lane % 4;
  };
  ACCUMULATOR d[WORDS / 2];
#pragma unroll
  for (int r = 0; r < WORDS / 2; ++r) d[r] = SCALE_D ? c[place(r)] : ACCUMULATOR(0);
#if A_IN_REGISTERS
  unsigned fragment[4];
#pragma unroll
  for (int r = 0; r < 4; ++r)
    fragment[r] = *reinterpret_cast<unsigned*>(
        tile_a + piece(warp * 16 + r % 2 * 8 + lane / 4, r / 2) + lane % 4 * 4);
#endif
  wgmma_fence();
#if A_IN_REGISTERS
  INSTRUCTION<N>::rs SIGNS(d, fragment, descriptor(tile_b), SCALE_D);
#else
  INSTRUCTION<N>::ss SIGNS(d, descriptor(tile_a), descriptor(tile_b), SCALE_D);
#endif
  wgmma_commit_group();
  wgmma_wait_group<0>();
#pragma unroll
  for (int r = 0; r < WORDS / 2; ++r) d_out[place(r)] = d[r];
}
