// What the kernels with one broken rule share: small tiles, and thin wrappers of instructions that
// the book's kernels do not need.
//
// A tile of A is 64×16 fp16, one of B N×16, both in core matrices without a swizzle, as the host
// laid them out. Outputs: what a kernel copies, or the 64×N product as the threads hold it.
//
// Two things change when something happens, and no rule: SIZE, how large tiles are and how often a
// step multiplies; and how many blocks or clusters run. Each has inputs and outputs of its own, so
// the shapes that a kernel states are those of one.
#pragma once

#include "mbarrier.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

#ifndef SIZE
#define SIZE 1
#endif
constexpr int N = 8 * SIZE, SUMS = N / 2;  // SUMS: accumulators of a thread
constexpr int A_BYTES = 64 * 16 * 2, B_BYTES = N * 16 * 2, TILES = A_BYTES + B_BYTES;
constexpr int WORDS = 256 * SIZE, BYTES = 4 * WORDS;  // of a tile that is copied

// The part of an array that belongs to this block, or to its cluster of `blocks`.
template <class T>
__device__ inline T* own(T* array, int count, int blocks = 1) {
  return array + blockIdx.x / blocks * count;
}

// Eight rows of 16 bytes make a core matrix; the next along K lies 128 bytes on, the next along M
// or N 256 bytes on.
__device__ inline unsigned long long descriptor_plain(const void* tile) {
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  return kFixed | (shared_address(tile) & 0x3ffff) >> 4;
}

// All threads of the block. Words from global to shared memory, by ordinary loads and stores.
__device__ inline void copy_words(void* to, const unsigned* from, int bytes) {
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x)
    static_cast<unsigned*>(to)[i] = from[i];
}

// One thread. Contiguous bytes to shared memory, reported to `barrier`.
__device__ inline void bulk_load(void* to, const void* from, unsigned bytes,
                                 unsigned long long* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// The same to every block of the cluster whose bit is set in `mask`, each at the same place.
__device__ inline void bulk_load_multicast(void* to, const void* from, unsigned bytes,
                                           unsigned long long* barrier, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;"
      :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(mask)
      : "memory");
}

// One thread. Contiguous bytes from shared to global memory, in the thread's next bulk group.
__device__ inline void bulk_store(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
}

__device__ inline void bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until the thread's bulk groups have read their sources.
__device__ inline void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// An arrival at the barrier at this place in the block of another rank.
__device__ inline void mbarrier_arrive_at_rank(unsigned long long* barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
      "}\n" :: "r"(shared_address(barrier)), "r"(rank) : "memory");
}

// The word at this place in the block of another rank.
__device__ inline unsigned load_from_rank(const unsigned* word, unsigned rank) {
  unsigned value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.u32 %0, [there];\n"
      "}\n" : "=r"(value) : "r"(shared_address(word)), "r"(rank) : "memory");
  return value;
}

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Every thread of the cluster.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
