// mbarrier_cluster · barriers that another block arrives at
//
// What it probes: arrive, arrive_drop, expect_tx and complete_tx on a barrier in the next block of
// the cluster, through shared::cluster and generic addresses; the owner waits.
//
// Launch: clusters of CLUSTER blocks of 64 threads. `a`: a value a thread. Output `out` (ROUNDS,
// thread): what the block before has sent.
#include "mbarrier.cuh"

#ifndef CLUSTER
#define CLUSTER 2
#endif
constexpr int THREADS = 64, ROUNDS = 6;

#define SYNCHRONISE() asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory")
#define REMOTE(FORM, OPERANDS, ...) \
  asm volatile("mbarrier." FORM ".b64 " OPERANDS ";" :: __VA_ARGS__ : "memory")

__device__ inline void wait(unsigned barrier, unsigned parity) {
  asm volatile("{\n.reg .pred p;\nAGAIN:\n"
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra AGAIN;\n}\n" :: "r"(barrier), "r"(parity) : "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
mbarrier_cluster(const unsigned* a, unsigned* out) {
  __shared__ unsigned long long object;
  __shared__ volatile unsigned mailbox[ROUNDS][THREADS];
  const unsigned thread = threadIdx.x, i = blockIdx.x * THREADS + thread;
  const unsigned threads = gridDim.x * THREADS, next = (blockIdx.x % CLUSTER + 1) % CLUSTER;
  const unsigned own = shared_address(&object);
  unsigned barrier, box;
  unsigned long long generic;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(own), "r"(next));
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(generic) : "l"(&object), "r"(next));
  if (thread == 0) {
    mbarrier_init(&object, THREADS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  SYNCHRONISE();
  for (int round = 0; round < ROUNDS; ++round) {
    const unsigned mine =
        shared_address(const_cast<unsigned*>(&mailbox[round][thread]));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(box) : "r"(mine), "r"(next));
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(box), "r"(a[i] + round) : "memory");
    switch (round) {
      case 0: REMOTE("arrive.release.cluster.shared::cluster", "_, [%0]", "r"(barrier)); break;
      case 1: REMOTE("arrive.release.cluster", "_, [%0], %1", "l"(generic), "r"(1)); break;
      case 2:  // every thread announces 16 bytes, and says that they came
        REMOTE("arrive.expect_tx.release.cluster.shared::cluster", "_, [%0], %1", "r"(barrier),
               "r"(16));
        REMOTE("complete_tx.relaxed.cluster.shared::cluster", "[%0], %1", "r"(barrier), "r"(16));
        break;
      case 3:  // the bytes come first
        REMOTE("complete_tx.relaxed.cluster.shared::cluster", "[%0], %1", "r"(barrier), "r"(48));
        REMOTE("expect_tx.relaxed.cluster.shared::cluster", "[%0], %1", "r"(barrier), "r"(40));
        REMOTE("arrive.expect_tx.release.cluster.shared::cluster", "_, [%0], %1", "r"(barrier),
               "r"(8));
        break;
      case 4:  // half of the threads speak for two, and drop one of them
        if (thread % 2) {
          REMOTE("arrive.release.cluster.shared::cluster", "_, [%0]", "r"(barrier));
          REMOTE("arrive_drop.release.cluster.shared::cluster", "_, [%0]", "r"(barrier));
        }
        break;
      default:
        if (thread % 2) REMOTE("arrive.release.cluster", "_, [%0]", "l"(generic));
    }
    wait(own, round & 1);
    // In round 4 half of the threads say nothing, so only the others' letters are ordered.
    if (round < 4 || thread % 2) out[round * threads + i] = mailbox[round][thread];
    SYNCHRONISE();  // or a fast block's next arrival would count for this phase
  }
}
