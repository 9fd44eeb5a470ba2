#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/tensor/capture.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

#include <ops/rows.h>

namespace etna {
namespace {

using namespace op_tests;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

double distributions_mean_of(const std::vector<double>& v) {
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
  EXPECT_NEAR(distributions_mean_of(x.exponential_(2).to_vector<double>()), 0.5, 0.005);
  const std::vector<double> v = x.to_vector<double>();
  EXPECT_GT(*std::min_element(v.begin(), v.end()), 0);
  EXPECT_NEAR(static_cast<double>(std::count_if(v.begin(), v.end(), [](double e) { return e > 1.5; })),
              200000 * std::exp(-3), 500);
  EXPECT_NEAR(distributions_mean_of(x.uniform_(2, 4).to_vector<double>()), 3, 0.005);
  EXPECT_NEAR(distributions_mean_of(x.normal_(-1, 3).to_vector<double>()), -1, 0.03);
  EXPECT_NEAR(distributions_mean_of(x.bernoulli_(0.25).to_vector<double>()), 0.25, 0.004);
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

/// The mean and the variance of many numbers.
std::pair<double, double> moments(const Tensor& x) {
  const std::vector<double> v = x.to_vector<double>();
  const double mean = distributions_mean_of(v);
  double squares = 0;
  for (double e : v) squares += (e - mean) * (e - mean);
  return {mean, squares / static_cast<double>(v.size())};
}

TEST(Counts, HaveTheMomentsOfTheirDistributions) {
  constexpr std::int64_t n = 10000;
  for (Device device : devices()) {
    manual_seed(4);
    for (double rate : {0.0, 0.3, 4.0, 11.9, 12.1, 300.0}) {
      const auto [mean, variance] = moments(poisson(full({n}, rate, device)));
      EXPECT_NEAR(mean, rate, 4 * std::sqrt(rate / n)) << rate;
      EXPECT_NEAR(variance, rate, 5 * rate * std::sqrt((2 + 1 / std::max(rate, 1e-9)) / n)) << rate;
    }
    for (const auto& [count, p] : {std::pair(0.0, 0.5), std::pair(7.0, 0.0), std::pair(7.0, 1.0), std::pair(1.0, 0.25),
                                   std::pair(20.0, 0.9), std::pair(1e6, 1e-6), std::pair(1000.0, 0.7)}) {
      const auto [mean, variance] = moments(binomial(full({n}, count, device), full({}, p, device)));
      const double wanted = count * p * (1 - p);
      EXPECT_NEAR(mean, count * p, 4 * std::sqrt(wanted / n)) << count << " " << p;
      EXPECT_NEAR(variance, wanted, 5 * wanted * std::sqrt((2 + 1 / std::max(wanted, 1e-9)) / n)) << count << " " << p;
    }
  }
}

TEST(Counts, OfSmallRatesAreExactlyDistributed) {
  constexpr int n = 200000;
  manual_seed(5);
  const std::vector<double> drawn = poisson(full({n}, 2.5)).to_vector<double>();
  double probability = std::exp(-2.5), squares = 0;
  for (int k = 0; k < 9; ++k) {
    const double wanted = n * probability, got = static_cast<double>(std::count(drawn.begin(), drawn.end(), k));
    squares += (got - wanted) * (got - wanted) / wanted;
    probability *= 2.5 / (k + 1);
  }
  EXPECT_LT(squares, 28) << "chi-squared of 9 counts";
}

TEST(Counts, KeepShapeAndDtypeAndRefuseWhatIsNoRate) {
  for (Device device : devices()) {
    EXPECT_EQ(poisson(ones({2, 0}, device)).shape(), Shape({2, 0}));
    EXPECT_EQ(poisson(ones({}, {f16, device})).dtype(), f16);
    EXPECT_EQ(binomial(ones({3, 1}, device), full({4}, 0.5, device)).shape(), Shape({3, 4}));
  }
  EXPECT_THROW(poisson(full({2}, -1)), ShapeError);
  EXPECT_THROW(poisson(full({2}, kNaN)), ShapeError);
  EXPECT_THROW(poisson(ones({2}, i64)), DtypeError);
  EXPECT_THROW(binomial(ones({2}), full({2}, 1.5)), ShapeError);
  EXPECT_THROW(binomial(full({2}, -1), full({2}, 0.5)), ShapeError);
}

TEST(Randperm, OfManyElementsIsAnOrderOnEveryDevice) {
  const std::int64_t n = 70001;
  std::vector<std::int64_t> first;
  for (Device device : devices()) {
    manual_seed(6);
    std::vector<std::int64_t> order = randperm(n, device).to_vector<std::int64_t>();
    if (first.empty()) first = order;
    EXPECT_EQ(order, first) << device.str();
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
    const std::vector<std::int64_t> chosen = multinomial(ones({n}, device), 100).to_vector<std::int64_t>();
    EXPECT_EQ(std::set<std::int64_t>(chosen.begin(), chosen.end()).size(), 100u);
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
          return std::vector<Tensor>{randperm(50, device),
                                     bernoulli(full({64}, 0.5, device)),
                                     multinomial(weights, 4),
                                     multinomial(weights, 40, true),
                                     normal(0, 1, {20}, device),
                                     poisson(weights * 4.0),
                                     binomial(weights * 9.0, full({}, 0.5, device))};
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
                              multinomial(weights, 40, true), normal(0, 1, {20}, device), poisson(weights * 4.0),
                              binomial(weights * 9.0, full({}, 0.5, device))})
        eager.back().push_back(x.to_vector<double>());
    }
    EXPECT_EQ(captured, eager) << device.str();
    EXPECT_NE(captured[2], captured[3]);
  }
}

}  // namespace
}  // namespace etna
