#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include <etna/data/internal/utf8_character.h>
#include <etna/train/internal/plot_axis.h>
#include <etna/train/report.h>

namespace etna::training {
namespace {

constexpr std::array kColours = {36, 33, 32, 35, 31, 34, 96, 93, 92, 95, 91, 94};
constexpr std::string_view kMarks = "*+ox#@%&=~";
constexpr std::size_t kTerminalPlotMostNames = 12;

/// Characters that lines are drawn into. With braille patterns each has 2 columns and 4 rows of dots, with marks it is
/// one dot.
class Canvas {
 public:
  Canvas(int width, int height, bool braille)
      : width_(width),
        height_(height),
        braille_(braille),
        dots_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height)),
        owners_(dots_.size(), -1) {}

  int columns() const { return braille_ ? 2 * width_ : width_; }
  int rows() const { return braille_ ? 4 * height_ : height_; }

  void line(int x0, int y0, int x1, int y1, int series) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + (x1 - x0) * part)), static_cast<int>(std::lround(y0 + (y1 - y0) * part)),
          series);
    }
  }

  /// A character, and the series that drew it last; -1 for none.
  std::pair<std::string, int> cell(int x, int y) const {
    const std::size_t at = index(x, y);
    if (owners_[at] < 0) return {" ", -1};
    std::string text;
    if (braille_) {
      data::append_utf8(text, 0x2800u + dots_[at]);
    } else {
      text = kMarks[static_cast<std::size_t>(owners_[at]) % kMarks.size()];
    }
    return {text, owners_[at]};
  }

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
  }
  void dot(int x, int y, int series) {
    if (x < 0 || y < 0 || x >= columns() || y >= rows()) return;
    constexpr std::uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const std::size_t at = braille_ ? index(x / 2, y / 4) : index(x, y);
    if (braille_) dots_[at] |= kBits[y % 4][x % 2];
    owners_[at] = series;
  }

  int width_, height_;
  bool braille_;
  std::vector<std::uint8_t> dots_;
  std::vector<int> owners_;
};

class Screen {
 public:
  Screen(const std::vector<Series>& series, const TerminalPlotOptions& options)
      : series_(series),
        options_(options),
        ascii_(options.charset == Charset::ascii),
        braille_(!ascii_ && (options.colour || series.size() < 2)),
        width_(std::clamp(options.width, 24, 1000)),
        height_(std::clamp(options.height, 8, 500)) {}

  std::string text() {
    if (!options_.title.empty()) out_ += fit_columns(options_.title) + "\n";
    const Drawing drawing = drawing_of(series_, options_.log_x, options_.log_y, 4000);
    if (drawing.empty) {
      out_ += "no data\n";
    } else {
      draw(drawing);
    }
    legend();
    return std::move(out_);
  }

 private:
  std::string fit_columns(std::string_view text) const {
    return shortened(text, static_cast<std::size_t>(width_), Cut::end, options_.charset);
  }

