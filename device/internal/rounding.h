#pragma once

#include <cstddef>
#include <cstdint>

namespace etna {

/// ⌈a / b⌉ for a ≥ 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The least multiple of `unit` that is not below n ≥ 0.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) { return ceil_div(n, unit) * unit; }
constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace etna
