// bank_conflicts · how long does shared memory take to answer a warp?
//
// What it teaches: what an access pattern costs. Each lane reads from a place of its own, the same
// again and again, while the clock runs. Which places is the host's choice: a column of a tile, a
// stride, with or without a swizzle.
//
// ACCESS_BYTES: 4, 8 or 16 a lane. LDMATRIX = 1: ldmatrix.x4, to which each lane gives the address
// of one row of 16 bytes.
// `offsets`: 32 byte offsets, one a lane, multiples of ACCESS_BYTES below 16 KB. Every word of
// shared memory holds its own number; `sums` (threads, words) is what each thread read, summed
// over all its accesses.
// Launch: one block of 512 threads, sixteen warps that read the same places. Each writes %clock64
// before and after: cycles. `step` is 0, which the compiler must not know: it would read once.
#include "launch_facts.cuh"
#include "mbarrier.cuh"

#ifndef ACCESS_BYTES
#define ACCESS_BYTES 16
#endif
#ifndef LDMATRIX
#define LDMATRIX 0
#endif
constexpr int THREADS = 512;
constexpr int WORDS = ACCESS_BYTES / 4;  // of an access
constexpr int UNROLL = 8;                // accesses of a round
constexpr int MEMORY_WORDS = 16384 / 4;

static_assert(WORDS == 1 || WORDS == 2 || WORDS == 4, "a lane reads 4, 8 or 16 bytes at once");
static_assert(!LDMATRIX || WORDS == 4, "ldmatrix reads rows of 16 bytes");

LAUNCH_FACT(tile_m, 8);
LAUNCH_FACT(tile_n, 8);
LAUNCH_FACT(tile_k, ACCESS_BYTES / 2);
LAUNCH_FACT(stages, 1);
LAUNCH_FACT(threads, THREADS);
LAUNCH_FACT(shared_bytes, 0);
LAUNCH_FACT(cluster, 1);
LAUNCH_FACT(unroll, UNROLL);

// [access]
__device__ inline void access(unsigned (&word)[WORDS], unsigned address) {
#if LDMATRIX
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(address));
#elif ACCESS_BYTES == 16
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "r"(address));
#elif ACCESS_BYTES == 8
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(word[0]), "=r"(word[1]) : "r"(address));
#else
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word[0]) : "r"(address));
#endif
}
// [/access]

__device__ inline long long clock_now() {
  long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
  return now;
}

extern "C" __global__ void __launch_bounds__(THREADS)
bank_conflicts(const int* offsets, unsigned* sums, long long* clocks, int rounds, int step) {
  __shared__ alignas(1024) unsigned memory[MEMORY_WORDS];
  for (int i = threadIdx.x; i < MEMORY_WORDS; i += THREADS) memory[i] = i;
  unsigned address = shared_address(memory) + offsets[threadIdx.x % 32];
  unsigned sum[WORDS] = {};
  __syncthreads();

  const long long start = clock_now();
  // [loop]
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
      unsigned word[WORDS];
      access(word, address);
      address += step;
#pragma unroll
      for (int w = 0; w < WORDS; ++w) sum[w] += word[w];
    }
  }
  // [/loop]
  const long long end = clock_now();

  for (int w = 0; w < WORDS; ++w) sums[threadIdx.x * WORDS + w] = sum[w];
  if (threadIdx.x % 32 == 0) {
    clocks[threadIdx.x / 32 * 2] = start;
    clocks[threadIdx.x / 32 * 2 + 1] = end;
  }
}
