#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/vocabulary.h>
#include <etna/device/file_path.h>

namespace etna::data {

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
