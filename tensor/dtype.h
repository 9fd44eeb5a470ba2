#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

namespace etna {

/// Element types. The order is shared with the shaders (shaders/lib/dtype.glsl) and must not change.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8, boolean };

inline constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16, i64 = DType::i64,
                       i32 = DType::i32, i8 = DType::i8, u8 = DType::u8, boolean = DType::boolean;
inline constexpr DType kAllDTypes[] = {f64, f32, f16, bf16, i64, i32, i8, u8, boolean};

/// IEEE 754 binary16, for storage; arithmetic is done in f32. Conversion rounds to nearest even.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
};

/// The upper half of an f32. Conversion rounds to nearest even and keeps NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    auto u = std::bit_cast<std::uint32_t>(value);
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
                                           : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// Bytes of one element.
constexpr std::size_t item_size(DType t) {
  constexpr std::size_t sizes[] = {8, 4, 2, 2, 8, 4, 1, 1, 1};
  return sizes[static_cast<int>(t)];
}
/// f64, f32, f16 and bf16.
constexpr bool is_floating(DType t) { return t <= DType::bf16; }
/// Integers, signed or not; bool is none.
constexpr bool is_integral(DType t) { return !is_floating(t) && t != DType::boolean; }

/// "f32", "bool" ...
std::string_view name(DType t);
std::ostream& operator<<(std::ostream& out, DType dtype);
/// "f32" → DType::f32, and so on. @throws DtypeError listing the names
DType dtype_named(std::string_view name);

/// PyTorch's promotion: the smallest type of the right kind that both convert to (i64 + f16 → f16; u8 + i8 → i32, as
/// there is no i16; f16 + bf16 → f32).
DType promote(DType a, DType b);

/// C++ type → DType.
template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return f64;
}
template <>
constexpr DType dtype_of<float>() {
  return f32;
}
template <>
constexpr DType dtype_of<Half>() {
  return f16;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return bf16;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return i64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return i32;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return i8;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return u8;
}
template <>
constexpr DType dtype_of<bool>() {
  return boolean;
}

namespace detail {
/// True for the C++ types of elements.
template <typename T>
inline constexpr bool kIsElement =
    std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int8_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bool>;
/// @throws DtypeError for a value that is none of DType's
[[noreturn]] void refuse_dtype(DType t);
/// The number that an element of the dtype gets: bool holds 0, or 1 for all others.
/// @throws DtypeError naming `op` for what the dtype cannot hold: beyond its range, or a fraction or NaN of integers.
/// Floating dtypes hold infinities and NaN; digits are rounded.
double number_held(const char* op, DType t, double value);
}  // namespace detail

/// Calls f with a value of the dtype's C++ type: visit(t, [&](auto zero) { using T = decltype(zero); ... }).
template <typename F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(Half{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  detail::refuse_dtype(t);
}

}  // namespace etna
