#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <etna/train/internal/markup.h>
#include <etna/train/internal/plot_axis.h>
#include <etna/train/internal/svg_style.h>
#include <etna/train/report.h>

namespace etna::training {
namespace {

constexpr std::size_t kSvgPlotMostNames = 24;  ///< in the legend

class Picture {
 public:
  Picture(const std::vector<Series>& series, const PlotOptions& options)
      : series_(series), options_(options), width_(std::clamp(options.width, 200, 10'000)) {
    bottom_ = std::clamp(options.height, 120, 10'000);
  }

  std::string text() {
    const double left = 72, right = width_ - 18;
    double top = 16;
    if (!options_.title.empty()) {
      put("<text class=\"title\" x=\"16\" y=\"26\">{}</text>\n", escape_markup(shortened(options_.title, 60)));
      top = 44;
    }
    bottom_ = std::max(bottom_ - 34 - legend_rows() * kRow - (options_.x_label.empty() ? 0 : 18), top + 60);
    // Many series share the points, so that the file stays small.
    const std::size_t most = std::clamp<std::size_t>(40'000 / std::max<std::size_t>(1, series_.size()), 100, 1000);
    const Drawing drawing = drawing_of(series_, options_.log_x, options_.log_y, most);
    if (drawing.empty) {
      put("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">no data</text>\n", (left + right) / 2,
          (top + bottom_) / 2);
    } else {
      const int x_ticks = std::max(2, static_cast<int>((right - left) / 85));
      const int y_ticks = std::max(2, static_cast<int>((bottom_ - top) / 48));
      const Axis x(drawing.low_x, drawing.high_x, options_.log_x, x_ticks, false);
      const Axis y(drawing.low_y, drawing.high_y, options_.log_y, y_ticks, true);
      const auto px = [&](double value) { return left + (right - left) * x.place(value); };
      const auto py = [&](double value) { return bottom_ - (bottom_ - top) * y.place(value); };
      for (std::size_t i = 0; i < y.ticks().size(); ++i) {
        const double at = py(y.ticks()[i].value);
        put("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" "
            "text-anchor=\"end\">{}</text>\n",
            left, at, right, left - 8, at + 4.5, y.ticks()[i].label);
      }
      for (std::size_t i = 0; i < x.ticks().size(); ++i) {
        const double at = px(x.ticks()[i].value);
        put("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}v5\"/><text class=\"soft{2}\" x=\"{0:.1f}\" y=\"{3:.1f}\" "
            "text-anchor=\"middle\">{4}</text>\n",
            at, bottom_, i % 2 == 1 ? " odd" : "", bottom_ + 22, x.ticks()[i].label);
      }
      put("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", left, bottom_, right);
      for (std::size_t i = 0; i < series_.size(); ++i) draw(i, drawing.series[i], px, py);
    }
    double end = bottom_ + 34;
    if (!options_.x_label.empty()) {
      put("<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", right, bottom_ + 42,
          escape_markup(shortened(options_.x_label, 40)));
      end += 18;
    }
    legend(end);
    const double height = end + legend_rows() * kRow;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"etna-plot\" viewBox=\"0 0 {0} {1:.0f}\" "
               "width=\"{0}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\">\n",
               width_, height, escape_markup(shortened(options_.title.empty() ? "plot" : options_.title, 60))) +
           kSvgStyle + "<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n" + body_ + "</svg>\n";
  }

 private:
  static constexpr double kRow = 25;

  template <typename X, typename Y>
  void draw(std::size_t index, const std::vector<Segment>& segments, X&& px, Y&& py) {
    put("<g class=\"series k{0}\"><title>{1}</title>", index % kSvgColours, escape_markup(caption(index, 200)));
    std::string path;
    for (const Segment& segment : segments) {
      if (segment.size() == 1) {
        put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" stroke=\"none\"/>", px(segment[0].x), py(segment[0].y));
        continue;
      }
      // Where there are few points, it matters where they are.
      for (std::size_t i = 0; i < segment.size() && series_[index].points.size() <= 40; ++i)
        put("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" stroke=\"none\"/>", px(segment[i].x), py(segment[i].y));
      for (std::size_t i = 0; i < segment.size(); ++i)
        path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', px(segment[i].x), py(segment[i].y));
    }
    if (!path.empty()) put("<path class=\"line\"{} d=\"{}\"/>", dashes(index), path);
    put("</g>\n");
  }

  /// Later tens of series have the colours of the first ten, and dashes.
  static std::string dashes(std::size_t index) {
    constexpr const char* kPatterns[] = {"", "7 4", "2 4", "9 3 2 3"};
    const std::size_t pattern = index / kSvgColours % std::size(kPatterns);
    return pattern == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", kPatterns[pattern]);
  }

  std::string caption(std::size_t index, std::size_t width) const {
    const std::string value = last_value(series_[index]);
    return shortened(series_[index].name, width) + (value.empty() ? "" : "  " + value);
  }

  std::size_t names() const { return std::min(series_.size(), kSvgPlotMostNames); }
  /// Cells are as wide as the widest name is in the larger letters of a narrow page.
  double cell() const {
    std::size_t widest = 8;
    for (std::size_t i = 0; i < names(); ++i) widest = std::max(widest, columns(caption(i, 28)));
    return 40 + 8.9 * static_cast<double>(widest);
  }
  std::size_t per_row() const { return std::max<std::size_t>(1, static_cast<std::size_t>((width_ - 32) / cell())); }
  double legend_rows() const {
    const std::size_t cells = names() + (names() < series_.size() ? 1 : 0);
    return static_cast<double>((cells + per_row() - 1) / per_row());
  }

  void legend(double top) {
    const auto place = [&](std::size_t i) {
      return std::pair(16 + cell() * static_cast<double>(i % per_row()),
                       top + kRow * static_cast<double>(i / per_row()) + 10);
    };
    for (std::size_t i = 0; i < names(); ++i) {
      const auto at = place(i);
      put("<path class=\"k{} line\"{} d=\"M{:.1f} {:.1f}h20\"/><text class=\"name\" x=\"{:.1f}\" "
          "y=\"{:.1f}\">{}</text>\n",
          i % kSvgColours, dashes(i), at.first, at.second - 4.5, at.first + 27, at.second,
          escape_markup(caption(i, 28)));
    }
    if (names() == series_.size()) return;
    const auto at = place(names());
    put("<text class=\"name soft\" x=\"{:.1f}\" y=\"{:.1f}\">and {} more</text>\n", at.first, at.second,
        series_.size() - names());
  }

  template <typename... T>
  void put(fmt::format_string<T...> format, T&&... values) {
    body_ += fmt::format(format, std::forward<T>(values)...);
  }

  const std::vector<Series>& series_;
  const PlotOptions& options_;
  int width_;
  double bottom_;
  std::string body_;
};

}  // namespace

std::string svg_plot(const std::vector<Series>& series, const PlotOptions& options) {
  return Picture(series, options).text();
}

}  // namespace etna::training
