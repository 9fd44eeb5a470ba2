#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/data/tokenizers/stream_decoder.h>
#include <etna/models/generator.h>
#include <etna/serve/answer_event.h>

namespace etna::serve {

/// Turns the tokens of an answer into pieces of text, up to a stop text. Without a tokenizer the text is empty.
class TextOfTokens {
 public:
  /// @param tokenizer null: none; else must outlive this object @param prompt what the answer continues
  TextOfTokens(const data::Tokenizer* tokenizer, std::span<const std::int32_t> prompt, std::vector<std::string> stop,
               bool show_special);

  std::string push(std::int32_t token);
  std::string finish();
  /// A stop text came: no more tokens are wanted.
  bool stopped() const { return stop_.stopped(); }
  /// The stop text that came first.
  std::string stop_text() const;
  /// Log-probabilities with the spelling of the tokens.
  TokenLogprobs logprobs(const models::GeneratedToken& token) const;

 private:
  TokenProbability named(std::int32_t token, double logprob) const;

  const data::Tokenizer* tokenizer_;
  std::optional<data::StreamDecoder> decoder_;
  std::vector<std::string> words_;
  data::StopWords stop_;
  std::string raw_;  ///< the text, stop texts included; kept only where there are some
};

}  // namespace etna::serve
