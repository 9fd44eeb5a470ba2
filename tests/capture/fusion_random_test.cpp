#include <map>
#include <random>

#include "fusion.h"

namespace etna {
namespace {

using RandomFusion = Fused;
INSTANTIATE_TEST_SUITE_P(, RandomFusion, testing::Values(kVulkan), device_test_name);

/// A program of elementwise ops on views of a few tensors, some in place, with a matmul or a sum in between. It is
/// drawn from a seed, so it is the same at each call.
class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : seed_(seed) {}

  TensorList operator()() {
    NoGrad off;
    random_.seed(seed_);
    live_.clear();
    columns_ = pick(2) == 0 ? 12 : 7;
    for (std::uint64_t i = 0; i < 3; ++i) live_.push_back(base(i));
    for (int i = 0; i < 24; ++i) step();
    TensorList results;
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (i + 1 == live_.size() || pick(4) == 0) results.push_back(live_[i]);
    }
    return results;
  }

 private:
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  /// One of a few tensors that exist before the step.
  const Tensor& base(std::uint64_t i) {
    Tensor& x = bases_[i + 8 * static_cast<std::uint64_t>(columns_)];
    if (!x.defined()) {
      manual_seed(i + 1);
      x = randn({columns_, columns_}).to(kVulkan);
    }
    return x;
  }

  Tensor any() {
    const Tensor x = live_[pick(static_cast<std::uint32_t>(live_.size()))];
    switch (pick(8)) {
      case 0:
        return x.t();
      case 1:
        return x.slice(0, 1, 2);
      case 2:
        return x.slice(1, 0, 1);
      default:
        return x;
    }
  }

  void step() {
    Tensor a = any(), b = any();
    switch (pick(16)) {
      case 0:
        return keep(a * b);
      case 1:
        return keep(a - b);
      case 2:
        return keep(tanh(a) + b);
      case 3:
        return keep(maximum(a, b) * 0.5);
      case 4:
        return keep(where(gt(a, b), a, 0.25));
      case 5:
        return keep(sigmoid(a));
      case 6:
        return keep(a.to(bf16).to(f32) + b);
      case 7:
        return keep((a * 3.0).to(f16).to(f32));
      case 8:
        return keep(clamp(a * 7.0, -90.0, 90.0).to(i32).to(f32) - b);
      case 9:
        return write([&](Tensor& y) { y.add_(b, 0.5); });
      case 10:
        return write([&](Tensor& y) { y.mul_(0.75); });
      case 11:
        return write([&](Tensor& y) { y.slice(0, 0, 2).add_(b.slice(0, 0, 1)); });
      case 12:
        return write([&](Tensor& y) { y.copy_(tanh(b)); });
      case 13:
        return keep(tanh(matmul(live_.front(), live_.back())));
      case 14:
        return keep(a - mean(square(b), {0}, true));
      default:
        live_.erase(live_.begin() + pick(static_cast<std::uint32_t>(live_.size())));
        return keep(softplus(a));
    }
  }

  /// Expands to full size whatever was broadcast.
  void keep(const Tensor& x) { live_.push_back(x.shape() == Shape{columns_, columns_} ? x : x + base(0)); }
  template <typename F>
  void write(const F& f) {
    Tensor y = live_[pick(static_cast<std::uint32_t>(live_.size()))].clone();
    Tensor seen = y * 2.0;
    f(y);
    live_.push_back(y);
    if (pick(2) == 0) f(y);
    if (pick(2) == 0) live_.push_back(seen);
  }

  std::uint32_t seed_;
  std::mt19937 random_;
  std::int64_t columns_ = 0;
  TensorList live_;
  std::map<std::uint64_t, Tensor> bases_;
};

TEST_P(RandomFusion, GivesTheBitsOfOneOpAfterTheOther) {
  std::int64_t fused = 0;
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed);
    fused += expect_same(program).fused_commands;
    if (HasFailure()) return;
  }
  EXPECT_GT(fused, 100);
}

}  // namespace
}  // namespace etna
