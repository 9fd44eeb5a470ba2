// Vector code that a compiler's vectorizer cannot produce in a portable build: Highway compiles this file once per
// instruction set and picks one at run time. Rows are in the L1 or L2 cache here, so operations per float are the
// bound: sums use four independent vectors, and exp also returns its sum.
#include <etna/device/internal/cpu/vector_rows.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/device/internal/cpu/vector_rows.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

// Sums in double, which keep every digit of a float.
#if HWY_HAVE_FLOAT64
using Wide = hn::ScalableTag<double>;
using W = hn::Vec<Wide>;
HWY_INLINE W widened(const float* x) { return hn::PromoteTo(Wide(), hn::LoadU(hn::Rebind<float, Wide>(), x)); }

template <typename Term, typename One>
HWY_INLINE double wide_sum_of(std::size_t n, const Term& term, const One& one) {
  const std::size_t lanes = hn::Lanes(Wide());
  const W zero = hn::Zero(Wide());
  W sums[4] = {zero, zero, zero, zero};
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] = term(i + k * lanes, sums[k]);
  }
  for (; i + lanes <= n; i += lanes) sums[0] = term(i, sums[0]);
  double rest = 0;
  for (; i < n; ++i) rest += one(i);
  return rest + hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

double sum(const float* x, std::size_t n) {
  return wide_sum_of(
      n, [=](std::size_t i, W total) HWY_ATTR { return hn::Add(total, widened(x + i)); },
      [=](std::size_t i) { return static_cast<double>(x[i]); });
}
double dot(const float* a, const float* b, std::size_t n) {
  return wide_sum_of(
      n, [=](std::size_t i, W total) HWY_ATTR { return hn::MulAdd(widened(a + i), widened(b + i), total); },
      [=](std::size_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}
double squares(const float* x, double center, std::size_t n) {
  return wide_sum_of(
      n,
      [=](std::size_t i, W total) HWY_ATTR {
        const W d = hn::Sub(widened(x + i), hn::Set(Wide(), center));
        return hn::MulAdd(d, d, total);
      },
      [=](std::size_t i) { return (static_cast<double>(x[i]) - center) * (static_cast<double>(x[i]) - center); });
}
void add_products(double* sums, const float* a, const float* b, std::size_t n) {
  const std::size_t lanes = hn::Lanes(Wide());
  std::size_t i = 0;
  if (b == nullptr) {
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::Add(hn::LoadU(Wide(), sums + i), widened(a + i)), Wide(), sums + i);
    for (; i < n; ++i) sums[i] += static_cast<double>(a[i]);
  } else {
    for (; i + lanes <= n; i += lanes)
      hn::StoreU(hn::MulAdd(widened(a + i), widened(b + i), hn::LoadU(Wide(), sums + i)), Wide(), sums + i);
    for (; i < n; ++i) sums[i] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
}
#else
void add_products(double* sums, const float* a, const float* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sums[i] += b == nullptr ? a[i] : static_cast<double>(a[i]) * b[i];
}
double sum(const float* x, std::size_t n) { return std::accumulate(x, x + n, 0.0); }
double dot(const float* a, const float* b, std::size_t n) { return std::inner_product(a, a + n, b, 0.0); }
double squares(const float* x, double center, std::size_t n) {
  return std::accumulate(x, x + n, 0.0, [=](double total, float v) { return total + (v - center) * (v - center); });
}
#endif

float largest(const float* x, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const V lowest = constant(-std::numeric_limits<float>::infinity());
  V best[2] = {lowest, lowest}, nan[2] = {hn::Zero(D()), hn::Zero(D())};
  auto take = [&](int at, V v) HWY_ATTR {
    best[at] = hn::IfThenElse(hn::Gt(v, best[at]), v, best[at]);
    nan[at] = hn::IfThenElse(hn::Eq(v, v), nan[at], v);
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    take(0, hn::LoadU(D(), x + i));
    take(1, hn::LoadU(D(), x + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) take(0, hn::LoadU(D(), x + i));
  if (i < n) take(0, load_part(x + i, n - i, -std::numeric_limits<float>::infinity()));
  const float bad = hn::GetLane(hn::SumOfLanes(D(), hn::Add(nan[0], nan[1])));
  if (bad != bad) return bad;
  // If nothing is larger: MaxOfLanes() of some Highway targets starts at the least finite number.
  const V all = hn::Max(best[0], best[1]);
  const V larger = hn::IfThenElse(hn::Gt(all, lowest), constant(1), hn::Zero(D()));
  if (hn::GetLane(hn::SumOfLanes(D(), larger)) == 0) return -std::numeric_limits<float>::infinity();
  return hn::GetLane(hn::MaxOfLanes(D(), all));
}

/// Σ of Term over all vectors: a float sum of at most 16 terms per lane, then added to a double one. The error does not
/// grow with the row, and doubles cost little.
constexpr std::size_t kRun = 16;

template <typename Term>
HWY_INLINE double sum_of(std::size_t n, const Term& term) {
  const std::size_t lanes = hn::Lanes(D());
  double total = 0;
  std::size_t i = 0;
  while (i < n) {
    V sums[4] = {hn::Zero(D()), hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
    for (std::size_t step = 0; step < kRun && i + 4 * lanes <= n; ++step, i += 4 * lanes) {
      for (std::size_t k = 0; k < 4; ++k) sums[k] = hn::Add(sums[k], term(i + k * lanes, lanes));
    }
    if (i + 4 * lanes > n) {
      for (; i + lanes <= n; i += lanes) sums[0] = hn::Add(sums[0], term(i, lanes));
      if (i < n) sums[1] = hn::Add(sums[1], term(i, n - i));
      i = n;
    }
    total += static_cast<double>(
        hn::GetLane(hn::SumOfLanes(D(), hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])))));
  }
  return total;
}

/// 0 if exp(x) is below the smallest normal number; gemm/flush_subnormals.h explains why.
HWY_INLINE V normal_exp(V x) {
  const V least = constant(-87.33654f);
  const auto below = hn::Lt(x, least);
  return hn::IfThenZeroElse(below, exp(hn::IfThenElse(below, least, x)));
}

template <bool stores>
HWY_INLINE double exp_sum_of(const float* x, float shift, float* y, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const V by = constant(shift);
  return sum_of(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    if (count == lanes) {
      const V e = normal_exp(hn::Sub(hn::LoadU(D(), x + i), by));
      if constexpr (stores) hn::StoreU(e, D(), y + i);
      return e;
    }
    const V e = normal_exp(hn::Sub(load_part(x + i, count, 0.0f), by));
    if constexpr (stores) store_part(e, y + i, count);
    return hn::IfThenElseZero(hn::FirstN(D(), count), e);
  });
}
double exp_sum(const float* x, float shift, float* y, std::size_t n) {
  return y == nullptr ? exp_sum_of<false>(x, shift, y, n) : exp_sum_of<true>(x, shift, y, n);
}

void scale(float* x, float factor, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(D(), x + i), constant(factor)), D(), x + i);
  for (; i < n; ++i) x[i] *= factor;
}

