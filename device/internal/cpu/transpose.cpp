// Squares of 16-byte vectors are transposed in registers; wider vectors would store to as many cache lines. Squares are
// visited in tiles whose cache lines on both sides stay in the L1 cache.
#include <etna/device/internal/cpu/transpose.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/device/internal/cpu/transpose.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

constexpr std::int64_t kTile = 32;

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void square(const std::uint32_t* from, std::int64_t from_step, std::uint32_t* to, std::int64_t to_step) {
  const hn::FixedTag<std::uint32_t, 4> d;
  const hn::FixedTag<std::uint64_t, 2> pairs;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_step), c = hn::LoadU(d, from + 2 * from_step),
             e = hn::LoadU(d, from + 3 * from_step);
  const auto low_ab = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
             low_ce = hn::BitCast(pairs, hn::InterleaveLower(d, c, e)),
             high_ab = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
             high_ce = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low_ab, low_ce)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low_ab, low_ce)), d, to + to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high_ab, high_ce)), d, to + 2 * to_step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high_ab, high_ce)), d, to + 3 * to_step);
}

/// Rows of eight: each step doubles the number of neighbours of a column that a vector holds.
HWY_INLINE void square(const std::uint16_t* from, std::int64_t from_step, std::uint16_t* to, std::int64_t to_step) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::FixedTag<std::uint32_t, 4> twos;
  const hn::FixedTag<std::uint64_t, 2> fours;
  for (int half = 0; half < 2; ++half) {
    const auto two = [&](std::int64_t r) HWY_ATTR {
      const auto x = hn::LoadU(d, from + r * from_step), y = hn::LoadU(d, from + (r + 1) * from_step);
      return hn::BitCast(twos, half == 0 ? hn::InterleaveLower(d, x, y) : hn::InterleaveUpper(d, x, y));
    };
    const auto a = two(0), b = two(2), c = two(4), e = two(6);
    const auto low_ab = hn::BitCast(fours, hn::InterleaveLower(twos, a, b)),
               low_ce = hn::BitCast(fours, hn::InterleaveLower(twos, c, e)),
               high_ab = hn::BitCast(fours, hn::InterleaveUpper(twos, a, b)),
               high_ce = hn::BitCast(fours, hn::InterleaveUpper(twos, c, e));
    std::uint16_t* out = to + 4 * half * to_step;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(fours, low_ab, low_ce)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(fours, low_ab, low_ce)), d, out + to_step);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(fours, high_ab, high_ce)), d, out + 2 * to_step);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(fours, high_ab, high_ce)), d, out + 3 * to_step);
  }
}

#endif

template <typename T>
HWY_INLINE void one_by_one(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
                           std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
  }
}

template <typename T>
HWY_INLINE void tile(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
                     std::int64_t columns) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    constexpr std::int64_t side = 16 / sizeof(T);
    const std::int64_t whole_rows = rows / side * side, whole_columns = columns / side * side;
    for (std::int64_t r = 0; r < whole_rows; r += side) {
      for (std::int64_t c = 0; c < whole_columns; c += side)
        square(from + c * from_step + r, from_step, to + r * to_step + c, to_step);
    }
    one_by_one(from + whole_columns * from_step, from_step, to + whole_columns, to_step, whole_rows,
               columns - whole_columns);
    one_by_one(from + whole_rows, from_step, to + whole_rows * to_step, to_step, rows - whole_rows, columns);
    return;
  }
#endif
  one_by_one(from, from_step, to, to_step, rows, columns);
}

template <typename T>
HWY_INLINE void turn(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
                     std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; r += kTile) {
    for (std::int64_t c = 0; c < columns; c += kTile) {
      tile(from + c * from_step + r, from_step, to + r * to_step + c, to_step, std::min(kTile, rows - r),
           std::min(kTile, columns - c));
    }
  }
}

void turn_8(const std::uint8_t* from, std::int64_t from_step, std::uint8_t* to, std::int64_t to_step, std::int64_t rows,
            std::int64_t columns) {
  turn(from, from_step, to, to_step, rows, columns);
}
void turn_16(const std::uint16_t* from, std::int64_t from_step, std::uint16_t* to, std::int64_t to_step,
             std::int64_t rows, std::int64_t columns) {
  turn(from, from_step, to, to_step, rows, columns);
}
void turn_32(const std::uint32_t* from, std::int64_t from_step, std::uint32_t* to, std::int64_t to_step,
             std::int64_t rows, std::int64_t columns) {
  turn(from, from_step, to, to_step, rows, columns);
}
void turn_64(const std::uint64_t* from, std::int64_t from_step, std::uint64_t* to, std::int64_t to_step,
             std::int64_t rows, std::int64_t columns) {
  turn(from, from_step, to, to_step, rows, columns);
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(turn_8);
HWY_EXPORT(turn_16);
HWY_EXPORT(turn_32);
HWY_EXPORT(turn_64);

void transpose(const void* from, std::int64_t from_step, void* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns, std::int64_t item) {
  const auto as = [&](auto zero, auto run) {
    using T = decltype(zero);
    run(static_cast<const T*>(from), from_step, static_cast<T*>(to), to_step, rows, columns);
  };
  switch (item) {
    case 1:
      return as(std::uint8_t{}, HWY_DYNAMIC_DISPATCH(turn_8));
    case 2:
      return as(std::uint16_t{}, HWY_DYNAMIC_DISPATCH(turn_16));
    case 4:
      return as(std::uint32_t{}, HWY_DYNAMIC_DISPATCH(turn_32));
    default:
      return as(std::uint64_t{}, HWY_DYNAMIC_DISPATCH(turn_64));
  }
}

}  // namespace etna::cpu
#endif
