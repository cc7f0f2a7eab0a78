// wgmma_layout · where in shared memory wgmma reads each element of an operand
//
//   D (64, N) = A (64 × 32 bytes) · B (N × 32 bytes)ᵀ
//
// What it probes: any descriptor. Each element of a region of shared memory holds its own number,
// digit by digit (a pass each, as a type's exact integers are few). The operand under test comes
// from there through a descriptor; the other one is an identity matrix in core matrices, the layout
// that is known. So D says of every element where it was read, and the registers that D arrives in
// say which thread holds what.
//
// With TEST_REGISTERS A comes from registers that are numbered the same way, and no descriptor is
// under test.
//
// Launch: one block of 128 threads a descriptor; `descriptors` count from the start of the region.
// Dynamic shared memory: 1024 + REGION_BYTES + 8192. Outputs: d, as the threads hold it.
#include "mbarrier.cuh"
#include "wgmma.cuh"

#ifndef INSTRUCTION
#define INSTRUCTION wgmma_f32_f16_f16
#endif
#ifndef TILE_N
#define TILE_N 32
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR float  // float, int, or unsigned for pairs of f16
#endif
#ifndef REGISTERS
#define REGISTERS (TILE_N / 2)  // of a thread's accumulators: N/2, or N/4 for pairs of f16
#endif
#ifndef TEST_A
#define TEST_A 0  // 1: A is under test; 0: B is
#endif
#ifndef TEST_REGISTERS
#define TEST_REGISTERS 0
#endif
#ifndef FLAGS
#define FLAGS  // <1, 1, 0, 1>: B is MN-major
#endif
#ifndef REGION_BYTES
#define REGION_BYTES 32768
#endif
constexpr int THREADS = 128, IDENTITY_ROWS = TEST_A || TEST_REGISTERS ? TILE_N : 64;
static_assert(REGION_BYTES % 1024 == 0 && IDENTITY_ROWS * 32 <= 8192, "what a launch provides");

// Core matrices: 8 rows of 16 bytes each, two side by side along K.
__device__ inline unsigned long long known(unsigned address) {
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  return kFixed | address >> 4;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_layout(const uint4* region, const uint4* identity, const unsigned long long* descriptors,
             const unsigned* held, ACCUMULATOR* d_out, int passes) {
  extern __shared__ unsigned char dynamic[];
  const int thread = threadIdx.x;
  unsigned char* base = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  uint4* tested = reinterpret_cast<uint4*>(base);
  uint4* other = reinterpret_cast<uint4*>(base + REGION_BYTES);
  const unsigned address = shared_address(base);

  for (int i = thread; i < IDENTITY_ROWS * 2; i += THREADS) {
    int row = i / 2, piece = i % 2;
    other[(row / 8 * 2 + piece) * 8 + row % 8] = identity[i];
  }
  for (int pass = 0; pass < passes; ++pass) {
    __syncthreads();
#if !TEST_REGISTERS
    for (int i = thread; i < REGION_BYTES / 16; i += THREADS)
      tested[i] = region[pass * (REGION_BYTES / 16) + i];
#endif
    fence_proxy_async();
    __syncthreads();

    ACCUMULATOR d[REGISTERS];
#if TEST_REGISTERS
    unsigned a[4];
    for (int r = 0; r < 4; ++r) a[r] = held[(pass * THREADS + thread) * 4 + r];
    wgmma_fence();
    INSTRUCTION<TILE_N>::rs FLAGS(d, a, known(address + REGION_BYTES), false);
#else
    const unsigned long long descriptor = descriptors[blockIdx.x] + (address >> 4);
    wgmma_fence();
#if TEST_A
    INSTRUCTION<TILE_N>::ss FLAGS(d, descriptor, known(address + REGION_BYTES), false);
#else
    INSTRUCTION<TILE_N>::ss FLAGS(d, known(address + REGION_BYTES), descriptor, false);
#endif
#endif
    wgmma_commit_group();
    wgmma_wait_group<0>();
#pragma unroll
    for (int r = 0; r < REGISTERS; ++r)
      d_out[((blockIdx.x * passes + pass) * THREADS + thread) * REGISTERS + r] = d[r];
  }
}
