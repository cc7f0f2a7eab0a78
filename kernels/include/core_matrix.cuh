// Core matrices: how a K-major operand of wgmma lies in shared memory when nothing is swizzled.
#pragma once

#include "half.cuh"
#include "mbarrier.cuh"

// [place]
// A core matrix is 8 rows of 16 bytes (8 fp16 values of K), 128 bytes in one piece.
// A tile of `kDepth` columns keeps those of its first eight rows side by side, then
// those of the next eight. The index, in elements, of row `row` and column `k`:
template <int kDepth>
__device__ constexpr int core_matrix_index(int row, int k) {
  int core_matrix = row / 8 * (kDepth / 8) + k / 8;
  return core_matrix * 64 + row % 8 * 8 + k % 8;
}
// [/place]

// [descriptor]
// The descriptor of such a tile, as 64 bits:
//   bits  0–13  start address >> 4
//   bits 16–29  leading byte offset >> 4: to the next core matrix along K
//   bits 32–45  stride byte offset >> 4: to the core matrix eight rows further
//   bits 62–63  swizzle mode: 0 = none
template <int kDepth>
__device__ inline unsigned long long descriptor_k_major_unswizzled(
    const half* tile) {
  constexpr unsigned long long kLeading = 128, kStride = kDepth / 8 * 128;
  constexpr unsigned long long kFixed = (kStride >> 4 << 32) | (kLeading >> 4 << 16);
  return kFixed | ((shared_address(tile) & 0x3ffff) >> 4);
}
// [/descriptor]
