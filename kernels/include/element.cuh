// What A, B and C are made of: fp16, or bf16 with -DBF16=1. Either is 16 bits, so that tiles,
// swizzle and descriptors are the same; what multiplies, and what rounds the sums, is not.
#pragma once

#include "half.cuh"
#include "launch_facts.cuh"
#include "wgmma.cuh"

#ifndef BF16
#define BF16 0
#endif

// [element]
using Element = unsigned short;  // the bits of one

#if BF16
template <int N> using wgmma_f32 = wgmma_f32_bf16_bf16<N>;
#else
template <int N> using wgmma_f32 = wgmma_f32_f16_f16<N>;
#endif

// Two fp32 values, rounded to nearest even, packed into 32 bits: `first` in the low half.
__device__ inline unsigned pack_elements(float first, float second) {
#if BF16
  unsigned packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
#else
  return pack_half2(first, second);
#endif
}
// [/element]

#if BF16
LAUNCH_FACT(bf16, 1);  // so that the host passes bf16; fp16 states nothing
#endif
