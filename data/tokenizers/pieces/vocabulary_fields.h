#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// Types of tokens, with the numbers that SentencePiece and GGUF files use.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a vocabulary makes tokens of text.
enum class VocabularyKind : std::uint8_t { sentencepiece_bpe, unigram, byte_bpe, piece_bpe, wordpiece };

/// The vocabulary in a GGUF file's metadata (`tokenizer.ggml.*`) or in a SentencePiece file. Unchecked; ModelTokenizer
/// checks it.
struct VocabularyFields {
  /// "llama": SentencePiece's BPE, "t5": its unigram model, "gpt2": byte-level BPE, "gemma4": BPE of characters and of
  /// bytes <0xNN>, "bert": WordPiece, whose tokens begin with U+2581 where a word does
  std::string model;
  std::string pre;  ///< pre-tokenizer of "gpt2", such as "llama-bpe" or "qwen2"; empty: "gpt-2"

  std::vector<std::string> tokens;
  std::vector<float> scores;        ///< one for each token ("llama" and "t5")
  std::vector<std::int32_t> types;  ///< TokenType of each token; empty: all are normal
  std::vector<std::string> merges;  ///< "left right", best first ("gpt2" and "gemma4")

  std::optional<std::int64_t> bos, eos, unk, pad;
  std::vector<std::int64_t> end_tokens;  ///< further ids that stop generation: end of turn, end of message

  /// Unset: the default of the model. "llama" adds BOS, and a space before the first word; "bert" both. "gemma4" adds
  /// BOS in any case.
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

}  // namespace etna::data
