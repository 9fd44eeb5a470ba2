#pragma once

#include <string>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/train/metrics.h>
#include <etna/train/progress.h>

/// Line plots as text, an SVG picture or characters for a terminal, and the report of a run as an HTML page. Numbers
/// that are not finite are gaps, and so are those up to zero on a logarithmic axis. Long series are reduced so that
/// their extremes stay.
namespace etna::training {

struct PlotPoint {
  double x = 0, y = 0;
};

struct Series {
  std::string name;
  std::vector<PlotPoint> points;  ///< joined in this order
};

struct PlotOptions {
  std::string title = {}, x_label = {};  ///< empty: none
  bool log_x = false, log_y = false;
  int width = 640, height = 340;  ///< units of the picture; it scales
};

/// What marks the pictures of svg_plot() and svg_bars() near their beginning (io::OutputFile::marks).
inline constexpr const char* kPlotMark = "class=\"etna-plot\"";

/// A picture without scripts that asks for nothing from elsewhere, light or dark as the reader prefers. It is a file or
/// part of an HTML page. Names may be any text. Without a finite number it says "no data".
std::string svg_plot(const std::vector<Series>& series, const PlotOptions& options = {});

/// Lengths to compare: a value of each series.
struct Bars {
  std::string name;
  std::vector<double> values;
  std::vector<std::string> captions = {};  ///< beside the bars; empty: the values
};

/// A picture of horizontal bars, group by group, in svg_plot()'s style. Values below zero, or that are not finite, have
/// no bar. @param series names of the values; of a single one, no name is drawn
std::string svg_bars(const std::vector<std::string>& series, const std::vector<Bars>& groups,
                     const PlotOptions& options = {});

struct TerminalPlotOptions {
  std::string title = {};
  bool log_x = false, log_y = false;
  int width = 80, height = 20;  ///< columns and lines, title, axes and legend included; taken as at least 24 and 8
  bool colour = false;
  Charset charset = Charset::utf8;  ///< utf8 draws in braille patterns, 8 dots a character
};

/// Lines of at most `width` columns, each with its line break. Without colours, several series are told apart by
/// characters.
std::string terminal_plot(const std::vector<Series>& series, const TerminalPlotOptions& options = {});

/// What report.html shows of a run. Any text may stand in it; parts that are empty are left out.
struct RunReport {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  std::string title = {};  ///< "WikiText-2, small"
  std::string note = {};   ///< a sentence below it
  Pairs summary = {};      ///< {"device", "vulkan:0"}, {"tokens/s", "181,000"} … The first are shown largest.

  struct Curves {
    std::vector<Series> series;
    PlotOptions options;
  };
  std::vector<Curves> curves = {};  ///< curves_of() makes them of a run's metrics

  struct Table {
    std::string title;
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;
  };
  std::vector<Table> tables = {};  ///< evaluations

  Pairs config = {};
  std::string config_json = {};  ///< JSON text, shown as it is where it is damaged
  Pairs environment = {};        ///< versions, driver, command line
  std::string profile_svg = {};  ///< a picture of profile::trace_picture()
  std::string prompt = {}, sample = {};
};

/// Pictures of the metrics against the step: losses together, perplexities, learning rate, tokens/s, then every other.
std::vector<RunReport::Curves> curves_of(const Metrics& metrics);

/// The whole page: no scripts, nothing from elsewhere, light or dark as the reader prefers.
std::string html_report(const RunReport& report);

/// Writes report.html into the folder; replaces an earlier one in one step. @throws FormatError if it cannot be written
void write_report(const FilePath& folder, const RunReport& report);

}  // namespace etna::training
