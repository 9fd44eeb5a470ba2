#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <etna/device/file_path.h>

/// Task files of `etna evaluate`: one JSON object a line.
namespace etna::cli {

enum class TaskKind : std::uint8_t { choice, answer, perplexity };

/// A row.
struct TaskItem {
  std::string context;               ///< before the choices, or the question
  std::vector<std::string> choices;  ///< what may follow it, with the space before
  std::size_t right = 0;             ///< the correct choice
  std::string answer;                ///< the text behind the last "####"; or the text whose perplexity is wanted
  std::string group;                 ///< of a perplexity
  std::size_t line = 0;              ///< of the file, from 1 on
};

struct EvaluationTask {
  TaskKind kind = TaskKind::choice;
  std::vector<TaskItem> items;
  std::string hash;  ///< of the file
};

/// Reads a file of rows that are all of one kind:
/// - HellaSwag: {"ctx", "endings", "label"}, and "activity_label", which is put before the context;
/// - ARC: {"question", "choices": {"text": [], "label": []}, "answerKey"};
/// - GSM8K: {"question", "answer": "... #### N"};
/// - {"text"}, with a "group" or without.
/// @throws FormatError naming file and line
EvaluationTask read_task(const FilePath& file);

/// The answer in a generated text: what the last match of a pattern has in its first group; without a pattern the text
/// behind "####", else the last number. Spaces, '$', ',' between digits and a final '.' are left out.
/// @param pattern ECMAScript; empty: none @return empty where there is none
/// @throws FormatError for a pattern that is no regular expression
std::string answer_in(const std::string& text, const std::string& pattern);

}  // namespace etna::cli
