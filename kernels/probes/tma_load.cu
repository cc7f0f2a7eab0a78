// tma_load · where TMA puts the bytes of a box, for every rank, swizzle, element size and corner
//
// What it probes: the order of a box in shared memory, the swizzle at destinations that are
// multiples of 128 bytes but not of the pattern, and what is read outside the tensor. Block i loads
// the box with corner plan[i][0 … 4] (contiguous axis first) to byte plan[i][5] of its shared
// memory, which was 0xFF, and dumps all of it. HINT: a prefetch goes before it, and a cache policy
// with it; without LOAD the prefetch is alone, and nothing lands.
//
// Launch: one block of 128 threads a box, dynamic shared memory of `dumped` bytes. Outputs: dump.
#include "tma_probe.cuh"

#ifndef RANK
#define RANK 2
#endif
#ifndef DESTINATION
#define DESTINATION "shared::cluster"
#endif
#ifndef HINT
#define HINT 0
#endif
#ifndef LOAD
#define LOAD 1
#endif

#if RANK == 1
#define COORDINATES "{%3}"
#elif RANK == 2
#define COORDINATES "{%3, %4}"
#elif RANK == 3
#define COORDINATES "{%3, %4, %5}"
#elif RANK == 4
#define COORDINATES "{%3, %4, %5, %6}"
#else
#define COORDINATES "{%3, %4, %5, %6, %7}"
#endif
#define STRING(x) #x
#define DIM(rank) STRING(rank) "d"

extern "C" __global__ void __launch_bounds__(THREADS, 1)
tma_load(const __grid_constant__ TensorMap map, const int* plan, unsigned char* dump, int* landed,
         int bytes, int dumped) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ unsigned long long barrier;
  plan += blockIdx.x * 6;
  blank(tile, dumped);
  fence_proxy_async();
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&barrier, bytes);
#if HINT
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.bulk.prefetch.tensor." DIM(RANK) ".L2.global.tile [%0, " COORDINATES "];"
                 :: "l"(&map), "r"(0), "r"(0), "r"(plan[0]), "r"(plan[1]), "r"(plan[2]),
                    "r"(plan[3]), "r"(plan[4]) : "memory");
#if LOAD
    asm volatile(
        "cp.async.bulk.tensor." DIM(RANK) "." DESTINATION
        ".global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, " COORDINATES
        "], [%2], %8;"
        :: "r"(shared_address(tile) + plan[5]), "l"(&map), "r"(shared_address(&barrier)),
           "r"(plan[0]), "r"(plan[1]), "r"(plan[2]), "r"(plan[3]), "r"(plan[4]), "l"(policy)
        : "memory");
#endif
#else
    asm volatile(
        "cp.async.bulk.tensor." DIM(RANK) "." DESTINATION
        ".global.mbarrier::complete_tx::bytes [%0], [%1, " COORDINATES "], [%2];"
        :: "r"(shared_address(tile) + plan[5]), "l"(&map), "r"(shared_address(&barrier)),
           "r"(plan[0]), "r"(plan[1]), "r"(plan[2]), "r"(plan[3]), "r"(plan[4]) : "memory");
#endif
  }
  const int done = LOAD ? landed_in_time(&barrier) : 0;
  if (threadIdx.x == 0) landed[blockIdx.x] = done;
  copy_bytes(dump + blockIdx.x * dumped, tile, dumped);
}
