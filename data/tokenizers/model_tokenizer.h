#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/pieces/vocabulary_fields.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/owned.h>

namespace etna::data {

struct TokenizerPlan;

/// The tokenizer of a pretrained model: SentencePiece (BPE and unigram), byte-level BPE with the pre-tokenizers of many
/// model families, BERT's WordPiece, or the pipeline that a tokenizer.json describes.
class ModelTokenizer : public Tokenizer {
 public:
  /// From the vocabulary of a GGUF file. @param name for errors @throws FormatError for an inconsistent vocabulary
  explicit ModelTokenizer(VocabularyFields fields, const std::string& name = "vocabulary");
  explicit ModelTokenizer(TokenizerPlan plan);
  ~ModelTokenizer() override;
  ModelTokenizer(ModelTokenizer&&) noexcept;

  /// Special tokens are those of type control or unknown, or those marked special in tokenizer.json. Other added tokens
  /// are always recognized, whatever `special` says.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                   std::vector<std::string>* unknown = nullptr) const override;
  std::vector<std::int32_t> encode_prompt(std::string_view text, PromptOptions options = {}) const override;
  TokenPair encode_pair(std::string_view first, std::string_view second, PromptOptions options = {}) const override;
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool add_special = true) const override;
  /// Special tokens decode to no text.
  std::string decode(std::span<const std::int32_t> ids) const override;
  void decode_next(std::int32_t id, DecodeState& state, std::string& text) const override;
  bool forgets() const override { return true; }
  std::size_t size() const override;
  std::string_view token(std::int32_t id) const override;
  std::vector<std::int32_t> special_tokens() const override;
  std::string_view name() const override;
  std::uint64_t hash() const override;
  std::string json() const override;

  std::optional<std::int32_t> bos() const override;
  std::optional<std::int32_t> eos() const override;
  std::vector<std::int32_t> end_tokens() const override;
  std::string_view chat_template() const override;
  /// A token as the file spells it: with U+2581 for spaces, or with one character per byte.
  std::string_view spelling(std::int32_t id) const;
  /// The token with this spelling in the file.
  std::optional<std::int32_t> find(std::string_view spelling) const;

 private:
  std::vector<std::int32_t> around(std::vector<std::int32_t> ids, std::size_t most = 0) const;

  Owned<const TokenizerPlan> plan_;
};

}  // namespace etna::data
