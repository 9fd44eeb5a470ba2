#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/train/metrics.h>
#include <etna/train/report.h>

#include "output.h"
#include "runs.h"

namespace etna::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Curve {
  std::string run, metric;
  std::vector<training::MetricPoint> points;
};

/// The folder of a run, whether it is in the list or not, and what to call it.
std::pair<fs::path, std::string> folder_of(const training::RunList& list, const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) {
    const fs::path normal = fs::path(name).lexically_normal();
    const fs::path last = normal.has_filename() ? normal.filename() : normal.parent_path().filename();
    return {name, last.string()};
  }
  const training::RunRecord& run = training::find_run(list, name);
  return {run.folder, run.id};
}

std::vector<std::string> wanted(const training::Metrics& metrics, const RunsOptions& options, const fs::path& folder) {
  const auto refuse = [&](const std::string& what) {
    std::string names;
    for (const std::string& name : metrics.names())
      names += (names.empty() ? "" : ", ") + training::shortened(name, 40);
    return FormatError(fmt::format("{}: {}; there {}", training::printable(folder.string()), what,
                                   names.empty() ? "are no metrics" : "are " + training::shortened(names, 400)));
  };
  for (const std::string& name : options.metrics) {
    if (!metrics.has(name)) throw refuse(fmt::format("no metric is named '{}'", training::shortened(name, 60)));
  }
  if (!options.metrics.empty()) return options.metrics;
  std::vector<std::string> losses;
  for (const std::string& name : metrics.names()) {
    if (name.find("loss") != std::string::npos && name.find("loss_scale") == std::string::npos) losses.push_back(name);
  }
  if (losses.empty()) throw refuse("no metric has 'loss' in its name; --metric NAME plots another");
  return losses;
}

std::string json(const std::vector<Curve>& curves) {
  Json out = Json::array();
  for (const Curve& curve : curves) {
    Json points = Json::array();
    for (const training::MetricPoint& point : curve.points)
      points.push_back({point.step, std::isfinite(point.value) ? Json(point.value) : Json(nullptr)});
    out.push_back({{"run", curve.run}, {"metric", curve.metric}, {"points", std::move(points)}});
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int plot_runs(const training::RunList& list, const RunsOptions& options) {
  io::require_output({"--svg", options.svg, {training::kPlotMark}}, options.force);
  std::vector<Curve> curves;
  for (const std::string& name : options.names) {
    const auto folder = folder_of(list, name);
    const training::Metrics metrics = training::read_metrics(folder.first);
    for (const std::string& metric : wanted(metrics, options, folder.first))
      curves.push_back({folder.second, metric, metrics.points(metric)});
  }
  std::vector<training::Series> series;
  for (const Curve& curve : curves) {
    const bool one_run = options.names.size() == 1;
    series.push_back({one_run ? curve.metric : curve.run + " " + curve.metric, {}});
    for (const training::MetricPoint& point : curve.points)
      series.back().points.push_back({static_cast<double>(point.step), point.value});
  }
  const std::string title = options.names.size() == 1 ? curves[0].run : "";
  if (!options.svg.empty()) {
    training::PlotOptions plot{.title = title, .x_label = "step", .log_y = options.log};
    plot.height = 360;
    io::write_file(options.svg, training::svg_plot(series, plot));
  }
  if (options.json) {
    print_all(json(curves));
  } else if (options.svg.empty()) {
    const Terminal out = terminal();
    training::TerminalPlotOptions plot{.title = title, .log_y = options.log};
    plot.width = static_cast<int>(std::min<std::size_t>(out.width, 160));
    plot.height = static_cast<int>(std::clamp<std::size_t>(out.height - std::min<std::size_t>(out.height, 2), 10, 30));
    plot.colour = out.colour;
    plot.charset = training::terminal_charset();
    print_all(training::terminal_plot(series, plot));
  }
  return 0;
}

}  // namespace etna::cli
