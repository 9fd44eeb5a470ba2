#pragma once

#include <cstdint>
#include <memory>
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

}  // namespace etna::data
