#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "evaluation_task.h"

/// Scores of `etna evaluate`: those of rows, their means and a table.
namespace etna::cli {

/// Of one row by one model.
struct RowScore {
  double plain = 0;      ///< 1 where the choice or the answer is right; of a text, the negative log-likelihood in nats
  double by_length = 0;  ///< choice: 1 where the one of the largest likelihood per byte is right
  std::int64_t tokens = 0;  ///< of a text, those that are foretold

  nlohmann::json json() const { return {{"plain", plain}, {"by_length", by_length}, {"tokens", tokens}}; }
  /// nullopt for what json() did not write.
  static std::optional<RowScore> read(const nlohmann::json& json);
};

/// A mean over rows, and its standard error.
struct MeanScore {
  double mean = 0, error = 0;
};

/// A line of the table.
struct ScoreLine {
  std::string name;
  std::size_t rows = 0;
  std::vector<MeanScore> columns;
};

/// @param columns the scores of all rows, in order, by each model @param items of the same rows
std::vector<ScoreLine> score_lines(TaskKind kind, const std::vector<TaskItem>& items,
                                   const std::vector<std::vector<RowScore>>& columns);
/// @param names of the columns
std::string score_table(const std::vector<ScoreLine>& lines, const std::vector<std::string>& names);
nlohmann::json score_json(const std::vector<ScoreLine>& lines, const std::vector<std::string>& names);

}  // namespace etna::cli
