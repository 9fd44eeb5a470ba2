#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::data {

/// The splits of a corpus. A number for each: 0, 1, 2.
inline constexpr const char* kSplits[] = {"train", "valid", "test"};

/// A text file of a corpus.
struct CorpusInput {
  FilePath file;
  std::int64_t bytes = 0;
  int split = -1;  ///< -1: where its place in the whole text says
};

/// What a corpus is made of.
struct CorpusInputs {
  std::vector<CorpusInput> files;
  std::vector<std::string> left_out;  ///< sentences
  double valid = 0, test = 0;         ///< shares of the text, by bytes, at its end
  bool own_splits = false;            ///< the files are splits, so the shares have no meaning

  std::int64_t bytes() const;
};

/// Finds the files: those of WikiText's layout if there is one input, a folder that has splits, and no globs are given;
/// else all that find_text_files() finds. @param globs empty: text_globs()
/// @throws FormatError for what find_text_files() refuses, for files that cannot be read twice (a pipe), and a folder
/// that lacks a split
CorpusInputs find_corpus_inputs(std::span<const FilePath> inputs, std::span<const std::string> globs, double valid,
                                double test);

/// What read_corpus() calls.
struct CorpusVisitor {
  /// A part of the text: of one file, in one split, cut where words or lines end.
  std::function<void(std::string_view text, std::size_t file, int split)> text;
  /// After the last part of a file. @param split of that part @param open_line the file ends within a line
  /// @param hash XXH3 of the file
  std::function<void(std::size_t file, int split, bool open_line, std::uint64_t hash)> end;
};

/// Reads all files in order, in blocks. The shares are cut at the first line that begins after them, so that each line
/// is in one split; the same files give the same parts.
/// @throws FormatError as TextBlocks
void read_corpus(const CorpusInputs& inputs, const CorpusVisitor& visitor);

}  // namespace etna::data
