#include <etna/device/profile/profiler.h>

#include <utility>

namespace etna::profile {

StepProfiler::StepProfiler(Options options) : options_(options) {}

StepProfiler::~StepProfiler() = default;

Scope StepProfiler::step() {
  if (options_.steps > 0) {
    if (step_ == options_.skip) session_ = Owned<Session>(new Session(options_.what));
    if (step_ == options_.skip + options_.steps) end();
    ++step_;
  }
  return Scope("step", Category::step);
}

void StepProfiler::end() {
  if (!session_) return;
  profile_ = Owned<Profile>(new Profile(session_->stop()));
  session_.reset();
}

std::optional<Profile> StepProfiler::take() {
  end();
  if (!profile_) return std::nullopt;
  const Owned<Profile> taken = std::move(profile_);
  return std::move(*taken);
}

}  // namespace etna::profile
