#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>

namespace etna {
class Tensor;
}

namespace etna::data {

/// Whether encode() turns the spelling of a special token into its id, or encodes it as ordinary text. Use as_text for
/// untrusted text.
enum class SpecialTokens { recognize, as_text };

/// How encode_prompt() encodes a prompt.
struct PromptOptions {
  SpecialTokens special = SpecialTokens::as_text;
  bool add_special = true;  ///< add the BOS and EOS tokens that the model was trained with
  std::size_t most = 0;     ///< tokens at most, special ones included: the text's end is left out; 0: all
};

/// Two texts as one row of tokens, for a model that compares them.
struct TokenPair {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> types;  ///< of each token: as the model's template says, usually 0 and then 1
};

/// A part of a text, and whether special tokens are recognized in it.
struct TextPart {
  std::string text;
  SpecialTokens special = SpecialTokens::as_text;
};

/// The state of decoding a sequence token by token.
struct DecodeState {
  bool show_special = false;  ///< emit the spelling of special tokens
  bool at_start = true;       ///< word tokenizer: no space precedes the next word
  bool quoted = false;        ///< word tokenizer: a quotation is open
  std::size_t spaces = 0;     ///< leading spaces removed so far
};

/// Converts text to token ids and back. Safe to use from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// @param unknown receives each distinct word that has no id of its own, in order of appearance
  /// @throws FormatError if the text cannot be encoded
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                           std::vector<std::string>* unknown = nullptr) const = 0;
  /// @throws FormatError for an id outside [0, size)
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// Ids are 0 to size() - 1.
  virtual std::size_t size() const = 0;
  /// The bytes of a token, valid as long as the tokenizer. @throws FormatError for an id outside [0, size)
  virtual std::string_view token(std::int32_t id) const = 0;
  virtual std::vector<std::int32_t> special_tokens() const = 0;
  /// "word" and "bpe" for tokenizers that Etna trains; "sentencepiece", "unigram", "byte-level bpe" and
  /// "tokenizer.json" for those of pretrained models.
  virtual std::string_view name() const = 0;
  /// XXH3 of the kind and of everything that determines ids. The same in every process and on every machine.
  virtual std::uint64_t hash() const = 0;

  /// The tokenizer as JSON for parse_tokenizer(). @throws FormatError for tokens that are not UTF-8
  virtual std::string json() const = 0;

  /// The ids of a prompt, as a model expects them.
  virtual std::vector<std::int32_t> encode_prompt(std::string_view text, PromptOptions options = {}) const;
  /// The ids of two texts, as a model that compares texts expects them. Where there are too many tokens, the end of the
  /// longer text is left out, of both texts where both are long.
  /// @throws FormatError where the tokenizer does not say how pairs are written
  virtual TokenPair encode_pair(std::string_view first, std::string_view second, PromptOptions options = {}) const;
  /// Encodes a text given in parts. ModelTokenizer encodes them as one text, so that tokens may span parts. A special
  /// token is recognized only if it lies within one part that recognizes special tokens.
  virtual std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool add_special = true) const;
  /// Decodes one token and appends its text, like decode(). @throws FormatError for an id outside [0, size)
  virtual void decode_next(std::int32_t id, DecodeState& state, std::string& text) const;
  /// Whether a token's text depends on those before it only through DecodeState::at_start, and no more once that is
  /// false.
  virtual bool forgets() const { return false; }
  /// The BOS and EOS tokens.
  virtual std::optional<std::int32_t> bos() const { return std::nullopt; }
  virtual std::optional<std::int32_t> eos() const;
  /// All tokens that stop generation: EOS, end of turn, end of message.
  virtual std::vector<std::int32_t> end_tokens() const;
  /// The model's Jinja chat template; empty: none. See chat_template.h.
  virtual std::string_view chat_template() const { return {}; }

  /// Writes json() to a file for load_tokenizer(). A failed save leaves an existing file unchanged.
  /// @throws FormatError
  void save(const FilePath& file) const;
};

/// Reads a file written by Tokenizer::save(), a tokenizer.json of Hugging Face's tokenizers, a SentencePiece model, a
/// vocab.txt of WordPiece, or a tokenizer.bin of llama2.c. Truncation and padding of a tokenizer.json are ignored:
/// Hugging Face's transformers set both at each call.
/// @throws FormatError for a missing, damaged or unsupported file
std::unique_ptr<Tokenizer> load_tokenizer(const FilePath& file);
/// Reads JSON in memory. @param name for errors
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

/// A tokenizer as an object in a checkpoint (tensor/io/checkpoint.h): word tokenizers as "text", one word per line;
/// others as "json".
struct TokenizerState {
  std::shared_ptr<const Tokenizer>& tokenizer;

  std::map<std::string, Tensor> state_dict() const;
  /// Sets the tokenizer if it is null. @throws FormatError for invalid state, and if it differs from the present one
  void load_state_dict(const std::map<std::string, Tensor>& state) const;
};

/// @param run for errors
/// @throws FormatError if the corpus was tokenized by another tokenizer than the one the run was trained with
void require_same_tokenizer(const Tokenizer& corpus, const Tokenizer& trained, const std::string& run);

}  // namespace etna::data
