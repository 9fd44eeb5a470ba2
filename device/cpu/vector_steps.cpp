// Bound by the memory's 28 bytes a parameter; vectors keep the root and the quotient from costing more.
#include <etna/device/cpu/vector_steps.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <etna/device/cpu/vector_steps.cpp>
#include <hwy/foreach_target.h>
// Behind foreach_target.h.
#include <etna/device/cpu/vector_math.inc>

HWY_BEFORE_NAMESPACE();
namespace etna::cpu::HWY_NAMESPACE {

void adam(const AdamNumbers& a, float* x, const float* g, float* m, float* v, std::size_t n) {
  const V factor = constant(a.factor), decay = constant(a.decay), shrink = constant(a.shrink);
  const V fresh1 = constant(a.fresh1), beta2 = constant(a.beta2), fresh2 = constant(a.fresh2);
  const V size = constant(a.size), per_second = constant(1 / a.second_bias), eps = constant(a.eps);
  struct State {
    V x, m, v;
  };
  auto step = [=](V old, V gradient, V first, V second) HWY_ATTR {
    const V slope = hn::MulAdd(gradient, factor, hn::Mul(decay, old));
    State next;
    next.m = hn::MulAdd(hn::Sub(slope, first), fresh1, first);
    next.v = hn::MulAdd(hn::Mul(fresh2, slope), slope, hn::Mul(beta2, second));
    const V quotient = hn::Div(hn::Mul(size, next.m), hn::MulAdd(hn::Sqrt(next.v), per_second, eps));
    next.x = hn::MulSub(old, shrink, quotient);
    return next;
  };
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const State next = step(hn::LoadU(d, x + i), hn::LoadU(d, g + i), hn::LoadU(d, m + i), hn::LoadU(d, v + i));
    hn::StoreU(next.x, d, x + i);
    hn::StoreU(next.m, d, m + i);
    hn::StoreU(next.v, d, v + i);
  }
  if (i < n) {
    const std::size_t rest = n - i;
    const State next = step(load_part(x + i, rest, 0), load_part(g + i, rest, 0), load_part(m + i, rest, 0),
                            load_part(v + i, rest, 0));
    store_part(next.x, x + i, rest);
    store_part(next.m, m + i, rest);
    store_part(next.v, v + i, rest);
  }
}

}  // namespace etna::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace etna::cpu {

HWY_EXPORT(adam);
void adam(const AdamNumbers& numbers, float* x, const float* gradient, float* m, float* v, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(adam)(numbers, x, gradient, m, v, static_cast<std::size_t>(n));
}

}  // namespace etna::cpu
#endif
