#pragma once

#include <cstdint>
#include <optional>

#include <etna/device/profile/profiler.h>

namespace etna::profile {

/// Profiles some steps of a training loop, after it has warmed up.
///     profile::StepProfiler profiler({.skip = 5, .steps = 20});
///     for (...) { profile::Scope step = profiler.step(); ... }
///     if (auto profile = profiler.take()) std::puts(profile::report(*profile).c_str());
class StepProfiler {
 public:
  struct Options {
    std::int64_t skip = 5;    ///< steps before: pipelines, memory and whatever is captured are made in them
    std::int64_t steps = 20;  ///< to profile; 0: none ever
    profile::Options what = {};
  };
  explicit StepProfiler(Options options) : options_(options) {}
  /// Throws a profile away that was not taken.
  ~StepProfiler() = default;

  /// At the head of each step, to be kept until its end. Starts and stops the profile when its turn comes.
  Scope step();
  /// After the loop: what was profiled; nothing where the loop ended before.
  std::optional<Profile> take();

 private:
  Options options_;
  std::int64_t step_ = 0;
  std::optional<Session> session_;
  std::optional<Profile> profile_;
};

}  // namespace etna::profile
