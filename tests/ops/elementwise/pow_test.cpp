#include <cmath>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

#include "ops/rows.h"

namespace etna {
namespace {

using op_tests::expect_close;
using op_tests::kInf;
using op_tests::kNaN;

const std::vector<double> kBases = {0, 0, 0, 0, 0, -0.0, -2, -2, 2, 3, 0};
const std::vector<double> kExponents = {0, 0.5, 1, 2, 3, 0, 2, 0, 0, 2, -1};

/// A leaf in f32.
Tensor leaf(const std::vector<double>& values, Device device) {
  Tensor x = from_vector(values).to(f32).to(device);
  return x.requires_grad_();
}

/// The differentiable gradient of Σ y with respect to x; zeros where y does not depend on x.
Tensor first(const Tensor& y, const Tensor& x) {
  return autograd::grad(TensorList{sum(y + sum(x * 0.0))}, TensorList{x}, {}, true, true)[0];
}

// The values are those of PyTorch: 0 for the base if the exponent is 0, and 0 for the exponent if the base is 0 and the
// exponent is not negative.
TEST(Pow, GradientsOfTensorsAtBaseZero) {
  for (Device device : op_tests::devices()) {
    Tensor a = leaf(kBases, device), b = leaf(kExponents, device);
    const Tensor y = pow(a, b);
    expect_close(first(y, a), {0, kInf, 1, 0, 0, 0, -4, 0, 0, 6, -kInf}, 1e-6, 1e-6, "base");
    expect_close(first(y, b), {0, 0, 0, 0, 0, 0, kNaN, kNaN, std::log(2.0), 9 * std::log(3.0), -kInf}, 1e-6, 1e-6,
                 "exponent");
  }
}

TEST(Pow, GradientOfABaseWithANumberAsExponent) {
  for (Device device : op_tests::devices()) {
    for (auto [exponent, wanted] :
         {std::pair<double, std::vector<double>>{0, {0, 0, 0}}, {1, {1, 1, 1}}, {2, {0, -4, 6}}, {3, {0, 12, 27}}}) {
      Tensor a = leaf({0, -2, 3}, device);
      expect_close(first(pow(a, exponent), a), wanted, 1e-6, 1e-6, std::to_string(exponent));
    }
    Tensor a = leaf({0}, device);
    expect_close(first(pow(a, 0.5), a), {kInf}, 0);
  }
}

TEST(Pow, GradientOfAnExponentWithANumberAsBase) {
  for (Device device : op_tests::devices()) {
    Tensor b = leaf({0, 0.5, 2, -1}, device);
    expect_close(first(pow(0.0, b), b), {0, 0, 0, -kInf}, 0);
    b = leaf({0, 2}, device);
    expect_close(first(pow(-2.0, b), b), {kNaN, kNaN}, 0);
    expect_close(first(pow(2.0, b), b), {std::log(2.0), 4 * std::log(2.0)}, 1e-6);
  }
}

TEST(Pow, SecondGradientsStayFinite) {
  for (Device device : op_tests::devices()) {
    for (double exponent : {0.0, 1.0, 2.0, 3.0}) {
      Tensor a = leaf({0, 2}, device);
      const double c = exponent * (exponent - 1);
      expect_close(first(first(pow(a, exponent), a), a), {exponent == 2 ? 2.0 : 0.0, c * std::pow(2.0, exponent - 2)},
                   1e-6, 1e-6, std::to_string(exponent));
    }
    // Of tensors: with respect to base and exponent, of either first gradient.
    Tensor a = leaf({0, 0, 0, 2}, device), b = leaf({0, 2, 3, 0}, device);
    const Tensor to_base = first(pow(a, b), a), to_exponent = first(pow(a, b), b);
    const double l = std::log(2.0);
    expect_close(first(to_base, a), {0, 2, 0, 0}, 1e-6, 1e-6, "base, base");
    expect_close(first(to_base, b), {0, 0, 0, 0.5}, 1e-6, 1e-6, "base, exponent");
    expect_close(first(to_exponent, a), {0, 0, 0, 0.5}, 1e-6, 1e-6, "exponent, base");
    expect_close(first(to_exponent, b), {0, 0, 0, l * l}, 1e-6, 1e-6, "exponent, exponent");
    Tensor c = leaf({0, 1, 2}, device);
    expect_close(first(first(pow(0.0, c), c), c), {0, 0, 0}, 0, 0, "a number as base");
  }
}

}  // namespace
}  // namespace etna
