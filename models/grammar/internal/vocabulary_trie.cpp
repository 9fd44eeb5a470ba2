#include <etna/models/grammar/internal/vocabulary_trie.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <etna/data/tokenizers/internal/chat/message_marks.h>
#include <etna/data/tokenizers/model_tokenizer.h>
#include <etna/models/grammar/grammar.h>

namespace etna::models {
namespace {

/// What each token adds in the middle of a text.
std::vector<std::string> texts_of_tokens(const data::Tokenizer& tokenizer, std::int64_t vocabulary) {
  if (tokenizer.name() == "word")
    throw GrammarError(
        "grammar: the text of a token of a word tokenizer depends on the words before it; structured output needs a "
        "tokenizer of pieces (BPE, SentencePiece)");
  const auto size = static_cast<std::int64_t>(tokenizer.size());
  constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
  if (vocabulary < 0 || vocabulary > kMostTokens)
    throw GrammarError(fmt::format("grammar: a vocabulary of {} tokens; wanted 1 to {}, or 0 for the tokenizer's {}",
                                   vocabulary, kMostTokens, size));
  std::vector<std::string> texts(static_cast<std::size_t>(vocabulary == 0 ? size : vocabulary));
  const auto* pieces = dynamic_cast<const data::ModelTokenizer*>(&tokenizer);
  for (std::size_t i = 0; i < texts.size() && static_cast<std::int64_t>(i) < size; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    // Its text stands for what could not be encoded.
    if (pieces != nullptr && pieces->spelling(id) == "<unk>") continue;
    data::DecodeState state;
    state.at_start = false;
    tokenizer.decode_next(id, state, texts[i]);
  }
  const auto forbid = [&](std::int32_t id) {
    if (id >= 0 && static_cast<std::size_t>(id) < texts.size()) texts[static_cast<std::size_t>(id)].clear();
  };
  for (const std::int32_t id : tokenizer.special_tokens()) forbid(id);
  for (const std::int32_t id : tokenizer.end_tokens()) forbid(id);
  return texts;
}

}  // namespace

VocabularyTrie::VocabularyTrie(std::vector<std::string> texts, std::vector<std::int32_t> stop_tokens)
    : texts_(std::move(texts)), stop_tokens_(std::move(stop_tokens)), stops_(texts_.size()) {
  if (texts_.empty()) throw GrammarError("grammar: the vocabulary has no tokens");
  for (const std::int32_t token : stop_tokens_) {
    if (token < 0 || static_cast<std::size_t>(token) >= texts_.size())
      throw GrammarError(
          fmt::format("grammar: stop token {} is out of range for a vocabulary of {}", token, texts_.size()));
    stops_[static_cast<std::size_t>(token)] = true;
    texts_[static_cast<std::size_t>(token)].clear();
  }
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::string& text = texts_[i];
    if (text.empty()) continue;
    if (text.size() > std::numeric_limits<std::uint16_t>::max())
      throw GrammarError(fmt::format("grammar: token {} has {} bytes; a token of at most {} can be used", i,
                                     text.size(), std::numeric_limits<std::uint16_t>::max()));
    tokens_.push_back(static_cast<std::int32_t>(i));
    longest_ = std::max(longest_, text.size());
    for (const char c : text) bytes_.add(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
  }
  std::sort(tokens_.begin(), tokens_.end(), [&](std::int32_t a, std::int32_t b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a < b;
  });
  ByteSet single;
  std::vector<std::size_t> path;  // nodes of the text before
  std::string_view before;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view now = text(tokens_[i]);
    if (now.size() == 1) single.add(static_cast<unsigned char>(now[0]), static_cast<unsigned char>(now[0]));
    const auto shared = static_cast<std::size_t>(
        std::mismatch(before.begin(), before.end(), now.begin(), now.end()).first - before.begin());
    for (; path.size() > shared; path.pop_back()) nodes_[path.back()].skip = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t at = shared; at < now.size(); ++at) {
      path.push_back(nodes_.size());
      // The tokens that end before the last byte come first in the order.
      nodes_.push_back(
          {0, static_cast<std::uint32_t>(i), static_cast<std::uint16_t>(at), static_cast<unsigned char>(now[at])});
    }
    before = now;
  }
  for (; !path.empty(); path.pop_back()) nodes_[path.back()].skip = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({0, static_cast<std::uint32_t>(tokens_.size()), 0, 0});
  complete_ = std::all_of(single.words.begin(), single.words.end(), [](std::uint64_t word) { return ~word == 0; });
}

GrammarVocabulary::GrammarVocabulary(const data::Tokenizer& tokenizer, std::int64_t vocabulary,
                                     std::optional<std::vector<std::int32_t>> stop_tokens)
    : trie_(std::make_shared<const VocabularyTrie>(texts_of_tokens(tokenizer, vocabulary),
                                                   stop_tokens ? std::move(*stop_tokens) : tokenizer.end_tokens())) {}

GrammarVocabulary GrammarVocabulary::with_special_tokens(const data::Tokenizer& tokenizer, std::int64_t vocabulary) {
  std::vector<std::string> texts = texts_of_tokens(tokenizer, vocabulary);
  for (const std::int32_t id : tokenizer.special_tokens())
    if (static_cast<std::size_t>(id) < texts.size())
      texts[static_cast<std::size_t>(id)] = data::special_spelling(tokenizer, id);
  return {std::move(texts), tokenizer.end_tokens()};
}

GrammarVocabulary::GrammarVocabulary(std::vector<std::string> texts, std::vector<std::int32_t> stop_tokens)
    : trie_(std::make_shared<const VocabularyTrie>(std::move(texts), std::move(stop_tokens))) {}

std::int64_t GrammarVocabulary::vocabulary() const { return trie_->vocabulary(); }

}  // namespace etna::models
