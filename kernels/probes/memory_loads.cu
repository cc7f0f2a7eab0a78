// memory_loads · what a load puts into a register, for every type, space, order and cache operator
//
//   out[k][t] = what form k of ld read for thread t, as the 64 bits of its register
//
// What it probes: how narrow values are extended to wider registers, which elements a vector
// takes from where, and that the same bytes arrive from global, shared, local, constant and
// generic addresses, whatever memory order, scope or cache hint the load names.
//
// Launch: one block of 128 threads. `bytes` holds 16 bytes a thread. Outputs: out.
constexpr int THREADS = 128;

__constant__ unsigned table[4 * THREADS / 4] = {
#define FOUR(n) (n) * 2654435761u, (n) * 2654435761u + 40503u, ~((n) * 97u), 0x80FF7F00u + (n)
#define ROW(n) FOUR(n), FOUR(n + 1), FOUR(n + 2), FOUR(n + 3)
    ROW(0), ROW(4), ROW(8), ROW(12), ROW(16), ROW(20), ROW(24), ROW(28)};

// A form, the constraint of its result, the result's C type, and an address in a register.
#define LOAD(FORM, CONSTRAINT, TYPE, SPACE, ADDRESS)                                          \
  {                                                                                           \
    TYPE value = 0;                                                                           \
    asm volatile("ld." FORM " %0, [%1];" : CONSTRAINT(value) : SPACE(ADDRESS) : "memory");    \
    out[k++ * THREADS + t] = (unsigned long long)value;                                       \
  }
#define LOAD2(FORM, CONSTRAINT, TYPE, SPACE, ADDRESS)                                         \
  {                                                                                           \
    TYPE a, b;                                                                                \
    asm volatile("ld." FORM " {%0, %1}, [%2];"                                                \
                 : CONSTRAINT(a), CONSTRAINT(b) : SPACE(ADDRESS) : "memory");                 \
    out[k++ * THREADS + t] = a, out[k++ * THREADS + t] = b;                                   \
  }
#define LOAD4(FORM, CONSTRAINT, TYPE, SPACE, ADDRESS)                                         \
  {                                                                                           \
    TYPE a, b, c, d;                                                                          \
    asm volatile("ld." FORM " {%0, %1, %2, %3}, [%4];"                                        \
                 : CONSTRAINT(a), CONSTRAINT(b), CONSTRAINT(c), CONSTRAINT(d)                 \
                 : SPACE(ADDRESS) : "memory");                                                \
    out[k++ * THREADS + t] = a, out[k++ * THREADS + t] = b;                                   \
    out[k++ * THREADS + t] = c, out[k++ * THREADS + t] = d;                                   \
  }
// Every type into registers of every width that may take it, at odd places where that is allowed.
#define TYPES(SPACE_NAME, SPACE, ADDRESS)                                                     \
  LOAD(SPACE_NAME "u8", "=h", unsigned short, SPACE, ADDRESS + 1)                             \
  LOAD(SPACE_NAME "s8", "=h", unsigned short, SPACE, ADDRESS + 3)                             \
  LOAD(SPACE_NAME "b8", "=r", unsigned, SPACE, ADDRESS + 5)                                   \
  LOAD(SPACE_NAME "s8", "=r", unsigned, SPACE, ADDRESS + 7)                                   \
  LOAD(SPACE_NAME "u8", "=l", unsigned long long, SPACE, ADDRESS + 9)                         \
  LOAD(SPACE_NAME "s8", "=l", unsigned long long, SPACE, ADDRESS + 11)                        \
  LOAD(SPACE_NAME "b16", "=h", unsigned short, SPACE, ADDRESS + 2)                            \
  LOAD(SPACE_NAME "u16", "=r", unsigned, SPACE, ADDRESS + 6)                                  \
  LOAD(SPACE_NAME "s16", "=r", unsigned, SPACE, ADDRESS + 10)                                 \
  LOAD(SPACE_NAME "u16", "=l", unsigned long long, SPACE, ADDRESS + 12)                       \
  LOAD(SPACE_NAME "s16", "=l", unsigned long long, SPACE, ADDRESS + 14)                       \
  LOAD(SPACE_NAME "b32", "=r", unsigned, SPACE, ADDRESS + 4)                                  \
  LOAD(SPACE_NAME "f32", "=r", unsigned, SPACE, ADDRESS + 8)                                  \
  LOAD(SPACE_NAME "u32", "=l", unsigned long long, SPACE, ADDRESS + 12)                       \
  LOAD(SPACE_NAME "s32", "=l", unsigned long long, SPACE, ADDRESS)                            \
  LOAD(SPACE_NAME "b64", "=l", unsigned long long, SPACE, ADDRESS + 8)                        \
  LOAD(SPACE_NAME "f64", "=l", unsigned long long, SPACE, ADDRESS)                            \
  LOAD2(SPACE_NAME "v2.u8", "=h", unsigned short, SPACE, ADDRESS + 2)                         \
  LOAD2(SPACE_NAME "v2.s16", "=r", unsigned, SPACE, ADDRESS + 12)                             \
  LOAD2(SPACE_NAME "v2.f32", "=r", unsigned, SPACE, ADDRESS + 8)                              \
  LOAD2(SPACE_NAME "v2.s32", "=l", unsigned long long, SPACE, ADDRESS)                        \
  LOAD2(SPACE_NAME "v2.b64", "=l", unsigned long long, SPACE, ADDRESS)                        \
  LOAD4(SPACE_NAME "v4.s8", "=r", unsigned, SPACE, ADDRESS + 4)                               \
  LOAD4(SPACE_NAME "v4.b16", "=h", unsigned short, SPACE, ADDRESS + 8)                        \
  LOAD4(SPACE_NAME "v4.u32", "=r", unsigned, SPACE, ADDRESS)

