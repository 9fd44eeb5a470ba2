#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/models/model_file.h>
#include <etna/train/internal/answer_rows.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "evaluation_scores.h"
#include "evaluation_task.h"
#include "generation.h"
#include "output.h"
#include "receipt_option.h"
#include "text_answer.h"

namespace etna::cli {

using training::printable;

namespace {

constexpr const char *kEvaluate = "etna evaluate", *kNextQuestion = "\nQuestion:";

struct EvaluateOptions : ModelOptions {
  std::string task, pattern, out, json, chat_format;
  std::int64_t limit = 0, max_tokens = 256;
  bool chat = false, resume = false;
};

/// Scores rows by one model, with its adapter or without.
class RowScorer {
 public:
  RowScorer(LoadedModel& model, const data::Tokenizer& tokenizer, const EvaluateOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  /// @param adapter index, or -1 for none
  RowScore score(TaskKind kind, const TaskItem& item, std::int64_t adapter) {
    if (kind == TaskKind::choice) return score_choices(item, adapter);
    return kind == TaskKind::answer ? score_answer(item, adapter) : score_text(item, adapter);
  }

 private:
  /// Σ of the log-probabilities of tokens from `first` on, in pieces that the model has room for.
  double logprob(std::vector<std::int32_t> ids, std::size_t first, std::int64_t adapter) {
    const auto room = static_cast<std::size_t>(model_.room());
    if (ids.size() > room) {  // the beginning is left out
      const std::size_t cut = ids.size() - room;
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
      first = first > cut ? first - cut : 0;
    }
    double sum = 0;
    const std::vector<models::GeneratedToken> tokens = model_.generator->logprobs(ids, 0, adapter);
    for (std::size_t i = std::max<std::size_t>(first, 1); i <= tokens.size(); ++i) sum += tokens[i - 1].logprob;
    return sum;
  }

  RowScore score_choices(const TaskItem& item, std::int64_t adapter) {
    const std::vector<std::int32_t> context = tokenizer_.encode_prompt(item.context);
    std::vector<double> plain, by_length;
    for (const std::string& choice : item.choices) {
      const std::vector<std::int32_t> ids = tokenizer_.encode_prompt(item.context + choice);
      const auto differs = std::mismatch(context.begin(), context.end(), ids.begin(), ids.end()).first;
      plain.push_back(logprob(ids, static_cast<std::size_t>(differs - context.begin()), adapter));
      by_length.push_back(plain.back() / static_cast<double>(std::max<std::size_t>(choice.size() - 1, 1)));
    }
    const auto is_right = [&](const std::vector<double>& scores) {
      return std::max_element(scores.begin(), scores.end()) - scores.begin() == static_cast<std::ptrdiff_t>(item.right);
    };
    return {is_right(plain) ? 1.0 : 0.0, is_right(by_length) ? 1.0 : 0.0, 0};
  }

  std::vector<std::int32_t> prompt_of(const TaskItem& item) const {
    if (!options_.chat) return tokenizer_.encode_prompt(item.context);
    return tokenizer_.encode_parts(
        training::chat_parts(tokenizer_, options_.chat_format, {{"user", item.context}}, data::ChatOptions{}));
  }

  RowScore score_answer(const TaskItem& item, std::int64_t adapter) {
    models::GenerationOptions generation;
    generation.max_tokens = options_.max_tokens;
    generation.sampling.temperature = 0;
    generation.stop_tokens = tokenizer_.end_tokens();
    generation.adapter = adapter;
    std::vector<std::int32_t> prompt = prompt_of(item);
    if (prompt.empty()) prompt.push_back(tokenizer_.bos().value_or(0));
    if (std::ssize(prompt) >= model_.room()) {
      throw FormatError(fmt::format("{}, line {}: the question has {} tokens; the model has room for {}",
                                    printable(options_.task), item.line, prompt.size(), model_.room()));
    }
    std::string text;
    data::DecodeState state;
    model_.generator->generate(prompt, generation, [&](std::int32_t token) {
      tokenizer_.decode_next(token, state, text);
      return text.find(kNextQuestion) == std::string::npos;
    });
    text.erase(std::min(text.find(kNextQuestion), text.size()));
    return {answer_in(text, options_.pattern) == item.answer ? 1.0 : 0.0, 0, 0};
  }

  RowScore score_text(const TaskItem& item, std::int64_t adapter) {
    const std::vector<std::int32_t> ids = tokenizer_.encode_prompt(item.answer);
    RowScore score;
    const auto room = static_cast<std::size_t>(model_.room());
    // The last token of a piece is the first of the next, so that each is foretold once.
    for (std::size_t at = 0; at + 1 < ids.size(); at += room - 1) {
      const std::size_t end = std::min(ids.size(), at + room);
      score.plain -= logprob(
          {ids.begin() + static_cast<std::ptrdiff_t>(at), ids.begin() + static_cast<std::ptrdiff_t>(end)}, 1, adapter);
      score.tokens += static_cast<std::int64_t>(end - at) - 1;
    }
    if (score.tokens == 0) {
      throw FormatError(fmt::format("{}, line {}: the text has no token that another foretells",
                                    printable(options_.task), item.line));
    }
    return score;
  }

  LoadedModel& model_;
  const data::Tokenizer& tokenizer_;
  const EvaluateOptions& options_;
};

/// What the first line of --out says: rows may go on where it is the same.
nlohmann::json header_of(const EvaluateOptions& options, const EvaluationTask& task) {
  return {{kCommandKey, kEvaluate},
          {"task", task.hash},
          {"model", options.model},
          {"adapter", options.adapter},
          {"pattern", options.pattern},
          {"chat", options.chat},
          {"chat_format", options.chat_format},
          {"max_tokens", options.max_tokens}};
}

/// The scores of the rows so far, in a file that another process may go on with.
class ScoreFile {
 public:
  ScoreFile(const EvaluateOptions& options, const EvaluationTask& task, std::size_t columns) : path_(options.out) {
    if (path_.empty()) return;
    const nlohmann::json header = header_of(options, task);
    if (options.resume) read(header, columns);
    std::string text = header.dump() + "\n";
    for (std::size_t i = 0; i < rows_.size(); ++i) text += line_of(i, rows_[i]);
    io::write_file(path_, text);  // without a line that a kill cut
    out_.open(path_, std::ios::binary | std::ios::app);
  }

