#include <etna/train/progress.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/clock.h>
#include <etna/device/internal/os/terminal.h>
#include <etna/device/memory.h>

namespace etna::training {
namespace {

constexpr std::int64_t kWarmUp = 3;  ///< steps: the first one, the one that records, and one more
constexpr double kWindow = 60;       ///< seconds over which the rate is taken

bool is_terminal(std::FILE* out) {
  const char* kind = std::getenv("TERM");
  return os::is_terminal(out) && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

std::size_t terminal_columns(std::FILE* out) {
  const std::size_t known = os::terminal_size(out).columns;
  return known > 0 ? known : 80;
}

/// Eighths of a character, so that the bar moves evenly.
std::string bar_text(double share, int width) {
  static constexpr const char* kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(share, 0.0, 1.0) * 8 * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += eighths >= 8 * (i + 1) ? "█" : kEighths[std::max(0, eighths - 8 * i)];
  return bar;
}

std::string number_text(double value) {
  const double size = std::abs(value);
  if (value != 0 && (size < 1e-3 || size >= 1e5)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.{}f}", value, size < 10 ? 4 : size < 100 ? 2 : 1);
}

/// The first `width` characters of UTF-8 text that has one column each.
std::string cut(const std::string& text, std::size_t width) {
  std::size_t characters = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u;
    if (begins && characters++ == width) break;
  }
  return text.substr(0, at);
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

std::string clock_text(double seconds) {
  const auto all = static_cast<std::int64_t>(std::llround(std::clamp(seconds, 0.0, 1e9)));
  if (all < 3600) return fmt::format("{}:{:02}", all / 60, all % 60);
  return fmt::format("{}:{:02}:{:02}", all / 3600, all / 60 % 60, all % 60);
}

Progress::Progress(std::int64_t total, ProgressOptions options)
    : total_(total), step_(options.first), options_(std::move(options)) {
  if (total < step_) throw Error(fmt::format("Progress: {} steps are made before the first of {}", step_, total));
  terminal_ = options_.terminal.value_or(is_terminal(options_.out));
  if (!options_.clock) options_.clock = os::steady_seconds;
  begin_ = options_.clock();
}

Progress::~Progress() {
  if (!drawn_ || finished_) return;
  options_.keep ? static_cast<void>(std::fputc('\n', options_.out)) : clear();
}

double Progress::now() const { return options_.clock() - begin_ - paused_; }

void Progress::update(std::int64_t step, const Metrics& metrics) {
  step_ = step;
  metrics_ = metrics;
  if (step >= options_.first + kWarmUp) {
    // Samples a quarter of a second apart are enough, but for the first two.
    if (samples_.size() < 2 || now() - samples_[samples_.size() - 2].seconds >= 0.25)
      samples_.push_back({step, now()});
    else
      samples_.back() = {step, now()};
    while (samples_.size() > 2 && samples_.back().seconds - samples_[1].seconds > kWindow)
      samples_.erase(samples_.begin());
  }
  if (terminal_) {
    if (last_drawn_ >= 0 && now() - last_drawn_ < 0.1 && step != total_) return;
    draw();
    last_drawn_ = now();
    return;
  }
  const bool long_ago = now() - last_line_seconds_ >= 30;
  if (options_.lines == 0) {
    if (!long_ago) return;
  } else {
    const std::int64_t apart = std::max<std::int64_t>(1, (total_ - options_.first) / options_.lines);
    if (last_line_ >= 0 && step - last_line_ < apart && !long_ago && step != total_) return;
  }
  last_line_ = step;
  last_line_seconds_ = now();
  fmt::print(options_.out, "{}\n", text(false));
  std::fflush(options_.out);
}

void Progress::message(const std::string& line) {
  clear();
  fmt::print(options_.out, "{}\n", line);
  std::fflush(options_.out);
  if (drawn_ && !finished_) draw();
}

void Progress::pause() {
  if (pause_begin_ < 0) pause_begin_ = options_.clock();
}

void Progress::resume() {
  if (pause_begin_ < 0) return;
  last_pause_ = options_.clock() - pause_begin_;
  paused_ += last_pause_;
  pause_begin_ = -1;
  if (drawn_ && !finished_) draw();
}

void Progress::finish() {
  if (finished_) return;
  if (drawn_) {
    options_.keep ? draw() : clear();
    if (options_.keep) std::fputc('\n', options_.out);
    std::fflush(options_.out);
  }
  finished_ = true;
}

double Progress::rate() const {
  if (samples_.size() < 2) return 0;
  const double seconds = samples_.back().seconds - samples_.front().seconds;
  return seconds > 0 ? static_cast<double>(samples_.back().step - samples_.front().step) / seconds : 0;
}

double Progress::seconds_left() const {
  if (rate() <= 0) return step_ == total_ ? 0 : -1;
  const std::int64_t every = options_.pause_every, pauses = every > 0 ? total_ / every - step_ / every : 0;
  return static_cast<double>(total_ - step_) / rate() + static_cast<double>(pauses) * last_pause_;
}

std::string Progress::text(bool bar) const {
  std::string line;
  if (bar) {
    const double share = total_ > 0 ? static_cast<double>(step_) / static_cast<double>(total_) : 1;
    line = fmt::format("{} {} {:3.0f} %  {}/{}", options_.title, bar_text(share, 20), std::floor(share * 100), step_,
                       total_);
  } else {
    line = fmt::format("{} {:>{}}/{}", options_.title, step_, std::to_string(total_).size(), total_);
  }
  for (const auto& [name, value] : metrics_) line += fmt::format("  {} {}", name, number_text(value));
  if (rate() > 0) {
    const bool items = options_.items_per_step > 0;
    const double speed = rate() * (items ? options_.items_per_step : 1);
    line += speed < 10 ? fmt::format("  {:.2f} {}/s", speed, items ? options_.unit : "steps")
                       : fmt::format("  {} {}/s", with_commas(std::llround(speed)), items ? options_.unit : "steps");
  }
  if (options_.device) line += "  " + readable_bytes(memory_stats(*options_.device).peak);
  if (seconds_left() >= 0 && step_ < total_) line += fmt::format("  {} left", clock_text(seconds_left()));
  return line;
}

void Progress::draw() {
  // Erases the rest of the line after the text, so that nothing flickers.
  fmt::print(options_.out, "\r{}\x1b[K", cut(text(true), terminal_columns(options_.out) - 1));
  std::fflush(options_.out);
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_ && !finished_) fmt::print(options_.out, "\r\x1b[K");
}

}  // namespace etna::training
