// partial_warpgroup · two of the four warps of a warpgroup issue a wgmma
//
// Rule (PTX ISA, wgmma.mma_async): .sync.aligned, all threads of the warpgroup execute the same
// instruction.
//
// in: A and B. out (128, 4): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
partial_warpgroup(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, in, TILES);
  fence_proxy_async();
  __syncthreads();

#ifndef FIXED
  if (threadIdx.x >= 64) return;
#endif
  float d[4];
  wgmma_fence();  // HERE
  wgmma_f32_f16_f16<8>::ss(d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
