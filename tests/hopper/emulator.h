#pragma once

#include <cmath>
#include <limits>

#include "hopper/cuda_numbers.h"
#include "hopper/fibers.h"
#include "hopper/matrix_units.h"

// Runs kernels of shaders/sm90/ on the CPU, so that machines without such a GPU test them: what indices, descriptors,
// barriers and turns say, not how fast it is. Include it before the kernel. Each thread is a fiber. Products run when
// they are waited for, and copies to memory too, so that what a kernel overwrites too early is seen. Blocks run in a
// random order, as many at once as asked, and now and then a warp or a warpgroup pauses. bf16 only.

inline constexpr emulated::OneDimension<emulated::Index::Thread> threadIdx;
inline constexpr emulated::OneDimension<emulated::Index::Number> blockIdx;
inline constexpr emulated::OneDimension<emulated::Index::Blocks> gridDim;
inline constexpr emulated::OneDimension<emulated::Index::Threads> blockDim;

inline void __syncthreads() {
  emulated::meet(emulated::state.block->named[0], static_cast<int>(emulated::state.threads), [] {});
}
inline void __syncwarp() {
  emulated::meet(emulated::warp().meeting, 32, [] {});
}
template <typename T>
T __shfl_xor_sync(std::uint32_t, T x, std::uint32_t mask) {
  return emulated::from_lane(x, emulated::state.fiber->thread % 32 ^ mask);
}
template <typename T>
T __shfl_sync(std::uint32_t, T x, std::uint32_t lane) {
  return emulated::from_lane(x, lane);
}
inline std::uint32_t __ballot_sync(std::uint32_t, bool value) {
  emulated::Warp& w = emulated::warp();
  w.words[emulated::state.fiber->thread % 32] = value;
  emulated::meet(w.meeting, 32, [] {});
  std::uint32_t bits = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) bits |= w.words[lane] << lane;
  emulated::meet(w.meeting, 32, [] {});
  return bits;
}
inline std::uint32_t atomicAdd(std::uint32_t* to, std::uint32_t n) { return (*to += n) - n; }

namespace hopper {

/// Of heads [batch, heads, rows, size], with strides in elements, instead of the engine's description.
struct TensorMap {
  const std::uint16_t* at;
  std::int64_t size, rows, heads, batch, row_stride, head_stride, batch_stride;
  int box_rows, box_heads = 1;
  /// Of images, whose channels, width and height are size, rows and heads: the pixels that copy_pixels() visits.
  int first_x = 0, first_y = 0, places_x = 0, places_y = 0, stride_x = 1, stride_y = 1;
};

constexpr std::uint32_t kBase = 1024;  ///< of a block's shared memory

inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const char*>(p) - emulated::state.block->memory.data()) + kBase;
}
inline char* shared_pointer(std::uint32_t address) { return emulated::state.block->memory.data() + (address - kBase); }

inline emulated::MemoryBarrier& barrier_at(std::uint32_t address) {
  const auto found = emulated::state.block->barriers.find(address);
  if (found == emulated::state.block->barriers.end()) emulated::fail("a barrier that nobody initialized");
  return found->second;
}
inline void end_phase(emulated::MemoryBarrier& b) {
  if (b.missing < 0) emulated::fail("more arrivals than a barrier counts");
  if (b.missing > 0 || b.bytes != 0) return;
  b.missing = b.arrivals;
  ++b.phase;
  ++emulated::state.progress;
}
inline void barrier_init(std::uint32_t barrier, int arrivals) {
  emulated::state.block->barriers[barrier] = {arrivals, arrivals};
}
inline void barrier_init_done() {}
inline void barrier_expect(std::uint32_t barrier, int bytes) {
  emulated::MemoryBarrier& b = barrier_at(barrier);
  b.bytes += bytes;
  --b.missing;
  end_phase(b);
}
inline void barrier_arrive(std::uint32_t barrier) {
  emulated::MemoryBarrier& b = barrier_at(barrier);
  --b.missing;
  end_phase(b);
}
inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  const emulated::MemoryBarrier& b = barrier_at(barrier);
  emulated::wait([&] { return (b.phase & 1) != parity; });
}

