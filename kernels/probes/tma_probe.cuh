// What the probes of TMA share: shared memory that shows what nobody wrote, and its dump.
#pragma once

#include "tma.cuh"

constexpr int THREADS = 128;

// All threads. 0xFF in every byte, and then whatever a copy writes on top of it.
__device__ inline void blank(unsigned char* shared, int bytes) {
  for (int at = threadIdx.x * 16; at < bytes; at += THREADS * 16)
    *reinterpret_cast<uint4*>(shared + at) = make_uint4(~0u, ~0u, ~0u, ~0u);
}

// All threads. Input bytes to shared memory, or shared memory to an output.
__device__ inline void copy_bytes(unsigned char* to, const unsigned char* from, int bytes) {
  for (int at = threadIdx.x * 16; at < bytes; at += THREADS * 16)
    *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
}

// Any thread. Waits for a barrier's first phase, but not for ever: whether it has completed.
__device__ inline int landed_in_time(unsigned long long* barrier) {
  int done = 0;
  for (int tries = 0; tries < 1000 && !done; ++tries)
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;\n"
        "selp.s32 %0, 1, 0, done;\n"
        "}\n" : "=r"(done) : "r"(shared_address(barrier)) : "memory");
  return done;
}

// Every thread of every block of the cluster: arrive and wait.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The shared address of the same variable in the block of another rank.
__device__ inline unsigned address_in(unsigned address, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
