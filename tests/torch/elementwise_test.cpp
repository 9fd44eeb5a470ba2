#include <functional>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>
#include <torch/figures.h>

namespace etna {
namespace {

using ElementwiseCall = std::function<Tensor(const TensorList&)>;

/// The public functions of the names in make_elementwise.py; the last word is the input there.
std::map<std::string, ElementwiseCall> elementwise_calls() {
  std::map<std::string, ElementwiseCall> all;
#define ETNA_UNARY(NAME, INPUT) all[#NAME " " #INPUT] = [](const TensorList& in) { return NAME(in[0]); };
  ETNA_UNARY(floor, x)
  ETNA_UNARY(ceil, x)
  ETNA_UNARY(round, x)
  ETNA_UNARY(trunc, x)
  ETNA_UNARY(frac, x)
  ETNA_UNARY(exp2, x)
  ETNA_UNARY(expm1, x)
  ETNA_UNARY(atan, x)
  ETNA_UNARY(sinh, x)
  ETNA_UNARY(cosh, x)
  ETNA_UNARY(asinh, x)
  ETNA_UNARY(erfc, x)
  ETNA_UNARY(sinc, x)
  ETNA_UNARY(sinc, z)
  ETNA_UNARY(selu, x)
  ETNA_UNARY(relu6, x)
  ETNA_UNARY(relu6, z)
  ETNA_UNARY(hardsigmoid, x)
  ETNA_UNARY(hardswish, x)
  ETNA_UNARY(mish, x)
  ETNA_UNARY(softsign, x)
  ETNA_UNARY(logsigmoid, x)
  ETNA_UNARY(leaky_relu, x)
  ETNA_UNARY(elu, x)
  ETNA_UNARY(celu, x)
  ETNA_UNARY(hardtanh, x)
  ETNA_UNARY(softshrink, x)
  ETNA_UNARY(hardshrink, x)
  ETNA_UNARY(tanhshrink, x)
  ETNA_UNARY(glu, x)
  ETNA_UNARY(rrelu, x)
  ETNA_UNARY(log2, p)
  ETNA_UNARY(log10, p)
  ETNA_UNARY(tan, u)
  ETNA_UNARY(asin, u)
  ETNA_UNARY(acos, u)
  ETNA_UNARY(atanh, u)
  ETNA_UNARY(erfinv, u)
  ETNA_UNARY(acosh, g)
  ETNA_UNARY(nan_to_num, n)
  ETNA_UNARY(nansum, n)
#undef ETNA_UNARY
#define ETNA_CALL(NAME, EXPRESSION) all[NAME] = []([[maybe_unused]] const TensorList& in) { return EXPRESSION; };
  ETNA_CALL("fmod", fmod(in[0], in[1]))
  ETNA_CALL("remainder", in[0] % in[1])
  ETNA_CALL("atan2", atan2(in[0], in[1]))
  ETNA_CALL("hypot", hypot(in[0], in[1]))
  ETNA_CALL("copysign", copysign(in[0], in[1]))
  ETNA_CALL("logaddexp", logaddexp(in[0], in[1]))
  ETNA_CALL("xlogy", xlogy(in[0], in[1]))
  ETNA_CALL("elu 0.7", elu(in[0], 0.7))
  ETNA_CALL("celu 0.7", celu(in[0], 0.7))
  ETNA_CALL("leaky_relu 0.3", leaky_relu(in[0], 0.3))
  ETNA_CALL("hardtanh z", hardtanh(in[0], 0, 2))
  ETNA_CALL("clamp z", clamp(in[0], 0, 2))
  ETNA_CALL("threshold z", threshold(in[0], 0, 5))
  ETNA_CALL("softplus 2 3", softplus(in[0], 2, 3))
  ETNA_CALL("softmin 0", softmin(in[0], 0))
  ETNA_CALL("prelu", prelu(in[0], in[1]))
  ETNA_CALL("glu 0", glu(in[0], 0))
  ETNA_CALL("clamp tensors", clamp(in[0], in[1], in[2]))
  ETNA_CALL("lerp 0.3", lerp(in[0], in[1], 0.3))
  ETNA_CALL("lerp 0.8", lerp(in[0], in[1], 0.8))
  ETNA_CALL("lerp", lerp(in[0], in[1], in[2]))
  ETNA_CALL("addcmul", addcmul(in[0], in[1], in[2], 0.5))
  ETNA_CALL("addcdiv", addcdiv(in[0], in[1], in[2], 0.5))
  ETNA_CALL("std", in[0].std(1))
  ETNA_CALL("std all", in[0].std())
  ETNA_CALL("std z", in[0].std(1))
  ETNA_CALL("var_mean", var_mean(in[0], 0).first + var_mean(in[0], 0).second)
  ETNA_CALL("amax z", amax(in[0], 1))
  ETNA_CALL("amin z", amin(in[0], 0))
  ETNA_CALL("nan_to_num 1 2 3", nan_to_num(in[0], 1, 2, 3))
  ETNA_CALL("nanmean", nanmean(in[0].slice(0, 0, 2).slice(1, 0, 3), 1))
  ETNA_CALL("round 2", round(in[0], 2))
  ETNA_CALL("div floor", div(in[0], in[1], "floor"))
  ETNA_CALL("div trunc", div(in[0], in[1], "trunc"))
#undef ETNA_CALL
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::map<std::string, double> orders = {{"0", 0},     {"1", 1},     {"2", 2},     {"3", 3},
                                                {"1.5", 1.5}, {"0.5", 0.5}, {"inf", inf}, {"-inf", -inf}};
  for (const auto& [name, p] : orders) {
    const double order = p;
    for (const char* input : {" x", " z"}) {
      all["norm " + name + input] = [order](const TensorList& in) { return norm(in[0], order, 1); };
    }
  }
  return all;
}

TEST(TorchElementwise, ValuesAndGradients) {
  const nlohmann::json all = figures::load("elementwise");
  const std::map<std::string, ElementwiseCall> functions = elementwise_calls();
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all["cases"].items()) {
      const std::string what = name + " on " + device.str();
      ASSERT_TRUE(functions.contains(name)) << name;
      TensorList in;
      // The value that float infinity stands for differs with the dtype, so nan_to_num runs in that of the figures.
      const DType t = name == "nan_to_num n" ? f64 : f32;
      if (t == f64 && !device.is_cpu()) continue;
      for (const auto& input : figure["inputs"]) {
        in.push_back(figures::tensor(all["inputs"][input.get<std::string>()], device, t).requires_grad_());
      }
      const Tensor y = functions.at(name)(in);
      figures::expect_close(y, figure["value"], 1e-5, what);
      if (!y.requires_grad()) continue;
      const std::int64_t n = y.numel();
      const Tensor seed =
          n == 1 ? full(y.shape(), 0.5, {t, device}) : linspace(0.5, 1.5, n, {t, device}).reshape(y.shape());
      const TensorList gradients = autograd::grad(TensorList{y}, in, TensorList{seed});
      for (std::size_t i = 0; i < in.size(); ++i) {
        const Tensor g = gradients[i].defined() ? gradients[i] : zeros_like(in[i]);
        figures::expect_close(g, figure["gradients"][i], 1e-5, what + ", gradient " + std::to_string(i));
      }
    }
  }
}