  const std::vector<std::vector<RowScore>>& rows() const { return rows_; }

  /// @throws FormatError for a full disk
  void add(const std::vector<RowScore>& scores) {
    rows_.push_back(scores);
    if (path_.empty()) return;
    out_ << line_of(rows_.size() - 1, scores) << std::flush;
    if (!out_) throw FormatError(fmt::format("{}: cannot be written; is the disk full?", printable(path_)));
  }

 private:
  static std::string line_of(std::size_t row, const std::vector<RowScore>& scores) {
    nlohmann::json all = nlohmann::json::array();
    for (const RowScore& score : scores) all.push_back(score.json());
    return nlohmann::json({{"row", row}, {"scores", all}}).dump() + "\n";
  }

  void read(const nlohmann::json& header, std::size_t columns) {
    const std::vector<std::string> lines = data::read_lines(path_);
    const nlohmann::json there = lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines[0], nullptr, false);
    for (const auto& [name, value] : header.items()) {
      if (!there.is_object() || there.value(name, nlohmann::json()) != value) {
        throw FormatError(
            fmt::format("{}: '{}' is another one in it, so it cannot be gone on with; leave out --resume, or name "
                        "another file",
                        printable(path_), name));
      }
    }
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const nlohmann::json row = nlohmann::json::parse(lines[i], nullptr, false);
      if (!row.is_object() || row.value("row", nlohmann::json()) != i - 1 || !row.contains("scores")) break;
      std::vector<RowScore> scores;
      for (const nlohmann::json& own : row.at("scores"))
        if (const std::optional<RowScore> score = RowScore::read(own)) scores.push_back(*score);
      if (scores.size() != columns) break;
      rows_.push_back(std::move(scores));
    }
  }

