// matrix_mma · mma.sync in every shape, register by register
//
//   D = A · B + C, a warp each
//
// What it probes: which register of which lane holds which element. The launch passes registers as
// they are, and gets registers as they are.
//
// Launch: `a`, `b`, `c` (register, thread): A_REGISTERS, B_REGISTERS and D_REGISTERS of each
// thread, whole warps. Outputs: d, like c.
#ifndef INSTRUCTION
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#ifndef A_REGISTERS
#define A_REGISTERS 4  // 1, 2, 4
#endif
#ifndef D_REGISTERS
#define D_REGISTERS 4  // 2, 4
#endif
constexpr int B_REGISTERS = A_REGISTERS == 4 ? 2 : 1;

extern "C" __global__ void
matrix_mma(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d_out) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  unsigned fa[A_REGISTERS], fb[B_REGISTERS], d[D_REGISTERS];
  for (int r = 0; r < A_REGISTERS; ++r) fa[r] = a[r * threads + thread];
  for (int r = 0; r < B_REGISTERS; ++r) fb[r] = b[r * threads + thread];
  for (int r = 0; r < D_REGISTERS; ++r) d[r] = c[r * threads + thread];
#if D_REGISTERS == 4
#define D_NAMES "{%0, %1, %2, %3}"
#define D_LIST "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#if A_REGISTERS == 4
#define AB_NAMES "{%4, %5, %6, %7}, {%8, %9}"
#else
#define AB_NAMES "{%4, %5}, {%6}"
#endif
#else
#define D_NAMES "{%0, %1}"
#define D_LIST "+r"(d[0]), "+r"(d[1])
#if A_REGISTERS == 4
#define AB_NAMES "{%2, %3, %4, %5}, {%6, %7}"
#elif A_REGISTERS == 2
#define AB_NAMES "{%2, %3}, {%4}"
#else
#define AB_NAMES "{%2}, {%3}"
#endif
#endif
#if A_REGISTERS == 4
#define AB_LIST "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1])
#elif A_REGISTERS == 2
#define AB_LIST "r"(fa[0]), "r"(fa[1]), "r"(fb[0])
#else
#define AB_LIST "r"(fa[0]), "r"(fb[0])
#endif
  asm volatile(INSTRUCTION " " D_NAMES ", " AB_NAMES ", " D_NAMES ";" : D_LIST : AB_LIST);
  for (int r = 0; r < D_REGISTERS; ++r) d_out[r * threads + thread] = d[r];
}
