#include "output.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/train/progress.h>

namespace etna::cli {
namespace {

/// A positive number in a variable; 0 otherwise.
std::size_t count_in(const char* name) {
  const char* value = std::getenv(name);
  std::size_t count = 0;
  if (value == nullptr) return 0;
  const std::string_view text = value;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  return result.ec == std::errc() && count < 100'000 ? count : 0;
}

}  // namespace

void print_all(const std::string& text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

void print_error(const std::string& sentence) {
  // Not fmt::print, which throws if the write fails.
  std::fputs(fmt::format("etna: {}\n", sentence).c_str(), stderr);
}

CLI::Option* add_output(CLI::App& app, const std::string& name, std::string& file, const std::string& help,
                        bool& force) {
  if (app.get_option_no_throw("--force") == nullptr)
    app.add_flag("--force", force, "replace a file that something else wrote");
  return app.add_option(name, file, help + io::kReplacesOnlyOwn);
}

std::vector<std::string> json_marks(const std::string& command) {
  return {fmt::format("\"{}\": \"{}\"", kCommandKey, command)};
}

Terminal terminal() {
  Terminal result;
  result.is_terminal = os::is_terminal(stdout);
  if (result.is_terminal) {
    const os::TerminalSize size = os::terminal_size(stdout);
    if (size.columns > 0) result.width = size.columns;
    if (size.rows > 0) result.height = size.rows;
  }
  if (const std::size_t columns = count_in("COLUMNS"); columns > 0) result.width = columns;
  if (const std::size_t lines = count_in("LINES"); lines > 0) result.height = lines;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  result.colour = result.is_terminal && (no_colour == nullptr || *no_colour == '\0') && term != nullptr &&
                  std::string_view(term) != "dumb";
  return result;
}

}  // namespace etna::cli
