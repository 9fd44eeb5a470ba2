#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/device/file_path.h>

namespace etna::data {

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
  /// Names of text files in folders; empty: text_globs().
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
