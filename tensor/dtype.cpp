#include <etna/tensor/dtype.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna {

Half::Half(float value) {
  auto u = std::bit_cast<std::uint32_t>(value);
  std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
  } else if (magnitude >= 0x477ff000u) {
    bits = static_cast<std::uint16_t>(sign | 0x7c00u);  // at or above 65520: infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the value with the mantissa's low bits and rounds to nearest even.
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  } else {
    std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Half::operator float() const {
  std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 0x1fu,
                mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

namespace {
constexpr std::string_view kNames[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"};
}

std::string_view name(DType t) { return kNames[static_cast<int>(t)]; }

DType dtype_named(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  throw DtypeError(fmt::format("no dtype '{}'; there are {}", name, fmt::join(kNames, ", ")));
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  bool fa = is_floating(a), fb = is_floating(b);
  if (fa != fb) return fa ? a : b;
  if (fa) return a == f64 || b == f64 ? f64 : f32;  // the four differ, so f16 with bf16 gives f32 as well
  if (a == boolean) return b;
  if (b == boolean) return a;
  if (a == i64 || b == i64) return i64;
  return i32;  // i32 with anything smaller, and i8 with u8
}

double detail::number_held(const char* op, DType t, double value) {
  if (t == DType::boolean) return value != 0 ? 1 : 0;
  if (is_floating(t)) {
    // What rounds to infinity: half a unit beyond the largest number.
    const double limit = t == f32 ? 0x1.ffffffp127 : t == bf16 ? 0x1.ffp127 : t == f16 ? 65520 : INFINITY;
    if (std::abs(value) < limit || !std::isfinite(value)) return value;
    throw DtypeError(fmt::format("{}: a tensor of {} cannot hold {}, which rounds to infinity; convert it first", op,
                                 name(t), value));
  }
  const auto [least, most] = visit(t, [](auto zero) -> std::pair<double, double> {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      return {static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())};
    else
      return {0, 0};
  });
  const bool fits = value >= least && (t == i64 ? value < most : value <= most);  // 2^63 is most, rounded
  if (fits && value == std::trunc(value)) return value;
  throw DtypeError(fmt::format("{}: a tensor of {} cannot hold {}; it holds integers from {} to {}; convert it first",
                               op, name(t), value, least, most));
}

void detail::refuse_dtype(DType t) {
  throw DtypeError(
      fmt::format("{} is the number of no dtype; the tensor's description is damaged", static_cast<int>(t)));
}

}  // namespace etna
