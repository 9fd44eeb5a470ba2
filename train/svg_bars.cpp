#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/train/internal/markup.h>
#include <etna/train/internal/svg_style.h>
#include <etna/train/report.h>

namespace etna::training {
namespace {

constexpr std::size_t kMostGroups = 100;
constexpr double kBar = 18, kBetweenBars = 3, kBetweenGroups = 14, kLetter = 7.6;

std::string caption_of(const Bars& group, std::size_t i) {
  if (i < group.captions.size()) return shortened(group.captions[i], 40);
  return fmt::format("{:.4g}", group.values[i]);
}

double wide(const std::string& text) { return kLetter * static_cast<double>(columns(text)); }

}  // namespace

std::string svg_bars(const std::vector<std::string>& series, const std::vector<Bars>& groups,
                     const PlotOptions& options) {
  const double width = std::clamp(options.width, 200, 10'000);
  const std::size_t shown = std::min(groups.size(), kMostGroups);
  double names = 40, captions = 20, longest = 0;
  for (std::size_t g = 0; g < shown; ++g) {
    names = std::max(names, wide(shortened(groups[g].name, 40)));
    for (std::size_t i = 0; i < groups[g].values.size(); ++i) {
      captions = std::max(captions, wide(caption_of(groups[g], i)));
      if (std::isfinite(groups[g].values[i])) longest = std::max(longest, groups[g].values[i]);
    }
  }
  const double left = std::min(names + 28, width / 2), room = std::max(20.0, width - left - captions - 24);
  std::string body;
  const auto put = [&body]<typename... Values>(fmt::format_string<const Values&...> format, const Values&... values) {
    body += fmt::format(format, values...);
  };
  double y = 20;
  if (!options.title.empty()) {
    put("<text class=\"title\" x=\"16\" y=\"26\">{}</text>\n", escape_markup(shortened(options.title, 80)));
    y = 46;
  }
  if (shown == 0) put("<text class=\"soft\" x=\"16\" y=\"{:.1f}\">no data</text>\n", y += 14);
  for (std::size_t g = 0; g < shown; ++g) {
    const Bars& group = groups[g];
    const double height = static_cast<double>(std::max<std::size_t>(1, group.values.size())) * (kBar + kBetweenBars);
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 10, y + height / 2 + 3,
        escape_markup(shortened(group.name, 40)));
    for (std::size_t i = 0; i < group.values.size(); ++i, y += kBar + kBetweenBars) {
      const double value = group.values[i];
      const double length =
          std::isfinite(value) && value > 0 && longest > 0 ? std::max(1.0, room * (value / longest)) : 0;
      put("<path class=\"k{}\" style=\"stroke:none\" d=\"M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z\"/>"
          "<text class=\"soft\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
          i % kSvgColours, left, y, length, kBar, length, left + length + 8, y + kBar - 4.5,
          escape_markup(caption_of(group, i)));
    }
    if (group.values.empty()) y += kBar + kBetweenBars;
    y += kBetweenGroups;
  }
  double x = 16;
  for (std::size_t i = 0; series.size() > 1 && i < series.size(); ++i) {
    const std::string name = shortened(series[i], 40);
    if (x > 16 && x + 24 + wide(name) > width) x = 16, y += 24;
    put("<rect class=\"k{}\" style=\"stroke:none\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\"/>"
        "<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        i % kSvgColours, x, y, x + 21, y + 12, escape_markup(name));
    x += 45 + wide(name);
  }
  if (series.size() > 1) y += 26;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"etna-plot\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
             "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\">\n",
             width, y + 6, escape_markup(shortened(options.title.empty() ? "bars" : options.title, 80))) +
         kSvgStyle + "<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n" + body + "</svg>\n";
}

}  // namespace etna::training
