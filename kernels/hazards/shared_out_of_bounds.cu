// shared_out_of_bounds · a tile of A begins so late that its rows reach past the block's shared memory
//
// Rule (CUDA C++ Programming Guide, shared memory): a block accesses what it was launched with.
//
// in: A and B. out (128, N / 2): the product.
// Launch: 1 block of 128 threads, 2304 bytes of dynamic shared memory.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
shared_out_of_bounds(const unsigned* in, float* out) {
  extern __shared__ unsigned char tiles[];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();
#ifdef FIXED
  const unsigned char* a = tiles;
#else
  const unsigned char* a = tiles + 1024;
#endif
  float d[SUMS];
  wgmma_fence();
  wgmma_f32_f16_f16<N>::ss(  // HERE
      d, descriptor_plain(a), descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
