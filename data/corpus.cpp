#include <etna/data/corpus.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include <etna/data/text_file.h>
#include <etna/data/words.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFetch = "; tools/get-wikitext2 DIR fetches WikiText-2 whole";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// English prose has about five bytes per token. Without a reserve, a vector that grows by doubling copies most tokens
/// twice.
void reserve_for(std::string_view text, std::vector<std::int32_t>& ids) { ids.reserve(text.size() / 4); }

fs::path split_file(const fs::path& folder, const char* split) {
  fs::path tokens = folder / fmt::format("wiki.{}.tokens", split), plain = folder / fmt::format("{}.txt", split);
  std::error_code none;
  if (fs::exists(tokens, none)) return tokens;
  if (fs::exists(plain, none)) return plain;
  throw FormatError(fmt::format("{}: has neither {} nor {}{}", folder.string(), tokens.filename().string(),
                                plain.filename().string(), kFetch));
}

std::vector<std::int32_t> read_split(const fs::path& folder, const char* split, Vocabulary& vocab) {
  const fs::path file = split_file(folder, split);
  const std::string text = read_text_file(file, kFetch);
  std::vector<std::int32_t> ids;
  if (text.empty()) throw FormatError(fmt::format("{}: is empty{}", file.string(), kFetch));
  // WikiText ends its files with a line break; plain text often lacks one.
  if (file.extension() == ".tokens" && text.back() != '\n')
    throw FormatError(fmt::format("{}: is cut off in the middle of its last line{}", file.string(), kFetch));
  reserve_for(text, ids);
  append_lines(text, vocab, ids);
  return ids;
}

/// The start of each line of the text, and the end of the text.
std::vector<std::size_t> line_starts(std::string_view text) {
  std::vector<std::size_t> starts{0};
  for (std::size_t at = 0; (at = text.find_first_of("\r\n", at)) != std::string_view::npos;) {
    at += text.substr(at, 2) == "\r\n" ? 2 : 1;
    starts.push_back(at);
  }
  if (starts.back() != text.size()) starts.push_back(text.size());
  return starts;
}

}  // namespace

Corpus read_wikitext(const fs::path& folder) {
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
  constexpr std::size_t kLeastLines = 20;  // with fewer, a split of 5 % would be empty
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  if (text.empty()) throw FormatError(fmt::format("{}: is empty; give a text of at least {} lines", name, kLeastLines));
  const std::vector<std::size_t> starts = line_starts(text);
  const std::size_t lines = starts.size() - 1;
  if (lines < kLeastLines)
    throw FormatError(
        fmt::format("{}: has {} line{}, and splitting 90/5/5 by lines takes at least {}; break long lines, "
                    "or give a longer text",
                    name, lines, lines == 1 ? "" : "s", kLeastLines));
  const std::size_t part = lines / 20;
  const std::size_t valid = starts[lines - 2 * part], test = starts[lines - part];
  Corpus corpus;
  reserve_for(text, corpus.train);
  append_lines(text.substr(0, valid), corpus.vocab, corpus.train);
  append_lines(text.substr(valid, test - valid), corpus.vocab, corpus.valid);
  append_lines(text.substr(test), corpus.vocab, corpus.test);
  if (corpus.vocab.size() < 2) throw FormatError(fmt::format("{}: holds no words, only blank lines", name));
  corpus.source = name;
  return corpus;
}

Corpus read_text(const fs::path& file) { return split_text(read_text_file(file), file.string()); }

}  // namespace etna::data
