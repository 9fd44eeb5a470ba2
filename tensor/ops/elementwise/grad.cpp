#include <cmath>
#include <limits>
#include <string_view>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/elementwise/internal/elementwise.h>

// The last three columns of elementwise.def as functions. An operand is a Tensor, or a double if the caller passed a
// number.
namespace etna::elementwise {
namespace {

#define ETNA_NO_GRAD Tensor()

double log(double x) { return std::log(x); }

/// Converts f16 and bf16 to f32, for formulas in which many terms cancel.
Tensor in_f32(const Tensor& x) { return item_size(x.dtype()) == 2 ? x.to(f32) : x; }

/// Second derivatives of silu and of gelu's tanh form.
Tensor silu_second(const Tensor& a) {
  Tensor x = in_f32(a), s = sigmoid(x);
  return s * (1.0 - s) * (x * (1.0 - s * 2.0) + 2.0);
}
Tensor gelu_tanh_second(const Tensor& a) {
  constexpr double k = 0.7978845608028654, cubic = 0.044715;
  Tensor x = in_f32(a), squared = etna::square(x);
  Tensor t = tanh((x + x * squared * cubic) * k);
  Tensor d_inner = (squared * (3 * cubic) + 1.0) * k, rest = 1.0 - etna::square(t);
  return rest * d_inner + x * 0.5 * (rest * x * (6 * cubic * k) - t * rest * etna::square(d_inner) * 2.0);
}

using etna::log;

/// g b a^(b-1), and 0 for b = 0, whatever a is. If a^-1 is not finite, pow() gets 1 instead of a and its result is
/// dropped, so that its own gradient stays finite.
Tensor pow_base_gradient(const Tensor& g, const Tensor& a, const Tensor& b) {
  const Tensor dropped = logical_and(eq(b, 0.0), logical_not(isfinite(reciprocal(a))));
  return where(dropped, 0.0, g * b * pow(where(dropped, 1.0, a), b - 1.0));
}
Tensor pow_base_gradient(const Tensor& g, const Tensor& a, double b) {
  return b == 0 ? zeros_like(g) : g * b * pow(a, b - 1.0);
}

/// g a^b log(a), and 0 for a = 0 and b >= 0, where the power is 0 or 1 for all such b.
Tensor pow_exponent_gradient(const Tensor& g, const Tensor& a, const Tensor& b) {
  const Tensor base = where(logical_and(eq(a, 0.0), ge(b, 0.0)), 1.0, a);
  return g * pow(base, b) * log(base);
}
Tensor pow_exponent_gradient(const Tensor& g, double a, const Tensor& b) {
  if (a != 0) return g * pow(a, b) * log(a);
  return g * where(ge(b, 0.0), 0.0, where(isnan(b), b, -std::numeric_limits<double>::infinity()));
}

/// Functions of an operand that may be a number.
double square_of(double x) { return x * x; }
Tensor square_of(const Tensor& x) { return etna::square(x); }
template <typename A, typename B>
Tensor squares(const A& a, const B& b) {
  return square_of(a) + square_of(b);
}
double sign_bit(double x) { return std::copysign(1.0, x); }
Tensor sign_bit(const Tensor& x) { return copysign(1.0, x); }
double negative_part(double x) { return x > 0 ? 0 : x; }
Tensor negative_part(const Tensor& x) { return clamp_max(x, 0.0); }
double not_positive(double x) { return x > 0 ? 0 : 1; }
Tensor not_positive(const Tensor& x) { return le(x, 0.0); }

double is_zero(double x) { return x == 0 ? 1 : 0; }
Tensor is_zero(const Tensor& x) { return eq(x, 0.0); }

/// 1 where fmax(a, b) is a, else 0; and the reverse. The same for fmin.
template <typename B>
Tensor takes_larger(const Tensor& a, const B& b) {
  if constexpr (std::is_same_v<B, double>)
    return std::isnan(b) ? ones(a.shape(), {boolean, a.device()}) : ge(a, b);
  else
    return logical_or(ge(a, b), isnan(b));
}
Tensor takes_larger(double a, const Tensor& b) { return logical_or(le(b, a), isnan(b)); }
template <typename A, typename B>
Tensor leaves_larger(const A& a, const B& b) {
  return logical_not(takes_larger(a, b));
}
template <typename B>
Tensor takes_smaller(const Tensor& a, const B& b) {
  if constexpr (std::is_same_v<B, double>)
    return std::isnan(b) ? ones(a.shape(), {boolean, a.device()}) : le(a, b);
  else
    return logical_or(le(a, b), isnan(b));
}
Tensor takes_smaller(double a, const Tensor& b) { return logical_or(ge(b, a), isnan(b)); }
template <typename A, typename B>
Tensor leaves_smaller(const A& a, const B& b) {
  return logical_not(takes_smaller(a, b));
}

/// I0(a) - I1(a)/a; ½ at 0.
Tensor i1_derivative(const Tensor& a) {
  const Tensor zero = eq(a, 0.0), x = where(zero, 1.0, in_f32(a));
  return where(zero, 0.5, i0(x) - i1(x) / x);
}

/// The derivative of a log(b) by a. It is 0 for a = 0, where log(b) may not be finite.
Tensor log_where_used(const Tensor& a, const Tensor& b) {
  const Tensor unused = logical_and(eq(a, 0.0), le(b, 0.0));
  return where(unused, 0.0, log(where(unused, 1.0, b)));
}
Tensor log_where_used(const Tensor& a, double b) {
  const Tensor logarithm = full(a.shape(), log(b), {a.dtype(), a.device()});
  return b > 0 ? logarithm : where(eq(a, 0.0), 0.0, logarithm);
}

/// The derivative of sin(πa)/(πa), 0 at 0.
Tensor sinc_derivative(const Tensor& a) {
  const Tensor zero = eq(a, 0.0), x = where(zero, 1.0, in_f32(a));
  return where(zero, 0.0, (cos(x * 3.141592653589793) - sinc(x)) / x);
}

Tensor between(const Tensor& a, double lo, double hi) { return logical_and(gt(a, lo), lt(a, hi)); }
Tensor mish_derivative(const Tensor& a) {
  Tensor x = in_f32(a), t = tanh(softplus(x));
  return t + x * sigmoid(x) * (1.0 - etna::square(t));
}

#define ETNA_ELEMENTWISE(name, arity, result, saved, cpp, glsl, lo, hi, da, db, dc)                             \
  struct Grad_##name {                                                                                          \
    template <typename A, typename B, typename C>                                                               \
    static TensorList of([[maybe_unused]] const Tensor& g, [[maybe_unused]] const Tensor& y,                    \
                         [[maybe_unused]] const A& a, [[maybe_unused]] const B& b, [[maybe_unused]] const C& c, \
                         [[maybe_unused]] const std::vector<bool>& needs) {                                     \
      TensorList out(ETNA_ARITY(arity));                                                                        \
      if constexpr (std::is_same_v<A, Tensor>) {                                                                \
        if (needs[0]) out[0] = da;                                                                              \
      }                                                                                                         \
      if constexpr (ETNA_ARITY(arity) > 1 && std::is_same_v<B, Tensor>) {                                       \
        if (needs[1]) out[1] = db;                                                                              \
      }                                                                                                         \
      if constexpr (ETNA_ARITY(arity) > 2 && std::is_same_v<C, Tensor>) {                                       \
        if (needs[2]) out[2] = dc;                                                                              \
      }                                                                                                         \
      return out;                                                                                               \
    }                                                                                                           \
  };
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE

/// Passes the operand that was a number as a double.
template <typename Grad, int arity, bool numbered>
TensorList call_grad(const VjpCall& v) {
  auto attributes = v.as<ElementwiseAttrs>();
  double s = attributes.scalar;
  const Tensor& g = v.grad[0];
  const Tensor& y = v.out[0];
  Tensor none;
  const Tensor& a = v.in[0];
  const Tensor& b = arity > 1 ? v.in[1] : none;
  const Tensor& c = arity > 2 ? v.in[2] : none;
  if constexpr (numbered && arity == 2) {
    return Grad::of(g, y, a, s, c, v.needs);
  } else if constexpr (numbered) {
    return Grad::of(g, y, a, b, s, v.needs);
  } else {
    if constexpr (arity == 2) {
      if (attributes.scalar_at == 1) return Grad::of(g, y, s, b, c, v.needs);
    }
    if constexpr (arity > 1) {
      if (attributes.scalar_at == 2) return Grad::of(g, y, a, s, c, v.needs);
    }
    if constexpr (arity > 2) {
      if (attributes.scalar_at == 3) return Grad::of(g, y, a, b, s, v.needs);
    }
    return Grad::of(g, y, a, b, c, v.needs);
  }
}

using Function = TensorList (*)(const VjpCall&);
const Function kGrads[] = {
#define ETNA_ELEMENTWISE(name, arity, ...) \
  &call_grad<Grad_##name, ETNA_ARITY(arity), std::string_view(#arity).ends_with('n')>,
#include <etna/tables/elementwise.def>
#undef ETNA_ELEMENTWISE
};

}  // namespace

TensorList vjp(const VjpCall& call) {
  TensorList gradients = kGrads[static_cast<int>(call.as<ElementwiseAttrs>().row)](call);
  for (std::size_t k = 0; k < gradients.size(); ++k) {
    if (gradients[k].defined()) gradients[k] = sum_to(gradients[k].to(call.in[k].dtype()), call.in[k].shape());
  }
  return gradients;
}

}  // namespace etna::elementwise
