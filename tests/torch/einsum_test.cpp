#include <gtest/gtest.h>

#include <etna/tensor/ops.h>
#include <etna/tensor/ops/einsum/einsum.h>
#include <torch/cases.h>

namespace etna {
namespace {

TEST(TorchEinsum, ValuesAndGradients) {
  const nlohmann::json all = figures::load("einsum");
  for (Device device : figures::devices()) {
    std::size_t i = 0;
    for (const nlohmann::json& figure : all["einsum"]) {
      // How an equation is taken apart does not depend on the device.
      if (++i % 3 != 1 && !device.is_cpu()) continue;
      const auto equation = figure["equation"].get<std::string>();
      figures::expect_case(
          figure, [&](const TensorList& in) { return einsum(equation, in); }, device, f32, 1e-5, equation);
    }
  }
}

TEST(TorchEinsum, ProductsAndTheirGradients) {
  const nlohmann::json all = figures::load("einsum");
  using In = const TensorList&;
  const std::map<std::string, figures::Function> calls = {
      {"tensordot", [](In in) { return tensordot(in[0], in[1]); }},
      {"tensordot dims",
       [](In in) {
         return tensordot(in[0], in[1], {0, -1}, {1, 0});
       }},
      {"tensordot 0", [](In in) { return tensordot(in[0], in[1], 0); }},
      {"mm", [](In in) { return mm(in[0], in[1]); }},
      {"bmm", [](In in) { return bmm(in[0], in[1]); }},
      {"mv", [](In in) { return mv(in[0], in[1]); }},
      {"dot", [](In in) { return vdot(in[0], in[1]); }},
      {"outer", [](In in) { return outer(in[0], in[1]); }},
      {"inner", [](In in) { return inner(in[0], in[1]); }},
      {"addmm", [](In in) { return addmm(in[0], in[1], in[2], 0.5, 2); }},
      {"addmv", [](In in) { return addmv(in[0], in[1], in[2], 2, -1); }},
      {"addr", [](In in) { return addr(in[0], in[1], in[2], 3, 0.5); }},
      {"baddbmm", [](In in) { return baddbmm(in[0], in[1], in[2], 0.5, 3); }},
      {"addbmm", [](In in) { return addbmm(in[0], in[1], in[2], 2, 0.5); }},
      {"kron", [](In in) { return kron(in[0], in[1]); }},
      {"kron ranks", [](In in) { return kron(in[0], in[1]); }},
      {"trace", [](In in) { return trace(in[0]); }},
      {"matrix_power", [](In in) { return matrix_power(in[0], 5); }},
      {"matrix_power inverse", [](In in) { return matrix_power(in[0], -3); }},
      {"multi_dot", [](In in) { return multi_dot(in); }},
      {"chain_matmul", [](In in) { return chain_matmul(in); }},
      {"cross", [](In in) { return cross(in[0], in[1]); }},
      {"cross broadcast", [](In in) { return cross(in[0], in[1], -1); }},
  };
  for (Device device : figures::devices()) {
    for (const auto& [name, figure] : all["products"].items()) {
      const bool amplifies = name == "matrix_power inverse";
      figures::expect_case(figure, calls.at(name), device, f32, amplifies ? 1e-4 : 1e-5, name);
    }
  }
}

std::vector<std::int64_t> integers(const nlohmann::json& words) {
  std::vector<std::int64_t> list;
  for (const nlohmann::json& word : words) list.push_back(std::stoll(word.get<std::string>()));
  return list;
}

TEST(TorchEinsum, IntegersMultiplyExactlyAndWrap) {
  const nlohmann::json all = figures::load("einsum");
  for (Device device : figures::devices()) {
    for (DType t : {i64, i32, i8, u8}) {
      const nlohmann::json& figure = all["integers"][std::string(name(t))];
      const Tensor a = from_vector(integers(figure["a"]), {2, 3, 7}).to(t).to(device);
      const Tensor b = from_vector(integers(figure["b"]), {7, 5}).to(t).to(device);
      EXPECT_EQ(matmul(a, b).dtype(), t);
      EXPECT_EQ(matmul(a, b).to_vector<std::int64_t>(), integers(figure["value"])) << name(t) << device.str();
      EXPECT_EQ(einsum("bij,jk->bik", a, b).to_vector<std::int64_t>(), integers(figure["value"]));
    }
  }
}

}  // namespace
}  // namespace etna
