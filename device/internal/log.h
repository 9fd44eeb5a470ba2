#pragma once

#include <atomic>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace etna {

enum class LogLevel { trace, debug, info, warning, error, critical, off };

/// The library's warnings go to standard error, so that programs may print data. $ETNA_LOG sets the level (warning,
/// info, off ...).
class Log {
 public:
  explicit Log(LogLevel level) : level_(level) {}
  LogLevel level() const { return level_; }
  void set_level(LogLevel level) { level_ = level; }

  template <typename... Arguments>
  void warn(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (level_ <= LogLevel::warning)
      write(LogLevel::warning, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <typename... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (level_ <= LogLevel::error) write(LogLevel::error, fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  /// One line, from any thread.
  static void write(LogLevel level, std::string_view text);

  std::atomic<LogLevel> level_;
};

Log& log();

}  // namespace etna
