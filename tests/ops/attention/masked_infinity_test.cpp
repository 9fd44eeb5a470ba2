#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>

#include "nn/on_device.h"
#include "ops/rows.h"

// What is masked, ignored or padded counts for nothing, whatever it holds: it is left out by selection, since 0 times
// an infinity is NaN.
namespace etna {
namespace {

class MaskedInfinity : public OnDevice {
 protected:
  /// Values and gradients of f at x are the same with `bad` in place of the elements that do not count.
  /// @param padding a view of those elements
  void expect_untouched(const char* what, const Tensor& given, const std::function<Tensor(const Tensor&)>& padding,
                        const std::function<TensorList(const Tensor&)>& f) {
    const auto run = [&](double value) {
      Tensor x = given.to(device()).clone();
      padding(x).fill_(value);
      x.requires_grad_();
      const TensorList in = f(x);
      TensorList found = {in[0].detach()};
      TensorList inputs = {x};
      inputs.insert(inputs.end(), in.begin() + 1, in.end());
      const TensorList g = autograd::grad(TensorList{in[0].sum()}, inputs);
      found.insert(found.end(), g.begin(), g.end());
      return found;
    };
    const TensorList wanted = run(0.5);
    for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
      const TensorList got = run(bad);
      for (std::size_t i = 0; i < got.size(); ++i) {
        SCOPED_TRACE(std::string(what) + " with " + std::to_string(bad) + ", " + std::to_string(i));
        expect_near(got[i], wanted[i], 1e-6);
      }
    }
  }
};
ETNA_ON_EVERY_DEVICE(MaskedInfinity);

TEST_P(MaskedInfinity, InIgnoredRowsOfLosses) {
  const Tensor logits = op_tests::random_tensor({4, 5}, f32), ignored = from_vector<std::int64_t>({1, -100, 4, -100});
  const auto row = [](const Tensor& x) { return x.slice(0, 1, 4, 2); };
  const Tensor target = ignored.to(device());
  const Tensor weight = from_vector<float>({1, 2, 1, 3, 1}, device());
  expect_untouched("cross_entropy", logits, row, [&](const Tensor& x) { return TensorList{cross_entropy(x, target)}; });
  expect_untouched("cross_entropy, smoothed", logits, row,
                   [&](const Tensor& x) { return TensorList{cross_entropy(x, target, -100, 0.1)}; });
  expect_untouched("cross_entropy with weights", logits, row,
                   [&](const Tensor& x) { return TensorList{cross_entropy(x, target, weight)}; });
  expect_untouched("nll_loss", logits, row, [&](const Tensor& x) { return TensorList{nll_loss(x, target)}; });
}

TEST_P(MaskedInfinity, BehindTheLengthsOfCtc) {
  const Tensor log_probs = log_softmax(op_tests::random_tensor({4, 2, 3}, f32), 2);
  const Tensor targets = from_vector<std::int64_t>({1, 2, 2, 7}, {2, 2}, device());
  const Tensor steps = from_vector<std::int64_t>({4, 2}, device()),
               labels = from_vector<std::int64_t>({2, 1}, device());
  expect_untouched(
      "ctc_loss", log_probs, [](const Tensor& x) { return x.slice(0, 2, 4).select(1, 1); },
      [&](const Tensor& x) { return TensorList{ctc_loss(x, targets, steps, labels)}; });
}

TEST_P(MaskedInfinity, InThePaddingOfEmbeddings) {
  const Tensor table = op_tests::random_tensor({5, 3}, f32);
  const Tensor index = from_vector<std::int64_t>({0, 2, 2, 1, 2, 4}, {2, 3}, device());
  const auto row = [](const Tensor& x) { return x.slice(0, 2, 3); };
  for (BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    expect_untouched("embedding_bag", table, row, [&](const Tensor& x) {
      return TensorList{embedding_bag(x, index, {}, {.mode = mode, .padding_idx = 2})};
    });
    expect_untouched("embedding_bag with offsets", table, row, [&](const Tensor& x) {
      const Tensor offsets = from_vector<std::int64_t>({0, 2}, device());
      return TensorList{embedding_bag(x, index.reshape({6}), offsets, {.mode = mode, .padding_idx = -3})};
    });
  }
  expect_untouched("embedding_bag with factors", table, row, [&](const Tensor& x) {
    const Tensor factors = from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, device()).requires_grad_();
    return TensorList{embedding_bag(x, index, {}, {.mode = BagMode::sum, .padding_idx = 2}, factors), factors};
  });
}

TEST_P(MaskedInfinity, InMissingValues) {
  const Tensor x = from_vector<float>({1, NAN, 3, NAN}, {2, 2}, device()).requires_grad_();
  const Tensor g = autograd::grad(TensorList{nanmean(x) + nansum(x)}, TensorList{x})[0];
  expect_near(g, std::vector<double>{1.5, 0, 1.5, 0}, 1e-6);
  const Tensor y = from_vector<float>({1, INFINITY, 3, -INFINITY}, {2, 2}, device()).requires_grad_();
  const Tensor mask = isfinite(y);
  const Tensor h =
      autograd::grad(TensorList{where(mask, y, 0.0).sum() + masked_fill(y, ~mask, 0).mean()}, TensorList{y})[0];
  expect_near(h, std::vector<double>{1.25, 0, 1.25, 0}, 1e-6);
}

// ---- a row of an embedding without gradient

TEST_P(MaskedInfinity, TheRowOfPaddingGetsNoGradient) {
  const Tensor table = op_tests::random_tensor({4, 3}, f32).to(device()).requires_grad_();
  const Tensor index = from_vector<std::int32_t>({0, 3, 3, 1}, {2, 2}, device());
  const auto run = [&](std::optional<std::int64_t> padding) {
    const Tensor y = embedding(table, index, padding);
    return std::pair(y.detach().to_vector<float>(), autograd::grad(TensorList{square(y).sum()}, TensorList{table})[0]);
  };
  const auto [all, plain] = run({});
  for (std::int64_t padding : {3, -1}) {
    const auto [y, g] = run(padding);
    EXPECT_EQ(y, all) << "the values stay";
    expect_near(g.slice(0, 0, 3), plain.slice(0, 0, 3), 0);
    EXPECT_EQ(g[3].to_vector<float>(), std::vector<float>(3, 0));
  }
  EXPECT_THROW(embedding(table, index, 4), IndexError);
  EXPECT_THROW(embedding(table, index, -5), IndexError);
  auto step = capture(
      [&] {
        return autograd::grad(TensorList{square(embedding(table, index, 3)).sum()}, TensorList{table})[0].clone();
      },
      {.device = device()});
  for (int i = 0; i < 3; ++i) expect_near(step(), run(3).second, 1e-6);
}

}  // namespace
}  // namespace etna
