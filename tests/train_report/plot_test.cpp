#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/train/internal/plot_axis.h>
#include <etna/train/report.h>

namespace etna::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const double kPlotInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const Tick& tick : axis.ticks()) all.push_back(tick.label);
  return all;
}

std::size_t plot_count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Series curve(const std::string& name, int points, double scale = 1) {
  Series series{name, {}};
  for (int i = 0; i < points; ++i)
    series.points.push_back({static_cast<double>(i), scale * (2 + 8 * std::exp(-i / (0.2 * points)))});
  return series;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

TEST(Axis, TicksAreRoundNumbers) {
  EXPECT_THAT(labels(Axis(0, 10, false, 5, false)), ElementsAre("0", "2", "4", "6", "8", "10"));
  EXPECT_THAT(labels(Axis(2.13, 2.87, false, 4, true)), ElementsAre("2.0", "2.2", "2.4", "2.6", "2.8", "3.0"));
  EXPECT_THAT(labels(Axis(0, 50'000, false, 5, false)), ElementsAre("0", "10k", "20k", "30k", "40k", "50k"));
  EXPECT_THAT(labels(Axis(0, 3e6, false, 3, false)), ElementsAre("0", "1M", "2M", "3M"));
  EXPECT_THAT(labels(Axis(0, 3e-4, false, 3, false)), ElementsAre("0", "1e-4", "2e-4", "3e-4"));
  EXPECT_THAT(labels(Axis(0, 3e12, false, 6, false)),
              ElementsAre("0", "5e11", "1.0e12", "1.5e12", "2.0e12", "2.5e12", "3.0e12"));
  EXPECT_THAT(labels(Axis(-1, 1, false, 2, false)), ElementsAre("-1", "0", "1"));
}

TEST(Axis, LogarithmicTicksAreDecades) {
  EXPECT_THAT(labels(Axis(1e-4, 1, true, 5, false)), ElementsAre("1e-4", "0.001", "0.01", "0.1", "1"));
  EXPECT_THAT(labels(Axis(1, 100, true, 6, false)), ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  EXPECT_GE(labels(Axis(2, 3, true, 5, false)).size(), 3u);
  EXPECT_LE(labels(Axis(1e-300, 1e300, true, 5, true)).size(), 8u);
}

TEST(Axis, ExtremesStayFinite) {
  const double most = 1e300;
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {-most, most}, {0, 0}, {5, 5}, {-5, -5}, {1e300, 1e300}, {0, 1e-300}, {1e9, 1e9 + 1e-6}, {1e15, 1e15 + 1}}) {
    for (const bool rounded : {false, true}) {
      const Axis axis(low, high, false, 5, rounded);
      EXPECT_TRUE(std::isfinite(axis.place(low)) && std::isfinite(axis.place(high))) << low;
      EXPECT_GE(axis.place(low), -1e-9);
      EXPECT_LE(axis.place(high), 1 + 1e-9);
      EXPECT_LE(axis.ticks().size(), 64u);
    }
    if (low <= 0) continue;
    const Axis axis(low, high, true, 5, true);
    EXPECT_TRUE(std::isfinite(axis.place(low)) && std::isfinite(axis.place(high))) << low;
  }
}

TEST(Axis, NumbersAreShort) {
  EXPECT_EQ(short_number(3.2141), "3.214");
  EXPECT_EQ(short_number(2.9999), "3.000");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(-12), "-12");
  EXPECT_EQ(short_number(181'204.4), "181.2k");
  EXPECT_EQ(short_number(12'845'056), "12.85M");
  EXPECT_EQ(short_number(3e-5), "3.000e-5");
  EXPECT_EQ(short_number(0.0123456), "0.01235");
  EXPECT_EQ(short_number(1e308), "1.000e308");
  EXPECT_EQ(short_number(5e-324), "4.941e-324");
}

TEST(Drawing, ReductionKeepsTheExtremes) {
  Series series{"loss", {}};
  for (int i = 0; i < 100'000; ++i) series.points.push_back({static_cast<double>(i), std::sin(i * 0.01)});
  series.points[12'345].y = 50;
  series.points[54'321].y = -50;
  const Drawing drawing = drawing_of({series}, false, false, 1000);
  ASSERT_EQ(drawing.series.at(0).size(), 1u);
  const Segment& kept = drawing.series[0][0];
  EXPECT_LE(kept.size(), 1000u);
  EXPECT_GE(kept.size(), 500u);
  EXPECT_EQ(drawing.low_y, -50);
  EXPECT_EQ(drawing.high_y, 50);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99'999);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end(), [](auto& a, auto& b) { return a.x < b.x; }));
}

TEST(Drawing, StepsFromOneAreShownFromZero) {
  EXPECT_EQ(drawing_of({{"loss", {{1, 3}, {100, 2}}}}, false, false, 1000).low_x, 0);
  EXPECT_EQ(drawing_of({{"loss", {{1, 3}, {100, 2}}}}, true, false, 1000).low_x, 1);
  EXPECT_EQ(drawing_of({{"loss", {{50, 3}, {100, 2}}}}, false, false, 1000).low_x, 50);
}

TEST(Drawing, GapsAreWhereNumbersAreNotFinite) {
  const Series series{"loss", {{0, 1}, {1, 2}, {2, kNan}, {3, 3}, {4, kPlotInf}, {5, 4}, {6, 5}}};
  const Drawing drawing = drawing_of({series}, false, false, 1000);
  ASSERT_EQ(drawing.series[0].size(), 3u);
  EXPECT_EQ(drawing.series[0][1].size(), 1u);
  EXPECT_EQ(drawing_of({series}, false, true, 1000).series[0].size(), 3u);
  const Series negative{"x", {{0, 1}, {1, -2}, {2, 0}, {3, 3}}};
  EXPECT_EQ(drawing_of({negative}, false, true, 1000).series[0].size(), 2u);
  EXPECT_EQ(drawing_of({negative}, false, false, 1000).series[0].size(), 1u);
}

TEST(Drawing, ALongSeriesOfNanHasAGap) {
  Series series = curve("loss", 50'000);
  for (std::size_t i = 20'000; i < 30'000; ++i) series.points[i].y = kNan;
  EXPECT_EQ(drawing_of({series}, false, false, 1000).series[0].size(), 2u);
}

TEST(SvgPlot, HasLinesLabelsAndNames) {
  const std::string svg = svg_plot({curve("loss", 50), curve("valid", 50, 1.1)}, {.title = "Loss", .x_label = "step"});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(plot_count(svg, "<g class=\"series"), 2u);
  EXPECT_THAT(svg, HasSubstr(">Loss</text>"));
  EXPECT_THAT(svg, HasSubstr(">step</text>"));
  EXPECT_THAT(svg, HasSubstr("loss  2.060"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(SvgPlot, FewPointsAreMarked) {
  EXPECT_EQ(plot_count(svg_plot({curve("valid", 20)}), "<circle"), 20u);
  EXPECT_EQ(plot_count(svg_plot({curve("loss", 41)}), "<circle"), 0u);
}

TEST(SvgPlot, NamesCannotMarkUp) {
  const std::string evil = "</text><script>alert(1)</script>\x1b[31m\"'&";
  const std::string svg = svg_plot({curve(evil, 5)}, {.title = evil, .x_label = evil});
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(svg_plot({curve("\xff\xfe", 5)}), HasSubstr("\\xff\\xfe"));
}

TEST(SvgPlot, OddSeriesAreDrawn) {
  for (const Series& series :
       {Series{"constant", {{0, 3}, {1, 3}, {2, 3}}}, Series{"point", {{7, 3}}}, Series{"zero", {{0, 0}, {0, 0}}},
        Series{"huge", {{0, -1.7e308}, {1, 1.7e308}}}, Series{"tiny", {{0, 5e-324}, {1, 1e-323}}}}) {
    for (const bool log : {false, true}) {
      const std::string svg = svg_plot({series}, {.log_x = log, .log_y = log});
      EXPECT_THAT(svg, Not(HasSubstr("nan"))) << series.name;
      EXPECT_THAT(svg, Not(HasSubstr("inf"))) << series.name;
    }
  }
  EXPECT_THAT(svg_plot({{"point", {{7, 3}}}}), HasSubstr("<circle"));
  for (const std::vector<Series>& none :
       {std::vector<Series>{}, {{"empty", {}}}, {{"nan", {{0, kNan}, {kPlotInf, 1}}}}})
    EXPECT_THAT(svg_plot(none), HasSubstr("no data"));
  EXPECT_THAT(svg_plot({curve("x", 5)}, {.width = -5, .height = 0}), HasSubstr("</svg>"));
}

TEST(SvgPlot, ManySeriesShareTheSpace) {
  std::vector<Series> many;
  for (int i = 0; i < 200; ++i) many.push_back(curve("series " + std::to_string(i), 5000, 1 + i * 0.1));
  const std::string svg = svg_plot(many);
  EXPECT_EQ(plot_count(svg, "<g class=\"series"), 200u);
  EXPECT_THAT(svg, HasSubstr("and 176 more"));
  EXPECT_LT(svg.size(), 1'500'000u);
}

TEST(SvgPlot, LongSeriesMakeSmallFiles) { EXPECT_LT(svg_plot({curve("loss", 1'000'000)}).size(), 30'000u); }

TEST(TerminalPlot, KeepsToItsWidthAndHeight) {
  for (const int width : {1, 24, 40, 80, 200}) {
    for (const Charset charset : {Charset::utf8, Charset::ascii}) {
      const std::vector<Series> series = {curve("loss", 500), curve("a name that is much too long for it", 500, 1.2)};
      const std::string plot =
          terminal_plot(series, {.title = "a run", .width = width, .height = 20, .charset = charset});
      EXPECT_EQ(lines(plot).size(), 20u);
      for (const std::string& line : lines(plot)) EXPECT_LE(columns(line), std::max<std::size_t>(24, width)) << line;
    }
  }
}

TEST(TerminalPlot, DrawsInBraille) {
  const std::string plot = terminal_plot({{"line", {{0, 0}, {10, 10}}}}, {.width = 30, .height = 10});
  const std::vector<std::string> rows = lines(plot);
  EXPECT_THAT(rows.front(), HasSubstr("⡠"));
  EXPECT_THAT(rows.front(), HasSubstr("10 ┤"));
  EXPECT_THAT(rows.back(), HasSubstr("── line  10"));
  EXPECT_THAT(plot, Not(HasSubstr("\x1b")));
}

TEST(TerminalPlot, AsciiIsAscii) {
  const std::string plot = terminal_plot({curve("größe", 100), curve("b", 100, 2)}, {.charset = Charset::ascii});
  EXPECT_TRUE(std::all_of(plot.begin(), plot.end(), [](char c) { return c == '\n' || (c >= ' ' && c < '\x7f'); }));
  EXPECT_THAT(plot, HasSubstr("** gr\\u00f6\\u00dfe"));
  EXPECT_THAT(plot, HasSubstr("++ b"));
}

TEST(TerminalPlot, ColoursAreReset) {
  const std::string plot = terminal_plot({curve("a", 100), curve("b", 100, 2)}, {.colour = true});
  EXPECT_THAT(plot, HasSubstr("\x1b[36m"));
  EXPECT_THAT(plot, HasSubstr("\x1b[33m"));
  for (const std::string& line : lines(plot)) {
    const bool coloured = line.find('\x1b') != std::string::npos;
    EXPECT_TRUE(!coloured || line.rfind("\x1b[0m") > line.rfind("\x1b[3")) << line;
  }
}

TEST(TerminalPlot, NamesCannotCommandTheTerminal) {
  const std::string plot = terminal_plot({curve("\x1b[2Jevil\n\u202e", 100)}, {.title = "\x1b]0;x\x07"});
  EXPECT_THAT(plot, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plot, HasSubstr("\\x1b[2Jevil\\n\\u202e"));
}

TEST(TerminalPlot, OddSeriesAreDrawn) {
  EXPECT_THAT(terminal_plot({}), HasSubstr("no data"));
  EXPECT_THAT(terminal_plot({{"nan", {{0, kNan}}}}), HasSubstr("no data"));
  EXPECT_THAT(terminal_plot({{"point", {{7, 3}}}}), HasSubstr("3"));
  EXPECT_THAT(terminal_plot({{"constant", {{0, 3}, {9, 3}}}}, {.log_y = true}), HasSubstr("┤"));
  EXPECT_THAT(terminal_plot({{"huge", {{0, -1.7e308}, {1, 1.7e308}}}}), HasSubstr("1.0e300"));
  std::vector<Series> many;
  for (int i = 0; i < 200; ++i) many.push_back(curve("series " + std::to_string(i), 50, 1 + i * 0.1));
  EXPECT_THAT(terminal_plot(many), HasSubstr("and 188 more"));
}

TEST(SvgBars, HaveALengthForEachValue) {
  const std::string svg =
      svg_bars({"op by op", "captured"}, {{"cpu <f32>", {40, 20}, {"40 ms", "20 ms & 1x"}}, {"vulkan:0", {10, 0.01}}},
               {.title = "tiny", .width = 500});
  EXPECT_EQ(plot_count(svg, "<path"), 4u);
  EXPECT_EQ(plot_count(svg, "<rect class=\"k"), 2u) << "the legend";
  EXPECT_NE(svg.find("cpu &lt;f32&gt;"), std::string::npos);
  EXPECT_NE(svg.find("20 ms &amp; 1x"), std::string::npos);
  EXPECT_NE(svg.find(">0.01<"), std::string::npos);
  EXPECT_NE(svg.find("prefers-color-scheme"), std::string::npos);
}

TEST(SvgBars, LeaveOutWhatHasNoLength) {
  EXPECT_NE(svg_bars({}, {}).find("no data"), std::string::npos);
  const std::string svg = svg_bars({"a"}, {{"nan", {NAN}}, {"huge", {1e308}}, {"negative", {-3}}, {"none", {}}});
  EXPECT_EQ(svg.find("h-nan"), std::string::npos);
  EXPECT_EQ(svg.find("hinf"), std::string::npos);
  EXPECT_EQ(plot_count(svg, "<path"), 3u);
}

}  // namespace
}  // namespace etna::training
