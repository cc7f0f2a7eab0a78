// fragment_pending · the registers of an A fragment are loaded anew while a wgmma still reads them
//
// Rule (PTX ISA, wgmma.mma_async): registers that hold A may be accessed only behind a wait_group that
// covers the instruction.
//
// fragments (2, 128, 4): A of two steps, as the threads hold it; in: B behind 64×16 that are not used.
// out (128, N / 2): A₀·Bᵀ + A₁·Bᵀ. Launch: 1 block of 128 threads.
#include "hazard.cuh"

extern "C" __global__ void __launch_bounds__(128)
fragment_pending(const unsigned* fragments, const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  copy_words(tiles, own(in, TILES / 4), TILES);
  fence_proxy_async();
  __syncthreads();

  float d[SUMS];
#pragma unroll 1
  for (int step = 0; step < 2; ++step) {
    unsigned a[4];
    for (int i = 0; i < 4; ++i)
      a[i] = own(fragments, 1024)[(step * 128 + threadIdx.x) * 4 + i];  // HERE
    wgmma_fence();
    wgmma_f32_f16_f16<N>::rs(d, a, descriptor_plain(tiles + A_BYTES), step > 0);
    wgmma_commit_group();
#ifdef FIXED
    wgmma_wait_group<0>();
#endif
  }
  wgmma_wait_group<0>();
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
