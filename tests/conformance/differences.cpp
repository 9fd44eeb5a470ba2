#include <conformance/differences.h>

#include <cmath>

#include <gtest/gtest.h>

#include <conformance/inputs.h>
#include <etna/autograd/autograd.h>

namespace etna::conformance {
namespace {

constexpr std::int64_t kFewForFirst = 256, kFewForSecond = 64;

/// Σ outputs · seeds, without the ops under test.
double weighted(const Sample& sample, const TensorList& outputs) {
  double total = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_floating(outputs[i].dtype())) continue;
    std::vector<double> y = read(outputs[i]), w = draw_gradient(sample, i, outputs[i].numel(), f64);
    for (std::size_t k = 0; k < y.size(); ++k) total += y[k] * w[k];
  }
  return total;
}

void along_a_direction(const Sample& sample, const std::vector<Drawn>& drawn) {
  constexpr double step = 1e-6;
  TensorList in, leaves, up, down;
  for (const Drawn& d : drawn) in.push_back(d.exact(true));
  TensorList outputs = sample.call(in), roots, seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    seeds.push_back(make(draw_gradient(sample, i, outputs[i].numel(), f64), outputs[i].shape(), f64));
  }
  for (const Tensor& x : in) {
    if (x.defined() && x.requires_grad()) leaves.push_back(x);
  }
  TensorList gradients = autograd::grad(roots, leaves, seeds);
  double analytic = 0, size = 0;
  for (std::size_t i = 0, k = 0; i < drawn.size(); ++i) {
    up.push_back(drawn[i].exact(false));
    down.push_back(drawn[i].exact(false));
    if (!in[i].defined() || !in[i].requires_grad()) continue;
    const Tensor& g = gradients[k++];
    std::vector<double> direction = draw_gradient(sample, 100 + i, in[i].numel(), f64), slope(direction.size());
    if (g.defined()) slope = read(g);
    for (std::size_t e = 0; e < direction.size(); ++e) {
      analytic += slope[e] * direction[e];
      size += std::abs(slope[e] * direction[e]);
      up[i].mutable_data<double>()[e] += step * direction[e];
      down[i].mutable_data<double>()[e] -= step * direction[e];
    }
  }
  NoGrad off;
  double numeric = (weighted(sample, sample.call(up)) - weighted(sample, sample.call(down))) / (2 * step);
  EXPECT_NEAR(analytic, numeric, 1e-5 + 1e-5 * size)
      << sample.op << "/" << sample.name << ": the gradient along a random direction";
}

}  // namespace

std::string check_differences(const Sample& sample) {
  std::vector<Drawn> drawn = draw(sample, f64, Variant::contiguous);
  std::int64_t elements = 0;
  TensorList in;
  for (const Drawn& d : drawn) {
    in.push_back(d.exact(true));
    if (d.differentiable()) elements += d.base.numel();
  }
  if (elements == 0) return "";
  try {
    if (elements > kFewForFirst) {
      along_a_direction(sample, drawn);
      return "1st";
    }
    autograd::GradcheckOptions options;
    options.second_order = sample.checked == Gradients::second && elements <= kFewForSecond;
    EXPECT_EQ(autograd::gradcheck(sample.call, in, options), "") << sample.op << "/" << sample.name;
    return options.second_order ? "1st, 2nd" : "1st";
  } catch (const std::exception& error) {
    ADD_FAILURE() << sample.op << "/" << sample.name << ", by differences: " << error.what();
    return "";
  }
}

}  // namespace etna::conformance
