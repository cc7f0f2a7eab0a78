// TMA on the way out: boxes from shared to global memory, and the groups that tell when they are done.
// Each function issues the one PTX instruction it is named after.
#pragma once

#include "tma.cuh"

// One thread. Copies the box at `source` to the corner (row, column), clipped at the tensor's edges;
// it belongs to the thread's next bulk group. Whoever wrote the source by ordinary stores has
// executed fence_proxy_async(), and then a barrier.
__device__ inline void tma_store_2d(const TensorMap* map, const void* source, int row, int column) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
               :: "l"(map), "r"(shared_address(source)), "r"(column), "r"(row) : "memory");
}

// As tma_store_2d, but each element is added to the one in global memory, atomically, by the arithmetic of
// the type that the map names.
__device__ inline void tma_reduce_add_2d(const TensorMap* map, const void* source, int row,
                                         int column) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
      :: "l"(map), "r"(shared_address(source)), "r"(column), "r"(row) : "memory");
}

// One thread: what it has issued since its last commit is a group. Groups belong to the thread.
__device__ inline void tma_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// The thread that committed: until all but its last PENDING groups have read their sources, which
// may then be overwritten. That they have been written to global memory it does not say.
template <int PENDING>
__device__ inline void tma_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}