inline void came(std::uint32_t barrier, int bytes) {
  emulated::MemoryBarrier& b = barrier_at(barrier);
  b.bytes -= bytes;
  end_phase(b);
}
/// Row `row` of a box, in the 128-byte swizzle: `count` numbers, and zeros.
inline void put_row(std::uint32_t to, int row, const std::uint16_t* from, std::int64_t count) {
  if (to % 1024 != 0) emulated::fail("a box that does not begin at a multiple of 1024 bytes");
  for (int c = 0; c < 64; ++c) {
    const std::uint16_t value = c < count ? from[c] : std::uint16_t{0};
    std::memcpy(shared_pointer(to + static_cast<std::uint32_t>(row * 128 + (c / 8 ^ (row & 7)) * 16 + c % 8 * 2)),
                &value, 2);
  }
}
inline void copy_box(std::uint32_t to, const TensorMap& map, std::uint32_t x, std::uint32_t y, std::uint32_t head,
                     std::uint32_t batch, std::uint32_t barrier) {
  for (int row = 0; row < map.box_rows * map.box_heads; ++row) {
    const std::uint32_t r = y + row % map.box_rows, h = head + row / map.box_rows;
    const bool there = r < map.rows && h < map.heads && batch < map.batch;
    put_row(to, row, map.at + (h * map.head_stride + batch * map.batch_stride + r * map.row_stride + x),
            there ? map.size - x : 0);
  }
  came(barrier, map.box_rows * map.box_heads * 128);
}
inline void copy_box(std::uint32_t to, const TensorMap& map, int x, int y, int matrix, std::uint32_t barrier) {
  copy_box(to, map, static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), static_cast<std::uint32_t>(matrix), 0,
           barrier);
}
inline void copy_pixels(std::uint32_t to, const TensorMap& map, int channel, int x, int y, int image,
                        std::uint32_t right, std::uint32_t down, std::uint32_t barrier) {
  for (int row = 0; row < map.box_rows; ++row) {
    const std::int64_t at_x = x + static_cast<int>(right), at_y = y + static_cast<int>(down);
    const bool there = at_x >= 0 && at_x < map.rows && at_y >= 0 && at_y < map.heads && image < map.batch;
    put_row(to, row, map.at + (image * map.batch_stride + at_y * map.head_stride + at_x * map.row_stride + channel),
            there ? map.size - channel : 0);
    if ((x += map.stride_x) < map.first_x + map.places_x * map.stride_x) continue;
    x = map.first_x;
    if ((y += map.stride_y) < map.first_y + map.places_y * map.stride_y) continue;
    y = map.first_y, ++image;
  }
  came(barrier, map.box_rows * 128);
}
inline void copy_16(void* to, const void* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) emulated::fail("a copy that is not in units of 16 bytes");
  emulated::state.fiber->copied.emplace_back(to, from);
}
inline void copy_16_or_zeros(void* to, const void* from, bool there) {
  static constexpr char kZeros[16] = {};
  if (there) return copy_16(to, from);
  emulated::state.fiber->copied.emplace_back(to, kZeros);
}
inline uint4 load_16(const void* from) { return *static_cast<const uint4*>(from); }
inline void copy_commit() {
  emulated::Fiber& fiber = *emulated::state.fiber;
  fiber.groups.push_back(std::exchange(fiber.copied, {}));
}
template <int PENDING>
void copy_wait() {
  emulated::Fiber& fiber = *emulated::state.fiber;
  for (; fiber.groups.size() > PENDING; fiber.groups.pop_front()) {
    for (const auto& [to, from] : fiber.groups.front()) std::memcpy(to, from, 16);
  }
}
inline void copy_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  if (to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes % 16 != 0)
    emulated::fail("a copy that is not in units of 16 bytes");
  std::memcpy(shared_pointer(to), from, static_cast<std::size_t>(bytes));
  came(barrier, bytes);
}
inline void prefetch_bytes(const void*, std::uint32_t) {}
inline void store_bytes(void* to, std::uint32_t from, int bytes) {
  emulated::state.fiber->stores.push_back({to, from, bytes, false});
}
inline void add_floats(float* to, std::uint32_t from, int bytes) {
  emulated::state.fiber->stores.push_back({to, from, bytes, true});
}
/// Reads shared memory late; what it read is in memory later still.
inline void stored_reads() {
  for (int i = 0; i < 5; ++i) emulated::yield();
  for (auto& store : emulated::state.fiber->stores) {
    if (store.read.empty()) store.read.assign(shared_pointer(store.from), shared_pointer(store.from) + store.bytes);
  }
  ++emulated::state.progress;
}
inline void stored_all() {
  stored_reads();
  for (int i = 0; i < 5; ++i) emulated::yield();
  for (const auto& store : emulated::state.fiber->stores) {
    const char* from = store.read.data();
    if (!store.adds) std::memcpy(store.to, from, static_cast<std::size_t>(store.bytes));
    for (int i = 0; store.adds && i < store.bytes / 4; ++i)
      static_cast<float*>(store.to)[i] += reinterpret_cast<const float*>(from)[i];
  }
  emulated::state.fiber->stores.clear();
  ++emulated::state.progress;
}
inline void wait_until(const std::uint32_t* word, std::uint32_t value) {
  emulated::wait([&] { return *word == value; });
}
inline void set_release(std::uint32_t* word, std::uint32_t value) { *word = value; }
inline void fence_async() {}

