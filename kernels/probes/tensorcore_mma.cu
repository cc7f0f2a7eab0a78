// tensorcore_mma · what mma.sync computes, bit by bit, for thousands of independent instructions
//
//   D (64, 256) = A (64 × DEPTH bytes) · B (256 × DEPTH bytes)ᵀ + C (64, 256)
//
// What it probes: the arithmetic of the warp's instruction, on operands laid out as in
// tensorcore_wgmma, so that both can be given the same ones. Each of the four warps takes 16 rows,
// 8 columns an instruction. DEPTH is the instruction's K in bytes: 32 or 16.
//
// Launch: one block of 128 threads for each 64 × 256 outputs. Outputs: d.
#ifndef INSTRUCTION
#define INSTRUCTION "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#ifndef DEPTH
#define DEPTH 32
#endif
#ifndef WORDS
#define WORDS 256  // 32-bit words in a row of C and D: 256, or 128 for pairs of f16
#endif
constexpr int N = 256, THREADS = 128, ROW = DEPTH / 4;

extern "C" __global__ void __launch_bounds__(THREADS, 1)
tensorcore_mma(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d_out) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp * 16 + lane / 4;
  a += blockIdx.x * 64 * ROW;
  b += blockIdx.x * N * ROW;
  c += blockIdx.x * 64 * WORDS;
  d_out += blockIdx.x * 64 * WORDS;

  // Register r of A: rows 8 apart, then the next 16 bytes of K.
  unsigned fa[4];
#pragma unroll
  for (int r = 0; r < DEPTH / 8; ++r) fa[r] = a[(row + r % 2 * 8) * ROW + r / 2 * 4 + lane % 4];

  for (int column = 0; column < N; column += 8) {
    unsigned fb[2];
#pragma unroll
    for (int r = 0; r < DEPTH / 16; ++r) fb[r] = b[(column + lane / 4) * ROW + r * 4 + lane % 4];
    auto place = [=](int r) {
      if (WORDS == N) return (row + r / 2 * 8) * WORDS + column + lane % 4 * 2 + r % 2;
      return (row + r * 8) * WORDS + column / 2 + lane % 4;
    };
    unsigned d[4];
#pragma unroll
    for (int r = 0; r < WORDS / 64; ++r) d[r] = c[place(r)];
#if WORDS == 256 && DEPTH == 32
    asm volatile(INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
#elif WORDS == 256
    asm volatile(INSTRUCTION " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]));
#elif DEPTH == 32
    asm volatile(INSTRUCTION " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
#else
    asm volatile(INSTRUCTION " {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]));
#endif
#pragma unroll
    for (int r = 0; r < WORDS / 64; ++r) d_out[place(r)] = d[r];
  }
}
