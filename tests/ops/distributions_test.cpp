#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/distributions.h>
#include <etna/tensor/ops.h>

#include "rows.h"

namespace etna {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

TEST(Distributions, TheGpuDrawsTheSameBits) {
  const auto drawn = [](Device device) {
    manual_seed(7);
    std::vector<double> all;
    const auto add = [&](const Tensor& x) {
      for (double v : x.to_vector<double>()) all.push_back(v);
    };
    for (DType t : {f32, f16, bf16}) {
      const TensorOptions options{t, device};
      Tensor x = empty({101}, options);
      add(x.uniform_(-1, 3)), add(x.normal_(2, 0.5)), add(x.exponential_(2)), add(x.bernoulli_(0.3));
      add(bernoulli(rand({33}, options)));
      add(normal(1, 2, {33}, options));
    }
    add(randperm(1031, device)), add(randperm(0, device)), add(randperm(1, device));
    add(multinomial(rand({3, 17}, device), 9));
    add(multinomial(rand({300}, device), 50, true));
    return all;
  };
  const std::vector<double> on_cpu = drawn(kCPU);
  for (Device device : devices()) EXPECT_EQ(drawn(device), on_cpu) << device.str();
}

TEST(Distributions, HaveTheirMoments) {
  manual_seed(1);
  Tensor x = empty({200000});
  EXPECT_NEAR(mean_of(x.exponential_(2).to_vector<double>()), 0.5, 0.005);
  const std::vector<double> v = x.to_vector<double>();
  EXPECT_GT(*std::min_element(v.begin(), v.end()), 0);
  EXPECT_NEAR(static_cast<double>(std::count_if(v.begin(), v.end(), [](double e) { return e > 1.5; })),
              200000 * std::exp(-3), 500);
  EXPECT_NEAR(mean_of(x.uniform_(2, 4).to_vector<double>()), 3, 0.005);
  EXPECT_NEAR(mean_of(x.normal_(-1, 3).to_vector<double>()), -1, 0.03);
  EXPECT_NEAR(mean_of(x.bernoulli_(0.25).to_vector<double>()), 0.25, 0.004);
  expect_close(bernoulli(from_vector<float>({0, 1, 0, 1})), {0, 1, 0, 1}, 0);
  EXPECT_EQ(normal(from_vector<double>({1, 2}), zeros({3, 1}, f64)).to_vector<double>(),
            (std::vector<double>{1, 2, 1, 2, 1, 2}));
}

TEST(Randperm, EveryOrderIsEquallyLikely) {
  manual_seed(2);
  std::map<std::vector<int>, int> seen;
  for (int i = 0; i < 6000; ++i) ++seen[randperm(3).to_vector<int>()];
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
  std::vector<int> many = randperm(5000, i32).to_vector<int>();
  EXPECT_FALSE(std::is_sorted(many.begin(), many.end()));
  std::sort(many.begin(), many.end());
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(many[static_cast<std::size_t>(i)], i);
}

TEST(Multinomial, FollowsItsWeights) {
  manual_seed(3);
  const Tensor weights = from_vector<float>({0, 1, 0, 3, 4, 0});
  const std::vector<int> with = multinomial(weights, 80000, true).to_vector<int>();
  std::vector<int> first;
  for (int i = 0; i < 8000; ++i) {
    const std::vector<int> three = multinomial(weights, 3).to_vector<int>();
    EXPECT_EQ((std::set<int>(three.begin(), three.end())), (std::set<int>{1, 3, 4}));
    first.push_back(three[0]);
  }
  for (const auto& [drawn, scale] : {std::pair(with, 10000), std::pair(first, 1000)}) {
    const auto count = [&drawn = drawn](int k) {
      return static_cast<double>(std::count(drawn.begin(), drawn.end(), k));
    };
    EXPECT_EQ(count(0) + count(2) + count(5), 0);
    EXPECT_NEAR(count(1), scale, 0.12 * scale);
    EXPECT_NEAR(count(3), 3 * scale, 0.2 * scale);
    EXPECT_NEAR(count(4), 4 * scale, 0.2 * scale);
  }
}

TEST(Distributions, RefuseWhatTheyCannotDraw) {
  const auto says = [](const char* what) { return ThrowsMessage<ShapeError>(HasSubstr(what)); };
  EXPECT_THAT([] { bernoulli(full({2}, 1.5)); }, says("a probability lies in [0, 1]"));
  EXPECT_THAT([] { bernoulli(ones({2}), kNaN); }, says("a probability lies in [0, 1]"));
  EXPECT_THAT([] { multinomial(from_vector<float>({1, -1}), 1); }, says("weight 1 of row 0 is -1"));
  EXPECT_THAT([] { multinomial(zeros({2, 2}), 1); }, says("all weights of row 0 are 0"));
  EXPECT_THAT([] { multinomial(ones({2}), 3); }, says("set replacement = true"));
  EXPECT_THAT([] { multinomial(ones({2, 2, 2}), 1); }, says("[K] or [B, K]"));
  EXPECT_THAT([] { randperm(-1); }, says("randperm: n is -1"));
  EXPECT_THAT([] { ones({2}).normal_(0, -1); }, says("must not be negative"));
  EXPECT_THAT([] { ones({2}).exponential_(0); }, says("lambda is 0"));
  EXPECT_THROW(ones({2}, i64).uniform_(), DtypeError);
  EXPECT_THROW(bernoulli(ones({2}, i64)), DtypeError);
}

TEST(Distributions, ACapturedStepDrawsNewNumbersAtEachReplay) {
  for (Device device : devices()) {
    const Tensor weights = placed(random_tensor({2, 9}, f32) + 3.0, device);
    auto step = capture(
        [&] {
          return std::vector<Tensor>{randperm(50, device), bernoulli(full({64}, 0.5, device)), multinomial(weights, 4),
                                     multinomial(weights, 40, true), normal(0, 1, {20}, device)};
        },
        {.device = device});
    manual_seed(9);
    std::vector<std::vector<std::vector<double>>> captured, eager;
    for (int i = 0; i < 4; ++i) {
      captured.emplace_back();
      for (const Tensor& x : step()) captured.back().push_back(x.to_vector<double>());
    }
    manual_seed(9);
    for (int i = 0; i < 4; ++i) {
      eager.emplace_back();
      for (const Tensor& x : {randperm(50, device), bernoulli(full({64}, 0.5, device)), multinomial(weights, 4),
                              multinomial(weights, 40, true), normal(0, 1, {20}, device)})
        eager.back().push_back(x.to_vector<double>());
    }
    EXPECT_EQ(captured, eager) << device.str();
    EXPECT_NE(captured[2], captured[3]);
  }
}

}  // namespace
}  // namespace etna
