// fragment_map · the instruction tells its own map
//
//   D (64, N) = A (64, K) · B (N, K)ᵀ, stored register by register, as the threads hold it
//
// What it teaches: which thread finds element (i, j) of D in which register, and which element of A
// a thread passes. Nothing here knows either. The host chooses A and B so that each element of D
// names its own row, or its own column; where the name turns up is the instruction's doing.
//
// OPERAND_BITS chooses the instruction, K is always 32 bytes:
//   16  f32.f16.f16, or f16.f16.f16 with PACKED_SUMS (two sums a register)
//    8  s32.u8.u8
//   32  f32.tf32.tf32
// A_FROM_REGISTERS: `a` is not a matrix but the four registers of each thread, 128 × 4 words.
// Launch: one block of 128 threads. `held` (128, registers): what each thread holds.
#include "core_matrix.cuh"
#include "launch_facts.cuh"
#include "wgmma.cuh"

#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef OPERAND_BITS
#define OPERAND_BITS 16
#endif
#ifndef PACKED_SUMS
#define PACKED_SUMS 0
#endif
#ifndef A_FROM_REGISTERS
#define A_FROM_REGISTERS 0
#endif
constexpr int TILE_M = 64;
constexpr int TILE_K = 256 / OPERAND_BITS;
constexpr int THREADS = 128;
constexpr int ROW_WORDS = 8;  // 32 bytes of K, whatever their type

// [instruction]
#if OPERAND_BITS == 8
using Sum = int;
using Wgmma = wgmma_s32_u8_u8<TILE_N>;
#elif OPERAND_BITS == 32
using Sum = float;
using Wgmma = wgmma_f32_tf32_tf32<TILE_N>;
#elif PACKED_SUMS
using Sum = unsigned;  // two f16
using Wgmma = wgmma_f16_f16_f16<TILE_N>;
#else
using Sum = float;
using Wgmma = wgmma_f32_f16_f16<TILE_N>;
#endif
constexpr int REGISTERS = PACKED_SUMS ? TILE_N / 4 : TILE_N / 2;
// [/instruction]

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(OPERAND_BITS != 8 || TILE_N <= 32 || TILE_N % 16 == 0,
              "N of a wgmma on integers: above 32 only multiples of 16");
static_assert(OPERAND_BITS == 16 || !PACKED_SUMS, "packed sums are shown with fp16 operands");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

// Rows of 32 bytes, copied as words; an index of core_matrix_index counts 16-bit elements.
__device__ inline void copy_rows(unsigned* tile, const unsigned* rows, int count) {
#pragma unroll 1  // nothing to gain, and the PTX stays short enough to read
  for (int i = threadIdx.x; i < count * ROW_WORDS; i += THREADS)
    tile[core_matrix_index<16>(i / ROW_WORDS, i % ROW_WORDS * 2) / 2] = rows[i];
}

__device__ inline unsigned long long descriptor_of(const unsigned* tile) {
  return descriptor_k_major_unswizzled<16>(reinterpret_cast<const half*>(tile));
}

extern "C" __global__ void __launch_bounds__(THREADS)
fragment_map(const unsigned* a, const unsigned* b, Sum* held) {
  __shared__ alignas(128) unsigned tile_b[TILE_N * ROW_WORDS];  // core matrices
  copy_rows(tile_b, b, TILE_N);
  Sum d[REGISTERS];
#if A_FROM_REGISTERS
  // [from-registers]
  fence_proxy_async();
  __syncthreads();
  unsigned mine[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) mine[r] = a[threadIdx.x * 4 + r];
  wgmma_fence();  // orders the registers of D, and now those of A too
  Wgmma::rs(d, mine, descriptor_of(tile_b), /*scale_d=*/false);
  // [/from-registers]
#else
  __shared__ alignas(128) unsigned tile_a[TILE_M * ROW_WORDS];
  copy_rows(tile_a, a, TILE_M);
  fence_proxy_async();
  __syncthreads();
  wgmma_fence();
  Wgmma::ss(d, descriptor_of(tile_a), descriptor_of(tile_b), /*scale_d=*/false);
#endif
  wgmma_commit_group();
  wgmma_wait_group<0>();
  // [held]
#pragma unroll
  for (int r = 0; r < REGISTERS; ++r) held[threadIdx.x * REGISTERS + r] = d[r];
  // [/held]
}
