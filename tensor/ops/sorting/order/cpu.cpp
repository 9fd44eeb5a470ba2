#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <etna/device/internal/cpu/parallel.h>
#include <etna/device/internal/cpu/scratch.h>
#include <etna/tensor/ops/sorting/order/internal/order.h>

// Elements become unsigned keys, each with its position. A radix sort of those is stable and reads memory in order;
// short rows are sorted by comparing, with the position after the key.
namespace etna::order {
namespace {

template <typename Bits>
Bits float_key(Bits bits, Bits infinity) {
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  // Branch-free, so that loops over it vectorize.
  const bool nan = Bits(bits & Bits(sign - 1)) > infinity;
  bits = bits == sign ? Bits(0) : bits;
  const Bits ordered = (bits & sign) != 0 ? Bits(~bits) : Bits(bits | sign);
  return nan ? Bits(~Bits(0)) : ordered;
}

std::uint64_t key(double v) { return float_key(std::bit_cast<std::uint64_t>(v), std::uint64_t{0x7ff0000000000000}); }
std::uint32_t key(float v) { return float_key(std::bit_cast<std::uint32_t>(v), std::uint32_t{0x7f800000}); }
std::uint16_t key(Half v) { return float_key(v.bits, std::uint16_t{0x7c00}); }
std::uint16_t key(BFloat16 v) { return float_key(v.bits, std::uint16_t{0x7f80}); }
std::uint64_t key(std::int64_t v) { return static_cast<std::uint64_t>(v) ^ (std::uint64_t{1} << 63); }
std::uint32_t key(std::int32_t v) { return static_cast<std::uint32_t>(v) ^ (std::uint32_t{1} << 31); }
std::uint8_t key(std::int8_t v) { return static_cast<std::uint8_t>(static_cast<std::uint8_t>(v) ^ 0x80u); }
std::uint8_t key(std::uint8_t v) { return v; }
std::uint8_t key(bool v) { return v ? 1 : 0; }

/// A key of up to 32 bits in the high bits, its position in the low bits.
struct Packed {
  std::uint64_t bits;
  Packed() = default;
  Packed(std::uint64_t key, std::int64_t at) : bits(key << 32 | static_cast<std::uint64_t>(at)) {}
  std::uint64_t key() const { return bits >> 32; }
  std::int64_t place() const { return static_cast<std::int64_t>(bits & 0xffffffffu); }
  bool operator<(const Packed& other) const { return bits < other.bits; }
};
struct Wide {
  std::uint64_t bits;
  std::int64_t at;
  Wide() = default;
  Wide(std::uint64_t key, std::int64_t at) : bits(key), at(at) {}
  std::uint64_t key() const { return bits; }
  std::int64_t place() const { return at; }
  bool operator<(const Wide& other) const { return bits != other.bits ? bits < other.bits : at < other.at; }
};

constexpr int kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
constexpr std::int64_t kCompare = 512;  ///< rows up to this length are sorted by comparing

/// @param key_bits number of bits of a key, at most 64
template <typename Pair>
void radix_sort(Pair* pairs, Pair* other, std::size_t n, int key_bits, std::int64_t* order) {
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  cpu::Scratch<std::uint32_t> counts(static_cast<std::size_t>(passes) * kDigits, 0u);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t rest = pairs[i].key();
    for (int p = 0; p < passes; ++p, rest >>= kDigitBits)
      ++counts[static_cast<std::size_t>(p) * kDigits + (rest & (kDigits - 1))];
  }
  for (int p = 0; p < passes; ++p) {
    std::uint32_t* bins = counts.data() + static_cast<std::size_t>(p) * kDigits;
    const int shift = p * kDigitBits;
    if (bins[(pairs[0].key() >> shift) & (kDigits - 1)] == n) continue;  // all have the same digit
    std::uint32_t sum = 0;
    for (std::size_t d = 0; d < kDigits; ++d) {
      const std::uint32_t count = bins[d];
      bins[d] = sum;
      sum += count;
    }
    for (std::size_t i = 0; i < n; ++i) other[bins[(pairs[i].key() >> shift) & (kDigits - 1)]++] = pairs[i];
    std::swap(pairs, other);
  }
  for (std::size_t i = 0; i < n; ++i) order[i] = pairs[i].place();
}

/// Finds the first `kept` pairs of a sorted row. A vectorized loop finds the least key of each block; the kept-th least
/// of those is an upper bound of the result, and few blocks have keys below it. If many keys are equal, the list of
/// candidates may still fill up; the bound is then lowered each time.
/// @param flip all ones to sort in descending order
template <typename Pair, typename T, typename Key>
void order_cpu_select(const T* row, std::int64_t n, std::int64_t kept, Key flip, std::int64_t* order) {
  const std::int64_t block = std::clamp<std::int64_t>(n / (4 * kept), 8, 64), blocks = (n + block - 1) / block;
  const auto k = static_cast<std::size_t>(kept);
  cpu::Scratch<Key> least(static_cast<std::size_t>(2 * blocks));
  for (std::int64_t b = 0; b < blocks; ++b) {
    Key low = Key(~Key(0));
    for (std::int64_t i = b * block; i < std::min(n, (b + 1) * block); ++i)
      low = std::min(low, Key(key(row[i]) ^ flip));
    least[static_cast<std::size_t>(b)] = least[static_cast<std::size_t>(blocks + b)] = low;
  }
  Key bound = Key(~Key(0));
  if (blocks >= kept) {
    const auto copy = least.begin() + blocks;
    std::nth_element(copy, copy + (kept - 1), least.end());
    bound = copy[kept - 1];
  }
  cpu::Scratch<Pair> list(std::max<std::size_t>(4 * k, 128));
  std::size_t size = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (least[static_cast<std::size_t>(b)] > bound) continue;
    for (std::int64_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
      const Key now = Key(key(row[i]) ^ flip);
      if (now > bound) continue;
      list[size++] = Pair(now, i);
      if (size < list.size()) continue;
      std::nth_element(list.begin(), list.begin() + (kept - 1), list.end());
      bound = Key(list[k - 1].key());
      size = k;
    }
  }
  const auto end = list.begin() + static_cast<std::ptrdiff_t>(size);
  std::partial_sort(list.begin(), list.begin() + kept, end);
  for (std::size_t i = 0; i < k; ++i) order[i] = list[i].place();
}

