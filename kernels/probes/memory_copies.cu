// memory_copies · cp.async: what arrives in shared memory, and when a wait says that it has
//
//   out[k][t][16 bytes] = the bytes that copy k of thread t left in shared memory
//
// What it probes: sizes, zero fill behind a source size, ignored sources (whose address may be
// wild), groups and their waits, and arrivals at an mbarrier with and without .noinc.
//
// Launch: 2 blocks of 64 threads. `bytes` holds 16 × 32 bytes a thread. Outputs: out, phases.
constexpr int THREADS = 64, COPIES = 24;

#define COPY(FORM, K, BYTES)                                                                  \
  asm volatile("cp.async." FORM " [%0], [%1], " #BYTES ";" ::"r"(to(K)), "l"(from(K)) : "memory");
#define COPY_SOME(FORM, K, BYTES, SOME)                                                       \
  asm volatile("cp.async." FORM " [%0], [%1], " #BYTES ", %2;"                                \
               ::"r"(to(K)), "l"(from(K)), "r"(SOME) : "memory");
#define COPY_UNLESS(FORM, K, BYTES, IGNORED)                                                  \
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; cp.async." FORM " [%0], [%1], " #BYTES  \
               ", p; }" ::"r"(to(K)), "l"(from(K)), "r"(IGNORED) : "memory");
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory");
#define WAIT(N) asm volatile("cp.async.wait_group " #N ";" ::: "memory");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_copies(const unsigned char* bytes, uint4* out, unsigned* phases) {
  __shared__ uint4 tile[COPIES][THREADS];
  __shared__ unsigned long long barrier[2];
  const int t = threadIdx.x, thread = blockIdx.x * THREADS + t;
  bytes += thread * 16 * 32;
  out += blockIdx.x * COPIES * THREADS;
  for (int k = 0; k < COPIES; ++k) tile[k][t] = uint4{0xAAAAAAAA, 0xBBBBBBBB, 0xCCCCCCCC, ~0u};
  const unsigned base = __cvta_generic_to_shared(tile), bar = __cvta_generic_to_shared(barrier);
  if (t == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(THREADS) : "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar + 8), "r"(THREADS) : "memory");
  }
  __syncthreads();
  auto to = [&](int k) { return base + (k * THREADS + t) * 16; };
  auto from = [&](int k) { return bytes + k * 16; };
  auto keep = [&](int k) { out[k * THREADS + t] = tile[k][t]; };

  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  // Four groups: the waits let the newest two, one and none of them run on.
  COPY("ca.shared.global", 0, 4)
  COPY("ca.shared::cta.global", 1, 8)
  COMMIT
  COPY("ca.shared.global", 2, 16)
  COPY("cg.shared.global", 3, 16)
  COMMIT
  COPY("cg.shared.global.L2::128B", 4, 16)
  COMMIT
  if (t % 2) {
    COPY("ca.shared.global.L2::256B", 5, 4)
  }
  COMMIT
  WAIT(2)
  keep(0), keep(1), keep(2), keep(3);
  WAIT(1)
  keep(4);
  WAIT(0)
  keep(5);

  // Less than the whole: 0 to 16 bytes, another number from lane to lane; 0 of a wild address.
  COPY_SOME("cg.shared.global", 6, 16, t % 17)
  COPY_SOME("ca.shared.global", 7, 16, 16)
  COPY_SOME("ca.shared.global", 8, 8, t % 9)
  COPY_SOME("ca.shared.global", 9, 4, t % 5)
  COPY_SOME("cg.shared.global", 10, 16, 0)
  COPY_UNLESS("cg.shared.global", 11, 16, (unsigned)(t % 3 == 0))
  COPY_UNLESS("ca.shared.global", 12, 8, t % 3)
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
               ::"r"(to(13)), "l"(from(13)), "r"(12), "l"(policy) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, 0;"
               ::"r"(to(14)), "l"((const char*)0 + 64) : "memory");
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, 6;" ::"r"(to(15)), "l"(from(15)) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int k = 6; k < 16; ++k) keep(k);

  // Arrivals by the copy engine. Without .noinc the phase still waits for the threads' own.
  COPY("cg.shared.global", 16, 16)
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
  COPY("ca.shared.global", 17, 8)
  asm volatile("cp.async.mbarrier.arrive.b64 [%0];" ::"l"(barrier + 1) : "memory");
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(bar + 8) : "memory");
  for (int b = 0; b < 2; ++b) {
    unsigned done = 0;
    while (!done)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
                   " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar + 8 * b) : "memory");
    keep(16 + b);
    // A neighbour's copy is there as well: the phase took everybody's.
    out[(18 + b) * THREADS + t] = tile[16 + b][(t + 7) % THREADS];
    unsigned next;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1;"
                 " selp.u32 %0, 1, 0, p; }" : "=r"(next) : "r"(bar + 8 * b) : "memory");
    phases[b * 2 * THREADS + thread] = next;  // 0: the phase of parity 1 runs
  }
  // A group that nobody waits for, and an empty one.
  COMMIT
  WAIT(7)
  COPY("ca.shared.global", 20, 4)
  COMMIT
}
