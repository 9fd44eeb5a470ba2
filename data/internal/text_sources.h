#pragma once

#include <span>
#include <string>
#include <vector>

#include <etna/device/file_path.h>

namespace etna::data {

/// Names of text files in a folder, unless others are asked for: *.txt, *.md, *.tokens, *.raw.
std::vector<std::string> text_globs();

struct TextSources {
  std::vector<FilePath> files;        ///< in the order of the inputs; those of a folder sorted by name
  std::vector<std::string> left_out;  ///< a sentence about each file in a folder that is not among them
};

/// The text files that the inputs name: files as they are, and of folders, recursively, the files whose names match one
/// of the globs (or whose paths below the folder, for a glob with a slash). Links are followed. Names that begin with a
/// dot are passed over. Of folders, empty files, and files that are there already under another name, are left out.
/// @throws FormatError for an input that is missing, a folder that cannot be read or leads back to itself, or no file
TextSources find_text_files(std::span<const FilePath> inputs, std::span<const std::string> globs);

/// The file of a split ("train", "valid", "test") in a folder of WikiText's layout: wiki.train.tokens, wiki.train.raw
/// or train.txt, the first that is there. Empty if none is.
FilePath find_split(const FilePath& folder, const std::string& split);
/// Those names, for messages: "wiki.train.tokens, wiki.train.raw nor train.txt".
std::string split_names(const std::string& split);

}  // namespace etna::data
