#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <etna/optim/optimizer.h>

namespace etna::optim {

/// The factor of a learning rate at step i = 0, 1, 2 ... Combine schedules with * and then().
class Schedule {
 public:
  Schedule(std::function<double(std::int64_t step)> factor) : factor_(std::move(factor)) {}
  double operator()(std::int64_t step) const { return factor_(step); }

  /// `next` takes over from step `at` on, and counts from there.
  Schedule then(std::int64_t at, Schedule next) const;
  friend Schedule operator*(Schedule a, Schedule b);

 private:
  std::function<double(std::int64_t)> factor_;
};

Schedule constant(double factor = 1);
/// min(1, (i + 1) / steps)
Schedule linear_warmup(std::int64_t steps);
/// From 1 down to `floor` in `total` steps by half a cosine (Loshchilov & Hutter 2017), then `floor`:
/// floor + (1 - floor) · (1 + cos(π · i/total)) / 2.
Schedule cosine(std::int64_t total, double floor = 0);
/// From 1 to `floor` in `total` steps in a straight line, then `floor`.
Schedule linear(std::int64_t total, double floor = 0);
/// factor^⌊i / every⌋
Schedule step_decay(std::int64_t every, double factor = 0.1);
/// linear_warmup(warmup) * cosine(total, floor)
Schedule warmup_cosine(std::int64_t warmup, std::int64_t total, double floor = 0);

/// Sets each group's learning rate to its value at the scheduler's construction times the schedule.
///     optim::Scheduler scheduler(optimizer, optim::warmup_cosine(100, total, 0.1));
///     for (...) { ...; optimizer.step(); scheduler.step(); }
class Scheduler {
 public:
  /// Sets the rates of step 0. The optimizer must outlive the scheduler.
  Scheduler(Optimizer& optimizer, Schedule schedule);
  /// Sets the rates of the next step; inside a captured step, at every replay.
  void step();
  /// Sets the rates of the given step, to resume a run.
  void set_step(std::int64_t step);
  std::int64_t current_step() const { return step_; }

 private:
  Optimizer& optimizer_;
  Schedule schedule_;
  std::vector<double> initial_;
  std::int64_t step_ = 0;
};

}  // namespace etna::optim