void add_scaled(float* y, const float* x, float factor, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const V by = constant(factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(D(), x + i), by, hn::LoadU(D(), y + i)), D(), y + i);
  if (i < n) store_part(hn::MulAdd(load_part(x + i, n - i, 0), by, load_part(y + i, n - i, 0)), y + i, n - i);
}

/// `rows` · `columns` products at once, so that additions do not wait for each other. @param a, b rows of n
template <std::size_t rows, std::size_t columns>
HWY_INLINE void some_dots(const float* a, const float* b, std::size_t n, float* products, std::size_t stride) {
  const std::size_t lanes = hn::Lanes(D());
  V sums[rows][columns];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < columns; ++j) sums[r][j] = hn::Zero(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V of_a[rows];
    for (std::size_t r = 0; r < rows; ++r) of_a[r] = hn::LoadU(D(), a + r * n + i);
    for (std::size_t j = 0; j < columns; ++j) {
      const V of_b = hn::LoadU(D(), b + j * n + i);
      for (std::size_t r = 0; r < rows; ++r) sums[r][j] = hn::MulAdd(of_a[r], of_b, sums[r][j]);
    }
  }
  if (i < n) {
    for (std::size_t j = 0; j < columns; ++j) {
      const V of_b = load_part(b + j * n + i, n - i, 0);
      for (std::size_t r = 0; r < rows; ++r)
        sums[r][j] = hn::MulAdd(load_part(a + r * n + i, n - i, 0), of_b, sums[r][j]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t j = 0; j < columns; ++j) products[r * stride + j] = hn::GetLane(hn::SumOfLanes(D(), sums[r][j]));
}

template <std::size_t rows, std::size_t columns>
HWY_INLINE void dots_of_rows(const float* a, const float* b, std::size_t count, std::size_t n, float* products,
                             std::size_t stride) {
  std::size_t j = 0;
  for (; j + columns <= count; j += columns) some_dots<rows, columns>(a, b + j * n, n, products + j, stride);
  for (; j < count; ++j) some_dots<rows, 1>(a, b + j * n, n, products + j, stride);
}

void dots(const float* a, std::size_t rows, const float* b, std::size_t count, std::size_t n, float* products,
          std::size_t stride) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) dots_of_rows<4, 2>(a + r * n, b, count, n, products + r * stride, stride);
  for (; r + 2 <= rows; r += 2) dots_of_rows<2, 4>(a + r * n, b, count, n, products + r * stride, stride);
  if (r < rows) dots_of_rows<1, 8>(a + r * n, b, count, n, products + r * stride, stride);
}

