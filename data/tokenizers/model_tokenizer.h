#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/owned.h>

namespace etna::data {

/// Kinds of tokens, with the numbers that SentencePiece's and GGUF files use.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// A vocabulary as the metadata of a GGUF file gives it (`tokenizer.ggml.*`), or as it is read from a SentencePiece
/// file. Nothing in it is checked; ModelTokenizer does that.
struct VocabularyFields {
  std::string model;  ///< "llama": SentencePiece's BPE, "t5": its unigram model, "gpt2": byte-level BPE
  std::string pre;    ///< of "gpt2": how text is split, such as "llama-bpe" or "qwen2"; empty: "gpt-2"

  std::vector<std::string> tokens;
  std::vector<float> scores;        ///< of "llama" and "t5": one for each token
  std::vector<std::int32_t> types;  ///< numbers of TokenType; empty: all are normal
  std::vector<std::string> merges;  ///< of "gpt2": "left right", best first

  std::optional<std::int64_t> bos, eos, unk, pad;
  std::vector<std::int64_t> end_tokens;  ///< other ids that end an answer: end of turn, of message

  /// Missing: as the model kind has it. "llama" puts bos before a text and a space before its first word.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;  ///< spaces become U+2581
  bool treat_whitespace_as_suffix = false;
  std::string precompiled_charsmap;             ///< SentencePiece's normalization rules; empty: none
  std::string unknown_text = " \xE2\x81\x87 ";  ///< what the unknown token decodes to
  std::string chat_template;                    ///< Jinja
};

/// Reads a SentencePiece model (the .model file). @param name for errors
/// @throws FormatError for a file that is cut off, damaged, or of the kinds word and char, which Etna does not run
VocabularyFields parse_sentencepiece(std::string_view bytes, const std::string& name);

/// Reads llama2.c's tokenizer.bin. @throws FormatError for a file that is cut off or damaged
VocabularyFields parse_llama2c_tokenizer(std::string_view bytes, const std::string& name);

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
