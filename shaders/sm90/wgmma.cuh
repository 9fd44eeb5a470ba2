#pragma once
// Warpgroup matrix multiplications: d[64 x N] (+)= a[64 x 16] b[16 x N] in f32, by the four warps of a warpgroup. The
// number of sums a thread holds, N / 2, chooses the instruction.
#include <cstdint>

namespace hopper {

__device__ __forceinline__ void product_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void product_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/// Descriptor of an operand in shared memory, in 128-byte or 64-byte swizzle. `stride`: bytes from 8 rows to the next 8
/// (one row per k if `leading` is given: bytes from 64 elements across k to the next 64).
template <int SWIZZLE>
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address, std::uint32_t stride,
                                                 std::uint32_t leading = 16) {
  return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) | static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(stride >> 4) << 32 | (SWIZZLE == 128 ? 1ull : 2ull) << 62;
}

#define ETNA_SUMS_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ETNA_SUMS_48 ETNA_SUMS_32 \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ETNA_SUMS_64 ETNA_SUMS_48 \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ETNA_SUMS_96 ETNA_SUMS_64 \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ETNA_SUMS_128 ETNA_SUMS_96 \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ETNA_REFS_16(d, at) \
  "+f"(d[at]), "+f"(d[at + 1]), "+f"(d[at + 2]), "+f"(d[at + 3]), "+f"(d[at + 4]), "+f"(d[at + 5]), \
      "+f"(d[at + 6]), "+f"(d[at + 7]), "+f"(d[at + 8]), "+f"(d[at + 9]), "+f"(d[at + 10]), "+f"(d[at + 11]), \
      "+f"(d[at + 12]), "+f"(d[at + 13]), "+f"(d[at + 14]), "+f"(d[at + 15])
#define ETNA_REFS_32(d) ETNA_REFS_16(d, 0), ETNA_REFS_16(d, 16)
#define ETNA_REFS_48(d) ETNA_REFS_32(d), ETNA_REFS_16(d, 32)
#define ETNA_REFS_64(d) ETNA_REFS_48(d), ETNA_REFS_16(d, 48)
#define ETNA_REFS_96(d) ETNA_REFS_64(d), ETNA_REFS_16(d, 64), ETNA_REFS_16(d, 80)
#define ETNA_REFS_128(d) ETNA_REFS_96(d), ETNA_REFS_16(d, 96), ETNA_REFS_16(d, 112)

/// Both operands from shared memory. ACROSS: stored with one row per k. Without `add`, d is overwritten.
#define ETNA_WGMMA_SHARED(SUMS, N, TYPE, A, B, ADD, ACROSS_A, ACROSS_B)                                             \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." \
               TYPE " {" ETNA_SUMS_##SUMS "}, " A ", " B ", p, 1, 1, " ACROSS_A ", " ACROSS_B "; }"                 \
               : ETNA_REFS_##SUMS(d)                                                                                \
               : "l"(a), "l"(b), "r"(scale), "n"(static_cast<int>(A_ACROSS)), "n"(static_cast<int>(B_ACROSS)))
/// a from registers, packed in pairs along k.
#define ETNA_WGMMA_REGISTERS(SUMS, N, TYPE, A, B, ADD, ACROSS)                                                      \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0; wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." \
               TYPE " {" ETNA_SUMS_##SUMS "}, {" A "}, " B ", p, 1, 1, " ACROSS "; }"                               \
               : ETNA_REFS_##SUMS(d)                                                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale), "n"(static_cast<int>(B_ACROSS)))

#define ETNA_WGMMA(SUMS, N, I0, I1, I2, I3, I4, I5, I6)                                                              \
  template <bool F16, bool A_ACROSS, bool B_ACROSS>                                                                  \
  __device__ __forceinline__ void wgmma(float (&d)[SUMS], std::uint64_t a, std::uint64_t b, bool add) {              \
    const int scale = add;                                                                                           \
    if constexpr (F16)                                                                                               \
      ETNA_WGMMA_SHARED(SUMS, N, "f16", I0, I1, I2, I3, I4);                                                         \
    else                                                                                                             \
      ETNA_WGMMA_SHARED(SUMS, N, "bf16", I0, I1, I2, I3, I4);                                                        \
  }                                                                                                                  \
  template <bool F16 = false, bool B_ACROSS = false>                                                                 \
  __device__ __forceinline__ void wgmma(float (&d)[SUMS], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {  \
    const int scale = add;                                                                                           \
    if constexpr (F16)                                                                                               \
      ETNA_WGMMA_REGISTERS(SUMS, N, "f16", I0 ", " I1 ", " I2 ", " I3, I4, I5, I6);                                  \
    else                                                                                                             \
      ETNA_WGMMA_REGISTERS(SUMS, N, "bf16", I0 ", " I1 ", " I2 ", " I3, I4, I5, I6);                                 \
  }
ETNA_WGMMA(32, "64", "%32", "%33", "%34", "%35", "%36", "%37", "%38")
ETNA_WGMMA(48, "96", "%48", "%49", "%50", "%51", "%52", "%53", "%54")
ETNA_WGMMA(64, "128", "%64", "%65", "%66", "%67", "%68", "%69", "%70")
ETNA_WGMMA(96, "192", "%96", "%97", "%98", "%99", "%100", "%101", "%102")
ETNA_WGMMA(128, "256", "%128", "%129", "%130", "%131", "%132", "%133", "%134")

}  // namespace hopper