inline void sync_threads(int barrier, int count) {
  emulated::meet(emulated::state.block->named[static_cast<std::size_t>(barrier)], count, [] {});
}
inline void arrive_threads(int barrier, int count) {
  emulated::arrive(emulated::state.block->named[static_cast<std::size_t>(barrier)], count);
}
template <int REGISTERS>
void give_registers() {}
template <int REGISTERS>
void take_registers() {}

inline void product_fence() {}
inline void product_commit() {
  emulated::Warpgroup& g = emulated::group();
  emulated::meet(g.meeting, 128, [&] { g.committed.push_back(std::exchange(g.issued, {})); });
}
template <int PENDING>
void product_wait() {
  emulated::Warpgroup& g = emulated::group();
  emulated::meet(g.meeting, 128, [&] {
    for (; g.committed.size() > PENDING; g.committed.pop_front()) {
      for (const auto& product : g.committed.front()) product();
    }
  });
}

/// Of the 128-byte swizzle, as wgmma.cuh has it.
template <int SWIZZLE>
std::uint64_t operand(std::uint32_t address, std::uint32_t stride, std::uint32_t leading = 16) {
  static_assert(SWIZZLE == 128);
  return (address & 0x3FFFF) >> 4 | std::uint64_t{leading >> 4} << 16 | std::uint64_t{stride >> 4} << 32;
}
/// Element [row, k] of an operand of 16 steps of k.
inline float element(const emulated::Block& block, std::uint64_t operand, bool across, std::uint32_t row,
                     std::uint32_t k) {
  const auto field = [&](int bit) { return static_cast<std::uint32_t>(operand >> bit & 0x3FFF) << 4; };
  const std::uint32_t address = across
                                    ? field(0) + row / 64 * field(16) + k / 8 * field(32) + k % 8 * 128 + row % 64 * 2
                                    : field(0) + row / 8 * field(32) + row % 8 * 128 + k * 2;
  std::uint16_t value;
  std::memcpy(&value, block.memory.data() + ((address ^ (address >> 7 & 7) << 4) - kBase), 2);
  return emulated::from_bf16(value);
}

