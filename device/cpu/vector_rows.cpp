// Rows as a compiler's own vectorizer cannot do them in a portable build: Highway compiles this file once for each instruction
// set and picks one at run time. Rows lie in the L1 or L2 cache when they come here, so what counts is operations a float: one
// exponential serves a curve and its slope, sums run in four independent vectors, and exp leaves its sum behind.
#include <etna/device/cpu/vector_rows.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include <etna/device/cpu/math.h>

// GCC 12 takes the undefined registers of its own AVX-512 intrinsics for uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/device/cpu/vector_rows.cpp>
#include <hwy/foreach_target.h>
// Behind foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }

/// Horner's rule, the highest power first.
HWY_INLINE V polynomial(V, V sum) { return sum; }
template <typename... Rest>
HWY_INLINE V polynomial(V x, V sum, float next, Rest... rest) {
  return polynomial(x, hn::MulAdd(sum, x, constant(next)), rest...);
}

/// 2^k · e^r with |r| ≤ ln2/2 and e^r = 1 + r + r² · P(r), P a minimax polynomial (2⁻²⁴ off at most). ln2 is taken off in two
/// parts, and 2^k put on in two factors, which reach infinity and the subnormals.
HWY_INLINE V exp(V given) {
  const hn::RebindToSigned<D> di;
  const V x = hn::Min(hn::Max(given, constant(-104.0f)), constant(89.0f));
  const V k = hn::Round(hn::Mul(x, constant(1.44269504f)));
  const V r = hn::NegMulAdd(k, constant(-2.12194440e-4f), hn::NegMulAdd(k, constant(0.693359375f), x));
  const V p = polynomial(r, constant(1.39261836e-3f), 8.36317905e-3f, 4.16665546e-2f, 1.66665770e-1f, 0.5f);
  const V e = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), constant(1.0f));
  const auto whole = hn::ConvertTo(di, k), half = hn::ShiftRight<1>(whole), bias = hn::Set(di, 127);
  const V first = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::IfThenElse(hn::Eq(given, given), hn::Mul(hn::Mul(e, first), second), given);
}

/// 1/(1 + e⁻ˣ) and what it lacks of 1, neither by a subtraction.
struct Logistic {
  V value, rest;
  HWY_INLINE explicit Logistic(V x) {
    const V e = exp(hn::Neg(hn::Abs(x))), larger = hn::Div(constant(1.0f), hn::Add(constant(1.0f), e));
    const V smaller = hn::Mul(e, larger);
    const auto negative = hn::Lt(x, constant(0.0f));
    value = hn::IfThenElse(negative, smaller, larger);
    rest = hn::IfThenElse(negative, larger, smaller);
  }
};

/// A polynomial in x² below 0.35, where (1 - e)/(1 + e) loses digits.
HWY_INLINE V tanh(V x) {
  const V a = hn::Abs(x), s = hn::Mul(x, x), one = constant(1.0f);
  const V p = polynomial(s, constant(1.98379841e-2f), -5.38159433e-2f, 1.33329633e-1f, -3.33333319e-1f);
  const V e = exp(hn::Mul(constant(-2.0f), hn::Min(a, constant(9.5f))));
  const V far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  const V y = hn::IfThenElse(hn::Lt(a, constant(0.35f)), hn::MulAdd(hn::Mul(p, s), x, x), far);
  return hn::IfThenElse(hn::Eq(x, x), y, x);
}

/// What the normal distribution leaves beyond |x|, and its density without 1/√2π: exp(-x²/2) · u · Q(u), u = 1/(1 + 0.24 |x|), Q a
/// minimax polynomial. One exponential for Φ and its derivative.
struct Normal {
  V tail, bell;
  HWY_INLINE explicit Normal(V x) {
    const V a = hn::Abs(x), u = hn::Div(constant(1.0f), hn::MulAdd(a, constant(0.24f), constant(1.0f)));
    bell = exp(hn::Mul(hn::Mul(x, x), constant(-0.5f)));
    const V q =
        polynomial(u, constant(2.333643219e-2f), -1.130407618e-1f, 1.791188574e-1f, -1.106643513e-1f, 1.151114345e-1f,
                   4.123688004e-2f, 8.367362583e-2f, 8.970372177e-2f, 9.577880999e-2f, 9.574535133e-2f);
    tail = hn::Mul(hn::Mul(bell, u), q);
  }
  /// Φ(x), without cancellation on either side.
  HWY_INLINE V below(V x) const {
    return hn::IfThenElse(hn::Lt(x, constant(0.0f)), tail, hn::Sub(constant(1.0f), tail));
  }
};

