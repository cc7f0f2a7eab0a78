// accumulator_pending · accumulators are read before their wgmma is waited for
//
// Rule (PTX ISA, wgmma.wait_group): the accumulators of a wgmma may be accessed only behind a
// wait_group that covers it.
//
// in: A and B. out (128, N / 2): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
accumulator_pending(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();

  float d[SUMS];
  wgmma_fence();
  wgmma_f32_f16_f16<N>::ss(d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
#ifdef FIXED
  wgmma_wait_group<0>();
#endif
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];  // HERE
#ifndef FIXED
  wgmma_wait_group<0>();
#endif
}
