#include <etna/dist/internal/reduce.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <etna/device/internal/cpu/parallel.h>

namespace etna::distributed {
namespace {

/// Larger of two, and NaN where one is.
template <typename T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

/// Block by block, so that partial results stay in the cache.
template <typename T, typename Sum, typename F>
void fold(std::span<const std::byte* const> parts, T* out, std::int64_t begin, std::int64_t end, double divisor,
          const F& f) {
  constexpr std::int64_t kBlock = 1024;
  std::array<Sum, kBlock> sums;
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t n = std::min(kBlock, end - at);
    const T* first = reinterpret_cast<const T*>(parts[0]) + at;
    for (std::int64_t i = 0; i < n; ++i) sums[static_cast<std::size_t>(i)] = static_cast<Sum>(first[i]);
    for (const std::byte* part : parts.subspan(1)) {
      const T* x = reinterpret_cast<const T*>(part) + at;
      for (std::int64_t i = 0; i < n; ++i) {
        Sum& sum = sums[static_cast<std::size_t>(i)];
        sum = f(sum, static_cast<Sum>(x[i]));
      }
    }
    for (std::int64_t i = 0; i < n && divisor != 1; ++i) {
      Sum& sum = sums[static_cast<std::size_t>(i)];
      sum = static_cast<Sum>(sum / static_cast<Sum>(divisor));
    }
    for (std::int64_t i = 0; i < n; ++i) out[at + i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  }
}

template <typename T, typename Sum>
void reduce_as(Reduce reduce, std::span<const std::byte* const> parts, T* out, std::int64_t begin, std::int64_t end) {
  switch (reduce) {
    case Reduce::sum:
      return fold<T, Sum>(parts, out, begin, end, 1, [](Sum a, Sum b) { return static_cast<Sum>(a + b); });
    case Reduce::mean:
      return fold<T, Sum>(parts, out, begin, end, static_cast<double>(parts.size()),
                          [](Sum a, Sum b) { return static_cast<Sum>(a + b); });
    case Reduce::max:
      return fold<T, Sum>(parts, out, begin, end, 1, larger<Sum>);
    case Reduce::min:
      return fold<T, Sum>(parts, out, begin, end, 1, smaller<Sum>);
    case Reduce::product:
      return fold<T, Sum>(parts, out, begin, end, 1, [](Sum a, Sum b) { return static_cast<Sum>(a * b); });
  }
}

}  // namespace

void reduce_parts(Reduce reduce, DType dtype, std::span<const std::byte* const> parts, std::byte* out,
                  std::int64_t count) {
  cpu::parallel_for(count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    visit(dtype, [&](auto zero) {
      using T = decltype(zero);
      auto* to = reinterpret_cast<T*>(out);
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        reduce_as<T, float>(reduce, parts, to, begin, end);
      } else if constexpr (std::is_same_v<T, bool>) {  // max is or, min is and
        reduce_as<std::uint8_t, std::uint8_t>(reduce, parts, reinterpret_cast<std::uint8_t*>(out), begin, end);
      } else if constexpr (std::is_integral_v<T>) {  // sums wrap
        using U = std::uint64_t;
        if (reduce == Reduce::max || reduce == Reduce::min)
          reduce_as<T, T>(reduce, parts, to, begin, end);
        else
          reduce_as<T, U>(reduce, parts, to, begin, end);
      } else {
        reduce_as<T, T>(reduce, parts, to, begin, end);
      }
    });
  });
}

}  // namespace etna::distributed
