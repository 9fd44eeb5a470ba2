#include <etna/data/tokenizers/internal/chat/bounded_process.h>

#include <fmt/format.h>

#include <etna/device/error.h>

namespace etna::data {

std::string run_bounded(const std::function<std::string()>&, const std::string& name, const ProcessLimits&) {
  throw FormatError(fmt::format("{}: it cannot be run: Windows has no fork(), which isolates it", name));
}

}  // namespace etna::data
