#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/serve/answer_reader.h>
#include <etna/serve/answer_stream.h>

namespace etna::serve {

struct ReadAnswersOptions {
  AnswerReaderOptions reader = {};
  std::string begin = {};  ///< what the prompt already has of the answer: the beginning of a call
  std::int64_t choices = 1;
  bool parallel_calls = true;                  ///< false: nothing is reported after the first call
  const data::Tokenizer* tokenizer = nullptr;  ///< counts tokens of reasoning; must outlive the source
  /// Tokens of reasoning, after which it is closed by `resume`; needs one choice.
  std::optional<std::int64_t> reasoning_tokens = {};
  /// Goes on behind the prompt and this reasoning, which is closed. @param tokens that were spent on it
  std::function<std::shared_ptr<EventSource>(const std::string& reasoning, std::int64_t tokens)> resume = {};
};

/// The events of a source, whose text is split into reasoning, text and calls of tools.
std::shared_ptr<EventSource> read_answers(std::shared_ptr<EventSource> source, ReadAnswersOptions options);

}  // namespace etna::serve
