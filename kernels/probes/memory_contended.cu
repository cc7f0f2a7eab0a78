// memory_contended · threads that meet: atomics on few cells, a lock, and a flag between blocks
//
//   cells[k]: what all threads of the grid made of one cell by operation k
//
// What it probes: that no update is lost, and that release and acquire hand data over. Only
// results that do not depend on an order are kept.
//
// Launch: 4 blocks of 64 threads; all are resident, so that a block may wait for another.
// Outputs: cells, messages, sums.
constexpr int THREADS = 64, BLOCKS = 4, CELLS = 32;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_contended(const unsigned* values, unsigned* cells, unsigned* messages, unsigned* flags,
                 unsigned* sums) {
  __shared__ unsigned tile[CELLS], lock, protected_sum, ticket_sum;
  __shared__ unsigned short pair[2];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  const unsigned value = values[i];
  if (t < CELLS) tile[t] = t == 3 ? ~0u : 0;
  if (t == 0) lock = 0, protected_sum = 0, ticket_sum = 0, pair[0] = pair[1] = 0;
  __syncthreads();
#define BOTH(OP, CELL, VALUE)                                                                 \
  asm volatile("red.global." OP " [%0], %1;" ::"l"(cells + CELL), "r"(VALUE) : "memory");     \
  asm volatile("red.shared." OP " [%0], %1;"                                                  \
               ::"r"((unsigned)__cvta_generic_to_shared(tile + CELL)), "r"(VALUE) : "memory");
  BOTH("add.u32", 0, value)
  BOTH("or.b32", 1, value & 0x11111111u << t % 4)
  BOTH("xor.b32", 2, value)
  BOTH("and.b32", 3, value | 0xFFF0000Fu)
  BOTH("min.s32", 4, value)
  BOTH("max.u32", 5, value)
  BOTH("inc.u32", 6, 9u)
  BOTH("dec.u32", 7, 12u)
  BOTH("add.f32", 8, __float_as_uint((float)(value & 1023)))  // small integers: any order is exact
  BOTH("add.noftz.f16x2", 9, 0x3C004000u)                     // 2 and 1: exact as well
  BOTH("add.s32", 10 + t % 7, t - 40)
  // Every thread draws a ticket of its own: their sum is known.
  unsigned ticket, drawn;
  asm volatile("atom.global.inc.u32 %0, [%1], 1000;" : "=r"(ticket) : "l"(cells + 20) : "memory");
  asm volatile("atom.shared.add.u32 %0, [%1], 1;"
               : "=r"(drawn) : "r"((unsigned)__cvta_generic_to_shared(tile + 20)) : "memory");
  atomicAdd(cells + 21, ticket * ticket);
  atomicAdd(&ticket_sum, drawn * drawn);
  // A sum by compare-and-swap, and 16-bit cells side by side.
  unsigned seen = *(volatile unsigned*)(cells + 22);
  for (unsigned assumed;;) {
    assumed = seen;
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(seen) : "l"(cells + 22), "r"(assumed), "r"(assumed + value) : "memory");
    if (seen == assumed) break;
  }
  for (bool done = false; !done;) {
    const unsigned short assumed16 = *(volatile unsigned short*)(pair + t % 2);
    unsigned short seen16;
    asm volatile("atom.shared.cas.b16 %0, [%1], %2, %3;"
                 : "=h"(seen16)
                 : "r"((unsigned)__cvta_generic_to_shared(pair + t % 2)), "h"(assumed16),
                   "h"((unsigned short)(assumed16 + t)) : "memory");
    done = seen16 == assumed16;
  }
  // A lock: one thread of the block after the other adds without an atomic operation.
  for (bool done = false; !done;) {
    unsigned taken;
    asm volatile("atom.acquire.cta.shared.exch.b32 %0, [%1], 1;"
                 : "=r"(taken) : "r"((unsigned)__cvta_generic_to_shared(&lock)) : "memory");
    if (!taken) {
      *(volatile unsigned*)&protected_sum = *(volatile unsigned*)&protected_sum + value;
      asm volatile("st.release.cta.shared.u32 [%0], 0;"
                   ::"r"((unsigned)__cvta_generic_to_shared(&lock)) : "memory");
      done = true;
    }
  }
  // Each block passes a message to the next one, with another pair of fences each time.
  if (t == 0) {
    unsigned carried = values[0];
    if (blockIdx.x > 0) {
      unsigned ready = 0;
      while (!ready)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(ready) : "l"(flags + blockIdx.x - 1) : "memory");
      carried = messages[blockIdx.x - 1];
    }
    messages[blockIdx.x] = carried * 3 + blockIdx.x;
    if (blockIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flags) : "memory");
    if (blockIdx.x == 1) {
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flags + 1) : "memory");
    }
    if (blockIdx.x > 1) {
      asm volatile("membar.gl;" ::: "memory");
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(flags + blockIdx.x) : "memory");
    }
  }
  // Fences in every form; none of them changes a value.
  asm volatile("fence.sc.cta; fence.sc.cluster; fence.sc.gpu; fence.sc.sys; fence.acq_rel.cta;"
               "fence.acq_rel.cluster; fence.acq_rel.sys; fence.acquire.gpu; fence.release.gpu;"
               "membar.cta; membar.sys; fence.proxy.alias; fence.proxy.async;"
               "fence.proxy.async.global; fence.proxy.async.shared::cta;"
               "fence.proxy.async.shared::cluster; fence.mbarrier_init.release.cluster;"
               "fence.acquire.sync_restrict::shared::cluster.cluster;"
               "fence.release.sync_restrict::shared::cta.cluster;" ::: "memory");
  __syncthreads();
  if (t < CELLS) sums[blockIdx.x * CELLS + t] = tile[t];
  if (t == 23) sums[blockIdx.x * CELLS + 23] = protected_sum;
  if (t == 24) sums[blockIdx.x * CELLS + 24] = ticket_sum;
  if (t == 25) sums[blockIdx.x * CELLS + 25] = pair[0] * 65536u + pair[1];
}
