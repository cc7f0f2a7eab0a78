// The plainest epilogue: two neighbouring fp32 accumulators become two 16-bit elements of C.
#pragma once

#include "half.cuh"

// [store]
// Columns `column` and `column + 1` of one row of C. With an odd N every second row starts at an
// odd element, where a 4-byte store would be misaligned; so those go one by one. kPack rounds to
// the type of C, fp16 unless told otherwise.
template <unsigned (*kPack)(float, float) = pack_half2>
__device__ inline void store_pair(half* c, int m, int n, int row, int column, float first,
                                  float second) {
  if (row >= m || column >= n) return;
  unsigned packed = kPack(first, second);
  half* target = c + static_cast<long long>(row) * n + column;  // 64-bit: C may pass 4 GB
  if (n % 2 == 0) {
    *reinterpret_cast<unsigned*>(target) = packed;
  } else {
    target[0] = packed & 0xffff;
    if (column + 1 < n) target[1] = packed >> 16;
  }
}
// [/store]
