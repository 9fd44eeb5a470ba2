#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/device.h>

/// What a training program shows on a terminal: text from files, arguments and models, of which some bytes are commands
/// there; a bar; and Ctrl-C as a request.
namespace etna::training {

enum class Charset {
  utf8,
  ascii,  ///< every other character becomes an escape
};

/// What the locale asks for: $LC_ALL, else $LC_CTYPE, else $LANG. Without a word of UTF-8 there: ascii.
Charset terminal_charset();

/// The text with visible escapes in place of what could command a terminal or hide something: control characters
/// (\n, \t, \x1b, \u009b), marks that change the direction of writing (\u202e), other invisible characters, and bytes
/// that are not UTF-8 (\xff). More than eight combining marks on one character become escapes, too. A backslash stays
/// one.
std::string printable(std::string_view text, Charset charset = Charset::utf8);

/// The same of each line; its line breaks stay.
std::string printable_lines(std::string_view text);

/// Columns that printable text takes: East Asian wide characters and emoji 2, combining marks 0, others 1.
std::size_t columns(std::string_view text);

enum class Cut {
  end,    ///< "a long na…"
  begin,  ///< "…/runs/demo": the end of a path says most
};

/// The printable text in at most `width` columns; where something is left out stands "…" (ascii: "~").
std::string shortened(std::string_view text, std::size_t width, Cut cut = Cut::end, Charset charset = Charset::utf8);

/// shortened(), then spaces up to `width`: behind the text, or before it.
std::string padded(std::string_view text, std::size_t width, bool to_the_right = false, Cut cut = Cut::end,
                   Charset charset = Charset::utf8);

/// 12,345,678
std::string with_commas(std::int64_t number);
/// "0:07", "12:03", "3:02:55"
std::string clock_text(double seconds);

struct ProgressOptions {
  std::string title = "train";
  std::int64_t first = 0;             ///< steps made before: of a resumed run
  double items_per_step = 0;          ///< for the rate; 0: steps per second
  std::string unit = "tokens";        ///< of the items
  std::int64_t pause_every = 0;       ///< steps between pauses (evaluations), for the remaining time; 0: none
  std::int64_t lines = 20;            ///< about so many where there is no bar; 0: one every 30 seconds
  bool keep = true;                   ///< false: finish() erases the bar
  std::optional<Device> device = {};  ///< whose memory to show
  std::FILE* out = stdout;
  std::optional<bool> terminal = {};   ///< default: whether `out` is one
  std::function<double()> clock = {};  ///< seconds; default: a steady clock
};

/// Progress of a loop: on a terminal a bar in one line, elsewhere a line about every twentieth of the loop.
///     training::Progress progress(total, {.items_per_step = 1024, .device = device});
///     while (…) { …; progress.update(step, {{"loss", loss}}); }
///     progress.finish();
/// The remaining time is shown once a few steps have passed that neither warm up nor record.
class Progress {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;

  /// @throws Error for a total below `first`
  Progress(std::int64_t total, ProgressOptions options = {});
  /// Ends the bar's line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// After a step. Draws at most ten times a second. @param metrics what to show, in this order
  void update(std::int64_t step, const Metrics& metrics);
  /// A line of text; the bar goes on below it.
  void message(const std::string& line);
  /// Around work between two steps, an evaluation for example: its time does not count for the rate.
  void pause();
  void resume();
  /// Draws the last state and ends the bar's line.
  void finish();

  /// Steps a second over the last minute; 0 before it is known.
  double rate() const;
  /// Of the whole loop, pauses to come included; negative before it is known.
  double seconds_left() const;

 private:
  struct Sample {
    std::int64_t step;
    double seconds;
  };
  double now() const;
  std::string text(bool bar) const;
  void draw();
  void clear();

  std::int64_t total_, step_;
  ProgressOptions options_;
  bool terminal_, drawn_ = false, finished_ = false;
  std::vector<Sample> samples_;
  Metrics metrics_;
  double begin_, paused_ = 0, pause_begin_ = -1, last_pause_ = 0, last_drawn_ = -1;
  std::int64_t last_line_ = -1;
  double last_line_seconds_ = 0;
};

/// Turns Ctrl-C (SIGINT) and SIGTERM into a request that the loop reads after a step:
///     training::Interrupt interrupt;
///     while (step < total && !interrupt.requested()) …
///     if (interrupt.requested()) { save(); return interrupt.exit_code(); }
/// A second signal ends the process at once, with the same exit code. The destructor restores what the signals did
/// before. One object at a time. @throws Error for a second one
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  /// 128 + the signal's number, as a shell reports it: 130 for Ctrl-C; 0 before a signal.
  int exit_code() const;
};

}  // namespace etna::training
