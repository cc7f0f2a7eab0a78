// tma_store · what a tensor store, or a reduction into a tensor, leaves in global memory
//
// What it probes: the order and swizzle of a box on its way out, that elements outside the tensor
// are left alone, and the arithmetic of each reduction, whose type the map knows. One block fills
// its shared memory from `input` and performs `count` copies one after the other: from byte
// plan[i][5] of shared memory to the box with corner plan[i][0 … 4] (contiguous axis first).
// `operation`: 0 is a store, the others are the reductions in the order below.
//
// Launch: one block of 128 threads, dynamic shared memory of `bytes`. Outputs: tensor.
#include "tma_probe.cuh"

#ifndef RANK
#define RANK 2
#endif

#if RANK == 1
#define COORDINATES "{%2}"
#elif RANK == 2
#define COORDINATES "{%2, %3}"
#elif RANK == 3
#define COORDINATES "{%2, %3, %4}"
#elif RANK == 4
#define COORDINATES "{%2, %3, %4, %5}"
#else
#define COORDINATES "{%2, %3, %4, %5, %6}"
#endif
#define STRING(x) #x
#define DIM(rank) STRING(rank) "d"
#define ISSUE(number, before, after)                                                            \
  case number:                                                                                  \
    asm volatile(before ".async.bulk.tensor." DIM(RANK) ".global.shared::cta." after            \
                 ".bulk_group [%0, " COORDINATES "], [%1];"                                     \
                 :: "l"(map), "r"(source), "r"(plan[0]), "r"(plan[1]), "r"(plan[2]),            \
                    "r"(plan[3]), "r"(plan[4]) : "memory");                                     \
    break;

__device__ inline void issue(int operation, const TensorMap* map, unsigned source,
                             const int* plan) {
  switch (operation) {
    ISSUE(0, "cp", "tile")
    ISSUE(1, "cp.reduce", "add")
    ISSUE(2, "cp.reduce", "min")
    ISSUE(3, "cp.reduce", "max")
    ISSUE(4, "cp.reduce", "inc")
    ISSUE(5, "cp.reduce", "dec")
    ISSUE(6, "cp.reduce", "and")
    ISSUE(7, "cp.reduce", "or")
    ISSUE(8, "cp.reduce", "xor")
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
tma_store(const __grid_constant__ TensorMap map, void* tensor, int operation, const int* plan,
          int count, const unsigned char* input, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  copy_bytes(tile, input, bytes);
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 0; i < count; ++i, plan += 6) {
    issue(operation, &map, shared_address(tile) + plan[5], plan);
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
