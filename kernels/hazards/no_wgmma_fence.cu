// no_wgmma_fence · the accumulator is loaded, and no wgmma.fence stands between that and the wgmma
//
// Rule (PTX ISA, wgmma.fence): it orders accesses to a wgmma's registers before the wgmma; it is
// needed before the first wgmma, and whenever other instructions have touched the registers.
//
// in: A and B; start (128, N / 2): what the sum starts from. out (128, N / 2): A·Bᵀ + start.
// Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
no_wgmma_fence(const unsigned* in, const float* start, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();

  float d[SUMS];
  for (int i = 0; i < SUMS; ++i) {
    d[i] = own(start, 128 * SUMS)[threadIdx.x * SUMS + i];
    asm volatile("" : "+f"(d[i]) :: "memory");  // here it is loaded, and no later
  }
#ifdef FIXED
  wgmma_fence();
#endif
  wgmma_f32_f16_f16<N>::ss(  // HERE
      d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), true);
  wgmma_commit_group();
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
