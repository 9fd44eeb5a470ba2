#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/data/token_file.h>
#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/file_path.h>

namespace etna::data {

/// The special token that follows each document of a corpus of byte pairs.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The names of the files in a folder of a prepared corpus. Splits are "train.tokens" and so on.
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kTokenizerFile = "tokenizer.json";
std::string token_file_name(const std::string& split);

/// What a text has, as it was when it was read.
struct TextStatistics {
  std::int64_t bytes = 0, lines = 0;
  std::int64_t words = 0;    ///< between white space
  std::int64_t tokens = 0;   ///< of the corpus' tokenizer
  std::int64_t unknown = 0;  ///< of them `<unk>`

  /// Tokens of a vocabulary of words, in which each line end is one, too: what perplexity per word counts.
  std::int64_t words_and_lines() const { return words + lines; }
  TextStatistics& operator+=(const TextStatistics& other);
};

/// A split of a prepared corpus.
struct PreparedSplit {
  TokenFile tokens;
  TextStatistics text;
};

/// A file that the corpus was made from.
struct PreparedSource {
  std::string file;   ///< its path, absolute
  std::string split;  ///< empty: its lines are in the splits that their places in the whole text say
  std::string hash;   ///< XXH3 of its bytes, 16 hexadecimal digits
  TextStatistics text;
};

/// What prepare_corpus() was asked for.
struct CorpusRecipe {
  std::int64_t vocab_size = 0, min_frequency = 0;  ///< 0: the tokenizer was there before
  double valid = 0, test = 0;                      ///< shares of the text; no meaning for files that are splits
  bool own_splits = false;                         ///< the files are splits
};

/// A corpus as token files with the tokenizer that made them: a folder of tokenizer.json, train.tokens, valid.tokens,
/// test.tokens and manifest.json.
struct PreparedCorpus {
  FilePath folder;
  std::shared_ptr<const Tokenizer> tokenizer;
  PreparedSplit train, valid, test;
  std::vector<PreparedSource> sources;
  CorpusRecipe recipe;

  const PreparedSplit& split(int number) const { return number == 0 ? train : number == 1 ? valid : test; }
};

/// Whether the folder has a manifest, whole or not.
bool holds_prepared_corpus(const FilePath& folder);

/// Opens what prepare_corpus() wrote. Ids are mapped, and are not read; TokenFile::verify() does.
/// @throws FormatError for files that are missing, damaged, or do not belong together
PreparedCorpus open_prepared_corpus(const FilePath& folder);

/// What the manifest says.
struct CorpusManifest {
  std::shared_ptr<const Tokenizer> tokenizer;
  TextStatistics splits[3];
  std::uint64_t hashes[3] = {};  ///< TokenFile::content_hash() of the splits
  std::vector<PreparedSource> sources;
  CorpusRecipe recipe;
};

/// As JSON.
std::string manifest_json(const CorpusManifest& manifest);

struct PrepareOptions {
  /// "word", "bpe", or a tokenizer.json that is there already.
  std::string tokenizer = "bpe";
  /// At most so many tokens, special ones included. 0: 8192 for bpe, no limit for words.
  std::int64_t vocab_size = 0;
  /// Of bpe: pairs that occur less often are not merged. Of words: those that occur less often are `<unk>`. 0: 2 for
  /// bpe, 1 for words.
  std::int64_t min_frequency = 0;
  /// Shares of the text for validation and testing; not for files that are splits. 0: an empty split. Not given: 0.05.
  std::optional<double> valid = {}, test = {};
  /// Names of text files in folders; empty: *.txt, *.md, *.tokens, *.raw.
  std::vector<std::string> globs = {};
  /// Write into a folder that holds something. Files of other names stay.
  bool overwrite = false;
  /// Called now and then: what is done ("read", "write"), and how far, in bytes of the text. What it throws ends the
  /// work, and leaves nothing behind.
  std::function<void(const char* stage, std::int64_t done, std::int64_t total)> progress = {};
  /// Receives sentences about files of folders that are left out.
  std::function<void(const std::string& sentence)> note = {};
};

/// Writes text files as a prepared corpus. One input that is a folder of WikiText's layout keeps its splits; else the
/// text of all files, one after the other, is split by place: the first lines are for training, the last for testing.
///
/// The tokenizer learns from the training split. A vocabulary of words has those in the order in which the split first
/// uses them; then, if the text has none, `<unk>`, which stands for words that only other splits have. Byte pairs get
/// kEndOfText after each file; where that stands in the text already, it is the same token.
///
/// The text is read twice, in blocks; memory is needed for one block and the different words.
/// @throws FormatError for inputs that are missing, empty or not UTF-8, change meanwhile, or give an empty split; for a
/// folder that holds something, is one of the inputs or lies in one, or cannot be written. The folder is then as it was
PreparedCorpus prepare_corpus(std::span<const FilePath> inputs, const FilePath& folder,
                              const PrepareOptions& options = {});

}  // namespace etna::data
