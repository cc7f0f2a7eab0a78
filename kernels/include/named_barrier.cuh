// Named barriers: a block has sixteen, for as many of its warps as the callers say.
// Number 0 is that of __syncthreads(). `threads` counts all who come to a barrier, those that wait and
// those that only arrive: a multiple of 32, and the same number in every call.
// Each function issues the one PTX instruction it is named after, and whole warps call it.
#pragma once

// Waits until `threads` threads have come. What they wrote before is then visible to the caller.
__device__ inline void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// Comes, and goes on without waiting.
__device__ inline void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}
