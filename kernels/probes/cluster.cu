// cluster · what the blocks of a cluster see of each other
//
// What it probes: shared addresses. What a block's own variable looks like (cvta), where mapa puts
// it in another block, which rank getctarank reads out of an address, which space isspacep says a
// generic address lies in. Then the cluster's barrier in all its forms, with threads that exit.
//
// Launch: clusters of CLUSTER blocks. Outputs: see each kernel.
#ifndef CLUSTER
#define CLUSTER 4
#endif

__device__ inline unsigned rank() {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline unsigned is_shared(unsigned long long generic, bool of_cluster) {
  unsigned r;
  if (of_cluster)
    asm volatile("{\n.reg .pred p;\nisspacep.shared::cluster p, %1;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(r) : "l"(generic));
  else
    asm volatile("{\n.reg .pred p;\nisspacep.shared::cta p, %1;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(r) : "l"(generic));
  return r;
}

constexpr int OWN = 14, EACH = 10;

// One thread a block. Outputs `own` (block, OWN): addresses of the block's variable and who it is;
// `each` (block, CLUSTER, EACH): the same variable in each block of the cluster. A generic address
// appears less that of the block's own variable.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
cluster_addresses(unsigned* own, unsigned* each) {
  __shared__ unsigned other[3];
  __shared__ unsigned variable[5];
  extern __shared__ unsigned dynamic[];
  own += blockIdx.x * OWN;
  each += blockIdx.x * CLUSTER * EACH;
  variable[0] = other[0] = dynamic[0] = rank();
  const unsigned address = shared_address(variable);
  const unsigned long long generic = reinterpret_cast<unsigned long long>(&variable[0]);
  unsigned direct, from_rank, nctarank, ctaid, nctaid, clusterid, nclusterid, explicitly;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(from_rank) : "r"(address));
  asm volatile("getctarank.u64 %0, %1;" : "=r"(direct) : "l"(generic));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(nctarank));
  asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(ctaid));
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(nctaid));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(clusterid));
  asm volatile("mov.u32 %0, %%nclusterid.x;" : "=r"(nclusterid));
  asm volatile("{\n.reg .pred p;\nmov.pred p, %%is_explicit_cluster;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(explicitly));
  const unsigned facts[OWN] = {
      address,  shared_address(other), shared_address(dynamic), rank(), from_rank, direct, nctarank,
      ctaid,    nctaid,                clusterid,               nclusterid, explicitly,
      is_shared(generic, false), is_shared(generic, true)};
  for (int k = 0; k < OWN; ++k) own[k] = facts[k];
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
  for (unsigned target = 0; target < CLUSTER; ++target, each += EACH) {
    unsigned mapped, mapped_rank, wide_rank, value, through_generic;
    unsigned long long wide;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(target));
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(wide) : "l"(generic), "r"(target));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(mapped_rank) : "r"(mapped));
    asm volatile("getctarank.u64 %0, %1;" : "=r"(wide_rank) : "l"(wide));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(mapped));
    asm volatile("ld.u32 %0, [%1];" : "=r"(through_generic) : "l"(wide));
    const unsigned long long apart = wide - generic;
    const unsigned facts[EACH] = {
        mapped, mapped_rank, static_cast<unsigned>(apart), static_cast<unsigned>(apart >> 32),
        wide_rank, value, through_generic, is_shared(wide, false), is_shared(wide, true),
        shared_address(reinterpret_cast<void*>(wide))};
    for (int k = 0; k < EACH; ++k) each[k] = facts[k];
  }
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

#define STORE_REMOTE(ADDRESS, VALUE) \
  asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(ADDRESS), "r"(VALUE) : "memory")

// ROUNDS of a ring: each thread writes into the block before and reads what the block behind wrote,
// with every form of the barrier. `a`: a value a thread. Output `out` (round, thread).
constexpr int ROUNDS = 4, THREADS = 128;
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
cluster_ring(const unsigned* a, unsigned* out) {
  __shared__ volatile unsigned mailbox[ROUNDS][THREADS];
  const unsigned thread = threadIdx.x, threads = gridDim.x * THREADS;
  const unsigned i = blockIdx.x * THREADS + thread;
  unsigned value = a[i];
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // every block runs
  for (int round = 0; round < ROUNDS; ++round) {
    unsigned remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(remote)
                 : "r"(shared_address(const_cast<unsigned*>(&mailbox[round][thread]))),
                   "r"((rank() + CLUSTER - 1) % CLUSTER));
    STORE_REMOTE(remote, value);
    if (round % 2) {
      asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
      out[round * threads + i] = value;
      asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    } else if (thread % 32 < 9) {  // not aligned: each path arrives and waits
      asm volatile("barrier.cluster.arrive.release;" ::: "memory");
      out[round * threads + i] = value + 1;
      asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
    } else {
      asm volatile("barrier.cluster.arrive;" ::: "memory");
      out[round * threads + i] = value + 2;
      asm volatile("barrier.cluster.wait;" ::: "memory");
    }
    value = value * 5 + mailbox[round][thread];
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Threads that have exited are not waited for. `exits`: the round before which a thread leaves.
// It leaves by exit: behind a return, the compiler lets it wait for the rest of its warp (BSYNC), and
// that waits for it at the barrier, for ever. Output `out` (thread): rounds that it took part in.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
cluster_exits(const unsigned* exits, unsigned* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned last = exits[i];
  for (unsigned round = 0; round < 3; ++round) {
    if (last == round) {
      out[i] = round;
      asm volatile("exit;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
  }
  out[i] = 3;
}
