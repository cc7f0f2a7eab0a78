// one_warp_release · one thread of a warpgroup waits for its wgmma and releases the tile for all
//
// Rule: wgmma.wait_group makes the executing warp wait. That the operands are read for the other three
// warps, too, the PTX ISA does not say; libraries of NVIDIA count on it.
//
// in (2 steps): A and B. out (128, N / 2): SIZE times A₀·B₀ᵀ + A₁·B₁ᵀ. Launch: 1 block of 256 threads.
#include "hazard.cuh"

#ifdef FIXED
constexpr int RELEASES = 4;  // a thread of each warp
#else
constexpr int RELEASES = 1;
#endif

extern "C" __global__ void __launch_bounds__(256)
one_warp_release(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, RELEASES);
  }
  __syncthreads();

  if (threadIdx.x >= 128) {  // the producer: one thread of the second warpgroup
    if (threadIdx.x > 128) return;
    for (int step = 0; step < 2; ++step) {
      if (step > 0) mbarrier_wait_parity(&empty, 0);
      mbarrier_arrive_expect_tx(&full, TILES);
      bulk_load(tiles, own(in, TILES / 2) + step * (TILES / 4), TILES, &full);  // HERE
    }
    return;
  }
  float d[SUMS];
  for (int step = 0; step < 2; ++step) {
    mbarrier_wait_parity(&full, step);
    wgmma_fence();
    for (int n = 0; n < SIZE; ++n)
      wgmma_f32_f16_f16<N>::ss(
          d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), step + n > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    if (threadIdx.x % 32 == 0 && threadIdx.x / 32 < RELEASES) mbarrier_arrive(&empty);
  }
  for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
}
