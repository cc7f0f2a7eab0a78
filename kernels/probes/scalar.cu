// scalar · what single instructions of one thread compute: many forms, one after the other
//
//   out[form][i] = FORM(a[i], b[i], c[i])
//
// What it probes: integer and floating-point arithmetic, comparisons and conversions, bit by bit,
// one element a thread. The forms are the case's: FORMS is a list of FORM("PTX text"), in which %0
// is the result and %1, %2, %3 are the sources. D, A, B, C are the registers they lie in, by the
// letter that inline PTX has for them: h 16 bits, r 32, l 64. Every form is volatile and stored on
// its own, so that the compiler merges none with another.
//
// Launch: as many threads as there are elements, in blocks of 128. Outputs: out.
#ifndef FORMS
#define FORMS FORM("add.u32 %0, %1, %2;") FORM("mad.lo.u32 %0, %1, %2, %3;")
#endif
#ifndef D
#define D r
#endif
#ifndef A
#define A r
#endif
#ifndef B
#define B r
#endif
#ifndef C
#define C r
#endif

using type_h = unsigned short;
using type_r = unsigned;
using type_l = unsigned long long;
#define JOIN(a, b) a##b
#define TYPE(letter) JOIN(type_, letter)
#define QUOTE(letter) #letter
#define LETTER(letter) QUOTE(letter)
#define FORM(text)                                                                       \
  {                                                                                      \
    TYPE(D) d;                                                                           \
    asm volatile(text : "=" LETTER(D)(d) : LETTER(A)(x), LETTER(B)(y), LETTER(C)(z));    \
    out[count * form++] = d;                                                             \
  }

extern "C" __global__ void __launch_bounds__(128)
scalar(const TYPE(A)* a, const TYPE(B)* b, const TYPE(C)* c, TYPE(D)* out) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, count = gridDim.x * blockDim.x;
  const TYPE(A) x = a[i];
  const TYPE(B) y = b[i];
  const TYPE(C) z = c[i];
  out += i;
  unsigned form = 0;
  FORMS
}