TEST(TorchElementwise, ValuesAtEdges) {
  const nlohmann::json all = figures::load("elementwise")["edges"];
  for (Device device : figures::devices()) {
    const Tensor edge = figures::tensor(all["edge"], device), whole = figures::tensor(all["whole"], device);
    const Tensor by = figures::tensor(all["by"], device), a = edge.unsqueeze(1), column = whole.unsqueeze(1);
    const Tensor shifts = tensor({0, 3, 5, 1}).to(device);
    const std::map<std::string, Tensor> got = {
        {"remainder", remainder(a, edge)},
        {"fmod", fmod(a, edge)},
        {"atan2", atan2(a, edge)},
        {"hypot", hypot(a, edge)},
        {"xlogy", xlogy(a, edge)},
        {"logaddexp", logaddexp(a, edge)},
        {"copysign", copysign(a, edge)},
        {"isclose", isclose(a, edge)},
        {"isclose nan", isclose(a, edge, 1e-5, 1e-8, true)},
        {"floor", floor(edge)},
        {"round", round(edge)},
        {"isinf", isinf(edge)},
        {"signbit", signbit(edge)},
        {"any", any(edge)},
        {"all", etna::all(edge)},
        {"count_nonzero", count_nonzero(edge)},
        {"isin", isin(edge, edge.slice(0, 2, 5))},
        {"hardshrink", hardshrink(edge)},
        {"elu", elu(edge)},
        {"relu6", relu6(edge)},
        {"mish", mish(edge)},
        {"logsigmoid", logsigmoid(edge)},
        {"softsign", softsign(edge)},
        {"threshold", threshold(edge, 0, 7)},
        {"hardtanh", hardtanh(edge)},
        {"expm1", expm1(edge)},
        {"asinh", asinh(edge)},
        {"erfc", erfc(edge)},
        {"selu", selu(edge)},
        {"leaky_relu", leaky_relu(edge)},
        {"integer remainder", column % by},
        {"integer fmod", fmod(column, by)},
        {"integer floor", div(column, by, "floor")},
        {"integer trunc", div(column, by, "trunc")},
        {"and", column & by},
        {"or", column | by},
        {"xor", column ^ by},
        {"not", ~whole},
        {"left", column << shifts},
        {"right", column >> shifts},
        {"linspace", linspace(-2, 3, 7, device)},
        {"linspace 1", linspace(-2, 3, 1, device)},
        {"logspace", logspace(-1, 2, 4, 2, device)},
        {"eye", eye(3, 5, device)},
    };
    for (const auto& [name, figure] : all["cases"].items()) {
      if (name == "sinc") continue;  // of infinity PyTorch has NaN; here it is the limit, 0
      ASSERT_TRUE(got.contains(name)) << name;
      figures::expect_close(got.at(name), figure, 1e-5, name + " on " + device.str());
    }
  }
}

}  // namespace
}  // namespace etna
