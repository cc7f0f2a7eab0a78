// none · a pipeline that uses every mechanism and breaks no rule
//
// Two blocks of a cluster share B: each loads half of it for both. A producer thread runs ahead by
// three stages; two consumer warpgroups keep one wgmma in flight and release the stage before, to
// the producers of both blocks; the product leaves through shared memory by bulk stores.
//
// a (2 blocks, 2 tiles, 7 steps): 128×16 fp16 as core matrices; b (2 tiles, 7 steps): 8×16.
// out (2 blocks, 2 tiles, 2 warpgroups, 128, 4): the products as the threads hold them.
// Launch: 1 cluster of 2 blocks of 384 threads.
#include "hazard.cuh"

constexpr int STAGES = 3, STEPS = 7, PRODUCTS = 2, BOTH_A = 2 * A_BYTES;
constexpr int WARPS = 8;  // of consumers, in a block

__device__ inline void warpgroup_sync(int barrier) {
  asm volatile("bar.sync %0, 128;" :: "r"(barrier) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
none(const unsigned char* a, const unsigned char* b, float* out) {
  __shared__ alignas(128) unsigned char tile_a[STAGES][BOTH_A], tile_b[STAGES][B_BYTES];
  __shared__ alignas(128) float tile_d[2][128][4];
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  const unsigned rank = cluster_rank();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], 2 * WARPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();

  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) {
      a += rank * PRODUCTS * STEPS * BOTH_A;
      for (int n = 0; n < PRODUCTS * STEPS; ++n) {
        const int stage = n % STAGES;
        mbarrier_wait_parity(&empty[stage], n / STAGES % 2 ^ 1);
        mbarrier_arrive_expect_tx(&full[stage], BOTH_A + B_BYTES);
        bulk_load(tile_a[stage], a + n * BOTH_A, BOTH_A, &full[stage]);
        bulk_load_multicast(tile_b[stage] + rank * (B_BYTES / 2),
                            b + n * B_BYTES + rank * (B_BYTES / 2), B_BYTES / 2, &full[stage], 3);
      }
    }
    __syncwarp();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
    const bool releases = thread % 32 == 0;
    int n = 0;
    for (int product = 0; product < PRODUCTS; ++product) {
      float d[4];
      for (int step = 0; step < STEPS; ++step, ++n) {
        const int stage = n % STAGES;
        mbarrier_wait_parity(&full[stage], n / STAGES % 2);
        wgmma_fence();
        wgmma_f32_f16_f16<8>::ss(d, descriptor_plain(tile_a[stage] + group * A_BYTES),
                                 descriptor_plain(tile_b[stage]), step > 0);
        wgmma_commit_group();
        if (step > 0) {
          wgmma_wait_group<1>();
          for (unsigned to = 0; to < 2 && releases; ++to)
            mbarrier_arrive_at_rank(&empty[(n - 1) % STAGES], to);
        }
      }
      wgmma_wait_group<0>();
      for (unsigned to = 0; to < 2 && releases; ++to)
        mbarrier_arrive_at_rank(&empty[(n - 1) % STAGES], to);

      if (thread == 0) bulk_wait_group_read();  // the last product's store
      warpgroup_sync(1 + group);
      for (int i = 0; i < 4; ++i) tile_d[group][thread][i] = d[i];
      fence_proxy_async();
      warpgroup_sync(1 + group);
      if (thread == 0) {
        bulk_store(out + ((rank * PRODUCTS + product) * 2 + group) * 512, tile_d[group], 2048);
        bulk_commit_group();
      }
    }
    if (thread == 0) bulk_wait_group_read();
    __syncwarp();
  }
  cluster_sync();
}
