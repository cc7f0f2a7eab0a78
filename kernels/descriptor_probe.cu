// descriptor_probe · where does a descriptor lead?
//
//   D (64, N) = A (64 × 32 bytes) · B (N × 32 bytes)ᵀ, one of the two an identity matrix
//
// What it teaches: what a descriptor means, by asking the instruction. Shared memory holds its own
// numbers: element i of a region is i. One operand is read from there through the descriptor under
// test, the other is an identity matrix; so each element of D is the number of the place where
// wgmma read. Few numbers are exact in a narrow type, so a pass writes one hexadecimal digit of
// each number, and four passes give all of it.
//
// TEST_A = 1: A is under test, else B. MN_MAJOR = 1: it is read MN-major (16-bit types only).
// INSTRUCTION, ITEM, SUM: a wgmma of wgmma.cuh, the bits of an operand's and of D's element.
// Launch: one block of 128 threads a descriptor; descriptors count from the region's start.
// `sixteen`: the numbers 0 to 15 in the type under test. Out: (descriptors, 64, N) numbers.
#include "core_matrix.cuh"
#include "half.cuh"
#include "launch_facts.cuh"
#include "wgmma.cuh"

#ifndef INSTRUCTION
#define INSTRUCTION wgmma_f32_f16_f16
#define ITEM half
#define SUM float
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef TEST_A
#define TEST_A 0
#endif
#ifndef MN_MAJOR
#define MN_MAJOR 0
#endif
constexpr int TILE_M = 64;
constexpr int TILE_K = 32 / sizeof(ITEM);  // a wgmma is 32 bytes deep, whatever the type
constexpr int THREADS = 128;
constexpr int REGION = 32768 / sizeof(ITEM);          // elements that a descriptor can lead to
constexpr int OTHER_ROWS = TEST_A ? TILE_N : TILE_M;  // of the identity
constexpr int PIECE = 16 / sizeof(ITEM);              // elements of a core matrix's row

static_assert(TILE_N % 8 == 0 && TILE_N <= 256, "N of a wgmma: a multiple of 8 up to 256");
static_assert(!TEST_A || TILE_N >= TILE_K, "the identity needs as many rows as K is deep");
static_assert(!MN_MAJOR || sizeof(ITEM) == 2, "only 16-bit types can be read MN-major");

LAUNCH_FACT(tile_m, TILE_M);
LAUNCH_FACT(tile_n, TILE_N);
LAUNCH_FACT(tile_k, TILE_K);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);

extern "C" __global__ void __launch_bounds__(THREADS)
descriptor_probe(const ITEM* sixteen, const unsigned long long* descriptors, int* number_out) {
  __shared__ alignas(1024) ITEM region[REGION];
  __shared__ alignas(128) ITEM identity[OTHER_ROWS * TILE_K];

  // [identity]
  for (int i = threadIdx.x; i < OTHER_ROWS * TILE_K; i += THREADS) {
    int row = i / TILE_K, k = i % TILE_K;
    int core_matrix = row / 8 * 2 + k / PIECE;
    identity[(core_matrix * 8 + row % 8) * PIECE + k % PIECE] = sixteen[row == k];
  }
  // 32 bytes of K are what 16 columns of fp16 take.
  const unsigned long long known =
      descriptor_k_major_unswizzled<16>(reinterpret_cast<const half*>(identity));
  // [/identity]
  const unsigned long long tested = descriptors[blockIdx.x] + (shared_address(region) >> 4);

  int number[TILE_N / 2] = {};
  for (int digit = 0; digit < 4; ++digit) {
    // [numbers]
    for (int i = threadIdx.x; i < REGION; i += THREADS)
      region[i] = sixteen[i >> 4 * digit & 15];
    fence_proxy_async();
    __syncthreads();
    // [/numbers]

    // [read]
    SUM d[TILE_N / 2];
    wgmma_fence();
#if MN_MAJOR
    INSTRUCTION<TILE_N>::ss<1, 1, TEST_A, !TEST_A>(
        d, TEST_A ? tested : known, TEST_A ? known : tested, false);
#else
    INSTRUCTION<TILE_N>::ss(d, TEST_A ? tested : known, TEST_A ? known : tested, false);
#endif
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (int r = 0; r < TILE_N / 2; ++r) number[r] |= static_cast<int>(d[r]) << 4 * digit;
    __syncthreads();  // all four warps have read this digit
    // [/read]
  }

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int* out = number_out + blockIdx.x * TILE_M * TILE_N;
#pragma unroll
  for (int r = 0; r < TILE_N / 2; ++r) {
    int row = warp * 16 + lane / 4 + r / 2 % 2 * 8;
    int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
    out[row * TILE_N + column] = number[r];
  }
}
