#include <etna/serve/text_of_tokens.h>

#include <algorithm>
#include <cmath>

namespace etna::serve {

TextOfTokens::TextOfTokens(const data::Tokenizer* tokenizer, std::span<const std::int32_t> prompt,
                           std::vector<std::string> stop, bool show_special)
    : tokenizer_(tokenizer), words_(stop), stop_(std::move(stop)) {
  if (tokenizer == nullptr) return;
  decoder_.emplace(*tokenizer, show_special);
  decoder_->skip(prompt);  // spaces at the start of an answer are not at that of a text
}

std::string TextOfTokens::push(std::int32_t token) {
  if (!decoder_) return {};
  const std::string piece = decoder_->push(token);
  if (!words_.empty()) raw_ += piece;
  return stop_.push(piece);
}

std::string TextOfTokens::finish() {
  if (!decoder_ || stop_.stopped()) return {};
  const std::string rest = decoder_->finish();
  raw_ += rest;
  std::string text = stop_.push(rest);
  return text + stop_.finish();
}

std::string TextOfTokens::stop_text() const {
  std::size_t first = std::string::npos;
  std::string found;
  for (const std::string& word : words_) {
    const std::size_t at = raw_.find(word);
    if (at >= first) continue;
    first = at;
    found = word;
  }
  return found;
}

TokenProbability TextOfTokens::named(std::int32_t token, double logprob) const {
  TokenProbability named{token, {}, std::isfinite(logprob) ? logprob : -9999.0};  // JSON has no infinity
  if (tokenizer_ != nullptr && token >= 0 && static_cast<std::size_t>(token) < tokenizer_->size())
    named.text = tokenizer_->token(token);
  return named;
}

TokenLogprobs TextOfTokens::logprobs(const models::GeneratedToken& token) const {
  TokenLogprobs result{named(token.token, static_cast<double>(token.logprob)), {}};
  for (const auto& [other, logprob] : token.top) result.top.push_back(named(other, static_cast<double>(logprob)));
  return result;
}

}  // namespace etna::serve
