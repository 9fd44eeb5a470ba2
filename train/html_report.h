#pragma once

#include <string>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/train/metrics.h>
#include <etna/train/plot.h>

namespace etna::training {

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
