#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>

#include "nn/on_device.h"
#include "ops/rows.h"

// Norms, and what divides by them, of numbers whose squares f32 does not hold: as in f64.
namespace etna {
namespace {

class NormRange : public OnDevice {};
ETNA_ON_EVERY_DEVICE(NormRange);

struct RangeCase {
  std::string name;
  std::function<Tensor(const Tensor& x)> call;  ///< x [4, 6, 8]
  bool gradients = true;
};

Tensor ramp(const Tensor& x, std::int64_t n) { return cumsum(ones({n}, {x.dtype(), x.device()}), 0) * 0.25; }

std::vector<RangeCase> range_cases() {
  std::vector<RangeCase> all = {
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, ramp(x, 8), ramp(x, 8)); }},
      {"layer_norm of long rows",
       [](const Tensor& x) {
         return layer_norm(x.reshape({1, 192}), {}, {});
       }},
      {"layer_norm with eps 0", [](const Tensor& x) { return layer_norm(x, ramp(x, 8), {}, 0); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, ramp(x, 8)); }},
      {"rms_norm with eps 0", [](const Tensor& x) { return rms_norm(x, {}, 0); }},
      {"rms_norm of strided rows", [](const Tensor& x) { return rms_norm(x.transpose(1, 2), {}); }},
      {"add_layer_norm", [](const Tensor& x) { return add_layer_norm(x, x * 0.5, {}, {}).normed; }},
      {"add_rms_norm", [](const Tensor& x) { return add_rms_norm(x, x * 0.5, {}).normed; }},
      {"linear_layer_norm",
       [](const Tensor& x) {
         const Tensor weight = detail::identity(8, {x.dtype(), x.device()});
         return linear_layer_norm(x, weight, {}, x * 0.5, ramp(x, 8), ramp(x, 8)).normed;
       }},
      {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}, ramp(x, 6), ramp(x, 6), true); }},
      {"batch_norm of channels last",
       [](const Tensor& x) {
         return batch_norm(x.reshape({24, 8}), {}, {}, ramp(x, 8), {}, true);
       }},
      {"batch_norm of chunks",
       [](const Tensor& x) {
         return batch_norm(x.repeat({64, 1, 64}), {}, {}, {}, {}, true);
       },
       false},
      {"batch_norm with eps 0", [](const Tensor& x) { return batch_norm(x, {}, {}, ramp(x, 6), {}, true, 0.1, 0); }},
      {"instance_norm", [](const Tensor& x) { return instance_norm(x, {}, {}, {}, {}); }},
      {"group_norm", [](const Tensor& x) { return group_norm(x, 2, ramp(x, 6), ramp(x, 6)); }},
      {"std", [](const Tensor& x) { return etna::std(x, {-1}); }},
      {"std of all", [](const Tensor& x) { return etna::std(x); }},
      {"std of columns",
       [](const Tensor& x) {
         return etna::std(x.repeat({40, 1, 1}), {0});
       }},
      {"std of many",
       [](const Tensor& x) {
         return etna::std(x.repeat({40, 10, 10}));
       }},
      {"norm of many",
       [](const Tensor& x) {
         return norm(x.repeat({40, 10, 10}));
       }},
      {"norm of columns",
       [](const Tensor& x) {
         return norm(x.repeat({40, 1, 1}), 2, {0});
       }},
      {"normalize", [](const Tensor& x) { return normalize(x, 2, -1, 1e-37); }},
      {"normalize to 3", [](const Tensor& x) { return normalize(x, 3, 1, 1e-37); }},
      {"cosine_similarity", [](const Tensor& x) { return cosine_similarity(x, x.slice(1, 0, 1), -1, 1e-37); }},
      {"pairwise_distance", [](const Tensor& x) { return pairwise_distance(x[0], x[1], 2, 0); }},
      {"cdist", [](const Tensor& x) { return cdist(x[0], x[1]); }},
      {"matrix_norm", [](const Tensor& x) { return linalg::matrix_norm(x, "fro"); }},
      {"renorm", [](const Tensor& x) { return renorm(x, 2, 0, 1); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {-1}); }},
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }, false},
      {"mean", [](const Tensor& x) { return mean(x, {-1}); }},
      {"var", [](const Tensor& x) { return var(x, {-1}); }, false},
      {"hypot", [](const Tensor& x) { return hypot(x, x * 0.5); }},
  };
  for (double p : {-2.0, 0.5, 1.0, 2.0, 3.0, double(INFINITY)})
    all.push_back({"norm of order " + std::to_string(p), [p](const Tensor& x) { return norm(x, p, {-1}); }});
  return all;
}

/// Within 2e-5 of the largest element; what f32 does not hold becomes 0 or an infinity.
void expect_as_in_f64(const Tensor& got, const Tensor& wanted, const std::string& what) {
  const std::vector<double> a = got.to_vector<double>(), b = wanted.to(f32).to_vector<double>();
  ASSERT_EQ(a.size(), b.size()) << what;
  double most = 0;
  for (double v : b) most = std::isfinite(v) ? std::max(most, std::abs(v)) : most;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = std::isfinite(b[i]) ? std::abs(a[i] - b[i]) <= 2e-5 * most + 2e-38 : a[i] == b[i];
    ASSERT_TRUE(same) << what << ": element " << i << " is " << a[i] << ", not " << b[i];
  }
}

