#pragma once

#include <cstdint>
#include <optional>

#include <etna/device/profile/profiler.h>

namespace etna::profile {

/// Profiles some steps of a training loop, after warm-up.
///     profile::StepProfiler profiler({.skip = 5, .steps = 20});
///     for (...) { profile::Scope step = profiler.step(); ... }
///     if (auto profile = profiler.take()) std::puts(profile::report(*profile).c_str());
class StepProfiler {
 public:
  struct Options {
    std::int64_t skip = 5;    ///< warm-up steps: they create pipelines, allocate memory and capture
    std::int64_t steps = 20;  ///< number of steps to profile; 0: none
    profile::Options what = {};
  };
  explicit StepProfiler(Options options) : options_(options) {}
  /// Discards a profile that was not taken.
  ~StepProfiler() = default;

  /// Call at the head of each step and keep the result until the step's end. Starts and stops the profile when its turn
  /// comes.
  Scope step();
  /// After the loop: the profile; empty if the loop ended too early.
  std::optional<Profile> take();

 private:
  Options options_;
  std::int64_t step_ = 0;
  std::optional<Session> session_;
  std::optional<Profile> profile_;
};

}  // namespace etna::profile
