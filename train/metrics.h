#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>

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

class AppendFile;
class EventFileWriter;

/// Writes the numbers of a training run into its folder while it runs:
///     training::MetricLog metrics("runs/first", {"loss", "lr"});
///     metrics.log(step, {{"loss", loss}, {"lr", rate}}, seconds);
/// metrics.jsonl has a JSON object a row, metrics.csv the declared columns; events.out.tfevents.* is for TensorBoard.
/// Each row is in all three files when log() returns. A kill leaves at most one line cut, which read_metrics() and a
/// resumed run leave out.
///
/// One thread at a time calls log().
///
/// A number that is not finite is nan, inf or -inf in the CSV file and "NaN", "Infinity" or "-Infinity" in JSON.
class MetricLog {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  /// @param columns of metrics.csv, behind `step` and `seconds`. Other names that log() gets are in metrics.jsonl and
  /// for TensorBoard alone.
  /// @param resume_at_step the step of the checkpoint that the run goes on from: later rows are removed from the files
  /// first, and TensorBoard drops them. Without it the logs begin anew, and those that are there get ".old" behind
  /// their names.
  /// @throws FormatError for a folder that cannot be written, and for earlier metrics that are damaged
  /// @throws Error for a name that is empty, has control characters, is not UTF-8, or comes twice
  explicit MetricLog(const FilePath& folder, std::vector<std::string> columns = {},
                     std::optional<std::int64_t> resume_at_step = std::nullopt);
  ~MetricLog();
  MetricLog(const MetricLog&) = delete;
  MetricLog& operator=(const MetricLog&) = delete;

  /// Adds a row. Several rows may have the same step. @param seconds since the start of the run
  /// @throws FormatError for a full disk and the like; earlier rows stay readable, and later calls may succeed
  /// @throws Error for a negative step, seconds that are not finite, and names as above or "step" or "seconds"
  void log(std::int64_t step, const Values& values, double seconds);

  const FilePath& folder() const { return folder_; }

 private:
  FilePath folder_;
  std::vector<std::string> columns_;
  Owned<AppendFile> jsonl_, csv_;
  Owned<EventFileWriter> events_;
};

}  // namespace etna::training
