#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/internal/added_tokens.h>
#include <etna/data/tokenizers/pieces/internal/segment_model.h>
#include <etna/data/tokenizers/pieces/vocabulary_fields.h>

namespace etna::data {

/// What becomes of the space that encoding put before the first word.
enum class LeadingSpace : std::uint8_t {
  keep,
  sentencepiece,        ///< the first token that gives text loses one
  sentencepiece_every,  ///< tokens lose one each until one of them gives text
  count,                ///< the text loses up to `leading_spaces`
  first_token           ///< the first token loses all of its U+2581
};

/// The steps of a ModelTokenizer, read from a file of whatever kind.
struct TokenizerPlan {
  using Normalize = std::function<std::string(std::string_view)>;
  /// Cuts the pieces of a text; `start` says that the text is the beginning of the whole.
  using Split = std::function<void(std::string_view text, bool start, std::vector<std::string>& pieces)>;

  std::string kind;                 ///< what Tokenizer::name() says
  std::vector<std::string> tokens;  ///< as the file spells them
  std::vector<std::string> bytes;   ///< what each decodes to
  std::vector<TokenType> types;
  AddedTokens raw;         ///< looked for in the text as it is
  AddedTokens normalized;  ///< looked for after normalization
  Normalize normalize;     ///< none: text is taken as it is
  Split split;             ///< none: one piece
  std::unique_ptr<SegmentModel> model;
  std::int32_t fuse_unknown = -1;  ///< this id stands once where it would stand several times in a row
  LeadingSpace leading_space = LeadingSpace::keep;
  std::size_t leading_spaces = 0;
  std::vector<std::int32_t> prefix, suffix;  ///< around every prompt
  std::optional<std::int32_t> bos, eos, unk, pad;
  std::vector<std::int32_t> end_tokens;
  std::string chat_template;
  std::function<std::string()> json;  ///< from which the same plan can be read again
};

/// Checks a vocabulary and plans its steps. @throws FormatError for one that is not consistent
TokenizerPlan plan_vocabulary(VocabularyFields fields, const std::string& name);
/// Reads a tokenizer.json of Hugging Face's tokenizers. @throws FormatError for what Etna does not apply, by name
TokenizerPlan plan_tokenizer_json(std::string_view json, const std::string& name);

/// Whether a special token of this spelling ends a turn or a message, in the families that have such.
bool is_end_of_turn(std::string_view token);

/// A vocabulary as JSON, and back. With tokens that are not UTF-8 it is a text that is neither, to be hashed only.
/// @throws FormatError for damaged JSON
std::string vocabulary_json(const VocabularyFields& fields);
VocabularyFields parse_vocabulary_json(std::string_view json, const std::string& name);

}  // namespace etna::data