/// (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2 is logistic of twice the inside.
HWY_INLINE V twice_inside(V x) {
  return hn::Mul(hn::Mul(x, constant(1.5957691216f)), hn::MulAdd(hn::Mul(x, x), constant(0.044715f), constant(1.0f)));
}

constexpr float kDensity = 0.3989422804f;  // 1/√2π

struct Exp {
  static HWY_INLINE V of(V x) { return exp(x); }
};
struct Tanh {
  static HWY_INLINE V of(V x) { return tanh(x); }
};
struct Sigmoid {
  static HWY_INLINE V of(V x) { return Logistic(x).value; }
};
/// 1 - 2 · tail(√2 |x|); below 0.8 a series that keeps its digits.
struct Erf {
  static HWY_INLINE V of(V x) {
    const V a = hn::Abs(x), s = hn::Mul(x, x);
    const V p = polynomial(s, constant(-6.543816829e-4f), 5.086514367e-3f, -2.682158974e-2f, 1.128313096e-1f,
                           -3.761260287e-1f, 1.128379164f);
    const V far = hn::NegMulAdd(Normal(hn::Mul(a, constant(1.41421356f))).tail, constant(2.0f), constant(1.0f));
    return hn::IfThenElse(hn::Lt(a, constant(0.8f)), hn::Mul(p, x), hn::CopySign(far, x));
  }
};
struct Gelu {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Normal(x).below(x)); }
};
struct GeluSlope {
  static HWY_INLINE V of(V x) {
    const Normal normal(x);
    return hn::MulAdd(hn::Mul(x, constant(kDensity)), normal.bell, normal.below(x));
  }
};
struct GeluTanh {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Logistic(twice_inside(x)).value); }
};
struct GeluTanhSlope {
  static HWY_INLINE V of(V x) {
    const Logistic l(twice_inside(x));
    const V inside = hn::MulAdd(hn::Mul(x, x), constant(0.134145f), constant(1.0f));
    const V steep = hn::Mul(hn::Mul(x, constant(1.5957691216f)), hn::Mul(l.value, l.rest));
    return hn::MulAdd(steep, inside, l.value);
  }
};
struct Silu {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Logistic(x).value); }
};
struct SiluSlope {
  static HWY_INLINE V of(V x) {
    const Logistic l(x);
    return hn::Mul(l.value, hn::MulAdd(x, l.rest, constant(1.0f)));
  }
};

/// The last n < Lanes() elements, and `fill` behind them.
HWY_INLINE V load_part(const float* x, std::size_t n, float fill) {
  HWY_ALIGN float part[hn::MaxLanes(D())];
  std::fill_n(part, hn::Lanes(D()), fill);
  std::copy_n(x, n, part);
  return hn::Load(D(), part);
}
HWY_INLINE void store_part(V v, float* y, std::size_t n) {
  HWY_ALIGN float part[hn::MaxLanes(D())];
  hn::Store(v, D(), part);
  std::copy_n(part, n, y);
}