extern "C" __global__ void __launch_bounds__(THREADS, 1)
memory_loads(const unsigned char* bytes, unsigned long long* out, unsigned parameter) {
  __shared__ __align__(16) unsigned char tile[16 * THREADS];
  __align__(16) unsigned char own[32];
  const int t = threadIdx.x;
  for (int i = 0; i < 16; ++i) {
    tile[16 * t + i] = bytes[16 * t + i];
    own[(i + t) % 32] = bytes[16 * t + i];  // a place that only the run knows: it stays in memory
    own[(i + t + 16) % 32] = bytes[16 * t + i] ^ 0x5A;
  }
  __syncthreads();

  int k = 0;
  const unsigned char* mine = bytes + 16 * t;
  const unsigned shared = __cvta_generic_to_shared(tile) + 16 * t;
  unsigned long long local, constant;
  asm volatile("cvta.to.local.u64 %0, %1;" : "=l"(local) : "l"(own) : "memory");
  asm volatile("cvta.to.const.u64 %0, %1;" : "=l"(constant) : "l"(table));
  constant += 16 * (t % 32);

  TYPES("global.", "l", mine)
  TYPES("shared.", "r", shared)
  TYPES("local.", "l", local)
  TYPES("const.", "l", constant)
  TYPES("", "l", mine)                     // generic, in global memory
  TYPES("", "l", tile + 16 * t)            // generic, in shared memory
  TYPES("", "l", (const char*)own + 16)    // generic, in local memory
  TYPES("", "l", (const char*)table + 16)  // generic, in constant memory, one address for all
  // Generic, in another space from lane to lane.
  const void* mixed = t % 3 == 0 ? (const void*)mine : t % 3 == 1 ? tile + 16 * t : own;
  TYPES("", "l", (const char*)mixed)

  // Orders, scopes, cache operators and hints change no value.
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 0.5;" : "=l"(policy));
#define GLOBAL(FORM) LOAD(FORM ".u32", "=r", unsigned, "l", mine + k % 4 * 4)
  GLOBAL("weak.global") GLOBAL("volatile.global") GLOBAL("mmio.relaxed.sys.global")
  GLOBAL("relaxed.cta.global") GLOBAL("relaxed.cluster.global") GLOBAL("relaxed.gpu.global")
  GLOBAL("relaxed.sys.global") GLOBAL("acquire.cta.global") GLOBAL("acquire.cluster.global")
  GLOBAL("acquire.gpu.global") GLOBAL("acquire.sys.global") GLOBAL("acquire.gpu")
  GLOBAL("global.ca") GLOBAL("global.cg") GLOBAL("global.cs") GLOBAL("global.lu")
  GLOBAL("global.cv") GLOBAL("global.nc") GLOBAL("global.ca.nc") GLOBAL("global.cs.nc")
  GLOBAL("global.L1::evict_normal") GLOBAL("global.L1::evict_unchanged")
  GLOBAL("global.L1::evict_first") GLOBAL("global.L1::evict_last")
  GLOBAL("global.L1::no_allocate.L2::64B") GLOBAL("global.ca.L2::128B")
  GLOBAL("global.nc.L1::no_allocate.L2::256B") GLOBAL("relaxed.gpu.global.L1::evict_first")
  LOAD4("global.nc.L1::no_allocate.L2::128B.v4.f32", "=r", unsigned, "l", mine)
  LOAD2("acquire.gpu.global.v2.b64", "=l", unsigned long long, "l", mine)
#define SHARED(FORM) LOAD(FORM ".u32", "=r", unsigned, "r", shared + k % 4 * 4)
  SHARED("volatile.shared") SHARED("relaxed.cta.shared") SHARED("acquire.cta.shared::cta")
  SHARED("relaxed.cluster.shared::cluster") SHARED("weak.shared::cluster") SHARED("shared.ca")
  unsigned hinted, uniform, given;
  asm volatile("ld.global.L1::evict_last.L2::cache_hint.L2::128B.u32 %0, [%1], %2;"
               : "=r"(hinted) : "l"(mine), "l"(policy));
  asm volatile("ldu.global.u32 %0, [%1];" : "=r"(uniform) : "l"(bytes + 64));
  // A parameter through its generic address.
  given = parameter;
  asm volatile("{ .reg .b64 p; cvta.param.u64 p, memory_loads_param_2; ld.u32 %0, [p]; }"
               : "+r"(given));
  out[k++ * THREADS + t] = hinted;
  out[k++ * THREADS + t] = uniform;
  out[k++ * THREADS + t] = given;
  // Elements that are thrown away.
  unsigned second;
  asm volatile("ld.global.v4.u32 {_, %0, _, _}, [%1];" : "=r"(second) : "l"(mine));
  out[k++ * THREADS + t] = second;
  out[k++ * THREADS + t] = 0xE0D;  // the last form: its row is the number of the rows before
}
