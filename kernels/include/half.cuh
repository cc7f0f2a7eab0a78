// fp16 without a header from the toolkit: 16 bits to store, one PTX conversion to make them.
#pragma once

using half = unsigned short;  // the bits of an IEEE binary16 number

// Two fp32 values, rounded to nearest even, packed into 32 bits: `first` in the low half.
__device__ inline unsigned pack_half2(float first, float second) {
  unsigned packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}
