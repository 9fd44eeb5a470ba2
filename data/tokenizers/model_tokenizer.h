#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/owned.h>

namespace etna::data {

/// Types of tokens, with the numbers that SentencePiece and GGUF files use.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a vocabulary makes tokens of text.
enum class VocabularyKind : std::uint8_t { sentencepiece_bpe, unigram, byte_bpe };

/// The vocabulary in a GGUF file's metadata (`tokenizer.ggml.*`) or in a SentencePiece file. Unchecked; ModelTokenizer
/// checks it.
struct VocabularyFields {
  std::string model;  ///< "llama": SentencePiece's BPE, "t5": its unigram model, "gpt2": byte-level BPE
  std::string pre;    ///< pre-tokenizer of "gpt2", such as "llama-bpe" or "qwen2"; empty: "gpt-2"

  std::vector<std::string> tokens;
  std::vector<float> scores;        ///< one for each token ("llama" and "t5")
  std::vector<std::int32_t> types;  ///< TokenType of each token; empty: all are normal
  std::vector<std::string> merges;  ///< "left right", best first ("gpt2")

  std::optional<std::int64_t> bos, eos, unk, pad;
  std::vector<std::int64_t> end_tokens;  ///< further ids that stop generation: end of turn, end of message

  /// Unset: the default of the model. "llama" adds BOS, and a space before the first word.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;  ///< spaces become U+2581
  bool treat_whitespace_as_suffix = false;
  std::string precompiled_charsmap;             ///< SentencePiece's normalization rules; empty: none
  std::string unknown_text = " \xE2\x81\x87 ";  ///< the text that the unknown token decodes to
  std::string chat_template;                    ///< Jinja

  /// What `model` names, or nothing for what Etna does not run.
  std::optional<VocabularyKind> kind() const;
};

/// Reads a SentencePiece model (the .model file). @param name for errors
/// @throws FormatError for a truncated or damaged file, and for the unsupported types word and char
VocabularyFields parse_sentencepiece(std::string_view bytes, const std::string& name);

/// Reads a tokenizer.bin of llama2.c. @throws FormatError for a truncated or damaged file
VocabularyFields parse_llama2c_tokenizer(std::string_view bytes, const std::string& name);

struct TokenizerPlan;

/// The tokenizer of a pretrained model: SentencePiece (BPE and unigram), byte-level BPE with the pre-tokenizers of many
/// model families, or the pipeline that a tokenizer.json describes.
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
  std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool add_special = true) const override;
  /// Special tokens decode to no text.
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
  /// A token as the file spells it: with U+2581 for spaces, or with one character per byte.
  std::string_view spelling(std::int32_t id) const;
  /// The token with this spelling in the file.
  std::optional<std::int32_t> find(std::string_view spelling) const;

 private:
  std::vector<std::int32_t> around(std::vector<std::int32_t> ids) const;

  Owned<const TokenizerPlan> plan_;
};

}  // namespace etna::data
