// mbarrier · what a barrier answers in each of its phases
//
// What it probes: every operation on an mbarrier, in scripts that one thread runs and observes: does
// the phase complete, what do test_wait and pending_count say, what do the object's 64 bits and the
// states hold. Then barriers between threads, in every form of arrive and wait.
#include "mbarrier.cuh"

enum Operation { ARRIVE, DROP, ARRIVE_TX, DROP_TX, EXPECT, COMPLETE, ARRIVE_OPEN, DROP_OPEN, ONE, LOOK };

#define ARRIVAL(FORM, STATE, BARRIER, N) \
  asm volatile("mbarrier." FORM ".shared::cta.b64 %0, [%1], %2;" \
               : "=l"(STATE) : "r"(BARRIER), "r"(N) : "memory")
#define CHANGE(FORM, BARRIER, N) \
  asm volatile("mbarrier." FORM ".relaxed.cta.shared::cta.b64 [%0], %1;" \
               :: "r"(BARRIER), "r"(N) : "memory")

__device__ inline unsigned test_parity(unsigned barrier, unsigned parity) {
  unsigned done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  return done;
}

__device__ inline unsigned test_state(unsigned barrier, unsigned long long state) {
  unsigned done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(barrier), "l"(state) : "memory");
  return done;
}

// try_wait, in its forms with and without a hint: only where it cannot have to wait.
__device__ inline unsigned try_state(unsigned barrier, unsigned long long state) {
  unsigned a, b;
  asm volatile("{\n.reg .pred p, q;\nmbarrier.try_wait.shared::cta.b64 p, [%2], %3;\n"
               "mbarrier.try_wait.acquire.cta.shared::cta.b64 q, [%2], %3, %4;\n"
               "selp.u32 %0, 1, 0, p;\nselp.u32 %1, 1, 0, q;\n}\n"
               : "=r"(a), "=r"(b) : "r"(barrier), "l"(state), "r"(100) : "memory");
  return a + 2 * b;
}

// A block of one thread runs a script. `scripts` (block, LENGTH, 2): operation and operand; the
// first line's operand is the count to initialise with. Outputs `answers` (block, LENGTH, 5):
// test_wait of parity 0 and 1, of the last state, its pending count, try_wait of a completed state;
// `words` (block, LENGTH, 2), not compared: the object as an ordinary load sees it, which is what
// lay there before (the barrier's own unit keeps it while it lives), and the last state, of which
// the instruction writes the upper half only.
constexpr int LENGTH = 32;
extern "C" __global__ void
mbarrier_script(const unsigned* scripts, unsigned* answers, unsigned long long* words) {
  __shared__ unsigned long long object;
  const unsigned barrier = shared_address(&object);
  scripts += blockIdx.x * LENGTH * 2;
  answers += blockIdx.x * LENGTH * 5;
  words += blockIdx.x * LENGTH * 2;
  mbarrier_init(&object, scripts[1]);
  unsigned long long state = 0;
  bool arrived = false;
  for (int line = 0; line < LENGTH; ++line, scripts += 2, answers += 5, words += 2) {
    const unsigned n = scripts[1];
    switch (scripts[0]) {
      case ARRIVE: ARRIVAL("arrive", state, barrier, n); break;
      case DROP: ARRIVAL("arrive_drop", state, barrier, n); break;
      case ARRIVE_TX: ARRIVAL("arrive.expect_tx", state, barrier, n); break;
      case DROP_TX: ARRIVAL("arrive_drop.expect_tx", state, barrier, n); break;
      case EXPECT: CHANGE("expect_tx", barrier, n); break;
      case COMPLETE: CHANGE("complete_tx", barrier, n); break;
      case ARRIVE_OPEN: ARRIVAL("arrive.noComplete", state, barrier, n); break;
      case DROP_OPEN: ARRIVAL("arrive_drop.noComplete", state, barrier, n); break;
      case ONE:
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                     : "=l"(state) : "r"(barrier) : "memory");
        break;
      default: break;
    }
    const unsigned op = scripts[0];
    arrived = arrived || (op != LOOK && op != EXPECT && op != COMPLETE);
    answers[0] = test_parity(barrier, 0);
    answers[1] = test_parity(barrier, 1);
    answers[2] = answers[3] = answers[4] = 0;
    if (arrived) {
      unsigned pending;
      asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
      answers[2] = test_state(barrier, state);
      answers[3] = pending;
      if (answers[2]) answers[4] = try_state(barrier, state);
    }
    asm volatile("ld.volatile.shared.b64 %0, [%1];" : "=l"(words[0]) : "r"(barrier) : "memory");
    words[1] = state;
  }
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
}

#define WAIT_LOOP(KIND, ADDRESS, WHICH)                                                   \
  "{\n.reg .pred p;\nAGAIN:\nmbarrier." KIND ".b64 p, [" ADDRESS "], " WHICH               \
  ";\n@!p bra AGAIN;\n}\n"

// One phase: 128 threads publish a number, arrive by one form, wait by another, and read.
#define PHASE(ROUND, ARRIVE_FORM, WAIT_FORM, CONSTRAINT, ADDRESS)                              \
  passed[ROUND & 1][thread] = value + ROUND;                                                   \
  asm volatile("mbarrier." ARRIVE_FORM ".b64 %0, [%1];"                                        \
               : "=l"(state) : CONSTRAINT(ADDRESS) : "memory");                                \
  asm volatile(WAIT_LOOP(WAIT_FORM, "%0", "%1") :: CONSTRAINT(ADDRESS), "l"(state) : "memory"); \
  out[ROUND * THREADS + thread] = passed[ROUND & 1][(thread + 37) % THREADS]
