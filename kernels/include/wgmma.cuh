// wgmma: D (64×N, registers) = A (64×K, shared memory or registers) · B (K×N, shared memory) + D.
//
// All 128 threads of a warpgroup execute each of these together. The names follow the PTX:
//
//   wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16   is   wgmma_f32_f16_f16<128>
//
//   ::ss(d, desc_a, desc_b, scale_d)    A and B through 64-bit descriptors (descriptor.cuh)
//   ::rs(d, a, desc_b, scale_d)         A in four 32-bit registers of each thread
//
// scale_d = false computes D = A·B, so a first step needs no zeroed accumulator. Template
// arguments negate A or B (-1) and, for 16-bit types, transpose them (1: MN-major).
// N is a multiple of 8 from 8 to 256; for integers 8, 16, 24, 32 and then multiples of 16.
#pragma once

#include "wgmma_operands.cuh"

// Before the first wgmma, and whenever registers that a wgmma uses (D, or A in ::rs) were touched
// by other instructions: orders those accesses before the wgmmas that follow.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes a group: every wgmma this warpgroup issued since the last commit.
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `kPending` of the latest groups are still running. Then this warp may read
// the others' accumulators; the shared memory they read may be overwritten once all four warps
// have come this far.
template <int kPending>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(kPending) : "memory");
}

// ---- One macro for each form of the instruction -------------------------------------------------

#define WGMMA_BEGIN(ARG_SCALE_D) "{\n.reg .pred p;\nsetp.ne.b32 p, " ARG_SCALE_D ", 0;\n"

// 16-bit inputs: negation and transposition.
#define WGMMA_16BIT(NAME, TYPES, N, R, T, C)                                                      \
  template <> struct NAME<N> {                                                                    \
    template <int NegA = 1, int NegB = 1, int TransA = 0, int TransB = 0>                         \
    __device__ static void ss(T (&d)[R], unsigned long long a, unsigned long long b,              \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG2_##R) "wgmma.mma_async.sync.aligned.m64n" #N "k16." TYPES \
                   " {" WGMMA_LIST_##R "}, " WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", p, "           \
                   WGMMA_ARG3_##R ", " WGMMA_ARG4_##R ", " WGMMA_ARG5_##R ", " WGMMA_ARG6_##R     \
                   ";\n}"                                                                         \
                   : WGMMA_REGS_##R(C, d)                                                         \
                   : "l"(a), "l"(b), "r"(int(scale_d)), "n"(NegA), "n"(NegB), "n"(TransA),        \
                     "n"(TransB));                                                                \
    }                                                                                             \
    template <int NegA = 1, int NegB = 1, int TransB = 0>                                         \
    __device__ static void rs(T (&d)[R], const unsigned (&a)[4], unsigned long long b,            \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG5_##R) "wgmma.mma_async.sync.aligned.m64n" #N "k16." TYPES \
                   " {" WGMMA_LIST_##R "}, {" WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", "             \
                   WGMMA_ARG2_##R ", " WGMMA_ARG3_##R "}, " WGMMA_ARG4_##R ", p, "                \
                   WGMMA_ARG6_##R ", " WGMMA_ARG7_##R ", " WGMMA_ARG8_##R ";\n}"                  \
                   : WGMMA_REGS_##R(C, d)                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(scale_d)),       \
                     "n"(NegA), "n"(NegB), "n"(TransB));                                          \
    }                                                                                             \
  };

// tf32 and 8-bit floats: negation, both operands K-major.
#define WGMMA_FLOAT(NAME, SHAPE_K, TYPES, N, R, T, C)                                             \
  template <> struct NAME<N> {                                                                    \
    template <int NegA = 1, int NegB = 1>                                                         \
    __device__ static void ss(T (&d)[R], unsigned long long a, unsigned long long b,              \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG2_##R) "wgmma.mma_async.sync.aligned.m64n" #N SHAPE_K      \
                   TYPES " {" WGMMA_LIST_##R "}, " WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", p, "     \
                   WGMMA_ARG3_##R ", " WGMMA_ARG4_##R ";\n}"                                      \
                   : WGMMA_REGS_##R(C, d)                                                         \
                   : "l"(a), "l"(b), "r"(int(scale_d)), "n"(NegA), "n"(NegB));                    \
    }                                                                                             \
    template <int NegA = 1, int NegB = 1>                                                         \
    __device__ static void rs(T (&d)[R], const unsigned (&a)[4], unsigned long long b,            \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG5_##R) "wgmma.mma_async.sync.aligned.m64n" #N SHAPE_K      \
                   TYPES " {" WGMMA_LIST_##R "}, {" WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", "       \
                   WGMMA_ARG2_##R ", " WGMMA_ARG3_##R "}, " WGMMA_ARG4_##R ", p, "                \
                   WGMMA_ARG6_##R ", " WGMMA_ARG7_##R ";\n}"                                      \
                   : WGMMA_REGS_##R(C, d)                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(scale_d)),       \
                     "n"(NegA), "n"(NegB));                                                       \
    }                                                                                             \
  };

