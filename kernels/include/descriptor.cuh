// The 64-bit matrix descriptor: how wgmma is told where in shared memory an operand lies.
#pragma once

#include "mbarrier.cuh"

// [descriptor]
// A K-major tile of 16-bit elements, rows of 64 (128 bytes), written by TMA with the 128-byte
// swizzle. Eight rows make one 1024-byte swizzle atom; the next eight rows follow it.
//   bits  0–13  start address >> 4
//   bits 16–29  leading byte offset >> 4: unused in this mode, 1 by convention
//   bits 32–45  stride byte offset >> 4: 1024 bytes from one group of eight rows to the next
//   bits 49–51  base offset: 0, for tiles that start on a multiple of 1024 bytes
//   bits 62–63  swizzle mode: 1 = 128 bytes
__device__ inline unsigned long long descriptor_k_major_128b(const void* tile) {
  constexpr unsigned long long kFixed = (1ull << 62) | (1024ull >> 4 << 32) | (1ull << 16);
  return kFixed | ((shared_address(tile) & 0x3ffff) >> 4);
}
// [/descriptor]

// [advance]
// The descriptor of what lies `elements` (of 16 bits, a multiple of 8) behind the start of another:
// a step along K inside a swizzled row, or whole atoms. The address is the low part, counted in
// 16 bytes; a tile lies in the first 227 KB, so that the sum stays in its 14 bits.
__device__ inline unsigned long long descriptor_advance(unsigned long long descriptor, int elements) {
  return (descriptor & 0xffffffff00000000) | (static_cast<unsigned>(descriptor) + elements * 2 / 16);
}
// [/advance]
