#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/error.h>

namespace etna::data {
class Tokenizer;
}

/// Structured output: a form that a text must have, compiled to the tokens that may come next
/// (docs/structured-output.md).
namespace etna::models {

/// Which tokens may come next in a text that must have a given form. States are numbered as texts reach them, so that
/// two texts that allow the same continuations have the same state. Not thread-safe.
class TokenGrammar {
 public:
  /// The state of the empty text is kStart.
  using State = std::int32_t;
  static constexpr State kStart = 0, kRefused = -1;

  virtual ~TokenGrammar() = default;

  /// The state after a token; kRefused if it may not come here. @throws Error where there are more states than allowed
  virtual State next(State state, std::int32_t token) = 0;
  /// Bit i % 32 of element i / 32 says whether token i may come next; [ceil(vocabulary / 32)]. Stop tokens are allowed
  /// where the text may end. Valid until the next call of this object's methods.
  virtual std::span<const std::uint32_t> allowed(State state) = 0;
  /// Whether the text is complete here; it may still go on.
  virtual bool may_end(State state) = 0;
  /// Of the model, tokens that no text can contain included.
  virtual std::int64_t vocabulary() const = 0;
};

class VocabularyTrie;

/// A schema, regular expression or grammar that is invalid, not supported, or larger than the limits.
struct GrammarError : Error {
  using Error::Error;
};

/// What the JSON writer may put between the tokens of JSON; never before the first one or after the last.
enum class JsonWhitespace : std::uint8_t {
  none,
  limited  ///< one space, or a line break and up to 20 spaces or tabs
};

/// Exceeding a limit is a GrammarError that names it.
struct GrammarLimits {
  std::size_t source_bytes = std::size_t{1} << 20;  ///< of a schema, regular expression or grammar
  int depth = 100;                                  ///< of a schema's JSON, and of groups
  std::size_t nodes = 500'000;                      ///< of the compiled grammar
  std::size_t states = 250'000;                     ///< that texts reach; they are kept until the grammar is deleted
  std::size_t threads = 20'000;                     ///< ways to read a text that must be followed at once
  std::size_t work = 100'000'000;                   ///< elementary steps of one call
  std::size_t mask_bytes = std::size_t{64} << 20;   ///< of masks that are kept; the least recently used are dropped
  JsonWhitespace whitespace = JsonWhitespace::limited;
  int free_depth = 64;  ///< nesting of JSON that no schema describes, 1 or more
};

/// What each token of a model adds to a text, sorted for masks. Make one for each tokenizer; copies share it, and
/// several threads may use it at once.
///
/// The text of a token is what it adds after other text: answers are expected to follow a prompt that has some, since
/// SentencePiece drops the space at the very start of a text.
class GrammarVocabulary {
 public:
  /// @param vocabulary of the model; 0: the tokenizer's size. Ids beyond the tokenizer are never allowed
  /// @param stop_tokens end a text; unset: the tokenizer's end_tokens()
  /// @throws GrammarError for a tokenizer of whole words, whose text depends on other words; for an invalid stop token
  explicit GrammarVocabulary(const data::Tokenizer& tokenizer, std::int64_t vocabulary = 0,
                             std::optional<std::vector<std::int32_t>> stop_tokens = std::nullopt);
  /// Special tokens, too, are texts: what they are spelled as, such as "<tool_call>".
  static GrammarVocabulary with_special_tokens(const data::Tokenizer& tokenizer, std::int64_t vocabulary = 0);
  /// @param texts bytes of each token; empty ones are never allowed
  GrammarVocabulary(std::vector<std::string> texts, std::vector<std::int32_t> stop_tokens);

  std::int64_t vocabulary() const;
  const std::shared_ptr<const VocabularyTrie>& trie() const { return trie_; }

 private:
  std::shared_ptr<const VocabularyTrie> trie_;
};

/// JSON that validates against a JSON schema (draft 2020-12).
/// @throws GrammarError for invalid JSON, for a keyword that cannot be honoured (with its JSON pointer), and where
/// nothing validates
std::shared_ptr<TokenGrammar> json_schema_grammar(const GrammarVocabulary& vocabulary, std::string_view schema,
                                                  const GrammarLimits& limits = {});
/// Any JSON object, nested at most limits.free_depth deep.
std::shared_ptr<TokenGrammar> json_object_grammar(const GrammarVocabulary& vocabulary,
                                                  const GrammarLimits& limits = {});
/// Texts that match a regular expression of ECMA-262 (flag u) from start to end.
/// @throws GrammarError for a syntax error (with its position), and for look-around, back-references, \b and \p
std::shared_ptr<TokenGrammar> regex_grammar(const GrammarVocabulary& vocabulary, std::string_view expression,
                                            const GrammarLimits& limits = {});
/// Texts of the rule "root" of a grammar in llama.cpp's GBNF.
/// @throws GrammarError with line and column; for left recursion
std::shared_ptr<TokenGrammar> gbnf_grammar(const GrammarVocabulary& vocabulary, std::string_view grammar,
                                           const GrammarLimits& limits = {});

/// A part of a text.
struct GrammarPart {
  enum class Kind : unsigned char {
    one_of,  ///< one of `texts`
    json,    ///< JSON that validates against the schema texts[0]
    until,   ///< any text up to the first occurrence of texts[0], which belongs to it
  };
  Kind kind = Kind::one_of;
  std::vector<std::string> texts;
};

/// Parts that come together, or not at all.
struct GrammarGroup {
  std::vector<GrammarPart> parts;
  bool optional = false;
};
using GrammarText = std::vector<GrammarGroup>;

/// One of some texts, as a whole.
/// @throws GrammarError as json_schema_grammar(), and for a part without a text
std::shared_ptr<TokenGrammar> parts_grammar(const GrammarVocabulary& vocabulary, std::span<const GrammarText> texts,
                                            const GrammarLimits& limits = {});
/// Any text, parts of which have a form. No marker, closer or `hidden_open` may lie within another one.
struct MarkedText {
  std::vector<std::string> markers;  ///< each occurrence is followed by one of `texts`; what comes then is any text
  std::vector<GrammarText> texts;
  /// Where an object begins (`{`) behind white space and calls alone, it is one of these; all begin with `{`. Empty:
  /// objects are text.
  std::vector<GrammarText> objects = {};
  /// May follow a call, in this order, white space before each, and are no text either. With `objects` only.
  std::vector<std::string> closers = {};
  /// Between these, at the beginning, is any text without calls. With `objects` only; empty: there is no such part.
  std::string hidden_open = {}, hidden_close = {};
  bool hidden = false;  ///< the text begins behind `hidden_open`
};
/// A marked text, which may end everywhere but between a marker, or a `{` of `objects`, and the end of its form.
/// @throws GrammarError as above, for an empty marker, and for one within another
std::shared_ptr<TokenGrammar> marked_grammar(const GrammarVocabulary& vocabulary, const MarkedText& marked,
                                             const GrammarLimits& limits = {});

}  // namespace etna::models
