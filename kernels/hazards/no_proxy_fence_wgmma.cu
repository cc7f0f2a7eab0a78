// no_proxy_fence_wgmma · ordinary stores, a barrier, and a wgmma reads what they wrote
//
// Rule (PTX ISA, wgmma: proxies): wgmma accesses shared memory through the async proxy, so a
// fence.proxy.async stands between ordinary stores and it. wgmma.fence is about registers.
//
// in: A and B. out (128, N / 2): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_proxy_fence_wgmma(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
#ifdef FIXED
  fence_proxy_async();
#endif
  __syncthreads();
  float d[SUMS];
  wgmma_fence();
  wgmma_f32_f16_f16<N>::ss(  // HERE
      d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
