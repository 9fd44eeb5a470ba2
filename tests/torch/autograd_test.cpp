#include <gtest/gtest.h>

#include <etna/autograd/functional.h>
#include <etna/tensor/ops.h>
#include <torch/figures.h>

namespace etna {
namespace {

using namespace autograd;

TEST(TorchAutograd, DerivativesOfFunctions) {
  const nlohmann::json all = figures::load("autograd");
  for (Device device : figures::devices()) {
    const auto figure = [&](const char* name) { return figures::tensor(all[name], device); };
    const auto f = [](const TensorList& in) { return TensorList{tanh(matmul(in[1], in[0])) * sum(in[0])}; };
    const auto g = [](const TensorList& in) { return TensorList{sum(square(tanh(matmul(in[1], in[0])))) * in[0][0]}; };
    const TensorList x = {figure("x"), figure("w")}, v = {figure("vx"), figure("vw")};
    const auto expect = [&](const TensorList& got, const char* name) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        figures::expect_close(got[i], all[name].is_array() ? all[name][i] : all[name], 1e-5, name);
      }
    };
    expect(vjp(f, x, {figure("v")}).products, "vjp");
    expect(jvp(f, x, v).products, "jvp");
    expect(jacobian(f, x)[0], "jacobian");
    expect(hvp(g, x, v).products, "hvp");
    expect(vhp(g, x, v).products, "vhp");
    const auto second = hessian(g, x);
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) figures::expect_close(second[i][j], all["hessian"][i][j], 1e-5, "hessian");
    }
  }
}

}  // namespace
}  // namespace etna
