// memory_remote · st.async and red.async: values for another block, counted by its mbarrier
//
//   out[block][w] = word w of each block's inbox, after all values have arrived
//
// What it probes: which bytes a store or a reduction changes over there, and that the mbarrier
// beside them counts them: a block reads only after its phase has completed.
//
// Launch: 4 blocks of 32 threads in clusters of 2. Outputs: out.
constexpr int THREADS = 32, BLOCKS = 2, WORDS = 1024;

#define MBARRIER ".shared::cluster.mbarrier::complete_tx::bytes"
#define REDUCE(OP, CELL, VALUE)                                                               \
  asm volatile("red.async.relaxed.cluster" MBARRIER "." OP " [%0], %1, [%2];"                 \
               ::"r"(inbox + 4 * (CELL)), "r"(VALUE), "r"(there) : "memory");

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
memory_remote(const unsigned* values, unsigned* out) {
  __shared__ __align__(16) unsigned words[WORDS];
  __shared__ unsigned long long barrier;
  const int t = threadIdx.x;
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  values += (blockIdx.x * THREADS + t) * 4;
  for (int w = t; w < WORDS; w += THREADS) words[w] = w < 512 ? 0xFFFFFFFF : w * 1000;
  const unsigned bar = __cvta_generic_to_shared(&barrier);
  // Bytes that a phase brings: see the sum below; each of the two phases has half of the stores.
  constexpr unsigned FIRST = THREADS * (4 + 8 + 8 + 16 + 16 + 8 + 4), SECOND = THREADS * (8 * 4 + 2 * 8);
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(FIRST) : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");

  unsigned inbox, there;
  const unsigned peer = rank ^ 1;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(inbox) : "r"((unsigned)__cvta_generic_to_shared(words)), "r"(peer));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(bar), "r"(peer));
  unsigned long long generic_inbox, generic_bar;
  asm("mapa.u64 %0, %1, %2;" : "=l"(generic_inbox) : "l"(words), "r"(peer));
  asm("mapa.u64 %0, %1, %2;" : "=l"(generic_bar) : "l"(&barrier), "r"(peer));
  const unsigned a = values[0], b = values[1], c = values[2], d = values[3];
  const unsigned long long wide = (unsigned long long)b << 32 | a, other = ~wide;
  auto at = [&](int word) { return inbox + 4 * word; };

  asm volatile("st.async" MBARRIER ".u32 [%0], %1, [%2];" ::"r"(at(t)), "r"(a), "r"(there) : "memory");
  asm volatile("st.async.weak" MBARRIER ".b64 [%0], %1, [%2];"
               ::"r"(at(32 + 2 * t)), "l"(wide), "r"(there) : "memory");
  asm volatile("st.async" MBARRIER ".v2.s32 [%0], {%1, %2}, [%3];"
               ::"r"(at(96 + 2 * t)), "r"(c), "r"(d), "r"(there) : "memory");
  asm volatile("st.async" MBARRIER ".v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
               ::"r"(at(160 + 4 * t)), "r"(d), "r"(c), "r"(b), "r"(a), "r"(there) : "memory");
  asm volatile("st.async" MBARRIER ".v2.u64 [%0], {%1, %2}, [%3];"
               ::"r"(at(288 + 4 * t)), "l"(other), "l"(wide), "r"(there) : "memory");
  asm volatile("st.async" MBARRIER ".f64 [%0], %1, [%2];"
               ::"r"(at(416 + 2 * t)), "d"(__longlong_as_double(other)), "r"(there) : "memory");
  asm volatile("st.async.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
               ::"l"(generic_inbox + 4 * (480 + t)), "f"(__uint_as_float(b)), "l"(generic_bar) : "memory");
  auto wait = [&](unsigned parity) {
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                   " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  };
  wait(0);
  __syncwarp();
  if (t == 0)
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(SECOND) : "memory");
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");

  // Threads meet in four cells an operation: results that do not depend on the order.
  REDUCE("add.u32", 512 + t % 4, a)
  REDUCE("add.s32", 516 + t % 4, b)
  REDUCE("min.s32", 520 + t % 4, c)
  REDUCE("max.u32", 524 + t % 4, d)
  REDUCE("and.b32", 528 + t % 4, a | 0xF0F0F0F0)
  REDUCE("or.b32", 532 + t % 4, b & 0x0F0F0F0F)
  REDUCE("xor.b32", 536 + t % 4, c)
  if (t % 2) {
    REDUCE("inc.u32", 540 + t % 4, 600000u)
  } else {
    REDUCE("dec.u32", 540 + t % 4, 600000u)
  }
  asm volatile("red.async.relaxed.cluster" MBARRIER ".add.u64 [%0], %1, [%2];"
               ::"r"(at(544 + t % 4 * 2)), "l"(wide), "r"(there) : "memory");
  asm volatile("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.s64 [%0], %1, [%2];"
               ::"l"(generic_inbox + 4 * (552 + t % 4 * 2)), "l"(other), "l"(generic_bar) : "memory");
  wait(1);
  __syncwarp();
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  for (int w = t; w < WORDS; w += THREADS) out[blockIdx.x * WORDS + w] = words[w];
}
