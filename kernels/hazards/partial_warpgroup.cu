// partial_warpgroup · two of the four warps of a warpgroup issue a wgmma
//
// Rule (PTX ISA, wgmma.mma_async): .sync.aligned, all threads of the warpgroup execute the same
// instruction.
//
// in: A and B. out (128, N / 2): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
partial_warpgroup(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();

#ifndef FIXED
  if (threadIdx.x >= 64) return;
#endif
  float d[SUMS];
  wgmma_fence();  // HERE
  wgmma_f32_f16_f16<N>::ss(d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
