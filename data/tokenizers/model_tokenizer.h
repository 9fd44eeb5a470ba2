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

/// The tokenizer of a model that was trained elsewhere: SentencePiece's (BPE and unigram), byte-level BPE with the
/// splitting rules of many families, and what tokenizer.json files describe.
class ModelTokenizer : public Tokenizer {
 public:
  /// From a vocabulary as a GGUF file has it. @param name for errors @throws FormatError for one that is not consistent
  explicit ModelTokenizer(VocabularyFields fields, const std::string& name = "vocabulary");
  explicit ModelTokenizer(TokenizerPlan plan);
  ~ModelTokenizer() override;
  ModelTokenizer(ModelTokenizer&&) noexcept;

  /// Special tokens are those of the types control and unknown, or those a tokenizer.json calls special. Others that
  /// were added to the vocabulary are always found.
  std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                   std::vector<std::string>* unknown = nullptr) const override;
  std::vector<std::int32_t> encode_prompt(std::string_view text, PromptOptions options = {}) const override;
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool add_special = true) const override;
  /// Special tokens give no text.
  std::string decode(std::span<const std::int32_t> ids) const override;
  void decode_next(std::int32_t id, DecodeState& state, std::string& text) const override;
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
  /// How the file spells a token: with U+2581 for spaces, or with a character for each byte.
  std::string_view spelling(std::int32_t id) const;
  /// The token that the file spells so.
  std::optional<std::int32_t> find(std::string_view spelling) const;

 private:
  std::vector<std::int32_t> around(std::vector<std::int32_t> ids) const;

  Owned<const TokenizerPlan> plan_;
};

}  // namespace etna::data
