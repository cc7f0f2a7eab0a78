// warps_barriers · warps that meet at the barriers of their block
//
// What it probes: reductions of barrier.red over the block and over a thread count, with warps that
// have exited and with a last warp that is not full; barriers by number and count in registers;
// arrive on one side and sync on the other; a warp that comes to barrier.sync in parts; setmaxnreg.
//
// Outputs: words a thread; those of exited threads stay as they were.
__device__ inline unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

#define RED_PREDICATE(FORM, RESULT, A, OPERANDS, ...)                                      \
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %1, 0;\n" FORM ".pred q, " OPERANDS    \
               ";\nselp.u32 %0, 1, 0, q;\n}\n" : "=r"(RESULT) : "r"(A), ##__VA_ARGS__ : "memory")
#define RED_COUNT(FORM, RESULT, A, OPERANDS, ...)                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n" FORM ".u32 %0, " OPERANDS \
               ";\n}\n" : "=r"(RESULT) : "r"(A), ##__VA_ARGS__ : "memory")

// `a`: a value a thread, of which bit k is the vote in round k; `exits`: not 0 where a thread
// leaves at once. Output `out` (8, thread).
extern "C" __global__ void
barriers_reduce(const unsigned* a, const unsigned* exits, unsigned* out) {
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x;
  const unsigned votes = a[i];
  if (exits[i]) return;
  unsigned r[8];
  RED_COUNT("bar.red.popc", r[0], votes & 1, "0, p");
  RED_COUNT("barrier.red.popc", r[1], votes & 2, "3, !p");
  RED_COUNT("barrier.cta.red.popc.aligned", r[2], votes & 4, "%2, p", "r"(blockIdx.x % 16));
  RED_PREDICATE("bar.cta.red.and", r[3], votes & 8, "15, p");
  RED_PREDICATE("barrier.red.or", r[4], votes & 16, "1, p");
  RED_PREDICATE("barrier.red.and.aligned", r[5], votes & 32, "2, !p");
  RED_PREDICATE("bar.red.or", r[6], votes & 64, "0, !p");
  RED_PREDICATE("barrier.cta.red.and", r[7], votes & 128, "0, p");
  for (int k = 0; k < 8; ++k) out[k * threads + i] = r[k];
}

// Pairs of warps meet at a barrier of their own, number and count in registers; then each warp
// votes with its neighbour. `a` as above. Output `out` (2, thread).
extern "C" __global__ void
barriers_pairs(const unsigned* a, unsigned* out) {
  __shared__ volatile unsigned passed[512];
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x, thread = threadIdx.x;
  const unsigned pair = thread / 64, count = 64;
  unsigned popc;
  passed[thread] = a[i];
  asm volatile("bar.sync %0, %1;" :: "r"(pair), "r"(count) : "memory");
  out[i] = passed[thread ^ 32];
  RED_COUNT("barrier.red.popc.aligned", popc, a[i] & 1, "%2, %3, p", "r"(pair + 8), "r"(count));
  out[threads + i] = popc;
}

// Warp 0 produces ROUNDS pieces, warps 1 … 3 consume them, with one barrier that says "full" and
// one that says "empty". `a` (ROUNDS, 32). Output `out` (ROUNDS, thread): what each consumer saw.
constexpr int ROUNDS = 6;
extern "C" __global__ void
barriers_produce(const unsigned* a, unsigned* out) {
  __shared__ volatile unsigned piece[32];
  const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  for (int round = 0; round < ROUNDS; ++round) {
    if (warp == 0) {
      if (round) asm volatile("barrier.sync 2, 128;" ::: "memory");  // empty
      piece[lane] = a[round * 32 + lane];
      asm volatile("barrier.arrive 1, 128;" ::: "memory");  // full
    } else {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      out[round * 128 + thread] = piece[lane] + warp;
      if (round + 1 < ROUNDS) asm volatile("bar.arrive 2, 128;" ::: "memory");
    }
  }
}

// Threads of a warp come to barrier.sync by two paths, which is legal without .aligned. `a`: a
// value a thread. Output `out` (thread): the value of the thread at the other end of the block.
extern "C" __global__ void
barriers_in_parts(const unsigned* a, unsigned* out) {
  __shared__ volatile unsigned passed[128];
  const unsigned i = global_thread(), thread = threadIdx.x;
  unsigned sum = 0;
  if (thread % 32 < 7) {
    passed[thread] = a[i];
    asm volatile("barrier.sync 0;" ::: "memory");
    sum = 1;
  } else {
    passed[thread] = a[i] * 2;
    asm volatile("barrier.sync 0;" ::: "memory");
    sum = 2;
  }
  out[i] = passed[127 - thread] + sum;
}

// Two warpgroups trade registers: one gives, the other takes what was given, and back.
// `a`: a value a thread. Output `out` (thread).
extern "C" __global__ void __launch_bounds__(384, 1)
barriers_registers(const unsigned* a, unsigned* out) {
  const unsigned i = global_thread(), group = threadIdx.x / 128;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    out[i] = a[i] + 1;
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    out[i] = a[i] * 3;
  }
}
