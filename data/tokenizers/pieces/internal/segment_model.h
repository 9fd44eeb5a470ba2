#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/data/tokenizers/pieces/vocabulary_fields.h>

namespace etna::data {

/// What makes ids of a piece of text after normalization and splitting. Safe to use from several threads at once.
class SegmentModel {
 public:
  virtual ~SegmentModel() = default;
  /// Appends the ids of a piece. Where characters have no token they give the id for unknown text, each for itself.
  /// @throws FormatError for characters without a token where the vocabulary has no id for unknown text
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;
  /// Pieces may be cut before each U+2581 that follows another character: no token contains one there.
  virtual bool may_cut_at_spaces() const { return false; }
};

/// The tokens for characters that have none: their bytes, or one for all that is unknown.
struct Fallback {
  std::array<std::int32_t, 256> bytes{};  ///< -1: none
  bool use_bytes = false;                 ///< characters become bytes where all of theirs have tokens
  bool all_bytes = false;                 ///< every byte has a token
  std::int32_t unknown = -1;

  /// Finds the tokens `<0x00>` to `<0xFF>`, as many as there are.
  void read_bytes(const std::vector<std::string>& tokens);
  void append(std::string_view characters, std::vector<std::int32_t>& ids) const;
};

/// The number of a byte token `<0xNN>`; -1 for another text.
int byte_token(std::string_view text);

struct MergeModelOptions {
  /// Symbols at the start are bytes, and tokens are bytes too. Otherwise both are characters.
  bool bytes = false;
  /// A piece that is a token is that token, whatever the merges say.
  bool ignore_merges = false;
  Fallback fallback;
};
using TokenMerge = std::pair<std::int32_t, std::int32_t>;

/// Byte pair encoding by a list of merges. @param usable for each token, whether text may become it
/// @throws FormatError for merges whose result is no token
std::unique_ptr<SegmentModel> make_merge_model(const std::vector<std::string>& tokens, const std::vector<bool>& usable,
                                               const std::vector<TokenMerge>& merges, MergeModelOptions options,
                                               const std::string& name);

/// SentencePiece's byte pair encoding: any two neighbours that together are a token may merge, the best score first.
/// @param scores,types of every token
std::unique_ptr<SegmentModel> make_score_model(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                                               const std::vector<TokenType>& types, Fallback fallback);

struct UnigramOptions {
  /// As SentencePiece computes: sums are rounded to 32 bits, and a token of type user_defined beats all others.
  bool sentencepiece = true;
  Fallback fallback;
};

/// The most probable way to cut a text into tokens (Kudo 2018), by Viterbi's algorithm.
std::unique_ptr<SegmentModel> make_unigram_model(const std::vector<std::string>& tokens,
                                                 const std::vector<double>& scores, const std::vector<TokenType>& types,
                                                 UnigramOptions options);

}  // namespace etna::data
