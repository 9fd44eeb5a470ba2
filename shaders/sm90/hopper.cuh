#pragma once
// Hopper-only instructions: bulk tensor copies (PTX's cp.async.bulk.tensor), the barriers that track them, and
// warpgroup matrix multiplications.
#include <cstdint>

// Without CUDA, tests/hopper/emulator.h comes before.
#ifdef __CUDACC__
#include "wgmma.cuh"

namespace hopper {

/// The copy engine's description of a matrix in memory; the host encodes it
/// (tensor/ops/matmul/gemm/internal/tensor_map.h).
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// A barrier counts arrivals and the bytes of copies; a phase ends when both are complete. A wait names the parity of
/// the phase.
__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }"
      ::"r"(barrier), "r"(parity)
      : "memory");
}

/// Copies one box of a matrix of a batch to shared memory; x counts elements along the rows. Elements outside the
/// matrix are 0.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, int x, int y, int z,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
      ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

/// The same of a batch of heads.
__device__ __forceinline__ void copy_box(std::uint32_t to, const TensorMap& map, int x, int y, int head, int batch,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
      ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(head), "r"(batch), "r"(barrier)
      : "memory");
}

/// Copies some channels of successive pixels of channels-last images, at a tap's offset. Pixels continue in the next
/// row and image, within the map's bounds; pixels outside the images are 0.
__device__ __forceinline__ void copy_pixels(std::uint32_t to, const TensorMap& map, int channel, int x, int y,
                                            int image, std::uint32_t right, std::uint32_t down,
                                            std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier), "h"(static_cast<std::uint16_t>(right)),
      "h"(static_cast<std::uint16_t>(down))
      : "memory");
}

/// Copies 16 bytes to shared memory. A thread's copies since the last copy_commit() are a group.
__device__ __forceinline__ void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
/// Writes zeros if `there` is false.
__device__ __forceinline__ void copy_16_or_zeros(void* to, const void* from, bool there) {
  const int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/// Copies consecutive bytes to shared memory; all is in units of 16 bytes.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
/// Brings consecutive bytes to the L2 cache, in units of 16.
__device__ __forceinline__ void prefetch_bytes(const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
/// The other way, or adding floats to those in memory; stored_all() waits until this thread's are in memory, and
/// stored_reads() until shared memory may change.
__device__ __forceinline__ void store_bytes(void* to, std::uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void add_floats(float* to, std::uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void stored_reads() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void stored_all() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}

/// A word in memory that blocks pass on.
__device__ __forceinline__ void wait_until(const std::uint32_t* word, std::uint32_t value) {
  std::uint32_t now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
  } while (now != value);
  asm volatile("fence.proxy.async.global;" ::: "memory");
}
__device__ __forceinline__ void set_release(std::uint32_t* word, std::uint32_t value) {
  asm volatile("fence.proxy.async.global; st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Synchronizes `count` threads with one of the 16 barriers of a block.
__device__ __forceinline__ void sync_threads(int barrier, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
/// Counts among the threads of such a barrier without waiting for them.
__device__ __forceinline__ void arrive_threads(int barrier, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ bool any_of_threads(int barrier, int count, bool value) {
  int any;
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.s32 %0, 1, 0, q; }"
               : "=r"(any)
               : "r"(static_cast<int>(value)), "r"(barrier), "r"(count)
               : "memory");
  return any != 0;
}

template <int REGISTERS>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/// Two numbers in one word, f16 or bf16, the first in the lower half.
template <bool F16>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  if constexpr (F16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
template <bool F16>
__device__ __forceinline__ float2 unpack(std::uint32_t two) {
  if constexpr (!F16) return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF0000));
  float2 x;
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
      : "=f"(x.x), "=f"(x.y)
      : "r"(two));
  return x;
}

/// The larger ones of two pairs; a NaN loses.
template <bool F16>
__device__ __forceinline__ std::uint32_t larger_of_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t larger;
  if constexpr (F16)
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  else
    asm("max.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Stores a warp's four 8 x 8 matrices of 16 bits; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void store_matrices(std::uint32_t to, const std::uint32_t (&a)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a[0]), "r"(a[1]),
               "r"(a[2]), "r"(a[3])
               : "memory");
}

/// Loads four 8 x 8 matrices of 16 bits, whose rows lanes address as for store_matrices().
/// 16 bytes of shared memory, loaded where this stands: other loads move to the branch that uses them.
__device__ __forceinline__ uint4 load_16(const void* from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(shared_address(from))
               : "memory");
  return x;
}
__device__ __forceinline__ void load_matrices(std::uint32_t (&a)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(from)
               : "memory");
}

}  // namespace hopper
#endif

namespace hopper {

/// Among four neighboring lanes: word i of lane j becomes word j of lane i.
__device__ __forceinline__ void transpose_of_four(std::uint32_t (&x)[4]) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = threadIdx.x & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const std::uint32_t other = __shfl_xor_sync(~0u, upper ? x[i] : x[i + step], step);
      (upper ? x[i] : x[i + step]) = other;
    }
  }
}

}  // namespace hopper
