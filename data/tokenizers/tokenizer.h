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

/// Whether encode() makes one id of a special token that stands in the text, or treats its characters as any others.
/// The second is for text that strangers wrote.
enum class SpecialTokens { recognize, as_text };

/// How a prompt becomes ids.
struct PromptOptions {
  SpecialTokens special = SpecialTokens::as_text;
  bool add_special = true;  ///< begin and end tokens, as the model was trained with
};

/// A part of a text, and whether special tokens in it count.
struct TextPart {
  std::string text;
  SpecialTokens special = SpecialTokens::as_text;
};

/// What decoding a sequence token by token remembers.
struct DecodeState {
  bool show_special = false;  ///< special tokens are written as they are spelled
  bool at_start = true;       ///< of words: also behind what the next one joins
  bool quoted = false;        ///< of words: a quotation is open
  std::size_t spaces = 0;     ///< spaces at the start that were left out
};

/// Converts text to ids and back. Safe to use from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// @param unknown receives each distinct word that has no id of its own, in order of appearance
  /// @throws FormatError for a text that has no ids
  virtual std::vector<std::int32_t> encode(std::string_view text, SpecialTokens special = SpecialTokens::recognize,
                                           std::vector<std::string>* unknown = nullptr) const = 0;
  /// @throws FormatError for an id outside [0, size)
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// Ids are 0 to size() - 1.
  virtual std::size_t size() const = 0;
  /// The bytes of a token, valid as long as the tokenizer. @throws FormatError for an id outside [0, size)
  virtual std::string_view token(std::int32_t id) const = 0;
  virtual std::vector<std::int32_t> special_tokens() const = 0;
  /// "word" and "bpe" are trained here; "sentencepiece", "unigram", "byte-level bpe" and "tokenizer.json" are of other
  /// models.
  virtual std::string_view name() const = 0;
  /// XXH3 of the kind and of all that decides about ids. Equal in every process and on every machine.
  virtual std::uint64_t hash() const = 0;

  /// The tokenizer as JSON, which parse_tokenizer() reads. @throws FormatError for words that are not UTF-8
  virtual std::string json() const = 0;

  /// The ids to give to a model before it continues a text.
  virtual std::vector<std::int32_t> encode_prompt(std::string_view text, PromptOptions options = {}) const;
  /// The ids of a text in parts, as of one text where the kind allows it (ModelTokenizer): words reach over the ends
  /// of parts. A special token counts only
  /// where it lies in one part that recognizes it.
  virtual std::vector<std::int32_t> encode_parts(std::span<const TextPart> parts, bool add_special = true) const;
  /// Appends what a token adds to a text, as decode() does for all. @throws FormatError for an id outside [0, size)
  virtual void decode_next(std::int32_t id, DecodeState& state, std::string& text) const;
  /// The token before every text, and the one that ends it.
  virtual std::optional<std::int32_t> bos() const { return std::nullopt; }
  virtual std::optional<std::int32_t> eos() const;
  /// All tokens after which generation stops: eos, end of turn, end of message.
  virtual std::vector<std::int32_t> end_tokens() const;
  /// The Jinja template for chats that came with the model; empty: none. See chat_template.h.
  virtual std::string_view chat_template() const { return {}; }

  /// Writes that to a file, which load_tokenizer() reads. A failed save leaves an existing file unchanged.
  /// @throws FormatError
  void save(const FilePath& file) const;
};

/// Reads what Tokenizer::save() wrote, a tokenizer.json of Hugging Face's tokenizers, a SentencePiece model, or the
/// tokenizer.bin of llama2.c. What a tokenizer.json says of truncation and padding is not applied: texts keep their
/// length, as Hugging Face's transformers set both anew at each call.
/// @throws FormatError for a file that is missing, damaged or of another kind
std::unique_ptr<Tokenizer> load_tokenizer(const FilePath& file);
/// The same of a text in memory; messages call it `name`.
std::unique_ptr<Tokenizer> parse_tokenizer(std::string_view json, const std::string& name);

/// A tokenizer as an object of a checkpoint (tensor/io/checkpoint.h): words as "text", one a line; others as "json".
struct TokenizerState {
  std::shared_ptr<const Tokenizer>& tokenizer;

  std::map<std::string, Tensor> state_dict() const;
  /// Sets a tokenizer that is null. @throws FormatError for what is no tokenizer, and for another one than there is
  void load_state_dict(const std::map<std::string, Tensor>& state) const;
};

/// @throws FormatError where a corpus was made by another tokenizer than a run was trained with. @param run for the
/// message
void require_same_tokenizer(const Tokenizer& corpus, const Tokenizer& trained, const std::string& run);

}  // namespace etna::data
