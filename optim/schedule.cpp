#include <etna/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <etna/device/error.h>

#include <etna/tensor/capture.h>

namespace etna::optim {
namespace {

/// The fraction of `total` steps that is done, in [0, 1].
double share(std::int64_t step, std::int64_t total) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(total), 0.0, 1.0);
}

void require_positive(std::int64_t steps, const char* name) {
  if (steps < 1) throw Error(fmt::format("{}: {} steps; at least one is wanted", name, steps));
}

}  // namespace

Schedule Schedule::then(std::int64_t at, Schedule next) const {
  return Schedule(
      [first = *this, at, next = std::move(next)](std::int64_t i) { return i < at ? first(i) : next(i - at); });
}

Schedule operator*(Schedule a, Schedule b) {
  return Schedule([a = std::move(a), b = std::move(b)](std::int64_t i) { return a(i) * b(i); });
}

Schedule constant(double factor) {
  return Schedule([factor](std::int64_t) { return factor; });
}

Schedule linear_warmup(std::int64_t steps) {
  return Schedule([steps](std::int64_t i) {
    return i + 1 >= steps ? 1.0 : static_cast<double>(i + 1) / static_cast<double>(steps);
  });
}

Schedule cosine(std::int64_t total, double floor) {
  require_positive(total, "cosine");
  return Schedule(
      [=](std::int64_t i) { return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * share(i, total))); });
}

Schedule linear(std::int64_t total, double floor) {
  require_positive(total, "linear");
  return Schedule([=](std::int64_t i) { return 1 + (floor - 1) * share(i, total); });
}

Schedule step_decay(std::int64_t every, double factor) {
  require_positive(every, "step_decay");
  return Schedule([=](std::int64_t i) { return std::pow(factor, static_cast<double>(i / every)); });
}

Schedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor) {
  return linear_warmup(warmup) * cosine(total, floor);
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule) : optimizer_(optimizer), schedule_(std::move(schedule)) {
  for (const ParamGroup& group : optimizer.groups()) initial_.push_back(group.lr);
  set_step(0);
}

void Scheduler::step() {
  each_step([this] { set_step(step_ + 1); });
}

void Scheduler::set_step(std::int64_t step) {
  step_ = step;
  double factor = schedule_(step);
  for (std::size_t i = 0; i < initial_.size(); ++i) optimizer_.set_lr(i, initial_[i] * factor);
}

}  // namespace etna::optim
