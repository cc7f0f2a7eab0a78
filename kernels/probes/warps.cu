// warps · what the threads of a warp hear from each other
//
// What it probes: shfl.sync in its four modes with any b and c; vote, match, redux and elect.sync
// among the lanes of a membermask, with several masks in one warp and with lanes that have exited;
// activemask.
//
// Launch: blocks of 128 threads, one array element a thread. Outputs: a word (or more) a thread.
__device__ inline unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

#define SHUFFLE(MODE, VALUE, VALID, A, B, C)                                       \
  asm volatile("{\n.reg .pred p;\nshfl.sync." MODE ".b32 %0|p, %2, %3, %4, -1;\n" \
               "selp.u32 %1, 1, 0, p;\n}\n"                                        \
               : "=r"(VALUE), "=r"(VALID) : "r"(A), "r"(B), "r"(C))

// `a`, `b`, `c`: operands of each thread. Outputs `value`, `valid` (mode, thread).
extern "C" __global__ void
warps_shuffle(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* value,
              unsigned* valid) {
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x;
  unsigned v[4], p[4];
  SHUFFLE("idx", v[0], p[0], a[i], b[i], c[i]);
  SHUFFLE("up", v[1], p[1], a[i], b[i], c[i]);
  SHUFFLE("down", v[2], p[2], a[i], b[i], c[i]);
  SHUFFLE("bfly", v[3], p[3], a[i], b[i], c[i]);
  for (int mode = 0; mode < 4; ++mode) {
    value[mode * threads + i] = v[mode];
    valid[mode * threads + i] = p[mode];
  }
}

#define VOTE(MODE, RESULT, A, MASK)                                                           \
  asm volatile("{\n.reg .pred p, q;\nsetp.ne.u32 p, %1, 0;\nvote.sync." MODE ".pred q, p, %2;\n" \
               "selp.u32 %0, 1, 0, q;\n}\n" : "=r"(RESULT) : "r"(A), "r"(MASK))
#define REDUCE(OPERATION, RESULT, A, MASK) \
  asm volatile("redux.sync." OPERATION " %0, %1, %2;" : "=r"(RESULT) : "r"(A), "r"(MASK))

constexpr int ANSWERS = 18;

// Every answer that the lanes of `mask` get about their values `a`.
__device__ inline void ask(unsigned a, unsigned long long wide, unsigned mask, unsigned* r) {
  VOTE("all", r[0], a & 1, mask);
  VOTE("any", r[1], a & 1, mask);
  VOTE("uni", r[2], a & 1, mask);
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\nvote.sync.ballot.b32 %0, !p, %2;\n}\n"
               : "=r"(r[3]) : "r"(a & 1), "r"(mask));
  asm volatile("match.any.sync.b32 %0, %1, %2;" : "=r"(r[4]) : "r"(a), "r"(mask));
  asm volatile("match.any.sync.b64 %0, %1, %2;" : "=r"(r[5]) : "l"(wide), "r"(mask));
  asm volatile("{\n.reg .pred p;\nmatch.all.sync.b32 %0|p, %2, %3;\nselp.u32 %1, 1, 0, p;\n}\n"
               : "=r"(r[6]), "=r"(r[7]) : "r"(a >> 1), "r"(mask));
  asm volatile("match.all.sync.b64 %0, %1, %2;" : "=r"(r[8]) : "l"(wide >> 1), "r"(mask));
  REDUCE("add.u32", r[9], a, mask);
  REDUCE("add.s32", r[10], a * 0x9e3779b9u, mask);
  REDUCE("min.u32", r[11], a * 0x9e3779b9u, mask);
  REDUCE("max.u32", r[12], a * 0x9e3779b9u, mask);
  REDUCE("min.s32", r[13], a * 0x9e3779b9u, mask);
  REDUCE("max.s32", r[14], a * 0x9e3779b9u, mask);
  REDUCE("and.b32", r[15], a * 0x9e3779b9u, mask);
  REDUCE("or.b32", r[16], a * 0x9e3779b9u, mask);
  REDUCE("xor.b32", r[17], a * 0x9e3779b9u, mask);
}

__device__ inline void elect(unsigned mask, unsigned* leader, unsigned* is_leader) {
  asm volatile("{\n.reg .pred p;\nelect.sync %0|p, %2;\nselp.u32 %1, 1, 0, p;\n}\n"
               : "=r"(*leader), "=r"(*is_leader) : "r"(mask));
}

// `a`: values; `mask`: of each thread, masks of a warp disjoint or equal. Lanes with mask 0 exit
// first, and may be named by the others. Output `out` (answer, thread).
extern "C" __global__ void
warps_ask(const unsigned* a, const unsigned* mask, unsigned* out) {
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x;
  const unsigned mine = mask[i];
  if (mine == 0) return;
  unsigned r[ANSWERS];
  ask(a[i], static_cast<unsigned long long>(a[i]) << 32 | 7, mine, r);
  for (int answer = 0; answer < ANSWERS; ++answer) out[answer * threads + i] = r[answer];
}

// `mask` as in warps_ask, one mask a warp. Output `out` (2, thread): elected lane, and whether it
// is this one.
extern "C" __global__ void
warps_elect(const unsigned* mask, unsigned* out) {
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x;
  const unsigned mine = mask[i];
  if (mine == 0) return;
  unsigned leader, is_leader;
  elect(mine, &leader, &is_leader);
  out[i] = leader;
  out[threads + i] = is_leader;
}

// Who is active: everyone; then, by branches that the compiler must keep, odd lanes and every
// third lane. Output `out` (3, thread).
extern "C" __global__ void
warps_active(unsigned* out) {
  const unsigned i = global_thread(), threads = gridDim.x * blockDim.x;
  unsigned active;
  asm volatile("activemask.b32 %0;" : "=r"(active));
  out[i] = active;
  if (i % 2) {
    asm volatile("activemask.b32 %0;" : "=r"(active));
    out[threads + i] = active;
  }
  __syncwarp();
  if (i % 3 == 0) {
    asm volatile("activemask.b32 %0;" : "=r"(active));
    out[2 * threads + i] = active;
  }
}

// Lanes that wait for each other at different instructions, by bar.warp.sync: the upper half hands
// numbers to the lower one through shared memory. Output `out` (thread).
extern "C" __global__ void
warps_meet(const unsigned* a, unsigned* out) {
  __shared__ volatile unsigned passed[128];
  const unsigned i = global_thread(), thread = threadIdx.x, lane = thread % 32;
  unsigned got;
  if (lane < 16) {
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    got = passed[thread + 16];
    asm volatile("bar.warp.sync 0x0000ffff;" ::: "memory");
    passed[thread] = got * 3;
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  } else {
    passed[thread] = a[i];
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    got = passed[thread - 16];
  }
  out[i] = got;
}
