// operand_overwritten_cluster · a stage is released to the wrong block of the cluster
//
// The block of rank 0 loads for both by multicast, so it needs to hear from both that the tile is
// free. Here each block tells its own producer.
//
// Rule (PTX ISA, wgmma.mma_async): shared memory that it reads may be overwritten only when its group
// is complete, whoever overwrites it.
//
// in (2 steps): A and B. out (2, 128, N / 2): SIZE times A₀·B₀ᵀ + A₁·B₁ᵀ, by each block.
// Launch: 1 cluster of 2 blocks of 256 threads.
#include "hazard.cuh"

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
operand_overwritten_cluster(const unsigned* in, float* out) {
  __shared__ alignas(128) unsigned char tiles[TILES];
  __shared__ unsigned long long full, empty;
#ifdef FIXED
  constexpr unsigned RELEASES = 256;  // of both blocks
#else
  constexpr unsigned RELEASES = 128;
#endif
  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_init(&empty, RELEASES);
  }
  cluster_sync();

  if (threadIdx.x == 128) {
    for (int step = 0; step < 2; ++step) {
      if (step > 0 && cluster_rank() == 0) mbarrier_wait_parity(&empty, 0);
      if (step > 0 && cluster_rank() != 0) mbarrier_wait_parity(&full, 0);
      mbarrier_arrive_expect_tx(&full, TILES);
      if (cluster_rank() == 0)
        bulk_load_multicast(  // HERE
            tiles, own(in, TILES / 2, 2) + step * (TILES / 4), TILES, &full, 3);
    }
  }
  if (threadIdx.x < 128) {
    float d[SUMS];
    for (int step = 0; step < 2; ++step) {
      mbarrier_wait_parity(&full, step);
      wgmma_fence();
      for (int n = 0; n < SIZE; ++n)
        wgmma_f32_f16_f16<N>::ss(
            d, descriptor_plain(tiles), descriptor_plain(tiles + A_BYTES), step + n > 0);
      wgmma_commit_group();
      wgmma_wait_group<0>();
#ifdef FIXED
      if (step == 0) mbarrier_arrive_at_rank(&empty, 0);
#else
      if (step == 0) mbarrier_arrive_at_rank(&empty, cluster_rank());
#endif
    }
    for (int i = 0; i < SUMS; ++i) own(out, 128 * SUMS)[threadIdx.x * SUMS + i] = d[i];
  }
  __syncwarp();
  cluster_sync();
}
