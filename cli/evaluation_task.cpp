#include "evaluation_task.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/data/tokenizers/internal/json/json_fields.h>
#include <etna/device/error.h>
#include <etna/tensor/io/internal/xxh3.h>
#include <etna/train/internal/chat_fields.h>
#include <etna/train/progress.h>

namespace etna::cli {
namespace {

using training::text_field;

constexpr const char* kMark = "####";
constexpr std::size_t kMostText = 1 << 16;  ///< bytes in which an answer is looked for: std::regex recurses

std::vector<std::string> texts_in(const nlohmann::json& object, const char* field, const std::string& place) {
  const nlohmann::json* list = data::json_field(object, field);
  const bool are_texts =
      list != nullptr && list->is_array() && !list->empty() &&
      std::all_of(list->begin(), list->end(), [](const nlohmann::json& text) { return text.is_string(); });
  if (!are_texts) throw FormatError(fmt::format("{}: '{}' is no list of texts", place, field));
  return list->get<std::vector<std::string>>();
}

/// A number, or a text that is one.
std::size_t index_in(const nlohmann::json& row, const char* field, std::size_t count, const std::string& place) {
  const nlohmann::json* value = data::json_field(row, field);
  std::size_t index = count;
  if (value != nullptr && value->is_number_unsigned()) index = value->get<std::size_t>();
  if (value != nullptr && value->is_string()) {
    const auto& text = value->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (error != std::errc() || end != text.data() + text.size()) index = count;
  }
  if (index >= count)
    throw FormatError(fmt::format("{}: '{}' is no index of one of the {} choices", place, field, count));
  return index;
}

std::vector<std::string> after_space(std::vector<std::string> choices) {
  for (std::string& choice : choices) choice.insert(0, " ");
  return choices;
}

TaskItem hellaswag_item(const nlohmann::json& row, const std::string& place) {
  TaskItem item;
  const nlohmann::json* activity = data::json_field(row, "activity_label");
  if (activity != nullptr && activity->is_string()) item.context = activity->get<std::string>() + ": ";
  item.context += text_field(row, "ctx", place);
  item.choices = after_space(texts_in(row, "endings", place));
  item.right = index_in(row, "label", item.choices.size(), place);
  return item;
}

std::string question_context(const nlohmann::json& row, const std::string& place) {
  return fmt::format("Question: {}\nAnswer:", text_field(row, "question", place));
}

TaskItem arc_item(const nlohmann::json& row, const std::string& place) {
  TaskItem item;
  item.context = question_context(row, place);
  const nlohmann::json& choices = row.at("choices");
  item.choices = after_space(texts_in(choices, "text", place));
  const std::vector<std::string> labels = texts_in(choices, "label", place);
  if (labels.size() != item.choices.size()) {
    throw FormatError(
        fmt::format("{}: 'choices' has {} texts and {} labels", place, item.choices.size(), labels.size()));
  }
  const std::string& key = text_field(row, "answerKey", place);
  item.right = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), key) - labels.begin());
  if (item.right == labels.size())
    throw FormatError(fmt::format("{}: 'answerKey' is none of the labels of 'choices'", place));
  return item;
}

TaskItem answer_item(const nlohmann::json& row, const std::string& place) {
  TaskItem item;
  item.context = question_context(row, place);
  const std::string& answer = text_field(row, "answer", place);
  if (answer.rfind(kMark) == std::string::npos)
    throw FormatError(fmt::format("{}: 'answer' does not end with \"{} \" and the result", place, kMark));
  item.answer = answer_in(answer, "");
  if (item.answer.empty()) throw FormatError(fmt::format("{}: nothing follows \"{}\" in 'answer'", place, kMark));
  return item;
}

TaskItem text_item(const nlohmann::json& row, const std::string& place) {
  TaskItem item;
  item.answer = text_field(row, "text", place);
  if (data::json_field(row, "group") != nullptr) item.group = text_field(row, "group", place);
  return item;
}

enum class TaskLayout : std::uint8_t { hellaswag, arc, gsm8k, text };

std::optional<TaskLayout> layout_of(const nlohmann::json& row) {
  const auto has = [&](const char* field) { return data::json_field(row, field) != nullptr; };
  if (has("endings")) return TaskLayout::hellaswag;
  if (has("choices")) return TaskLayout::arc;
  if (has("question")) return TaskLayout::gsm8k;
  return has("text") ? std::optional(TaskLayout::text) : std::nullopt;
}

TaskItem item_of(const nlohmann::json& row, TaskLayout layout, const std::string& place) {
  switch (layout) {
    case TaskLayout::hellaswag:
      return hellaswag_item(row, place);
    case TaskLayout::arc:
      return arc_item(row, place);
    case TaskLayout::gsm8k:
      return answer_item(row, place);
    case TaskLayout::text:
      break;
  }
  return text_item(row, place);
}

/// "$1,234." is "1234".
std::string plain_answer(std::string text) {
  std::erase_if(text, [](char c) { return c == '$' || c == ',' || c == ' ' || c == '\t'; });
  text.erase(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string last_match(const std::string& text, const std::regex& pattern, std::size_t group) {
  std::string last;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    last = (*at)[std::min(group, at->size() - 1)].str();
  return last;
}

}  // namespace

EvaluationTask read_task(const FilePath& file) {
  const std::string path = training::printable(file.string());
  EvaluationTask task;
  io::Xxh3 hash;
  std::optional<TaskLayout> layout;
  std::size_t number = 0;
  for (const std::string& line : data::read_lines(file)) {
    hash.add(std::string_view(line));
    ++number;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string place = fmt::format("{}, line {}", path, number);
    const nlohmann::json row = data::parse_json_object(line, place, "row");
    const std::optional<TaskLayout> own = layout_of(row);
    if (!own) {
      throw FormatError(fmt::format(
          "{}: there is none of 'endings', 'choices', 'question' and 'text'; wanted the layout of HellaSwag, ARC or "
          "GSM8K, or texts",
          place));
    }
    if (layout && *layout != *own)
      throw FormatError(fmt::format("{}: the row has another layout than those before", place));
    layout = own;
    task.items.push_back(item_of(row, *own, place));
    task.items.back().line = number;
  }
  if (!layout) throw FormatError(fmt::format("{}: the file has no rows; wanted one JSON object a line", path));
  task.kind = *layout == TaskLayout::gsm8k  ? TaskKind::answer
              : *layout == TaskLayout::text ? TaskKind::perplexity
                                            : TaskKind::choice;
  task.hash = fmt::format("{:016x}", hash.value());
  return task;
}

std::string answer_in(const std::string& whole, const std::string& pattern) {
  const std::string text = whole.substr(whole.size() - std::min(whole.size(), kMostText));
  if (!pattern.empty()) {
    try {
      return plain_answer(last_match(text, std::regex(pattern), 1));
    } catch (const std::regex_error& error) {
      throw FormatError(fmt::format("--pattern '{}' is no regular expression: {}", pattern, error.what()));
    }
  }
  if (const std::size_t mark = text.rfind(kMark); mark != std::string::npos)
    return plain_answer(text.substr(mark + std::string_view(kMark).size()));
  static const std::regex number("-?[$]?[0-9][0-9,]*([.][0-9]+)?");
  return plain_answer(last_match(text, number, 0));
}

}  // namespace etna::cli
