// wgmma_forms · the ways to write scale-d, and registers that a form leaves alone
//
//   D (64, 8) = A (64, 16) · B (8, 16)ᵀ [+ C]     fp16, core matrices
//
// What it probes: scale-d as the constants 0 and 1 and as a negated predicate, empty groups, waits
// for more groups than there are, and one accumulator as operand A of the next instruction.
//
// Launch: one block of 128 threads; `a`: 64 rows of 32 bytes, `b`: 8 rows. Outputs: d, the results
// of FORMS instructions as the threads hold them.
#include "mbarrier.cuh"
#include "wgmma.cuh"

constexpr int THREADS = 128, FORMS = 4;

__device__ inline unsigned long long known(const void* tile) {
  constexpr unsigned long long kFixed = (256ull >> 4 << 32) | (128ull >> 4 << 16);
  return kFixed | shared_address(tile) >> 4;
}

#define FORM(SCALE_D, D)                                                                           \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                        \
               "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, "      \
               SCALE_D ", 1, 1, 0, 0;\n}"                                                         \
               : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])                                   \
               : "l"(a_from), "l"(b_from), "r"(one))

extern "C" __global__ void __launch_bounds__(THREADS, 1)
wgmma_forms(const uint4* a, const uint4* b, const float* c, float* d_out, int one) {
  __shared__ alignas(128) uint4 tile_a[64 * 2], tile_b[8 * 2];
  const int thread = threadIdx.x;
  tile_a[thread / 16 * 16 + thread % 2 * 8 + thread / 2 % 8] = a[thread];
  if (thread < 16) tile_b[thread % 2 * 8 + thread / 2] = b[thread];
  fence_proxy_async();
  __syncthreads();
  const unsigned long long a_from = known(tile_a), b_from = known(tile_b);

  float d[FORMS][4];
  for (int form = 0; form < FORMS; ++form)
    for (int r = 0; r < 4; ++r) d[form][r] = c[(form * THREADS + thread) * 4 + r];
  wgmma_fence();
  wgmma_commit_group();  // an empty group counts as well
  FORM("0", d[0]);
  FORM("1", d[1]);
  wgmma_commit_group();
  FORM("p", d[2]);
  FORM("!p", d[3]);
  wgmma_commit_group();
  wgmma_wait_group<7>();
  wgmma_wait_group<0>();
  for (int form = 0; form < FORMS; ++form)
    for (int r = 0; r < 4; ++r) d_out[(form * THREADS + thread) * 4 + r] = d[form][r];
}
