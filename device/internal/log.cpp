#include <etna/device/internal/log.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#ifdef ETNA_HAS_SPDLOG
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#endif

namespace etna {
namespace {

LogLevel level_named(std::string_view name) {
  if (name == "trace") return LogLevel::trace;
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "warning" || name == "warn") return LogLevel::warning;
  if (name == "error" || name == "err") return LogLevel::error;
  if (name == "critical") return LogLevel::critical;
  return LogLevel::off;
}

}  // namespace

#ifdef ETNA_HAS_SPDLOG

void Log::write(LogLevel level, std::string_view text) {
  // Never destroyed: destructors of static objects may still warn.
  static auto* logger = [] {
    auto* made = new spdlog::logger("etna", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  logger->log(level == LogLevel::error ? spdlog::level::err : spdlog::level::warn, text);
}

#else

void Log::write(LogLevel level, std::string_view text) {
  const std::string line = fmt::format("{}: {}\n", level == LogLevel::error ? "error" : "warning", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

#endif

Log& log() {
  static auto* made = [] {
    const char* level = std::getenv("ETNA_LOG");
    return new Log(level != nullptr ? level_named(level) : LogLevel::warning);
  }();
  return *made;
}

}  // namespace etna
