// TMA: one thread asks, the copy engine moves a box of a tensor into shared memory.
#pragma once

#include "mbarrier.cuh"

// 128 opaque bytes, encoded on the host; pass it as `const __grid_constant__ TensorMap`.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// One thread. Copies the box whose corner is (row, column) to `destination`, zeros where it lies
// outside the tensor, and reports its bytes to `barrier`. TMA names the contiguous axis first,
// so the PTX coordinates are {column, row}.
__device__ inline void tma_load_2d(void* destination, const TensorMap* map,
                                   unsigned long long* barrier, int row, int column) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];"
      :: "r"(shared_address(destination)), "l"(map), "r"(shared_address(barrier)),
         "r"(column), "r"(row) : "memory");
}

// One thread. The same for a tensor of three axes; the corner is (plane, row, column).
__device__ inline void tma_load_3d(void* destination, const TensorMap* map,
                                   unsigned long long* barrier, int plane, int row, int column) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];"
      :: "r"(shared_address(destination)), "l"(map), "r"(shared_address(barrier)),
         "r"(column), "r"(row), "r"(plane) : "memory");
}

// One thread, early: fetches the descriptor itself, which otherwise costs the first copy a miss.
__device__ inline void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

// A whole warp, together: true in one of its lanes, always the same one.
__device__ inline bool elect_one() {
  unsigned elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(elected));
  return elected;
}
