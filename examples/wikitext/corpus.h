#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <etna/data/batches.h>
#include <etna/data/corpus.h>
#include <etna/data/token_file.h>
#include <etna/data/tokenizers/tokenizer.h>

#include "commands.h"

namespace wikitext {

/// The token ids of a split: in memory, or in a mapped file.
class TokenIds {
 public:
  /// Words, of which each is a token.
  TokenIds(std::vector<std::int32_t> ids) : ids_(std::move(ids)), words_(size()) {}
  /// @param words of the text, its line ends among them
  TokenIds(etna::data::TokenFile file, std::int64_t words) : ids_(std::move(file)), words_(words) {}

  std::int64_t size() const;
  std::int64_t words() const { return words_; }
  /// Of a file: the batches keep it open. Of ids in memory: this object outlives them.
  /// @throws FormatError for an empty split, or one too short
  etna::data::StreamBatches streams(std::int64_t batch, std::int64_t seq) const;

 private:
  std::variant<std::vector<std::int32_t>, etna::data::TokenFile> ids_;
  std::int64_t words_;
};

/// A text to train on.
struct Corpus {
  std::shared_ptr<const etna::data::Tokenizer> tokenizer;
  TokenIds train, valid, test;
  std::string source;  ///< its origin, for people

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(tokenizer->size()); }
  /// Whether a token is a word, so that perplexity per token is the one per word.
  bool of_words() const { return tokenizer->name() == "word"; }
};

/// The perplexity per word of text, a line end counting as one, whatever its tokens are: exp(total loss / words).
/// @param loss mean per token
double word_perplexity(double loss, const TokenIds& ids);

/// "validation 20.12, test 19.00", and where tokens are no words " a token; validation 80.12, test 75.00 a word".
/// @param valid_loss, test_loss means per token
std::string perplexity_text(const Corpus& corpus, double valid_loss, double test_loss);

/// True if no text is named, so that the embedded corpus is taken.
bool is_embedded(const DataOptions& options);

/// Loads the corpus from the first of --text, --data, $ETNA_DATA and the embedded corpus. Prints the choice to standard
/// output. A folder that `etna data prepare` wrote is mapped, and not held.
Corpus find_corpus(const DataOptions& options);

}  // namespace wikitext
