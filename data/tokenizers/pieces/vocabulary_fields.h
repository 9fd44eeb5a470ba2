#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace etna::data {

/// Kinds of tokens, with the numbers that SentencePiece's and GGUF files use.
enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

/// How a vocabulary makes tokens of text.
enum class VocabularyKind : std::uint8_t { sentencepiece_bpe, unigram, byte_bpe };

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

  /// What `model` names, or nothing for what Etna does not run.
  std::optional<VocabularyKind> kind() const;
};

/// Reads a SentencePiece model (the .model file). @param name for errors
/// @throws FormatError for a file that is cut off, damaged, or of the kinds word and char, which Etna does not run
VocabularyFields parse_sentencepiece(std::string_view bytes, const std::string& name);

/// Reads llama2.c's tokenizer.bin. @throws FormatError for a file that is cut off or damaged
VocabularyFields parse_llama2c_tokenizer(std::string_view bytes, const std::string& name);

}  // namespace etna::data
