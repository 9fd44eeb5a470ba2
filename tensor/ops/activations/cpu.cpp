// Unary functions over rows in the L1 or L2 cache. Bound by operations per float, so a function and its derivative
// share one exponential, and two vectors are processed at a time.
#include <algorithm>
#include <cmath>

#include <etna/tensor/ops/activations/internal/cpu.h>
#include <etna/tensor/ops/activations/internal/formulas.h>
#include <etna/tensor/ops/activations/internal/table.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/activations/cpu.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

/// 1/(1 + e⁻ˣ) and its complement to 1, both computed without a subtraction.
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

/// The normal distribution's tail beyond |x|, and its density without 1/√2π: exp(-x²/2) · u · Q(u), u = 1/(1 + 0.24
/// |x|), Q a minimax polynomial. Φ and its derivative share one exponential.
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

/// (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2 is the logistic function of twice tanh's argument.
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
/// 1 - 2 · tail(√2 |x|); below 0.8 a series, which keeps its digits.
struct Erf {
  static HWY_INLINE V of(V x) {
    const V a = hn::Abs(x), s = hn::Mul(x, x);
    const V p = polynomial(s, constant(-6.543816829e-4f), 5.086514367e-3f, -2.682158974e-2f, 1.128313096e-1f,
                           -3.761260287e-1f, 1.128379164f);
    const V far = hn::NegMulAdd(Normal(hn::Mul(a, constant(1.41421356f))).tail, constant(2.0f), constant(1.0f));
    return hn::IfThenElse(hn::Lt(a, constant(0.8f)), hn::Mul(p, x), hn::CopySign(far, x));
  }
};

/// The activations whose rows are `vectors` in activations.def.
template <Activation activation>
struct Value;
template <Activation activation>
struct Derivative;

template <>
struct Value<Activation::gelu> {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Normal(x).below(x)); }
};
template <>
struct Derivative<Activation::gelu> {
  static HWY_INLINE V of(V x) {
    const Normal normal(x);
    return hn::MulAdd(hn::Mul(x, constant(kDensity)), normal.bell, normal.below(x));
  }
};
template <>
struct Value<Activation::gelu_tanh> {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Logistic(twice_inside(x)).value); }
};
template <>
struct Derivative<Activation::gelu_tanh> {
  static HWY_INLINE V of(V x) {
    const Logistic l(twice_inside(x));
    const V inside = hn::MulAdd(hn::Mul(x, x), constant(0.134145f), constant(1.0f));
    const V steep = hn::Mul(hn::Mul(x, constant(1.5957691216f)), hn::Mul(l.value, l.rest));
    return hn::MulAdd(steep, inside, l.value);
  }
};
template <>
struct Value<Activation::silu> {
  static HWY_INLINE V of(V x) { return hn::Mul(x, Logistic(x).value); }
};
template <>
struct Derivative<Activation::silu> {
  static HWY_INLINE V of(V x) {
    const Logistic l(x);
    return hn::Mul(l.value, hn::MulAdd(x, l.rest, constant(1.0f)));
  }
};

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

void unary(UnaryOp f, const float* x, float* y, std::size_t n) {
  switch (f) {
    case UnaryOp::exp:
      return map<Exp>(x, y, n);
    case UnaryOp::tanh:
      return map<Tanh>(x, y, n);
    case UnaryOp::sigmoid:
      return map<Sigmoid>(x, y, n);
    case UnaryOp::erf:
      return map<Erf>(x, y, n);
  }
}

template <Activation activation>
void activation_row(bool derivative, const float* x, float* y, std::size_t n) {
  if constexpr (activations::in_vectors(activation))
    derivative ? map<Derivative<activation>>(x, y, n) : map<Value<activation>>(x, y, n);
}

void activation_rows(Activation activation, bool derivative, const float* x, float* y, std::size_t n) {
  switch (activation) {
    case Activation::none:
      return;
#define ETNA_ACTIVATION(number, name, ...) \
  case Activation::name:                   \
    return activation_row<Activation::name>(derivative, x, y, n);
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
  }
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {
namespace {

template <typename T, typename F>
void loop(const T* x, T* y, std::int64_t n, const F& f) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <typename T>
void activate_in_loop(Activation activation, const T* x, T* y, std::int64_t n) {
  switch (activation) {
    case Activation::none:
      return loop(x, y, n, [](T v) { return v; });
#define ETNA_ACTIVATION(number, name, ...) \
  case Activation::name:                   \
    return loop(x, y, n, [](T v) { return m::name(v); });
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
  }
}

template <typename T>
void derivative_in_loop(Activation activation, const T* x, T* y, std::int64_t n) {
  switch (activation) {
    case Activation::none:
      return loop(x, y, n, [](T) { return T(1); });
#define ETNA_ACTIVATION(number, name, ...) \
  case Activation::name:                   \
    return loop(x, y, n, [](T v) { return m::name##_backward(T(1), v); });
#include <etna/tables/activations.def>
#undef ETNA_ACTIVATION
  }
}

}  // namespace

HWY_EXPORT(unary);
void unary(UnaryOp f, const float* x, float* y, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(unary)(f, x, y, static_cast<std::size_t>(n));
}
void unary(UnaryOp f, const double* x, double* y, std::int64_t n) {
  switch (f) {
    case UnaryOp::exp:
      return loop(x, y, n, [](double v) { return std::exp(v); });
    case UnaryOp::tanh:
      return loop(x, y, n, [](double v) { return std::tanh(v); });
    case UnaryOp::sigmoid:
      return loop(x, y, n, [](double v) { return m::sigmoid(v); });
    case UnaryOp::erf:
      return loop(x, y, n, [](double v) { return std::erf(v); });
  }
}

HWY_EXPORT(activation_rows);
void activate(Activation activation, const float* x, float* y, std::int64_t n) {
  if (!activations::in_vectors(activation)) return activate_in_loop(activation, x, y, n);
  HWY_DYNAMIC_DISPATCH(activation_rows)(activation, false, x, y, static_cast<std::size_t>(n));
}
void activation_derivative(Activation activation, const float* x, float* y, std::int64_t n) {
  if (!activations::in_vectors(activation)) return derivative_in_loop(activation, x, y, n);
  HWY_DYNAMIC_DISPATCH(activation_rows)(activation, true, x, y, static_cast<std::size_t>(n));
}
void activate(Activation activation, const double* x, double* y, std::int64_t n) {
  activate_in_loop(activation, x, y, n);
}
void activation_derivative(Activation activation, const double* x, double* y, std::int64_t n) {
  derivative_in_loop(activation, x, y, n);
}

}  // namespace etna::cpu
#endif
