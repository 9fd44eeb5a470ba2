#include <etna/nn/lstm_language_model.h>

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/literal.h>
#include <etna/tensor/ops.h>

#include "on_device.h"

namespace etna::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// The formula, position by position, in double.
std::vector<double> reference(const Tensor& hidden, const Tensor& logits, const std::vector<std::int64_t>& words,
                              const NeuralCacheOptions& o) {
  const auto h = hidden.to(f64).to_vector<double>(), l = logits.to(f64).to_vector<double>();
  const std::size_t dim = static_cast<std::size_t>(hidden.size(1)), v = static_cast<std::size_t>(logits.size(1));
  std::vector<double> all;
  for (std::size_t t = 0; t < words.size(); ++t) {
    double sum = 0, cache_sum = 0, cache_same = 0;
    for (std::size_t w = 0; w < v; ++w) sum += std::exp(l[t * v + w]);
    const double model = std::exp(l[t * v + static_cast<std::size_t>(words[t])]) / sum;
    const std::size_t first = t > static_cast<std::size_t>(o.window) ? t - static_cast<std::size_t>(o.window) : 0;
    for (std::size_t i = first; i < t; ++i) {
      double product = 0;
      for (std::size_t d = 0; d < dim; ++d) product += h[t * dim + d] * h[i * dim + d];
      const double weight = std::exp(o.theta * product);
      cache_sum += weight;
      if (words[i] == words[t]) cache_same += weight;
    }
    all.push_back(std::log(t == 0 ? model : (1 - o.lambda) * model + o.lambda * cache_same / cache_sum));
  }
  return all;
}

class NeuralCacheOn : public OnDevice {};
ETNA_ON_EVERY_DEVICE(NeuralCacheOn);

TEST_P(NeuralCacheOn, AddsTheWordsOfLikeContexts) {
  manual_seed(4);
  const std::int64_t steps = 24, dim = 6, vocab = 9;
  const Tensor hidden = randn({steps, dim}), logits = randn({steps, vocab}) * 2, words = randint(0, vocab, {steps});
  for (const NeuralCacheOptions options :
       {NeuralCacheOptions{.window = 5, .theta = 0.7, .lambda = 0.3}, NeuralCacheOptions{.window = 100, .theta = 3},
        NeuralCacheOptions{.window = 1, .lambda = 0.9}, NeuralCacheOptions{.lambda = 0}}) {
    const std::vector<double> wanted = reference(hidden, logits, words.to_vector<std::int64_t>(), options);
    NeuralCache cache(dim, options, device());
    auto ask = capture([&](const Tensor& h, const Tensor& l, const Tensor& w) { return cache.log_likelihood(h, l, w); },
                       {.device = device()});
    for (int repeat = 0; repeat < 2; ++repeat) {
      cache.clear();
      std::vector<float> seen;
      for (std::int64_t begin = 0; begin < steps; begin += 4) {
        const Tensor part =
            ask(hidden.slice(0, begin, begin + 4).contiguous(), logits.slice(0, begin, begin + 4).contiguous(),
                words.slice(0, begin, begin + 4).contiguous());
        for (const float x : part.to_vector<float>()) seen.push_back(x);
      }
      ASSERT_EQ(seen.size(), wanted.size());
      for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], 2e-5) << i;
    }
  }
}

TEST_P(NeuralCacheOn, StaysFiniteForHugeNumbers) {
  NeuralCache cache(2, {.window = 3, .theta = 1}, device());
  const Tensor hidden = tensor({{1e4f, 0.f}, {1e4f, 0.f}, {-1e4f, 0.f}}).to(device());
  const Tensor logits = tensor({{500.f, -500.f}, {500.f, -500.f}, {-500.f, 500.f}}).to(device());
  const Tensor words = tensor({1, 1, 0}).to(device());
  const auto seen = cache.log_likelihood(hidden, logits, words).to_vector<float>();
  EXPECT_NEAR(seen[0], -1000, 1e-2);
  EXPECT_NEAR(seen[1], std::log(0.13), 1e-4);
  EXPECT_TRUE(std::isfinite(seen[2]));
}

TEST(NeuralCache, SaysWhatDoesNotFit) {
  EXPECT_THAT([] { NeuralCache(4, {.window = 0}, kCPU); }, ThrowsMessage<Error>(HasSubstr("window is 0")));
  EXPECT_THAT([] { NeuralCache(4, {.lambda = 1}, kCPU); }, ThrowsMessage<Error>(HasSubstr("lambda is 1")));
  EXPECT_THAT([] { NeuralCache(4, {.theta = NAN}, kCPU); }, ThrowsMessage<Error>(HasSubstr("theta is nan")));
  NeuralCache cache(4, {}, kCPU);
  EXPECT_THAT(
      [&] {
        cache.log_likelihood(zeros({3, 5}), zeros({3, 7}), zeros({3}, i64));
      },
      ThrowsMessage<ShapeError>(HasSubstr("hidden [3, 5], logits [3, 7] and words [3] should be [T, 4]")));
}

}  // namespace
}  // namespace etna::nn