  void draw(const Drawing& drawing) {
    const int rows = std::max(3, height_ - 2 - (options_.title.empty() ? 0 : 1) - legend_rows());
    const Axis y(drawing.low_y, drawing.high_y, options_.log_y, std::max(2, rows / 3), true);
    // Labels leave at least half the width.
    std::size_t gutter = 1;
    for (const Tick& tick : y.ticks()) gutter = std::max(gutter, tick.label.size());
    gutter = std::min(gutter, static_cast<std::size_t>(width_ / 2));
    const int plot = width_ - static_cast<int>(gutter) - 2;
    const Axis x(drawing.low_x, drawing.high_x, options_.log_x, std::max(2, plot / 14), false);
    Canvas canvas(plot, rows, braille_);
    const auto px = [&](double v) { return static_cast<int>(std::lround(x.place(v) * (canvas.columns() - 1))); };
    const auto py = [&](double v) { return static_cast<int>(std::lround((1 - y.place(v)) * (canvas.rows() - 1))); };
    for (std::size_t i = 0; i < drawing.series.size(); ++i) {
      for (const Segment& segment : drawing.series[i]) {
        for (std::size_t k = 0; k < segment.size(); ++k) {
          const PlotPoint &from = segment[k == 0 ? 0 : k - 1], &to = segment[k];
          canvas.line(px(from.x), py(from.y), px(to.x), py(to.y), static_cast<int>(i));
        }
      }
    }
    std::vector<std::string> labels(static_cast<std::size_t>(rows));
    for (const Tick& tick : y.ticks()) {
      const auto row = std::lround((1 - y.place(tick.value)) * (rows - 1));
      if (row >= 0 && row < rows) labels[static_cast<std::size_t>(row)] = tick.label;
    }
    for (int row = 0; row < rows; ++row) {
      const std::string& label = labels[static_cast<std::size_t>(row)];
      out_ += padded(label, gutter, true) + " ";
      out_ += ascii_ ? (label.empty() ? "|" : "+") : (label.empty() ? "│" : "┤");
      std::string line;
      int colour = -1;
      for (int column = 0; column < plot; ++column) {
        const auto cell = canvas.cell(column, row);
        if (options_.colour && cell.second >= 0 && cell.second != colour) {
          line += start_colour(static_cast<std::size_t>(cell.second));
          colour = cell.second;
        }
        line += cell.first;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out_ += line + (colour >= 0 ? "\x1b[0m\n" : "\n");
    }
    bottom(x, gutter, plot);
  }

  void bottom(const Axis& x, std::size_t gutter, int plot) {
    std::string line, labels(gutter + 2 + static_cast<std::size_t>(plot), ' ');
    std::vector<bool> ticks(static_cast<std::size_t>(plot));
    std::size_t free = 0;
    for (const Tick& tick : x.ticks()) {
      const auto at =
          static_cast<std::size_t>(std::clamp<long>(std::lround(x.place(tick.value) * (plot - 1)), 0, plot - 1));
      const std::size_t size = tick.label.size(), middle = gutter + 2 + at;
      if (size > labels.size()) continue;
      const std::size_t begin = std::min(middle - std::min(size / 2, middle), labels.size() - size);
      if (begin < free) continue;
      ticks[at] = true;
      labels.replace(begin, size, tick.label);
      free = begin + size + 1;
    }
    for (const bool tick : ticks) line += ascii_ ? (tick ? "+" : "-") : (tick ? "┬" : "─");
    labels.erase(labels.find_last_not_of(' ') + 1);
    out_ += std::string(gutter + 1, ' ') + (ascii_ ? "+" : "└") + line + "\n" + labels + "\n";
  }

  std::size_t names() const { return std::min(series_.size(), kTerminalPlotMostNames); }
  int legend_rows() const { return static_cast<int>(names()) + (names() < series_.size() ? 1 : 0); }

  void legend() {
    for (std::size_t i = 0; i < names(); ++i) {
      const std::string mark = braille_ ? "──" : std::string(2, kMarks[i % kMarks.size()]);
      const std::string value = last_value(series_[i]);
      const std::size_t room = static_cast<std::size_t>(width_) - 5 - std::min<std::size_t>(value.size() + 2, 12);
      out_ += "  " + (options_.colour ? start_colour(i) + mark + "\x1b[0m" : mark) + " " +
              shortened(series_[i].name, room, Cut::end, options_.charset) + (value.empty() ? "" : "  " + value) + "\n";
    }
    if (names() < series_.size()) out_ += fmt::format("  and {} more\n", series_.size() - names());
  }

  static std::string start_colour(std::size_t series) {
    return fmt::format("\x1b[{}m", kColours[series % kColours.size()]);
  }

  const std::vector<Series>& series_;
  const TerminalPlotOptions& options_;
  bool ascii_, braille_;
  int width_, height_;
  std::string out_;
};

}  // namespace

std::string terminal_plot(const std::vector<Series>& series, const TerminalPlotOptions& options) {
  return Screen(series, options).text();
}

}  // namespace etna::training
