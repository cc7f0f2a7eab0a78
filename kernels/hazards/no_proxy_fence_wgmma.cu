// no_proxy_fence_wgmma · ordinary stores, a barrier, and a wgmma reads what they wrote
//
// Rule (PTX ISA, wgmma: proxies): wgmma accesses shared memory through the async proxy, so a
// fence.proxy.async stands between ordinary stores and it. wgmma.fence is about registers.
//
// in: A and B. out (128, 4): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_proxy_fence_wgmma(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, in, TILES);
#ifdef FIXED
  fence_proxy_async();
#endif
  __syncthreads();
  float d[4];
  wgmma_fence();
  wgmma_f32_f16_f16<8>::ss(  // HERE
      d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
