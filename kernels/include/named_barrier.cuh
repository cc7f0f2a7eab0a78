// Named barriers: bar.sync with a number of its own, for part of a block. __syncthreads() is number 0.
// Each function issues the one PTX instruction it is named after.
#pragma once

// Waits until `threads` threads, whole warps, have come to barrier `id`, or announced that they did.
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// Announces the caller, and does not wait.
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}
