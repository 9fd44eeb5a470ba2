#include "chat_terminal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

#include <fmt/format.h>

#include <etna/device/internal/os/piped_child.h>

#include "line_reader.h"
#include "output.h"

namespace etna::cli {
namespace {

constexpr const char* kWaitsVariable = "ETNA_CHAT_WAITS";

/// No text has it by chance, or because somebody asks a model for it.
std::string new_mark() {
  std::random_device random;
  return fmt::format("\x1e{:08x}{:08x}\x1e", random(), random());
}

/// Splits off what comes before a mark, or may be the begin of one.
class MarkedOutput {
 public:
  explicit MarkedOutput(std::string mark) : mark_(std::move(mark)) {}

  /// @return what is to be shown; `marked` says whether a mark follows it
  std::string take(const std::string& more, bool& marked) {
    held_ += more;
    const std::size_t at = held_.find(mark_);
    marked = at != std::string::npos;
    std::size_t shown = marked ? at : held_.size();
    if (!marked) {
      std::size_t begun = std::min(mark_.size() - 1, held_.size());
      while (begun > 0 && held_.compare(held_.size() - begun, begun, mark_, 0, begun) != 0) --begun;
      shown -= begun;
    }
    const std::string text = held_.substr(0, shown);
    held_.erase(0, shown + (marked ? mark_.size() : 0));
    return text;
  }
  std::string rest() { return std::move(held_); }

 private:
  const std::string mark_;
  std::string held_;
};

void show(const std::string& text) {
  print_all(text);
  std::fflush(stdout);
}

}  // namespace

os::ChildEnd talk_to_ranks(const std::vector<std::string>& command, os::ChildOptions options) {
  const std::string mark = new_mark();
  options.environment.emplace_back(kWaitsVariable, mark);
  os::PipedChild ranks(command, std::move(options));
  MarkedOutput output(mark);
  LineReader reader;
  for (std::string text = ranks.read(); !text.empty(); text = ranks.read()) {
    bool waits = false;
    show(output.take(text, waits));
    while (waits) {
      const std::optional<std::string> line = reader.next();
      if (!line || !ranks.write(*line + "\n")) ranks.close_input();
      show(output.take("", waits));
    }
  }
  show(output.rest());
  return ranks.wait();
}

std::string waits_for_line() {
  const char* mark = std::getenv(kWaitsVariable);
  return mark == nullptr ? "" : mark;
}

}  // namespace etna::cli