// 8-bit integers: SATURATE is "" or ".satfinite".
#define WGMMA_INTEGER(NAME, TYPES, SATURATE, N, R)                                                \
  template <> struct NAME<N> {                                                                    \
    __device__ static void ss(int (&d)[R], unsigned long long a, unsigned long long b,            \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG2_##R) "wgmma.mma_async.sync.aligned.m64n" #N "k32." TYPES \
                   SATURATE " {" WGMMA_LIST_##R "}, " WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", p;\n}" \
                   : WGMMA_REGS_##R("+r", d)                                                      \
                   : "l"(a), "l"(b), "r"(int(scale_d)));                                          \
    }                                                                                             \
    __device__ static void rs(int (&d)[R], const unsigned (&a)[4], unsigned long long b,          \
                              bool scale_d) {                                                     \
      asm volatile(WGMMA_BEGIN(WGMMA_ARG5_##R) "wgmma.mma_async.sync.aligned.m64n" #N "k32." TYPES \
                   SATURATE " {" WGMMA_LIST_##R "}, {" WGMMA_ARG0_##R ", " WGMMA_ARG1_##R ", "    \
                   WGMMA_ARG2_##R ", " WGMMA_ARG3_##R "}, " WGMMA_ARG4_##R ", p;\n}"              \
                   : WGMMA_REGS_##R("+r", d)                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(scale_d)));      \
    }                                                                                             \
  };

// ---- Every legal N: X(N, registers for a 32-bit accumulator, registers for packed f16) ---------

#define WGMMA_EACH_INTEGER_N(X)                                                                   \
  X(8, 4, 2) X(16, 8, 4) X(24, 12, 6) X(32, 16, 8) X(48, 24, 12) X(64, 32, 16) X(80, 40, 20)      \
  X(96, 48, 24) X(112, 56, 28) X(128, 64, 32) X(144, 72, 36) X(160, 80, 40) X(176, 88, 44)        \
  X(192, 96, 48) X(208, 104, 52) X(224, 112, 56) X(240, 120, 60) X(256, 128, 64)
#define WGMMA_EACH_N(X)                                                                           \
  WGMMA_EACH_INTEGER_N(X)                                                                         \
  X(40, 20, 10) X(56, 28, 14) X(72, 36, 18) X(88, 44, 22) X(104, 52, 26) X(120, 60, 30)           \
  X(136, 68, 34) X(152, 76, 38) X(168, 84, 42) X(184, 92, 46) X(200, 100, 50) X(216, 108, 54)     \
  X(232, 116, 58) X(248, 124, 62)

// ---- Every legal combination of types -----------------------------------------------------------

template <int N> struct wgmma_f32_f16_f16;
template <int N> struct wgmma_f16_f16_f16;
template <int N> struct wgmma_f32_bf16_bf16;
template <int N> struct wgmma_f32_tf32_tf32;
#define X(N, R, H)                                                                                \
  WGMMA_16BIT(wgmma_f32_f16_f16, "f32.f16.f16", N, R, float, "+f")                                \
  WGMMA_16BIT(wgmma_f16_f16_f16, "f16.f16.f16", N, H, unsigned, "+r")                             \
  WGMMA_16BIT(wgmma_f32_bf16_bf16, "f32.bf16.bf16", N, R, float, "+f")                            \
  WGMMA_FLOAT(wgmma_f32_tf32_tf32, "k8.", "f32.tf32.tf32", N, R, float, "+f")
WGMMA_EACH_N(X)
#undef X

#define WGMMA_FP8(A, B)                                                                           \
  template <int N> struct wgmma_f32_##A##_##B;                                                    \
  template <int N> struct wgmma_f16_##A##_##B;
#define X(N, R, H)                                                                                \
  WGMMA_FP8_N(e4m3, e4m3, N, R, H) WGMMA_FP8_N(e4m3, e5m2, N, R, H)                               \
  WGMMA_FP8_N(e5m2, e4m3, N, R, H) WGMMA_FP8_N(e5m2, e5m2, N, R, H)
#define WGMMA_FP8_N(A, B, N, R, H)                                                                \
  WGMMA_FLOAT(wgmma_f32_##A##_##B, "k32.", "f32." #A "." #B, N, R, float, "+f")                   \
  WGMMA_FLOAT(wgmma_f16_##A##_##B, "k32.", "f16." #A "." #B, N, H, unsigned, "+r")
WGMMA_FP8(e4m3, e4m3) WGMMA_FP8(e4m3, e5m2) WGMMA_FP8(e5m2, e4m3) WGMMA_FP8(e5m2, e5m2)
WGMMA_EACH_N(X)
#undef X

#define WGMMA_INT8(A, B)                                                                          \
  template <int N> struct wgmma_s32_##A##_##B;                                                    \
  template <int N> struct wgmma_s32_##A##_##B##_satfinite;
#define WGMMA_INT8_N(A, B, N, R)                                                                  \
  WGMMA_INTEGER(wgmma_s32_##A##_##B, "s32." #A "." #B, "", N, R)                                  \
  WGMMA_INTEGER(wgmma_s32_##A##_##B##_satfinite, "s32." #A "." #B, ".satfinite", N, R)
#define X(N, R, H)                                                                                \
  WGMMA_INT8_N(s8, s8, N, R) WGMMA_INT8_N(s8, u8, N, R) WGMMA_INT8_N(u8, s8, N, R)                \
  WGMMA_INT8_N(u8, u8, N, R)
WGMMA_INT8(s8, s8) WGMMA_INT8(s8, u8) WGMMA_INT8(u8, s8) WGMMA_INT8(u8, u8)
WGMMA_EACH_INTEGER_N(X)
#undef X
