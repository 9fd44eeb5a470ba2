#include <etna/data/corpus.h>

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <etna/data/internal/text_blocks.h>
#include <etna/data/internal/text_sources.h>
#include <etna/data/internal/words.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

const std::string kFetch = "; tools/get-wikitext2 DIR fetches WikiText-2 whole";
constexpr std::string_view kCorpusByteOrderMark = "\xEF\xBB\xBF";

/// English prose has about five bytes per token. Without a reserve, a vector that grows by doubling copies most tokens
/// twice.
void reserve_for(std::uintmax_t bytes, std::vector<std::int32_t>& ids) {
  ids.reserve(ids.size() + static_cast<std::size_t>(bytes / 4));
}

void reserve_for(const FilePath& file, std::vector<std::int32_t>& ids) {
  std::error_code none;  // a pipe has no size
  if (const std::uintmax_t bytes = fs::file_size(file, none); !none) reserve_for(bytes, ids);
}

std::vector<std::int32_t> read_split(const FilePath& folder, const char* split, Vocabulary& vocab) {
  const FilePath file = find_split(folder, split);
  if (file.empty()) throw FormatError(fmt::format("{}: has neither {}{}", folder.string(), split_names(split), kFetch));
  std::vector<std::int32_t> ids;
  reserve_for(file, ids);
  TextBlocks blocks(file, kFetch);
  while (const auto block = blocks.next()) {
    for_each_token(*block, [&](std::string_view word, bool) { ids.push_back(vocab.add(word)); });
  }
  if (blocks.bytes() == 0) throw FormatError(fmt::format("{}: is empty{}", file.string(), kFetch));
  // WikiText ends its files with a line break; plain text often lacks one.
  if (blocks.open_line()) {
    if (!file.string().ends_with(".txt"))
      throw FormatError(fmt::format("{}: is cut off in the middle of its last line{}", file.string(), kFetch));
    ids.push_back(vocab.add(kEndOfLine));
  }
  return ids;
}

/// Numbers the words of a text that arrives in parts, and splits it by lines at the end.
class LineSplitter {
 public:
  explicit LineSplitter(Corpus& corpus) : corpus_(corpus) {}

  void add(std::string_view text) {
    for_each_token(text, [&](std::string_view word, bool line_end) {
      corpus_.train.push_back(corpus_.vocab.add(word));
      if (line_end) line_ends_.push_back(corpus_.train.size());
    });
  }
  void end_line() {
    corpus_.train.push_back(corpus_.vocab.add(kEndOfLine));
    line_ends_.push_back(corpus_.train.size());
  }

  /// @throws FormatError for a text that cannot be split
  void split() {
    constexpr std::size_t kLeastLines = 20;  // with fewer, a split of 5 % would be empty
    const std::string& name = corpus_.source;
    const std::size_t lines = line_ends_.size(), part = lines / 20;
    if (lines == 0) throw FormatError(fmt::format("{}: is empty; give a text of at least {} lines", name, kLeastLines));
    if (lines < kLeastLines)
      throw FormatError(
          fmt::format("{}: has {} line{}, and splitting 90/5/5 by lines takes at least {}; break long lines, "
                      "or give a longer text",
                      name, lines, lines == 1 ? "" : "s", kLeastLines));
    if (corpus_.vocab.size() < 2) throw FormatError(fmt::format("{}: holds no words, only blank lines", name));
    std::vector<std::int32_t>& all = corpus_.train;
    const auto valid = all.begin() + static_cast<std::ptrdiff_t>(line_ends_[lines - 2 * part - 1]),
               test = all.begin() + static_cast<std::ptrdiff_t>(line_ends_[lines - part - 1]);
    corpus_.valid.assign(valid, test);
    corpus_.test.assign(test, all.end());
    all.erase(valid, all.end());
  }

 private:
  Corpus& corpus_;
  std::vector<std::size_t> line_ends_;  ///< the number of tokens up to the end of each line
};

}  // namespace

Corpus read_wikitext(const FilePath& folder) {
  std::error_code none;
  if (!fs::exists(folder, none))
    throw FormatError(fmt::format("{}: there is no such folder{}", folder.string(), kFetch));
  if (!fs::is_directory(folder, none))
    throw FormatError(fmt::format("{}: is a file, not a folder of train, valid and test; --text reads a single file",
                                  folder.string()));
  Corpus corpus;
  corpus.train = read_split(folder, "train", corpus.vocab);
  corpus.valid = read_split(folder, "valid", corpus.vocab);
  corpus.test = read_split(folder, "test", corpus.vocab);
  corpus.source = folder.string();
  return corpus;
}

Corpus split_text(std::string_view text, const std::string& name) {
  if (text.starts_with(kCorpusByteOrderMark)) text.remove_prefix(kCorpusByteOrderMark.size());
  Corpus corpus;
  corpus.source = name;
  reserve_for(text.size(), corpus.train);
  LineSplitter splitter(corpus);
  splitter.add(text);
  if (!text.empty() && text.back() != '\n' && text.back() != '\r') splitter.end_line();
  splitter.split();
  return corpus;
}

Corpus read_text(const FilePath& file_or_folder) {
  const FilePath inputs[] = {file_or_folder};
  const std::vector<FilePath> files = find_text_files(inputs, text_globs()).files;
  Corpus corpus;
  corpus.source = file_or_folder.string();
  LineSplitter splitter(corpus);
  for (const FilePath& file : files) {
    reserve_for(file, corpus.train);
    TextBlocks blocks(file);
    while (const auto block = blocks.next()) splitter.add(*block);
    if (blocks.open_line()) splitter.end_line();
  }
  splitter.split();
  return corpus;
}

}  // namespace etna::data