template <typename Pair, typename T>
void order_row(const T* row, std::int64_t n, bool descending, std::int64_t kept, std::int64_t* order) {
  using Key = decltype(key(T{}));
  auto pair_at = [&](std::int64_t i) {
    const Key k = key(row[i]);
    return Pair(descending ? Key(~k) : k, i);
  };
  if (kept <= n / 8 || kept == 1) {
    order_cpu_select<Pair>(row, n, kept, descending ? Key(~Key(0)) : Key(0), order);
    return;
  }
  const auto count = static_cast<std::size_t>(n);
  const bool compared = n <= kCompare;
  cpu::Scratch<Pair> pairs(compared ? count : 2 * count);
  for (std::int64_t i = 0; i < n; ++i) pairs[static_cast<std::size_t>(i)] = pair_at(i);
  if (compared) {
    std::sort(pairs.begin(), pairs.end());
    for (std::int64_t i = 0; i < kept; ++i) order[i] = pairs[static_cast<std::size_t>(i)].place();
    return;
  }
  cpu::Scratch<std::int64_t> all(kept == n ? 0 : count);
  radix_sort(pairs.data(), pairs.data() + count, count, static_cast<int>(8 * sizeof(Key)),
             kept == n ? order : all.data());
  if (kept != n) std::copy_n(all.begin(), kept, order);
}

}  // namespace

void order_cpu(const Tensor& x, bool descending, std::int64_t kept, std::int64_t* order) {
  if (kept == 0 || x.numel() == 0) return;
  const std::int64_t n = x.dim() == 0 ? 1 : x.size(-1), rows = x.numel() / n;
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using Pair = std::conditional_t<sizeof(key(T{})) == 8, Wide, Packed>;
    const T* from = x.host<T>();
    cpu::parallel_for(rows, std::max<std::int64_t>(1, 4096 / n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) order_row<Pair>(from + r * n, n, descending, kept, order + r * kept);
    });
  });
}

}  // namespace etna::order
