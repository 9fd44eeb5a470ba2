#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/internal/words/word_cache.h>
#include <etna/data/tokenizers/pieces/internal/added_tokens.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/data/tokenizers/pieces/vocabulary_fields.h>

namespace etna::data {

/// How decoding removes the space that encoding prepended to the first word.
enum class LeadingSpace : std::uint8_t {
  keep,
  sentencepiece,        ///< the first token that decodes to text loses one
  sentencepiece_every,  ///< tokens lose one each until one of them decodes to text
  count,                ///< the text loses up to `leading_spaces`
  first_token           ///< the first token loses all of its U+2581
};

/// A part of how a pair of texts is written: special tokens, or one of the texts.
struct PairPart {
  std::vector<std::int32_t> special = {};
  int text = -1;          ///< 0: the first one, 1: the second, -1: special tokens
  std::int32_t type = 0;  ///< of its tokens
};

/// The pipeline of a ModelTokenizer, read from any kind of file.
struct TokenizerPlan {
  using Normalize = std::function<std::string(std::string_view)>;
  /// Splits a text into pieces (pre-tokens); `start`: the text is the start of the whole text.
  using Split = std::function<void(std::string_view text, bool start, std::vector<std::string>& pieces)>;

  std::string kind;                 ///< Tokenizer::name()
  std::vector<std::string> tokens;  ///< as spelled in the file
  std::vector<std::string> bytes;   ///< the text that each token decodes to
  std::vector<TokenType> types;
  AddedTokens raw;         ///< searched for before normalization
  AddedTokens normalized;  ///< searched for after normalization
  Normalize normalize;     ///< the normalizer; null: none
  Split split;             ///< the pre-tokenizer; null: the text is one piece
  std::unique_ptr<SegmentModel> model;
  std::unique_ptr<WordCache> words = std::make_unique<WordCache>();  ///< what the model encoded
  std::int32_t fuse_unknown = -1;                                    ///< runs of this id are collapsed to one; -1: none
  LeadingSpace leading_space = LeadingSpace::keep;
  std::size_t leading_spaces = 0;
  std::vector<std::int32_t> prefix, suffix;  ///< around every prompt
  std::vector<PairPart> pair;                ///< empty: nobody says how pairs are written
  std::optional<std::int32_t> bos, eos, unk, pad;
  std::vector<std::int32_t> end_tokens;
  std::string chat_template;
  std::function<std::string()> json;  ///< serializes the plan
};

/// Checks a vocabulary and builds its pipeline. @throws FormatError for an inconsistent one
TokenizerPlan plan_vocabulary(VocabularyFields fields, const std::string& name);
/// Reads a tokenizer.json of Hugging Face's tokenizers. @throws FormatError that names an unsupported step
TokenizerPlan plan_tokenizer_json(std::string_view json, const std::string& name);

/// A tokenizer.json of the vocabulary in a vocab.txt, which has a token of WordPiece a line. @throws FormatError
std::string wordpiece_json(std::string_view vocabulary, const std::string& name);

/// BERT's pairs: [CLS] first [SEP] second [SEP], where the second text and what ends it have type 1.
std::vector<PairPart> bert_pair(std::int32_t begin, std::int32_t end);
/// RoBERTa's: <s> first </s></s> second </s>, all of type 0.
std::vector<PairPart> roberta_pair(std::int32_t begin, std::int32_t end);

/// Whether a special token with this spelling ends a turn or a message in some model family.
bool is_end_of_turn(std::string_view token);
/// The special tokens of a vocabulary that end a turn, by their spelling. Where messages have channels (gpt-oss), a
/// turn is several messages, and the end of a message is none of them.
std::vector<std::int32_t> ends_of_turns(const std::vector<std::string>& tokens, const std::vector<TokenType>& types);

/// Converts a vocabulary to JSON and back. If tokens are not UTF-8, the result is not valid JSON either and only good
/// for hashing. @throws FormatError for damaged JSON
std::string vocabulary_json(const VocabularyFields& fields);
VocabularyFields parse_vocabulary_json(std::string_view json, const std::string& name);

}  // namespace etna::data