template <typename Function>
HWY_INLINE void map(const float* x, float* y, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = Function::of(hn::LoadU(D(), x + i)), b = Function::of(hn::LoadU(D(), x + i + lanes));
    hn::StoreU(a, D(), y + i);
    hn::StoreU(b, D(), y + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(Function::of(hn::LoadU(D(), x + i)), D(), y + i);
  if (i < n) store_part(Function::of(load_part(x + i, n - i, 0.0f)), y + i, n - i);
}

void curve(Curve f, const float* x, float* y, std::size_t n) {
  switch (f) {
    case Curve::exp:
      return map<Exp>(x, y, n);
    case Curve::tanh:
      return map<Tanh>(x, y, n);
    case Curve::sigmoid:
      return map<Sigmoid>(x, y, n);
    case Curve::erf:
      return map<Erf>(x, y, n);
    case Curve::gelu:
      return map<Gelu>(x, y, n);
    case Curve::gelu_slope:
      return map<GeluSlope>(x, y, n);
    case Curve::gelu_tanh:
      return map<GeluTanh>(x, y, n);
    case Curve::gelu_tanh_slope:
      return map<GeluTanhSlope>(x, y, n);
    case Curve::silu:
      return map<Silu>(x, y, n);
    case Curve::silu_slope:
      return map<SiluSlope>(x, y, n);
  }
}

// Sums in double, where every digit of a float stays.
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
#else
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
  return hn::GetLane(hn::MaxOfLanes(D(), hn::Max(best[0], best[1])));
}

/// Σ of what Term makes of each vector: a float sum of at most 16 terms a lane, which joins a double one. So the error does not
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

double exp_sum(const float* x, float shift, float* y, std::size_t n) {
  const std::size_t lanes = hn::Lanes(D());
  const V by = constant(shift);
  return sum_of(n, [=](std::size_t i, std::size_t count) HWY_ATTR {
    if (count == lanes) {
      const V e = exp(hn::Sub(hn::LoadU(D(), x + i), by));
      hn::StoreU(e, D(), y + i);
      return e;
    }
    const V part = load_part(x + i, count, -std::numeric_limits<float>::infinity());
    V e = exp(hn::Sub(part, by));
    store_part(e, y + i, count);
    return hn::IfThenElseZero(hn::FirstN(D(), count), e);
  });
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

void widen_bf16(const std::uint16_t* x, float* y, std::size_t n) {
  const hn::RebindToUnsigned<D> words;
  const hn::Rebind<std::uint16_t, D> halves;
  const std::size_t lanes = hn::Lanes(D());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, x + i)));
    hn::StoreU(hn::BitCast(D(), bits), D(), y + i);
  }
  for (; i < n; ++i) y[i] = std::bit_cast<float>(static_cast<std::uint32_t>(x[i]) << 16);
}

void narrow_bf16(const float* x, std::uint16_t* y, std::size_t n) {
  const hn::RebindToUnsigned<D> words;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::uint16_t, D> halves;
  const std::size_t lanes = hn::Lanes(D());
  auto rounded = [=](V v) HWY_ATTR {
    const auto bits = hn::BitCast(words, v), upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(words, 1));
    const auto nearest = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
    const auto quiet = hn::Or(upper, hn::Set(words, 0x40));
    const auto number = hn::RebindMask(words, hn::Eq(v, v));
    return hn::DemoteTo(halves, hn::BitCast(whole, hn::IfThenElse(number, nearest, quiet)));
  };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(rounded(hn::LoadU(D(), x + i)), halves, y + i);
  if (i < n) {
    HWY_ALIGN std::uint16_t part[hn::MaxLanes(D())];
    hn::Store(rounded(load_part(x + i, n - i, 0.0f)), halves, part);
    std::copy_n(part, n - i, y + i);
  }
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(curve);
HWY_EXPORT(sum);
HWY_EXPORT(dot);
HWY_EXPORT(squares);
HWY_EXPORT(largest);
HWY_EXPORT(exp_sum);
HWY_EXPORT(scale);
HWY_EXPORT(add_scaled);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_bf16);
HWY_EXPORT(target_name);

namespace {
std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
}  // namespace

void curve(Curve f, const float* x, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(curve)(f, x, y, size(n)); }
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
void widen_bf16(const std::uint16_t* x, float* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(widen_bf16)(x, y, size(n)); }
void narrow_bf16(const float* x, std::uint16_t* y, std::int64_t n) { HWY_DYNAMIC_DISPATCH(narrow_bf16)(x, y, size(n)); }

const char* vector_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace etna::cpu
#endif
