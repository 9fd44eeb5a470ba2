#include <etna/device/profile/profiler.h>

#include <utility>

namespace etna::profile {

StepProfiler::StepProfiler(Options options) : options_(options) {}

StepProfiler::~StepProfiler() = default;

Scope StepProfiler::step() {
  if (options_.steps > 0) {
    if (step_ == options_.skip) session_.emplace(options_.what);
    if (step_ == options_.skip + options_.steps) profile_ = take();
    ++step_;
  }
  return Scope("step", Category::step);
}

std::optional<Profile> StepProfiler::take() {
  if (session_) {
    profile_ = session_->stop();
    session_.reset();
  }
  return std::exchange(profile_, std::nullopt);
}

}  // namespace etna::profile