/// Adds to `vectors` vectors of `rows` rows.
template <std::size_t rows, std::size_t vectors>
HWY_INLINE void add_some_weighted(float* y, const float* factors, std::size_t stride, const float* x, std::size_t count,
                                  std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  V sums[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < vectors; ++k) sums[r][k] = hn::LoadU(D(), y + r * n + k * lanes);
  for (std::size_t j = 0; j < count; ++j) {
    V of_x[vectors];
    for (std::size_t k = 0; k < vectors; ++k) of_x[k] = hn::LoadU(D(), x + j * n + k * lanes);
    for (std::size_t r = 0; r < rows; ++r) {
      const V by = constant(factors[r * stride + j]);
      for (std::size_t k = 0; k < vectors; ++k) sums[r][k] = hn::MulAdd(of_x[k], by, sums[r][k]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t k = 0; k < vectors; ++k) hn::StoreU(sums[r][k], D(), y + r * n + k * lanes);
}

template <std::size_t rows>
HWY_INLINE void add_weighted_rows(float* y, const float* factors, std::size_t stride, const float* x, std::size_t count,
                                  std::size_t n) {
  constexpr std::size_t vectors = rows == 1 ? 4 : 2;
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + vectors * lanes <= n; i += vectors * lanes)
    add_some_weighted<rows, vectors>(y + i, factors, stride, x + i, count, n);
  for (; i + lanes <= n; i += lanes) add_some_weighted<rows, 1>(y + i, factors, stride, x + i, count, n);
  if (i == n) return;
  for (std::size_t r = 0; r < rows; ++r) {
    V sum = load_part(y + r * n + i, n - i, 0);
    for (std::size_t j = 0; j < count; ++j)
      sum = hn::MulAdd(load_part(x + j * n + i, n - i, 0), constant(factors[r * stride + j]), sum);
    store_part(sum, y + r * n + i, n - i);
  }
}

void add_weighted(float* y, std::size_t rows, const float* factors, std::size_t stride, const float* x,
                  std::size_t count, std::size_t n) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) add_weighted_rows<4>(y + r * n, factors + r * stride, stride, x, count, n);
  for (; r < rows; ++r) add_weighted_rows<1>(y + r * n, factors + r * stride, stride, x, count, n);
}

/// Elements of a weight or bias, or the default if it was omitted.
HWY_INLINE V load_or(const float* x, std::size_t i, std::size_t count, float otherwise) {
  if (x == nullptr) return constant(otherwise);
  return count == hn::Lanes(D()) ? hn::LoadU(D(), x + i) : load_part(x + i, count, otherwise);
}

void normalize(const float* x, double mean, double factor, const float* weight, const float* bias, float* y,
               std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const float high = static_cast<float>(mean), low = static_cast<float>(mean - static_cast<double>(high));
  const V upper = constant(high), lower = constant(low), by = constant(static_cast<float>(factor));
  auto one = [=](std::size_t i, std::size_t count) HWY_ATTR {
    const V v = hn::Mul(hn::Sub(hn::Sub(load_or(x, i, count, 0.0f), upper), lower), by);
    return hn::MulAdd(v, load_or(weight, i, count, 1.0f), load_or(bias, i, count, 0.0f));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(one(i, lanes), D(), y + i);
  if (i < n) store_part(one(i, n - i), y + i, n - i);
}

void widen_half(const std::uint16_t* x, float* y, std::size_t n) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86  // elsewhere Highway may lose infinities and NaN
    const hn::Rebind<hwy::float16_t, D> f16_tag;
    hn::StoreU(hn::PromoteTo(D(), hn::BitCast(f16_tag, hn::LoadU(u16_tag, x + i))), D(), y + i);
    continue;
#endif
    const auto bits = hn::PromoteTo(u32_tag, hn::LoadU(u16_tag, x + i));
    const auto magnitude = hn::And(bits, hn::Set(u32_tag, 0x7fffu));
    const V small = hn::Mul(hn::BitCast(D(), hn::ShiftLeft<13>(magnitude)), constant(0x1p112f));
    const auto no_number = hn::Gt(magnitude, hn::Set(u32_tag, 0x7bffu));
    const auto top = hn::IfThenElseZero(no_number, hn::Set(u32_tag, 0x7f800000u));
    const auto sign = hn::ShiftLeft<16>(hn::Sub(bits, magnitude));
    hn::StoreU(hn::BitCast(D(), hn::Or(hn::Or(hn::BitCast(u32_tag, small), top), sign)), D(), y + i);
  }
  for (; i < n; ++i) {
    const std::uint32_t bits = x[i], magnitude = bits & 0x7fffu;
    const float small = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t top = magnitude > 0x7bffu ? 0x7f800000u : 0u;
    y[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(small) | top | (bits - magnitude) << 16);
  }
}

