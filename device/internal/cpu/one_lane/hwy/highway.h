#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

/// The part of Highway that Etna's kernels use, with vectors of one element: plain C++ for any processor, for builds
/// that do not find Highway. The build puts this folder on the include path in Highway's place.

#define HWY_NAMESPACE N_ONE_LANE
#define HWY_BEFORE_NAMESPACE() static_assert(true, "")
#define HWY_AFTER_NAMESPACE() static_assert(true, "")
#define HWY_ONCE 1
#define HWY_SCALAR 1
#define HWY_TARGET HWY_SCALAR
#define HWY_HAVE_FLOAT64 1
#define HWY_ATTR
#define HWY_INLINE inline
#define HWY_ALIGN alignas(16)
#define HWY_UNROLL(factor)
#define HWY_EXPORT(function) static_assert(true, "")
#define HWY_DYNAMIC_DISPATCH(function) N_ONE_LANE::function

namespace hwy {

inline const char* TargetName(int) { return "ONE_LANE"; }

namespace N_ONE_LANE {

template <typename T>
struct ScalableTag {
  using Lane = T;
};
template <typename T, typename D>
using Rebind = ScalableTag<T>;
template <typename D>
using RebindToSigned = ScalableTag<std::conditional_t<sizeof(typename D::Lane) == 4, std::int32_t, std::int64_t>>;
template <typename D>
using RebindToUnsigned = ScalableTag<std::conditional_t<sizeof(typename D::Lane) == 4, std::uint32_t, std::uint64_t>>;

template <typename T>
struct Lane {
  T value;
};
template <typename D>
using Vec = Lane<typename D::Lane>;
template <typename T>
struct Mask {
  bool value;
};

template <typename D>
constexpr std::size_t Lanes(D) {
  return 1;
}
template <typename D>
constexpr std::size_t MaxLanes(D) {
  return 1;
}

template <typename D>
Vec<D> Set(D, std::type_identity_t<typename D::Lane> x) {
  return {x};
}
template <typename D>
Vec<D> Zero(D) {
  return {0};
}
template <typename D>
Vec<D> Iota(D, std::type_identity_t<typename D::Lane> first) {
  return {first};
}
template <typename D>
Vec<D> LoadU(D, const typename D::Lane* from) {
  return {*from};
}
template <typename D>
Vec<D> Load(D, const typename D::Lane* from) {
  return {*from};
}
template <typename D>
void StoreU(Vec<D> v, D, typename D::Lane* to) {
  *to = v.value;
}
template <typename D>
void Store(Vec<D> v, D, typename D::Lane* to) {
  *to = v.value;
}
template <typename D>
Vec<D> GatherIndex(D, const typename D::Lane* from, Lane<std::int32_t> index) {
  return {from[index.value]};
}
template <typename T>
T GetLane(Lane<T> v) {
  return v.value;
}
template <typename D>
Vec<D> SumOfLanes(D, Vec<D> v) {
  return v;
}
template <typename D>
Vec<D> MaxOfLanes(D, Vec<D> v) {
  return v;
}

template <typename T>
Lane<T> Add(Lane<T> a, Lane<T> b) {
  return {static_cast<T>(a.value + b.value)};
}
template <typename T>
Lane<T> Sub(Lane<T> a, Lane<T> b) {
  return {static_cast<T>(a.value - b.value)};
}
template <typename T>
Lane<T> Mul(Lane<T> a, Lane<T> b) {
  return {static_cast<T>(a.value * b.value)};
}
template <typename T>
Lane<T> Div(Lane<T> a, Lane<T> b) {
  return {a.value / b.value};
}
template <typename T>
Lane<T> MulAdd(Lane<T> a, Lane<T> b, Lane<T> c) {
  return {a.value * b.value + c.value};
}
template <typename T>
Lane<T> NegMulAdd(Lane<T> a, Lane<T> b, Lane<T> c) {
  return {c.value - a.value * b.value};
}
template <typename T>
Lane<T> MulSub(Lane<T> a, Lane<T> b, Lane<T> c) {
  return {a.value * b.value - c.value};
}
template <typename T>
Lane<T> Min(Lane<T> a, Lane<T> b) {
  return {std::min(a.value, b.value)};
}
template <typename T>
Lane<T> Max(Lane<T> a, Lane<T> b) {
  return {std::max(a.value, b.value)};
}
template <typename T>
Lane<T> Neg(Lane<T> a) {
  return {-a.value};
}
template <typename T>
Lane<T> Abs(Lane<T> a) {
  return {std::abs(a.value)};
}
template <typename T>
Lane<T> Sqrt(Lane<T> a) {
  return {std::sqrt(a.value)};
}
template <typename T>
Lane<T> Round(Lane<T> a) {
  return {std::nearbyint(a.value)};
}
template <typename T>
Lane<T> CopySign(Lane<T> magnitude, Lane<T> sign) {
  return {std::copysign(magnitude.value, sign.value)};
}

template <typename T>
Lane<T> And(Lane<T> a, Lane<T> b) {
  return {static_cast<T>(a.value & b.value)};
}
template <typename T>
Lane<T> Or(Lane<T> a, Lane<T> b) {
  return {static_cast<T>(a.value | b.value)};
}
template <int kBits, typename T>
Lane<T> ShiftLeft(Lane<T> a) {
  return {static_cast<T>(static_cast<std::make_unsigned_t<T>>(a.value) << kBits)};
}
template <int kBits, typename T>
Lane<T> ShiftRight(Lane<T> a) {
  return {static_cast<T>(a.value >> kBits)};
}

template <typename T>
Mask<T> Lt(Lane<T> a, Lane<T> b) {
  return {a.value < b.value};
}
template <typename T>
Mask<T> Gt(Lane<T> a, Lane<T> b) {
  return {a.value > b.value};
}
template <typename T>
Mask<T> Eq(Lane<T> a, Lane<T> b) {
  return {a.value == b.value};
}
template <typename T>
Mask<T> Ne(Lane<T> a, Lane<T> b) {
  return {a.value != b.value};
}
template <typename T>
Mask<T> Or(Mask<T> a, Mask<T> b) {
  return {a.value || b.value};
}
template <typename T>
Mask<T> Not(Mask<T> a) {
  return {!a.value};
}
template <typename D>
Mask<typename D::Lane> FirstN(D, std::size_t n) {
  return {n > 0};
}
template <typename D, typename T>
Mask<typename D::Lane> RebindMask(D, Mask<T> a) {
  return {a.value};
}
template <typename T>
Lane<T> IfThenElse(Mask<T> mask, Lane<T> yes, Lane<T> no) {
  return mask.value ? yes : no;
}
template <typename T>
Lane<T> IfThenElseZero(Mask<T> mask, Lane<T> yes) {
  return {mask.value ? yes.value : T(0)};
}
template <typename T>
Lane<T> IfThenZeroElse(Mask<T> mask, Lane<T> no) {
  return {mask.value ? T(0) : no.value};
}

template <typename D, typename T>
Vec<D> BitCast(D, Lane<T> v) {
  return {std::bit_cast<typename D::Lane>(v.value)};
}
template <typename D, typename T>
Vec<D> ConvertTo(D, Lane<T> v) {
  return {static_cast<typename D::Lane>(v.value)};
}
template <typename D, typename T>
Vec<D> PromoteTo(D, Lane<T> v) {
  return {static_cast<typename D::Lane>(v.value)};
}
/// Clamps to the range of the smaller type.
template <typename D, typename T>
Vec<D> DemoteTo(D, Lane<T> v) {
  using To = typename D::Lane;
  return {static_cast<To>(
      std::clamp<T>(v.value, std::numeric_limits<To>::lowest(), static_cast<T>(std::numeric_limits<To>::max())))};
}

}  // namespace N_ONE_LANE
}  // namespace hwy
