// no_wgmma_fence · the accumulator is loaded, and no wgmma.fence stands between that and the wgmma
//
// Rule (PTX ISA, wgmma.fence): it orders accesses to a wgmma's registers before the wgmma; it is
// needed before the first wgmma, and whenever other instructions have touched the registers.
//
// in: A and B; start (128, 4): what the sum starts from. out (128, 4): A·Bᵀ + start.
// Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_wgmma_fence(const unsigned* in, const float* start, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, in, TILES);
  fence_proxy_async();
  __syncthreads();

  float d[4];
  for (int i = 0; i < 4; ++i) {
    d[i] = start[threadIdx.x * 4 + i];
    asm volatile("" : "+f"(d[i]) :: "memory");  // here it is loaded, and no later
  }
#ifdef FIXED
  wgmma_fence();
#endif
  wgmma_f32_f16_f16<8>::ss(  // HERE
      d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), true);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