void widen_bf16(const std::uint16_t* x, float* y, std::size_t n) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(u32_tag, hn::LoadU(u16_tag, x + i)));
    hn::StoreU(hn::BitCast(D(), bits), D(), y + i);
  }
  for (; i < n; ++i) y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

void narrow_bf16(const float* x, std::uint16_t* y, std::size_t n) {
  const hn::RebindToUnsigned<D> u32_tag;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> u16_tag;
  const std::size_t lanes = hn::Lanes(D());
  auto rounded = [=](V v) HWY_ATTR {
    const auto bits = hn::BitCast(u32_tag, v), upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(u32_tag, 1));
    const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(u32_tag, 0x7fff))));
    const auto quiet = hn::Or(upper, hn::Set(u32_tag, 0x40));
    const auto number = hn::RebindMask(u32_tag, hn::Eq(v, v));
    return hn::DemoteTo(u16_tag, hn::BitCast(whole, hn::IfThenElse(number, nearest, quiet)));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(rounded(hn::LoadU(D(), x + i)), u16_tag, y + i);
  if (i < n) {
    HWY_ALIGN std::uint16_t part[hn::MaxLanes(D())];
    hn::Store(rounded(load_part(x + i, n - i, 0.0f)), u16_tag, part);
    std::copy_n(part, n - i, y + i);
  }
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(sum);
HWY_EXPORT(dot);
HWY_EXPORT(squares);
HWY_EXPORT(largest);
HWY_EXPORT(exp_sum);
HWY_EXPORT(scale);
HWY_EXPORT(add_scaled);
HWY_EXPORT(dots);
HWY_EXPORT(add_weighted);
HWY_EXPORT(add_products);
HWY_EXPORT(normalize);
HWY_EXPORT(widen_half);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(target_name);

namespace {
std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
}  // namespace

double sum(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(sum)(x, size(n)); }
double dot(const float* a, const float* b, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, size(n)); }
double squares(const float* x, double center, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(squares)(x, center, size(n));
}
float largest(const float* x, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(largest)(x, size(n)); }
double exp_sum(const float* x, float shift, float* y, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(exp_sum)(x, shift, y, size(n));
}
void scale(float* x, float factor, std::int64_t n) { HWY_DYNAMIC_DISPATCH(scale)(x, factor, size(n)); }
void add_scaled(float* y, const float* x, float factor, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(y, x, factor, size(n));
}
void add_products(double* sums, const float* a, const float* b, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_products)(sums, a, b, size(n));
}
void normalize(const float* x, double mean, double scale, const float* weight, const float* bias, float* y,
               std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(normalize)(x, mean, scale, weight, bias, y, size(n));
}
void dots(const float* a, std::int64_t rows, const float* b, std::int64_t count, std::int64_t n, float* products,
          std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(dots)(a, size(rows), b, size(count), size(n), products, size(stride));
}
void add_weighted(float* y, std::int64_t rows, const float* factors, std::int64_t stride, const float* x,
                  std::int64_t count, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_weighted)(y, size(rows), factors, size(stride), x, size(count), size(n));
}
void widen_half(const std::uint16_t* x, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(widen_half)(x, y, size(n)); }
void widen_bf16(const std::uint16_t* x, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(x, y, size(n)); }
void narrow_bf16(const float* x, std::uint16_t* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(x, y, size(n)); }

const char* vector_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace etna::cpu
#endif
