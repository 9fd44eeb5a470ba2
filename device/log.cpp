#include <etna/device/log.h>

#include <cstdlib>

#include <spdlog/sinks/stdout_color_sinks.h>

namespace etna {

spdlog::logger& log() {
  // Never destroyed: destructors of static objects may still warn.
  static auto* logger = [] {
    auto* made = new spdlog::logger("etna", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    const char* level = std::getenv("ETNA_LOG");
    made->set_level(level != nullptr ? spdlog::level::from_str(level) : spdlog::level::warn);
    return made;
  }();
  return *logger;
}

}  // namespace etna
