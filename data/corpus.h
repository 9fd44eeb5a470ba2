#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::data {

inline constexpr std::string_view kEndOfLine = "<eos>";
inline constexpr std::string_view kUnknown = "<unk>";

/// Words and their ids: 0, 1, 2 … in the order in which the words were first added. Has value semantics.
class Vocabulary {
 public:
  /// The word's id; an unknown word gets the next one.
  /// @throws FormatError if ids no longer fit i32.
  std::int32_t add(std::string_view word);

  std::optional<std::int32_t> find(std::string_view word) const;
  /// The word's id, or that of `<unk>`. @throws FormatError if the vocabulary has neither.
  std::int32_t id(std::string_view word) const;
  /// Valid until the next add(). @throws FormatError for an id outside [0, size).
  std::string_view word(std::int32_t id) const;

  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }

  /// One word per line; the line number is the id. A failed save leaves an existing file unchanged.
  /// @throws FormatError if the file cannot be written, or for words with white space, which would break a line.
  void save(const FilePath& file) const;
  /// @throws FormatError for a file that is missing, empty, truncated or not UTF-8, or that has a word twice.
  static Vocabulary load(const FilePath& file);

  friend bool operator==(const Vocabulary& a, const Vocabulary& b) { return a.ends_ == b.ends_ && a.text_ == b.text_; }

 private:
  std::string_view at(std::size_t id) const;
  std::size_t slot_of(std::string_view word) const;
  void grow();

  std::string text_;                 ///< all words, concatenated
  std::vector<std::size_t> ends_;    ///< end of each word in text_
  std::vector<std::int32_t> slots_;  ///< open addressing by hash; -1 is free
};

/// Ids of the words of a prompt. A line break within it gives `<eos>`, its end does not. Unknown words become `<unk>`.
/// @throws FormatError for an unknown word if the vocabulary has no `<unk>`.
std::vector<std::int32_t> encode(std::string_view text, const Vocabulary& vocab);

/// Converts ids to readable text: `<eos>` breaks the line, ` @-@ ` becomes `-` (likewise `@,@` and `@.@`), punctuation
/// joins its word.
/// @throws FormatError for an id outside the vocabulary.
std::string decode(std::span<const std::int32_t> ids, const Vocabulary& vocab);

/// A text as word ids, in three splits. Words are split at white space, and `<eos>` ends every line. Ids number the
/// words in the order in which train, valid and test first use them.
struct Corpus {
  Vocabulary vocab;
  std::vector<std::int32_t> train, valid, test;
  std::string source;  ///< its origin, for people
};

/// Reads a folder in WikiText's layout: wiki.train.tokens, wiki.valid.tokens, wiki.test.tokens (or .raw), or train.txt,
/// valid.txt, test.txt. WikiText-2 gives 2,088,628 / 217,646 / 245,569 tokens and 33,278 words. The files are read in
/// blocks, so that a corpus takes four bytes a token.
/// @throws FormatError if the folder or a file is missing, empty, truncated, or not UTF-8 text.
Corpus read_wikitext(const FilePath& folder);

/// Reads any UTF-8 text file, or the text files of a folder as one text. The first 90 % of its lines are for training,
/// the next 5 % for validation, the rest for testing.
/// @throws FormatError for a file that is missing, empty, binary, not UTF-8, or shorter than 20 lines.
Corpus read_text(const FilePath& file_or_folder);

/// The same split of a text in memory; messages call it `name`.
Corpus split_text(std::string_view text, const std::string& name);

/// A generated corpus that needs no file: a grammar writes WikiText's markup around articles on invented towns, rivers,
/// composers, ships, birds and buildings. About 120,000 / 8,000 / 8,000 tokens. A seed gives the same text on every
/// machine.
Corpus demo_corpus(std::uint64_t seed = 1);

/// Generates articles in WikiText's markup until they have at least `tokens` tokens. demo_corpus() uses it; call it for
/// other sizes.
std::string demo_text(std::uint64_t seed, std::size_t tokens);

}  // namespace etna::data
