// mma.sync: the tensor core as Ampere knew it. One warp, operands in registers, done on return.
#pragma once

#include "half.cuh"
#include "mbarrier.cuh"

// [swizzle]
// Where TMA's 128-byte swizzle put 16 bytes of a tile: byte offset of piece `chunk` (0–7) of row
// `row`. Rows are 128 bytes, and the tile starts on a multiple of 1024.
__device__ inline unsigned swizzled_128b(int row, int chunk) {
  return row * 128 + (chunk ^ row % 8) * 16;
}
// [/swizzle]

// [ldmatrix]
// The whole warp: four 8×8 matrices of fp16, shared memory to registers. Lanes 8i … 8i+7 bring the
// addresses of the eight rows of matrix i. Lane l receives, in register i, the elements 2(l%4) and
// 2(l%4) + 1 of row l/4 of matrix i.
__device__ inline void ldmatrix_x4(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
// [/ldmatrix]

// [mma]
// The whole warp: D (16×8, fp32) += A (16×16) · B (16×8), all of it in registers.
//   a[0], a[1]: rows 0–7 and 8–15 at k 0–7;  a[2], a[3]: the same rows at k 8–15
//   b0, b1:     k 0–7 and k 8–15, eight columns
//   d[0], d[1]: two neighbours in row l/4 of lane l;  d[2], d[3]: eight rows below
__device__ inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// [/mma]
