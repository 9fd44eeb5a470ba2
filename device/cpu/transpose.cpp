#include <etna/device/cpu/transpose.h>

#include <algorithm>

#include <hwy/highway.h>

// Squares of 16-byte vectors are turned in registers; wider vectors would store to as many lines. Squares are visited
// in tiles whose lines on both sides stay in the L1 cache.
namespace etna::cpu {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kTile = 32;

#if HWY_TARGET != HWY_SCALAR
void square(const std::uint32_t* from, std::int64_t from_step, std::uint32_t* to, std::int64_t to_step) {
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

/// Rows of eight: after each step a vector holds twice as many neighbours of a column.
void square(const std::uint16_t* from, std::int64_t from_step, std::uint16_t* to, std::int64_t to_step) {
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::FixedTag<std::uint32_t, 4> twos;
  const hn::FixedTag<std::uint64_t, 2> fours;
  for (int half = 0; half < 2; ++half) {
    const auto row = [&](std::int64_t r) { return hn::LoadU(d, from + r * from_step); };
    const auto two = [&](std::int64_t r) {
      const auto x = row(r), y = row(r + 1);
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
void one_by_one(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows,
                std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
  }
}

template <typename T>
void tile(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows, std::int64_t columns) {
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
void turn(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; r += kTile) {
    for (std::int64_t c = 0; c < columns; c += kTile) {
      tile(from + c * from_step + r, from_step, to + r * to_step + c, to_step, std::min(kTile, rows - r),
           std::min(kTile, columns - c));
    }
  }
}

}  // namespace

void transpose(const void* from, std::int64_t from_step, void* to, std::int64_t to_step, std::int64_t rows,
               std::int64_t columns, std::int64_t item) {
  const auto as = [&](auto zero) {
    using T = decltype(zero);
    turn(static_cast<const T*>(from), from_step, static_cast<T*>(to), to_step, rows, columns);
  };
  switch (item) {
    case 1:
      return as(std::uint8_t{});
    case 2:
      return as(std::uint16_t{});
    case 4:
      return as(std::uint32_t{});
    default:
      return as(std::uint64_t{});
  }
}

}  // namespace etna::cpu
