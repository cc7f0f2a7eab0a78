// descriptor · a matrix descriptor has a bit set that Hopper's format does not have
//
// Rule (PTX ISA, Matrix Descriptor Format of wgmma): bits 46 to 48 belong to no field and are zero.
// Bit 46 is set in the format of the tensor cores that came after Hopper.
//
// in: A and B. out (128, N / 2): the product. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
descriptor(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();

#ifdef FIXED
  constexpr unsigned long long VERSION = 0;
#else
  constexpr unsigned long long VERSION = 1ull << 46;
#endif
  float d[SUMS];
  wgmma_fence();
  wgmma_f32_f16_f16<N>::ss(  // HERE
      d, descriptor_plain(tiles) | VERSION, descriptor_plain(tiles + A_BYTES), false);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
