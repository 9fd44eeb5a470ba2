#include <algorithm>
#include <array>
#include <cmath>

#include <etna/shaders/shaders.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/step.h>
#include <etna/tensor/ops/optimizer/internal/table.h>
#include <etna/tensor/ops/optimizer/internal/vector_steps.h>

// The ops generated from the table of rules.
namespace etna {
namespace {

// The functions that rules call, for double and Tensor, without fused multiply-adds: tensor/CMakeLists.txt disables
// contraction here, so that the bits of f64 do not depend on the build.
template <typename T>
T mul_add(const T& a, const T& b, const T& c) {
  return a * b + c;
}
template <typename T>
T neg_mul_add(const T& a, const T& b, const T& c) {
  return c - a * b;
}
template <typename T>
T mul_sub(const T& a, const T& b, const T& c) {
  return a * b - c;
}
template <typename T>
T div_add(const T& a, const T& b, const T& c) {
  return a / b + c;
}
double larger(double a, double b) { return a < b || b != b ? b : a; }
double smaller(double a, double b) { return a > b || b != b ? b : a; }
Tensor larger(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor smaller(const Tensor& a, const Tensor& b) { return minimum(a, b); }
double by_sign(double s, double positive, double zero, double negative) {
  return s > 0 ? positive : s < 0 ? negative : s == 0 ? zero : s;
}
Tensor by_sign(const Tensor& s, const Tensor& positive, const Tensor& zero, const Tensor& negative) {
  return where(s > 0.0, positive, where(s < 0.0, negative, where(s == 0.0, zero, s)));
}
double power(double a, double b) { return std::pow(a, b); }
Tensor power(const Tensor& a, const Tensor& b) { return pow(a, b); }
double pick(bool condition, double a, double b) { return condition ? a : b; }
Tensor pick(const Tensor& condition, const Tensor& a, const Tensor& b) { return where(condition, a, b); }
double one_minus_power(double base, double, double exponent) { return 1 - std::pow(base, exponent); }
Tensor one_minus_power(const Tensor& base, const Tensor&, const Tensor& exponent) { return 1.0 - pow(base, exponent); }
double averaged_length(double rest, double log_beta, double t) {
  return 2 / rest - 1 + 2 * t * std::exp(t * log_beta) / std::expm1(t * log_beta);
}
Tensor averaged_length(const Tensor& rest, const Tensor& log_beta, const Tensor& t) {
  const Tensor kept = exp(t * log_beta);
  return 2.0 / rest - 1.0 - 2.0 * t * kept / (1.0 - kept);
}
/// The product over i = 1 ... t of beta · (1 - rⁱ/2). Its logarithm is a sum of geometric series:
/// log(1 - rⁱ/2) = -Σₖ (rⁱ/2)ᵏ/k.
template <typename T>
T momentum_product(const T& log_beta, const T& log_r, const T& t) {
  using std::exp;
  T sum = t * log_beta;
  double half = 1;
  for (int k = 1; k <= 48; ++k) {
    half /= 2;
    const T r = exp(log_r * static_cast<double>(k));
    // At r = 1 each of the t terms is 1; adding 1e-300 turns 0/0 into 0, and pick() then selects t.
    const T series = pick(r < 1.0, r * (1.0 - exp(log_r * static_cast<double>(k) * t)) / (1.0 - r + 1e-300), t);
    sum = sum - series * (half / k);
  }
  return exp(sum);
}

/// A constant of the options, in the type and on the device of numbers such as `step`.
double constant(double value, double) { return value; }
Tensor constant(double value, const Tensor& step) { return scalar(value, {step.dtype(), step.device()}); }

#include <etna/shaders/optimizer_rules.inc>

/// Implements the functions of StepRule from a rule's struct.
template <template <typename> class Rule, typename Options, std::size_t kStates>
struct Functions {
  static std::vector<float> constants(const Attrs& attrs) {
    std::vector<float> all;
    Rule<double>::constants(attrs.as<Options>(), [&](double value) { all.push_back(static_cast<float>(value)); });
    return all;
  }

  template <typename T>
  static std::vector<T> found(const Attrs& attrs, const optimizer::RuleInputs<T>& in) {
    Rule<T> rule;
    rule.factor = in.factor, rule.lr = in.lr, rule.weight_decay = in.weight_decay;
    rule.momentum = in.momentum, rule.log_momentum = in.log_momentum, rule.one_minus_momentum = in.one_minus_momentum;
    rule.find(attrs.as<Options>(), in.step);
    std::vector<T> all;
    rule.each([&](const T& number) { all.push_back(number); });
    return all;
  }
  static std::vector<double> numbers(const Attrs& attrs, const optimizer::RuleInputs<double>& in) {
    return found<double>(attrs, in);
  }
  static TensorList composed_numbers(const Attrs& attrs, const optimizer::RuleInputs<Tensor>& in) {
    return found<Tensor>(attrs, in);
  }

  static void update(const double* numbers, bool first, double* x, const double* gradient, double* const* states,
                     std::int64_t n) {
    Rule<double> rule;
    rule.each([&](double& number) { number = *numbers++; });
    std::array<double*, kStates + 1> at = {};
    std::copy_n(states, kStates, at.begin());
    for (std::int64_t i = 0; i < n; ++i) {
      double state[kStates + 1];
      for (std::size_t k = 0; k < kStates; ++k) state[k] = at[k][i];
      rule.update(x[i], gradient[i], state, first);
      for (std::size_t k = 0; k < kStates; ++k) at[k][i] = state[k];
    }
  }

  static void compose(const TensorList& numbers, const Tensor& first, Tensor& x, const Tensor& gradient,
                      Tensor* states) {
    Rule<Tensor> rule;
    const Tensor* next = numbers.data();
    rule.each([&](Tensor& number) { number = *next++; });
    rule.update(x, gradient, states, first);
  }
};

template <typename Options>
double momentum_of([[maybe_unused]] const Options& options) {
  if constexpr (requires { options.beta1; })
    return options.beta1;
  else if constexpr (requires { options.momentum; })
    return options.momentum;
  else
    return 0;
}

template <const optimizer::StepRule& rule>
constexpr OpDef definition(const char* name) {
  return {.name = name,
          .infer = [](const OpCall& call) { return optimizer::infer_step(call, rule); },
          .cpu = [](const OpCall& call, std::span<Tensor>) { optimizer::step_cpu(call, rule); },
          .gpu = [](const OpCall& call, std::span<Tensor>) { return optimizer::step_gpu(call, rule); },
          .reference = [](const OpCall& call) { return optimizer::step_reference(call, rule); }};
}

#define ETNA_OPTIMIZER(name, Options, states)                                                                     \
  static_assert(2 + states <= optimizer::Rows::kMostEntries,                                                      \
                #name " keeps more states than a row of the table holds");                                        \
  using name##_functions = Functions<name##_rule, Options, states>;                                               \
  constexpr optimizer::StepRule name##_step_rule = {                                                              \
      states,           &shaders::name##_step,    name##_functions::constants,        name##_functions::numbers,  \
      cpu::name##_step, name##_functions::update, name##_functions::composed_numbers, name##_functions::compose}; \
  constexpr OpDef name##_op = definition<name##_step_rule>(#name "_step_");
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

}  // namespace

#define ETNA_OPTIMIZER(name, Options, states)                                                         \
  void name##_step_(std::span<const Tensor> list, const StepNumbers& numbers, const Options& options, \
                    const Tensor& control) {                                                          \
    GradMode off(false);                                                                              \
    if (list.empty()) return;                                                                         \
    apply(name##_op, optimizer::step_inputs(list, numbers, control), Attrs::of(options));             \
  }                                                                                                   \
  void name##_step_(std::span<const Tensor> list, const Options& step, const Tensor& control) {       \
    if (list.empty()) return;                                                                         \
    const StepValues values{step.lr, step.weight_decay, step.step, momentum_of(step)};                \
    name##_step_(list, each_step_numbers(list, [values] { return values; }), step, control);          \
  }
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER

std::span<const OpDef* const> ops_in_rules() {
  static const OpDef* const list[] = {
#define ETNA_OPTIMIZER(name, Options, states) &name##_op,
#include <etna/shaders/optimizer_list.inc>
#undef ETNA_OPTIMIZER
  };
  return list;
}

}  // namespace etna
