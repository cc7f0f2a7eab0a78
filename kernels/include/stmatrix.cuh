// stmatrix: matrices of 8 × 8 16-bit elements go from a warp's registers to shared memory.
#pragma once

#include "mbarrier.cuh"

// The whole warp. Lanes 8i … 8i + 7 bring the addresses of the eight rows of matrix i, 16 bytes each;
// the matrix lies in register i of all lanes, as the accumulators of a wgmma do once they are pairs of
// 16-bit elements. An ordinary write: fence_proxy_async() before TMA reads it.
__device__ inline void stmatrix_x4(const void* row, unsigned a, unsigned b, unsigned c,
                                   unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(shared_address(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
