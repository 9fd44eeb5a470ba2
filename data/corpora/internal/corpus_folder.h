#pragma once

#include <span>
#include <vector>

#include <etna/data/corpora/internal/corpus_reader.h>
#include <etna/device/file_path.h>

namespace etna::data {

/// The folder that a corpus is written into. Unless keep() is called, what was made is removed again.
class CorpusFolder {
 public:
  /// Makes the folder. @throws FormatError for one that holds something, unless `overwrite`, or that cannot be written
  CorpusFolder(FilePath folder, bool overwrite);
  ~CorpusFolder();
  CorpusFolder(const CorpusFolder&) = delete;
  CorpusFolder& operator=(const CorpusFolder&) = delete;

  /// From here on files get their names. An older corpus is no corpus any more, until the new one is whole.
  void begin_to_replace();
  /// All files are whole.
  void keep() { kept_ = true; }

 private:
  FilePath folder_;
  std::vector<FilePath> made_;  ///< folders, the outermost first
  bool was_empty_ = true, replacing_ = false, kept_ = false;
};

/// @throws FormatError where the folder to write is, or lies in, what is read, or has a file that is read
void refuse_to_write_input(std::span<const FilePath> inputs, const CorpusInputs& found, const FilePath& folder);

/// The files of a prepared corpus.
std::vector<FilePath> corpus_files(const FilePath& folder);

}  // namespace etna::data
