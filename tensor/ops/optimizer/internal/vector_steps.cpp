// Bytes-bound (Adam: 28 bytes per parameter); vectors make square roots and divisions cheap enough not to add time.
#include <etna/tensor/ops/optimizer/internal/vector_steps.h>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/tensor/ops/optimizer/internal/vector_steps.cpp>
#include <hwy/foreach_target.h>
// Must come after foreach_target.h.
#include <etna/device/internal/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

/// A vector with the operators that rules use. A multiplication and an addition are fused only where the rule calls a
/// fused function.
struct Floats {
  V v;
};
HWY_INLINE Floats operator+(Floats a, Floats b) { return {hn::Add(a.v, b.v)}; }
HWY_INLINE Floats operator-(Floats a, Floats b) { return {hn::Sub(a.v, b.v)}; }
HWY_INLINE Floats operator*(Floats a, Floats b) { return {hn::Mul(a.v, b.v)}; }
HWY_INLINE Floats operator/(Floats a, Floats b) { return {hn::Div(a.v, b.v)}; }
HWY_INLINE Floats sqrt(Floats a) { return {hn::Sqrt(a.v)}; }
HWY_INLINE Floats mul_add(Floats a, Floats b, Floats c) { return {hn::MulAdd(a.v, b.v, c.v)}; }
HWY_INLINE Floats neg_mul_add(Floats a, Floats b, Floats c) { return {hn::NegMulAdd(a.v, b.v, c.v)}; }
HWY_INLINE Floats mul_sub(Floats a, Floats b, Floats c) { return {hn::MulSub(a.v, b.v, c.v)}; }
/// Multiplies by 1 / b, which is the same for all elements and computed once.
HWY_INLINE Floats div_add(Floats a, Floats b, Floats c) { return {hn::MulAdd(a.v, hn::Div(constant(1), b.v), c.v)}; }
HWY_INLINE Floats operator-(Floats a) { return {hn::Neg(a.v)}; }
HWY_INLINE Floats abs(Floats a) { return {hn::Abs(a.v)}; }
HWY_INLINE Floats larger(Floats a, Floats b) {
  return {hn::IfThenElse(hn::Or(hn::Lt(a.v, b.v), hn::Ne(b.v, b.v)), b.v, a.v)};
}
HWY_INLINE Floats smaller(Floats a, Floats b) {
  return {hn::IfThenElse(hn::Or(hn::Lt(b.v, a.v), hn::Ne(b.v, b.v)), b.v, a.v)};
}
HWY_INLINE Floats by_sign(Floats s, Floats positive, Floats zero, Floats negative) {
  const V none = hn::Zero(D());
  const V rest = hn::IfThenElse(hn::Eq(s.v, none), zero.v, s.v);
  return {hn::IfThenElse(hn::Lt(none, s.v), positive.v, hn::IfThenElse(hn::Lt(s.v, none), negative.v, rest))};
}
HWY_INLINE Floats pick(bool condition, Floats a, Floats b) { return condition ? a : b; }

#include <etna/shaders/optimizer_rules.inc>

template <template <typename> class Rule, std::size_t kStates>
HWY_INLINE void step(const float* numbers, bool first, float* x, const float* gradient, float* const* given,
                     std::size_t n) {
  Rule<Floats> rule;
  rule.each([&numbers](Floats& number) HWY_ATTR { number.v = constant(*numbers++); });
  float* states[kStates + 1] = {};
  for (std::size_t k = 0; k < kStates; ++k) states[k] = given[k];
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  Floats value, state[kStates + 1];
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    value.v = hn::LoadU(d, x + i);
    for (std::size_t k = 0; k < kStates; ++k) state[k].v = hn::LoadU(d, states[k] + i);
    rule.update(value, Floats{hn::LoadU(d, gradient + i)}, state, first);
    hn::StoreU(value.v, d, x + i);
    for (std::size_t k = 0; k < kStates; ++k) hn::StoreU(state[k].v, d, states[k] + i);
  }
  if (i < n) {
    const std::size_t rest = n - i;
    value.v = load_part(x + i, rest, 0);
    for (std::size_t k = 0; k < kStates; ++k) state[k].v = load_part(states[k] + i, rest, 0);
    rule.update(value, Floats{load_part(gradient + i, rest, 0)}, state, first);
    store_part(value.v, x + i, rest);
    for (std::size_t k = 0; k < kStates; ++k) store_part(state[k].v, states[k] + i, rest);
  }
}

#define ETNA_OPTIMIZER(name, options, states)                                                          \
  void name##_step(const float* numbers, bool first, float* x, const float* gradient, float* const* s, \
                   std::size_t n) {                                                                    \
    step<name##_rule, states>(numbers, first, x, gradient, s, n);                                      \
  }
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

#define ETNA_OPTIMIZER(name, options, states)                                                          \
  HWY_EXPORT(name##_step);                                                                             \
  void name##_step(const float* numbers, bool first, float* x, const float* gradient, float* const* s, \
                   std::int64_t n) {                                                                   \
    HWY_DYNAMIC_DISPATCH(name##_step)(numbers, first, x, gradient, s, static_cast<std::size_t>(n));    \
  }
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

}  // namespace etna::cpu
#endif
