#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include <etna/optim/optim.h>

namespace etna::optim {
namespace {

TEST(Schedule, FollowsItsClosedForm) {
  for (std::int64_t i : {0, 1, 5, 9, 10, 11, 99, 100, 150, 200, 1000}) {
    auto x = static_cast<double>(i);
    EXPECT_DOUBLE_EQ(constant(0.3)(i), 0.3);
    EXPECT_DOUBLE_EQ(linear_warmup(10)(i), std::min(1.0, (x + 1) / 10));
    EXPECT_DOUBLE_EQ(linear(200, 0.1)(i), std::max(0.1, 1 - 0.9 * x / 200));
    EXPECT_DOUBLE_EQ(step_decay(10, 0.5)(i), std::pow(0.5, std::floor(x / 10)));
    EXPECT_NEAR(cosine(200)(i), i >= 200 ? 0 : 0.5 * (1 + std::cos(std::numbers::pi * x / 200)), 1e-15);
    double shape = 0.1 + 0.45 * (1 + std::cos(std::numbers::pi * std::min(x, 200.0) / 200));
    EXPECT_NEAR(warmup_cosine(100, 200, 0.1)(i), std::min(1.0, (x + 1) / 100) * shape, 1e-15);
  }
  EXPECT_EQ(linear_warmup(0)(0), 1);
  EXPECT_THROW(cosine(0), Error);
}

TEST(Schedule, ComposesByProductAndSequence) {
  Schedule s = linear_warmup(4).then(4, linear(10) * constant(0.5)).then(9, constant(0.125));
  EXPECT_DOUBLE_EQ(s(0), 0.25);
  EXPECT_DOUBLE_EQ(s(3), 1);
  EXPECT_DOUBLE_EQ(s(4), 0.5);
  EXPECT_DOUBLE_EQ(s(6), 0.4);
  EXPECT_DOUBLE_EQ(s(9), 0.125);
}

TEST(Scheduler, ScalesEachGroupsOwnRate) {
  Tensor a = ones({1}).requires_grad_(), b = ones({1}).requires_grad_();
  SGD optimizer({{.parameters = {a}}, {.parameters = {b}, .lr = 0.5}}, {.lr = 2});
  Scheduler scheduler(optimizer, step_decay(2, 0.1));
  EXPECT_DOUBLE_EQ(optimizer.groups()[0].lr, 2);
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.groups()[1].lr, 0.5);
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.groups()[0].lr, 0.2);
  EXPECT_DOUBLE_EQ(optimizer.groups()[1].lr, 0.05);
  scheduler.set_step(0);
  EXPECT_DOUBLE_EQ(optimizer.groups()[1].lr, 0.5);
}

}  // namespace
}  // namespace etna::optim
