#include <etna/data/corpora/internal/corpus_reader.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/data/internal/text_blocks.h>
#include <etna/data/internal/text_sources.h>
#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

CorpusInput checked(const FilePath& file, int split) {
  const auto refuse = [&](const std::string& why) { throw FormatError(fmt::format("{}: {}", file.string(), why)); };
  std::error_code error;
  const os::FileInfo info = os::file_info(file, error);
  if (!error) os::check_access(file, os::Access::read, error);
  if (error) refuse(fmt::format("cannot be read: {}", error.message()));
  if (info.kind == os::FileKind::folder) refuse("is a folder, not a text file");
  if (info.kind != os::FileKind::regular)
    refuse("is not a regular file, but a corpus is read twice; write the text to a file first");
  if (info.bytes == 0) refuse("is empty");
  return {file, static_cast<std::int64_t>(info.bytes), split};
}

/// The end of the first line that ends at `from` or later; npos if none does. @param at_line_start whether the text
/// begins a line
std::size_t line_start(std::string_view text, std::size_t from, bool at_line_start) {
  if (from == 0 && at_line_start) return 0;
  for (std::size_t at = from > 0 ? from - 1 : 0; at < text.size(); ++at) {
    at = text.find_first_of("\r\n", at);
    if (at == std::string_view::npos) return at;
    if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    return at + 1;
  }
  return std::string_view::npos;
}

}  // namespace

std::int64_t CorpusInputs::bytes() const {
  std::int64_t all = 0;
  for (const CorpusInput& input : files) all += input.bytes;
  return all;
}

CorpusInputs find_corpus_inputs(std::span<const FilePath> inputs, std::span<const std::string> globs, double valid,
                                double test) {
  std::error_code none;
  for (const FilePath& input : inputs)
    if (holds_prepared_corpus(input) && fs::exists(input / token_file_name(kSplits[0]), none))
      throw FormatError(fmt::format("{}: is a prepared corpus, not text; name its original text", input.string()));
  CorpusInputs found;
  found.valid = valid;
  found.test = test;
  if (inputs.size() == 1 && globs.empty() && fs::is_directory(inputs[0], none)) {
    std::string lacking;
    int there = 0;
    for (int split = 0; split < 3; ++split) {
      const FilePath file = find_split(inputs[0], kSplits[split]);
      if (file.empty())
        lacking = kSplits[split];
      else
        ++there;
    }
    // A train.txt alone is a text like any other.
    if (there > 1 && !lacking.empty())
      throw FormatError(
          fmt::format("{}: has splits, but neither {}; add it, or give --glob to read the folder as one text",
                      inputs[0].string(), split_names(lacking)));
    if (there == 3) {
      found.own_splits = true;
      for (int split = 0; split < 3; ++split)
        found.files.push_back(checked(find_split(inputs[0], kSplits[split]), split));
      return found;
    }
  }
  const std::vector<std::string> usual = text_globs();
  TextSources sources = find_text_files(inputs, globs.empty() ? std::span<const std::string>(usual) : globs);
  found.left_out = std::move(sources.left_out);
  for (const FilePath& file : sources.files) found.files.push_back(checked(file, -1));
  return found;
}

void read_corpus(const CorpusInputs& inputs, const CorpusVisitor& visitor) {
  const auto total = static_cast<double>(inputs.bytes());
  const std::int64_t cuts[] = {std::llround(total * (1 - inputs.valid - inputs.test)),
                               std::llround(total * (1 - inputs.test))};
  std::int64_t position = 0;  // of the text, without byte order marks
  int split = 0;
  for (std::size_t f = 0; f < inputs.files.size(); ++f) {
    const CorpusInput& input = inputs.files[f];
    if (input.split >= 0) split = input.split;
    TextBlocks blocks(input.file);
    bool at_line_start = true;
    int last = split;  // of the parts of this file
    const auto give = [&](std::string_view part) {
      visitor.text(part, f, split);
      last = split;
    };
    while (const auto block = blocks.next()) {
      std::string_view text = *block;
      while (input.split < 0 && split < 2 && cuts[split] <= position + static_cast<std::int64_t>(text.size())) {
        const std::int64_t from = std::max<std::int64_t>(0, cuts[split] - position);
        const std::size_t cut = line_start(text, static_cast<std::size_t>(from), at_line_start);
        if (cut == std::string_view::npos) break;
        if (cut > 0) give(text.substr(0, cut));
        text.remove_prefix(cut);
        position += static_cast<std::int64_t>(cut);
        at_line_start = true;
        ++split;
      }
      position += static_cast<std::int64_t>(text.size());
      if (text.empty()) continue;
      give(text);
      at_line_start = text.back() == '\n' || text.back() == '\r';
    }
    visitor.end(f, last, blocks.open_line(), blocks.hash());
  }
}

}  // namespace etna::data
