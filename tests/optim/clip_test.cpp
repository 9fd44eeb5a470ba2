#include <cmath>
#include <limits>

#include <etna/device/internal/vulkan/api/diagnostics.h>
#include <etna/optim/optimizer.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/optimizer/internal/optimizer.h>
#include <nn/on_device.h>

namespace etna {
namespace {

class Clip : public OnDevice {
 protected:
  static Tensor with_gradient(const std::vector<float>& g, DType t = f32) {
    auto n = static_cast<std::int64_t>(g.size());
    Tensor x = zeros({n}, {t, device()}).requires_grad_();
    x.set_grad(from_vector(g).to(t).to(device()));
    return x;
  }
};

TEST_P(Clip, ScalesToTheBoundAndReturnsTheNormBefore) {
  Tensor a = with_gradient({3, 0}), b = with_gradient({-4}), c = zeros({2}, {f32, device()}).requires_grad_();
  Transfers before = transfers();
  Tensor norm = optim::clip_grad_norm_({a, b, c}, 1);
  EXPECT_EQ(transfers().d2h_calls, before.d2h_calls);
  EXPECT_EQ(norm.device(), device());
  EXPECT_EQ(norm.dim(), 0);
  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  expect_near(a.grad(), {0.6, 0}, 1e-6);
  expect_near(b.grad(), {-0.8}, 1e-6);
  EXPECT_FALSE(c.grad().defined());
}

TEST_P(Clip, LeavesWhatIsWithinTheBoundAsItIs) {
  Tensor a = with_gradient({0.1f, 0.3f});
  optim::clip_grad_norm_({a}, 1);
  EXPECT_EQ(a.grad().to_vector<float>(), std::vector<float>({0.1f, 0.3f}));
}

TEST_P(Clip, KnowsOtherNorms) {
  Tensor a = with_gradient({3, -7}), b = with_gradient({2});
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_({a, b}, 100, 1).item<float>(), 12);
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_({a, b}, 100, INFINITY).item<float>(), 7);
  EXPECT_THROW(optim::clip_grad_norm_({a, b}, 100, 3), Error);
}

TEST_P(Clip, ShowsNaNAndInfinity) {
  for (double order : {1.0, 2.0, double{INFINITY}}) {
    Tensor a = with_gradient({1, 2}), b = with_gradient({1, NAN, 3});
    EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({a, b}, 1, order).item<float>())) << order;
    EXPECT_TRUE(std::isnan(a.grad().to_vector<float>()[0])) << order;
    Tensor c = with_gradient({1, -INFINITY});
    EXPECT_TRUE(std::isinf(optim::clip_grad_norm_({c}, 1, order).item<float>())) << order;
    EXPECT_EQ(c.grad().to_vector<float>()[0], 0) << order;
  }
}

TEST_P(Clip, MixesDtypesAndStrides) {
  Tensor a = with_gradient({3, 3, 3, 3}), b = with_gradient({4, 4, 4, 4}, bf16), c = zeros({2, 3}, {f32, device()});
  c.requires_grad_().set_grad(arange(0, 6, 1, {f32}).to(device()).reshape({3, 2}).t());
  Tensor norm = optim::clip_grad_norm_({a, b, c}, 1);
  double wanted = std::sqrt(4 * 9 + 4 * 16 + 55);
  EXPECT_NEAR(norm.item<double>(), wanted, 1e-5);
  expect_near(a.grad(), std::vector<double>(4, 3 / wanted), 1e-6);
  expect_near(b.grad(), std::vector<double>(4, 4 / wanted), 2e-3);
  expect_near(c.grad(), {0, 2 / wanted, 4 / wanted, 1 / wanted, 3 / wanted, 5 / wanted}, 1e-6);
}

TEST_P(Clip, SumsManySmallOnesBesideALargeOne) {
  Tensor small = full({300000}, 1e-3, {f32, device()}), large = full({1}, 1, {f32, device()});
  EXPECT_NEAR(global_norm(std::vector<Tensor>{small, large}).item<double>(), std::sqrt(1.3), 2e-6);
}

TEST_P(Clip, IsThreeDispatchesWhateverTheNumberOfTensors) {
  if (device().is_cpu()) GTEST_SKIP() << "counts dispatches";
  std::vector<Tensor> parameters;
  for (int i = 0; i < 50; ++i) parameters.push_back(with_gradient({1, 2, 3}));
  auto before = gpu::queue_stats(device()).dispatches;
  optim::clip_grad_norm_(parameters, 1);
  EXPECT_EQ(gpu::queue_stats(device()).dispatches - before, 3u);
}

TEST_P(Clip, OfNothingIsZero) {
  Tensor a = zeros({2}, {f32, device()}).requires_grad_();
  EXPECT_EQ(optim::clip_grad_norm_({a}, 1).item<float>(), 0);
  EXPECT_EQ(optim::clip_grad_norm_({}, 1).item<float>(), 0);
}

ETNA_ON_EVERY_DEVICE(Clip);

}  // namespace
}  // namespace etna
