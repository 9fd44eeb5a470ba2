#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <utility>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {

std::string run_bounded(const std::function<std::string()>&, const std::string& name, const ProcessLimits&) {
  throw FormatError(fmt::format("{}: it cannot be run: Windows has no fork(), which isolates it", name));
}

struct BoundedWorker::State {
  std::string name;
};

BoundedWorker::BoundedWorker(Work, std::string name, const ProcessLimits&)
    : state_(std::make_unique<State>(State{std::move(name)})) {}
BoundedWorker::~BoundedWorker() = default;
void BoundedWorker::start() { run_bounded({}, state_->name); }
std::string BoundedWorker::run(const std::string&) { return run_bounded({}, state_->name); }

}  // namespace etna::data