#define PHASE_PARITY(ROUND, ARRIVE_FORM, WAIT_FORM, CONSTRAINT, ADDRESS)                         \
  passed[ROUND & 1][thread] = value + ROUND;                                                     \
  asm volatile("mbarrier." ARRIVE_FORM ".b64 _, [%0], %1;"                                       \
               :: CONSTRAINT(ADDRESS), "r"(1) : "memory");                                       \
  asm volatile(WAIT_LOOP(WAIT_FORM, "%0", "%1") :: CONSTRAINT(ADDRESS), "r"(ROUND & 1) : "memory"); \
  out[ROUND * THREADS + thread] = passed[ROUND & 1][(thread + 37) % THREADS]

constexpr int THREADS = 128, FORMS = 12;
// `a`: a value a thread. Output `out` (FORMS, thread).
extern "C" __global__ void
mbarrier_forms(const unsigned* a, unsigned* out) {
  __shared__ unsigned long long object;
  __shared__ volatile unsigned passed[2][THREADS];
  const unsigned thread = threadIdx.x, value = a[thread], barrier = shared_address(&object);
  unsigned long long state, *generic = &object;
  if (thread == 0)
    asm volatile("mbarrier.init.b64 [%0], %1;" :: "l"(generic), "r"(THREADS) : "memory");
  __syncthreads();
  PHASE(0, "arrive.shared", "test_wait.shared", "r", barrier);
  PHASE(1, "arrive.shared::cta", "try_wait.shared::cta", "r", barrier);
  PHASE(2, "arrive", "test_wait", "l", generic);
  PHASE(3, "arrive.release.cta", "try_wait.acquire.cta", "l", generic);
  PHASE(4, "arrive.release.cluster.shared::cta", "try_wait.acquire.cluster.shared::cta", "r", barrier);
  PHASE(5, "arrive.release.cta.shared::cta", "test_wait.acquire.cta.shared::cta", "r", barrier);
  PHASE_PARITY(6, "arrive.shared::cta", "test_wait.parity.shared::cta", "r", barrier);
  PHASE_PARITY(7, "arrive", "try_wait.parity", "l", generic);
  PHASE_PARITY(8, "arrive.release.cta.shared::cta", "try_wait.parity.acquire.cta.shared::cta", "r", barrier);
  PHASE_PARITY(9, "arrive.release.cluster", "test_wait.parity.acquire.cluster", "l", generic);
  // Relaxed: counted all the same; __syncthreads orders the memory.
  passed[0][thread] = value + 10;
  __syncthreads();
  asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
  asm volatile(WAIT_LOOP("try_wait.parity.relaxed.cta.shared::cta", "%0", "%1")
               :: "r"(barrier), "r"(0) : "memory");
  out[10 * THREADS + thread] = passed[0][(thread + 37) % THREADS];
  passed[1][thread] = value + 11;
  __syncthreads();
  asm volatile("mbarrier.arrive.relaxed.cluster.b64 %0, [%1];"
               : "=l"(state) : "l"(generic) : "memory");
  asm volatile(WAIT_LOOP("test_wait.relaxed.cluster", "%0", "%1")
               :: "l"(generic), "l"(state) : "memory");
  out[11 * THREADS + thread] = passed[1][(thread + 37) % THREADS];
  __syncthreads();
  if (thread == 0) asm volatile("mbarrier.inval.b64 [%0];" :: "l"(generic) : "memory");
}

// A ring of STAGES pieces: warp 0 fills, warps 1 and 2 consume; a consumer that has seen enough
// drops out. `a` (ROUNDS, 32). Output `out` (ROUNDS, 96).
constexpr int STAGES = 3, ROUNDS = 8, LEAVES = 5;
extern "C" __global__ void
mbarrier_ring(const unsigned* a, unsigned* out) {
  __shared__ unsigned long long full[STAGES], empty[STAGES];
  __shared__ volatile unsigned piece[STAGES][32];
  const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  if (thread == 0)
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(&full[s], 32);
      mbarrier_init(&empty[s], 2);
    }
  __syncthreads();
  for (int round = 0; round < ROUNDS; ++round) {
    const int stage = round % STAGES;
    const unsigned phase = round / STAGES & 1;
    if (warp == 0) {
      mbarrier_wait_parity(&empty[stage], phase ^ 1);  // at once in the first turn
      piece[stage][lane] = a[round * 32 + lane];
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                   :: "r"(shared_address(&full[stage])) : "memory");
    } else {
      mbarrier_wait_parity(&full[stage], phase);
      out[round * 96 + thread] = piece[stage][lane] * (warp + 1);
      __syncwarp();
      const bool last = warp == 2 && round >= LEAVES;
      if (lane == 0 && last)
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];"
                     :: "r"(shared_address(&empty[stage])) : "memory");
      else if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                     :: "r"(shared_address(&empty[stage])) : "memory");
    }
  }
}

// The memory of a barrier, used again: as a barrier of another count, then for data.
// Output `out` (thread).
extern "C" __global__ void
mbarrier_reuse(const unsigned* a, unsigned* out) {
  __shared__ unsigned long long object;
  const unsigned thread = threadIdx.x, barrier = shared_address(&object);
  for (unsigned count = 32; count <= 128; count += 32) {
    if (thread == 0) mbarrier_init(&object, count);
    __syncthreads();
    if (thread < count)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
    mbarrier_wait_parity(&object, 0);
    __syncthreads();
    if (thread == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(barrier) : "memory");
    __syncthreads();
  }
  if (thread == 77) *reinterpret_cast<volatile unsigned*>(&object) = a[thread];
  __syncthreads();
  out[thread] = *reinterpret_cast<volatile unsigned*>(&object);
}
