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

class SpaceCuts;

/// Encodes a piece of text (a pre-token) to ids, after normalization and pre-tokenization. Safe to use from several
/// threads at once.
class SegmentModel {
 public:
  virtual ~SegmentModel() = default;
  /// Appends the ids of a piece. Each character without a token becomes the unknown token.
  /// @throws FormatError for a character without a token if the vocabulary has no unknown token
  virtual void encode(std::string_view piece, std::vector<std::int32_t>& ids) const = 0;
  /// Where pieces may be cut, so that encoding the parts gives the same ids; null: nowhere.
  virtual const SpaceCuts* cuts() const { return nullptr; }
};

/// The fallback for characters without a token: byte tokens (byte fallback), or the unknown token.
struct Fallback {
  std::array<std::int32_t, 256> bytes{};  ///< -1: none
  bool use_bytes = false;                 ///< byte fallback for characters whose bytes all have tokens
  bool all_bytes = false;                 ///< every byte has a token
  std::int32_t unknown = -1;

  /// Finds those of the tokens `<0x00>` to `<0xFF>` that exist.
  void read_bytes(const std::vector<std::string>& tokens);
  void append(std::string_view characters, std::vector<std::int32_t>& ids) const;
};

/// The value of a byte token `<0xNN>`; -1 for any other text.
int byte_token(std::string_view text);

struct MergeModelOptions {
  /// Initial symbols and tokens are bytes. Otherwise both are characters.
  bool bytes = false;
  /// A piece that is itself a token becomes that token, whatever the merges say.
  bool ignore_merges = false;
  /// The same of pieces of newlines only.
  bool whole_newlines = false;
  Fallback fallback;
};
using TokenMerge = std::pair<std::int32_t, std::int32_t>;

/// Byte pair encoding by a list of merges. @param usable for each token, whether text may be encoded to it
/// @throws FormatError for a merge whose result is not a token
std::unique_ptr<SegmentModel> make_merge_model(const std::vector<std::string>& tokens, const std::vector<bool>& usable,
                                               const std::vector<TokenMerge>& merges, MergeModelOptions options,
                                               const std::string& name);

/// SentencePiece's byte pair encoding: any two neighbours that form a token may merge, the best score first.
/// @param scores,types one for each token
std::unique_ptr<SegmentModel> make_score_model(const std::vector<std::string>& tokens, const std::vector<float>& scores,
                                               const std::vector<TokenType>& types, Fallback fallback);

struct WordPieceOptions {
  std::string prefix = "##";  ///< of tokens that go on within a word
  std::size_t longest = 100;  ///< characters; a longer word is unknown
  std::int32_t unknown = -1;
};

/// BERT's WordPiece: from the left, the longest token that fits. A word that tokens do not spell is unknown as a whole.
/// @param usable for each token, whether text may be encoded to it
std::unique_ptr<SegmentModel> make_wordpiece_model(const std::vector<std::string>& tokens,
                                                   const std::vector<bool>& usable, WordPieceOptions options);

struct UnigramOptions {
  /// Computes like SentencePiece: sums are rounded to f32, and a token of type user_defined beats all others.
  bool sentencepiece = true;
  Fallback fallback;
};

/// The most probable segmentation of a text into tokens (Kudo 2018), by the Viterbi algorithm.
std::unique_ptr<SegmentModel> make_unigram_model(const std::vector<std::string>& tokens,
                                                 const std::vector<double>& scores, const std::vector<TokenType>& types,
                                                 UnigramOptions options);

}  // namespace etna::data