/// Sums of 64 x 2 SUMS, of which each of 128 threads holds SUMS, as the hardware deals them out.
template <int SUMS>
void issue(float* d, const std::uint32_t* registers, std::uint64_t a, bool a_across, std::uint64_t b, bool b_across,
           bool add) {
  emulated::Warpgroup& g = emulated::group();
  g.sums[emulated::state.fiber->thread % 128] = d;
  g.operands[emulated::state.fiber->thread % 128] = registers;
  emulated::meet(g.meeting, 128, [&] {
    const emulated::Block* block = emulated::state.block;
    const auto sums = g.sums;
    const auto operands = g.operands;
    g.issued.push_back([=] {
      static float left[64][16], right[2 * SUMS][16];
      for (std::uint32_t k = 0; k < 16; ++k) {
        for (std::uint32_t r = 0; r < 64; ++r) {
          const std::uint32_t lane = r % 8 * 4 + k % 8 / 2;
          left[r][k] = operands[0] == nullptr
                           ? element(*block, a, a_across, r, k)
                           : emulated::from_bf16(static_cast<std::uint16_t>(
                                 operands[r / 16 * 32 + lane][r % 16 / 8 + k / 8 * 2] >> (k & 1) * 16));
        }
        for (std::uint32_t n = 0; n < 2 * SUMS; ++n) right[n][k] = element(*block, b, b_across, n, k);
      }
      for (std::uint32_t r = 0; r < 64; ++r) {
        for (std::uint32_t n = 0; n < 2 * SUMS; ++n) {
          float& x = sums[r / 16 * 32 + r % 8 * 4 + n % 8 / 2][n / 8 * 4 + r % 16 / 8 * 2 + (n & 1)];
          x = emulated::sum_of_products(add ? x : 0, left[r], right[n]);
        }
      }
    });
  });
}
template <bool F16, bool A_ACROSS, bool B_ACROSS, int SUMS>
void wgmma(float (&d)[SUMS], std::uint64_t a, std::uint64_t b, bool add) {
  static_assert(!F16);
  issue<SUMS>(d, nullptr, a, A_ACROSS, b, B_ACROSS, add);
}
template <bool F16 = false, bool B_ACROSS = false, int SUMS>
void wgmma(float (&d)[SUMS], const std::uint32_t (&a)[4], std::uint64_t b, bool add) {
  static_assert(!F16);
  issue<SUMS>(d, a, 0, false, b, B_ACROSS, add);
}

template <bool F16>
std::uint32_t pack(float low, float high) {
  return emulated::to_bf16(low) | std::uint32_t{emulated::to_bf16(high)} << 16;
}
template <bool F16>
std::uint32_t larger_of_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t larger = 0;
  for (int at : {0, 16}) {
    const auto one = static_cast<std::uint16_t>(a >> at), other = static_cast<std::uint16_t>(b >> at);
    larger |= std::uint32_t{emulated::to_bf16(std::fmax(emulated::from_bf16(one), emulated::from_bf16(other)))} << at;
  }
  return larger;
}
template <bool F16>
float2 unpack(std::uint32_t two) {
  return {emulated::from_bits(two << 16), emulated::from_bits(two & 0xFFFF0000)};
}
inline float exp2_fast(float x) { return std::exp2(x); }
inline float reciprocal_fast(float x) { return 1 / x; }
inline void store_matrices(std::uint32_t to, const std::uint32_t (&a)[4]) {
  emulated::Warp& w = emulated::warp();
  const std::uint32_t lane = emulated::state.fiber->thread % 32;
  w.addresses[lane] = to;
  std::copy_n(a, 4, w.matrices[lane].begin());
  emulated::meet(w.meeting, 32, [&] {
    for (std::uint32_t i = 0; i < 128; ++i)  // row i / 4 of the 32, two elements
      std::memcpy(shared_pointer(w.addresses[i / 4]) + i % 4 * 4, &w.matrices[i / 4 % 8 * 4 + i % 4][i / 32], 4);
  });
}
inline void load_matrices(std::uint32_t (&a)[4], std::uint32_t from) {
  emulated::Warp& w = emulated::warp();
  const std::uint32_t lane = emulated::state.fiber->thread % 32;
  w.addresses[lane] = from;
  emulated::meet(w.meeting, 32, [&] {
    for (std::uint32_t i = 0; i < 128; ++i)
      std::memcpy(&w.matrices[i / 4 % 8 * 4 + i % 4][i / 32], shared_pointer(w.addresses[i / 4]) + i % 4 * 4, 4);
  });
  std::copy_n(w.matrices[lane].begin(), 4, a);
}

}  // namespace hopper
