#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::training {

struct MetricPoint {
  std::int64_t step = 0;
  double value = 0;
  double seconds = 0;  ///< NaN where the row has none
};

/// What a MetricLog wrote.
class Metrics {
 public:
  struct Row {
    std::int64_t step = 0;
    double seconds = 0;                                  ///< NaN where there is none
    std::vector<std::pair<std::size_t, double>> values;  ///< an index into names(), and the number
  };

  /// In the order in which they came up.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<Row>& rows() const { return rows_; }
  bool has(std::string_view name) const;
  /// The rows that have this metric; none for a name that is not there.
  std::vector<MetricPoint> points(std::string_view name) const;
  /// The last line was not complete, as after a kill, and is left out.
  bool cut() const { return cut_; }

 private:
  friend class MetricsReader;
  std::vector<std::string> names_;
  std::vector<Row> rows_;
  bool cut_ = false;
};

/// The metrics of a run folder: metrics.jsonl, or metrics.csv (a `step` column and others) where that is missing.
/// @throws FormatError naming file and line for damage other than a cut last line; FormatError where neither is there
Metrics read_metrics(const FilePath& folder);

}  // namespace etna::training
