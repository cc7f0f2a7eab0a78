// stmatrix: a warp's fragments into shared memory, whole rows of eight elements at a time.
#pragma once

#include "mbarrier.cuh"

// The whole warp: four 8×8 matrices of 16-bit elements. Lanes 8i … 8i + 7 bring the addresses of the
// rows of matrix i; the lanes' words `a`, `b`, `c`, `d` are the matrices 0 to 3, two elements a lane.
__device__ inline void stmatrix_x4(const void* row, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(shared_address(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
