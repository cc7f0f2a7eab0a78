// mbarrier: a 64-bit object in shared memory that counts arrivals and bytes, phase by phase.
// Each function issues the one PTX instruction it is named after.
#pragma once

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// One thread, before anyone uses the barrier. A phase completes after `arrivals` arrivals and
// after every byte announced by expect_tx has landed.
__device__ inline void mbarrier_init(unsigned long long* barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// `count` arrivals at a barrier of the thread's own block.
__device__ inline void mbarrier_arrive(unsigned long long* barrier, unsigned count = 1) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

// One arrival, and `bytes` more bytes to wait for in the current phase.
__device__ inline void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Any number of threads: returns once the phase of this parity (0, 1, 0, 1 …) has completed. One
// bit is enough, because nobody can be more than one phase behind.
// What the phase waited for, TMA's writes included, is then visible to the caller.
__device__ inline void mbarrier_wait_parity(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAIT;\n"
      "}\n" :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Every thread that accessed shared memory by ordinary loads and stores, before TMA or wgmma
// accesses the same bytes: these go through another path to memory, the async proxy.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