  const std::string path_;
  std::ofstream out_;
  std::vector<std::vector<RowScore>> rows_;
};

/// [column][row]
std::vector<std::vector<RowScore>> by_column(const std::vector<std::vector<RowScore>>& rows, std::size_t columns) {
  std::vector<std::vector<RowScore>> all(columns);
  for (const std::vector<RowScore>& row : rows)
    for (std::size_t i = 0; i < columns; ++i) all[i].push_back(row[i]);
  return all;
}

void require_outputs(const EvaluateOptions& options) {
  if (!options.resume) io::require_output({"--out", options.out, json_marks(kEvaluate)}, options.force);
  io::require_output({"--json", options.json, json_marks(kEvaluate)}, options.force);
  answer_in("", options.pattern);
}

/// Scores the rows that the file lacks. @return false after Ctrl-C
bool score_rows(LoadedModel& model, const EvaluateOptions& options, const EvaluationTask& task, std::size_t count,
                const std::vector<std::int64_t>& adapters, ScoreFile& file) {
  RowScorer scorer(model, tokenizer_of(model, options.model), options);
  training::Interrupt interrupt;
  std::optional<training::Progress> progress;
  if (!options.quiet) {
    progress.emplace(static_cast<std::int64_t>(count),
                     training::ProgressOptions{.title = "evaluate", .keep = false, .out = stderr});
  }
  for (std::size_t i = file.rows().size(); i < count && !interrupt.requested(); ++i) {
    std::vector<RowScore> scores;
    for (const std::int64_t adapter : adapters) scores.push_back(scorer.score(task.kind, task.items[i], adapter));
    file.add(scores);
    if (progress) progress->update(static_cast<std::int64_t>(i) + 1, {});
  }
  if (progress) progress->finish();
  return !interrupt.requested();
}

int evaluate(const EvaluateOptions& given) try {
  require_outputs(given);
  const EvaluationTask task = read_task(given.task);
  const auto receipt = begin_receipt(given);
  if (receipt) receipt->file("task", given.task);
  EvaluateOptions options = given;
  std::vector<std::int64_t> adapters = {-1};
  std::vector<std::string> names = {"score"};
  if (!options.adapter.empty()) {  // stacked, so that one model gives both columns
    options.stacked = {options.adapter};
    options.adapter.clear();
    adapters = {-1, 0};
    names = {"before", "after"};
  }
  ScoreFile file(given, task, adapters.size());
  LoadedModel model = open_model(options);
  if (receipt) receipt->device(options.device, model.device);
  std::size_t count = task.items.size();
  if (options.limit > 0) count = std::min(count, static_cast<std::size_t>(options.limit));
  const bool whole = score_rows(model, options, task, count, adapters, file);
  std::vector<std::vector<RowScore>> rows = file.rows();
  rows.resize(std::min(rows.size(), count));
  const std::vector<ScoreLine> lines = score_lines(task.kind, task.items, by_column(rows, adapters.size()));
  print_all(score_table(lines, names));
  if (!options.json.empty()) {
    const nlohmann::json result = {{kCommandKey, kEvaluate},
                                   {"model", printable(given.model)},
                                   {"adapter", printable(given.adapter)},
                                   {"task", printable(given.task)},
                                   {"scores", score_json(lines, names)}};
    io::write_file(options.json, result.dump(2) + "\n");
  }
  if (receipt) {
    receipt->number("rows", static_cast<double>(rows.size()));
    for (const ScoreLine& line : lines) receipt->number(line.name, line.columns.back().mean);
    receipt->write(options.receipt);
  }
  if (whole) return 0;
  print_all(options.out.empty() ? "stopped\n" : "stopped; --resume goes on\n");
  return 130;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

}  // namespace

Command add_evaluate(CLI::App& app) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Score a language model on a file of tasks, with and without an adapter");
  add_model_options(*command, *options);
  command
      ->add_option("-t,--task", options->task,
                   "rows in the layout of HellaSwag, ARC or GSM8K, or texts, one JSON object a line")
      ->required();
  command->add_option("--limit", options->limit, "only the first so many rows; 0: all")
      ->check(number_in(training::integers(0)));
  command->add_option("-n,--max-tokens", options->max_tokens, "tokens of a generated answer at most")
      ->check(number_in(training::integers(1)))
      ->capture_default_str();
  command->add_option("--pattern", options->pattern,
                      "a regular expression whose first group is the answer in a generated text (default: what follows "
                      "\"####\", else the last number)");
  command->add_flag("--chat", options->chat, "ask questions by the model's chat template");
  command->add_option("--chat-format", options->chat_format, "the name of another chat format (with --chat)");
  CLI::Option* out =
      add_output(*command, "--out", options->out, "write each row's scores to this file", options->force);
  command->add_flag("--resume", options->resume, "go on with the rows that --out lacks")->needs(out);
  add_output(*command, "--json", options->json, "also write the table to this file", options->force);
  add_receipt_option(*command, options->receipt, options->force);
  return {command, [options] { return cli::evaluate(*options); }};
}

}  // namespace etna::cli