TEST_P(NormRange, IsThatOfF64) {
  int cases = 0;
  const Tensor unit = op_tests::random_tensor({4, 6, 8}, f64, 3, -1, 1) + 0.25;
  for (const RangeCase& each : range_cases()) {
    for (const double size : {1e-30, 1.0, 1e20, 1e30}) {
      const std::string what = each.name + " at " + std::to_string(std::log10(size));
      const auto run = [&](Tensor x) {
        x.requires_grad_();
        Tensor y = each.call(x);
        const Tensor weight = cos(cumsum(ones({y.numel()}, {y.dtype(), y.device()}), 0)).reshape(y.shape());
        return std::pair(y, each.gradients ? autograd::grad(TensorList{y}, TensorList{x}, TensorList{weight})[0] : y);
      };
      const Tensor exact = (unit * size).to(f32);
      const auto [y, g] = run(exact.to(device()).clone());
      const auto [wanted_y, wanted_g] = run(exact.to(f64));
      expect_as_in_f64(y.detach(), wanted_y.detach(), what);
      expect_as_in_f64(g.detach(), wanted_g.detach(), what + ", the gradient");
      const Tensor x = exact.to(device()).clone();
      auto step = capture([&] { return each.call(x); }, {.device = device()});
      for (int i = 0; i < 3; ++i) expect_as_in_f64(step(), wanted_y.detach(), what + ", captured");
      ++cases;
    }
  }
  std::printf("norms at 1e-30, 1, 1e20 and 1e30: %d cases\n", cases);
}

TEST_P(NormRange, OfManyTensors) {
  for (const double size : {1e-30, 1.0, 1e20, 1e30}) {
    std::vector<Tensor> list;
    double squares = 0;
    for (std::int64_t n : {3, 9000, 1}) {
      list.push_back(full({n}, size, {f32, device()}));
      squares += static_cast<double>(n);
    }
    const double wanted = size * std::sqrt(squares);
    EXPECT_NEAR(global_norm(list).item<double>(), wanted, 1e-5 * wanted);
    EXPECT_NEAR(global_norm(list, 1).item<double>(), size * squares, 1e-5 * size * squares);
    EXPECT_NEAR(global_norm(list, INFINITY).item<double>(), size, 1e-6 * size);
  }
  EXPECT_TRUE(std::isinf(global_norm(std::vector{full({5}, INFINITY, device())}).item<double>()));
  EXPECT_TRUE(std::isnan(global_norm(std::vector{full({5}, NAN, device())}).item<double>()));
}

TEST_P(NormRange, ShowsInfinitiesAndNan) {
  for (const double bad : {double(INFINITY), double(NAN)}) {
    const Tensor x = from_vector<float>({1, static_cast<float>(bad), 2, 3}, {1, 4}, device());
    EXPECT_TRUE(std::isnan(layer_norm(x, {}, {})[0].select(0, 1).item<float>()));
    EXPECT_TRUE(std::isnan(rms_norm(x, {})[0].select(0, 1).item<float>()));
    EXPECT_FALSE(std::isfinite(norm(x).item<float>()));
    EXPECT_TRUE(std::isnan(etna::std(x).item<float>()));
    EXPECT_FALSE(std::isfinite(norm(x, 3).item<float>()));
  }
  EXPECT_EQ(norm(zeros({3}, device())).item<float>(), 0);
  EXPECT_EQ(etna::std(full({3}, 2, device())).item<float>(), 0);
  EXPECT_TRUE(std::isnan(etna::std(ones({1}, device())).item<float>()));
  EXPECT_EQ(norm(zeros({0}, device())).item<float>(), 0);
}

TEST_P(NormRange, DivisionAndLogarithmsHoldToTheEndOfF32) {
  const float most = 3e38f;
  const Tensor x = from_vector<float>({most, -most, 1e30f, 2}, device());
  const auto check = [](const Tensor& y, const std::vector<double>& wanted) { expect_near(y, wanted, 0, 1e-5); };
  check(x / x, {1, 1, 1, 1});
  check(x / most, {1, -1, 1e30 / 3e38, 2 / 3e38});
  check(softsign(x), {1, -1, 1, 2.0 / 3});
  check(log1p(abs(x)), {std::log(3e38), std::log(3e38), std::log(1e30), std::log(3.0)});
  check(asinh(x), {std::asinh(3e38), -std::asinh(3e38), std::asinh(1e30), std::asinh(2.0)});
  check(atan2(x, abs(x)), {std::atan(1), -std::atan(1), std::atan(1), std::atan(1)});
  check(floor_divide(x, abs(x)), {1, -1, 1, 1});
  check(logaddexp(x, x), {most, -most, 1e30, 2 + std::log(2.0)});
}

}  // namespace
}  // namespace etna
