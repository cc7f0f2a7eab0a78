// memory_stores · which bytes a store changes, for every type, space, order and cache operator
//
//   out: a record of 512 bytes a thread, filled from global, shared and local memory
//
// What it probes: that a store writes the low bits of its register and nothing beside them, what a
// vector writes where, and that generic addresses reach the space they were made from.
//
// Launch: one block of 64 threads. `values` holds two 64-bit words a thread. Outputs: out, which
// starts as 0xFF bytes.
constexpr int THREADS = 64, RECORD = 512, PART = 128;

#define STORE(FORM, SPACE, ADDRESS, CONSTRAINT, VALUE) \
  asm volatile("st." FORM " [%0], %1;" ::SPACE(ADDRESS), CONSTRAINT(VALUE) : "memory");
#define STORE2(FORM, SPACE, ADDRESS, CONSTRAINT, A, B) \
  asm volatile("st." FORM " [%0], {%1, %2};" ::SPACE(ADDRESS), CONSTRAINT(A), CONSTRAINT(B) : "memory");
#define STORE4(FORM, SPACE, ADDRESS, CONSTRAINT, A, B, C, D)                                  \
  asm volatile("st." FORM " [%0], {%1, %2, %3, %4};" ::SPACE(ADDRESS), CONSTRAINT(A),         \
               CONSTRAINT(B), CONSTRAINT(C), CONSTRAINT(D) : "memory");
// 112 bytes, some of which nobody writes.
#define TYPES(NAME, SPACE, AT)                                                                \
  STORE(NAME "u8", SPACE, AT + 1, "h", (unsigned short)x)                                     \
  STORE(NAME "s8", SPACE, AT + 2, "r", (unsigned)y)                                           \
  STORE(NAME "b8", SPACE, AT + 4, "l", x)                                                     \
  STORE(NAME "u16", SPACE, AT + 6, "h", (unsigned short)y)                                    \
  STORE(NAME "s16", SPACE, AT + 10, "r", (unsigned)x)                                         \
  STORE(NAME "b16", SPACE, AT + 12, "l", y)                                                   \
  STORE(NAME "u32", SPACE, AT + 16, "r", (unsigned)y)                                         \
  STORE(NAME "s32", SPACE, AT + 20, "l", x)                                                   \
  STORE(NAME "f32", SPACE, AT + 28, "r", (unsigned)(x >> 32))                                 \
  STORE(NAME "b64", SPACE, AT + 32, "l", y)                                                   \
  STORE(NAME "f64", SPACE, AT + 40, "l", x)                                                   \
  STORE2(NAME "v2.u8", SPACE, AT + 50, "h", (unsigned short)x, (unsigned short)y)             \
  STORE2(NAME "v2.b16", SPACE, AT + 52, "r", (unsigned)y, (unsigned)x)                        \
  STORE2(NAME "v2.s64", SPACE, AT + 64, "l", x, y)                                            \
  STORE4(NAME "v4.u8", SPACE, AT + 56, "r", (unsigned)x, (unsigned)y, (unsigned)x, 7u)        \
  STORE4(NAME "v4.s16", SPACE, AT + 80, "h", (unsigned short)x, (unsigned short)y,            \
         (unsigned short)3, (unsigned short)y)                                                \
  STORE4(NAME "v4.b32", SPACE, AT + 96, "r", (unsigned)x, (unsigned)y, 5u, (unsigned)x)       \
  asm volatile("st." NAME "u32 [%0], 305419896;" ::SPACE(AT + 112) : "memory");               \
  asm volatile("st." NAME "f32 [%0], 0fC0490FDB;" ::SPACE(AT + 116) : "memory");              \
  asm volatile("st." NAME "u8 [%0], -2;" ::SPACE(AT + 121) : "memory");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_stores(const unsigned long long* values, unsigned char* out) {
  __shared__ __align__(16) unsigned char tile[2 * PART * THREADS];
  __align__(16) unsigned char own[2 * PART];
  const int t = threadIdx.x;
  const unsigned long long x = values[2 * t], y = values[2 * t + 1];
  unsigned char* record = out + RECORD * t;
  unsigned char* part = tile + 2 * PART * t;
  for (int i = 0; i < 2 * PART; ++i) part[i] = own[(i + t) % (2 * PART)] = 0xFF;
  const unsigned shared = __cvta_generic_to_shared(part);
  unsigned long long local;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(local) : "l"(own) : "memory");

  TYPES("global.", "l", record)
  TYPES("shared.", "r", shared)
  TYPES("local.", "l", local)
  // Generic, in another space from lane to lane.
  unsigned char* mixed = t % 3 == 0 ? record + PART : t % 3 == 1 ? part + PART : own + PART;
  TYPES("", "l", mixed)

  // Orders, scopes, cache operators and hints change no byte more.
  unsigned char* rest = record + 3 * PART;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  int k = 0;
#define GLOBAL(FORM) STORE(FORM ".u32", "l", rest + 4 * k++, "r", (unsigned)(x >> k))
  GLOBAL("weak.global") GLOBAL("volatile.global") GLOBAL("mmio.relaxed.sys.global")
  GLOBAL("relaxed.cta.global") GLOBAL("relaxed.cluster.global") GLOBAL("relaxed.gpu.global")
  GLOBAL("relaxed.sys.global") GLOBAL("release.cta.global") GLOBAL("release.cluster.global")
  GLOBAL("release.gpu.global") GLOBAL("release.sys.global") GLOBAL("release.gpu")
  GLOBAL("global.wb") GLOBAL("global.cg") GLOBAL("global.cs") GLOBAL("global.wt")
  GLOBAL("global.L1::evict_normal") GLOBAL("global.L1::evict_unchanged")
  GLOBAL("global.L1::evict_first") GLOBAL("global.L1::evict_last")
  GLOBAL("global.L1::no_allocate") GLOBAL("relaxed.gpu.global.L1::no_allocate")
  asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;"
               ::"l"(rest + 4 * k++), "r"((unsigned)x), "l"(policy) : "memory");
  STORE("release.cta.shared.u32", "r", shared + 124, "r", (unsigned)x)
  STORE("volatile.shared::cta.u16", "r", shared + 122, "h", (unsigned short)y)
  STORE("relaxed.cluster.shared::cluster.u8", "r", shared + 120, "r", (unsigned)y)

  // Shared and local bytes into the record; the second half of each where it was used.
  for (int i = 0; i < PART; ++i) record[2 * PART + i] = part[i] + 3 * own[i];
  if (t % 3)
    for (int i = 0; i < PART; ++i) record[PART + i] = (t % 3 == 1 ? part : own)[PART + i];
}
