#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <etna/data/corpora/internal/corpus_reader.h>
#include <etna/device/error.h>
#include <etna/train/progress.h>

#include "data.h"
#include "data_table.h"
#include "output.h"

namespace etna::cli {
namespace {

namespace fs = std::filesystem;
using training::printable;
using training::with_commas;

std::string per_word(const data::TextStatistics& text) {
  const std::int64_t words = text.words_and_lines();
  return words == 0 ? "-" : fmt::format("{:.3f}", static_cast<double>(text.tokens) / static_cast<double>(words));
}

/// The first tokens: as text in one line, or as numbers where the tokenizer is not known.
std::string beginning(const data::TokenFile& file, const data::Tokenizer* tokenizer, std::int64_t most) {
  const std::int64_t count = std::min(most, file.size());
  if (count == 0) return "";
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  file.ids(0, count, ids.data());
  if (tokenizer != nullptr) {
    const auto size = static_cast<std::int32_t>(tokenizer->size());
    const bool known = std::all_of(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= 0 && id < size; });
    if (known) return printable(tokenizer->decode(ids), training::terminal_charset());
  }
  std::string numbers;
  for (const std::int32_t id : ids) numbers += fmt::format("{}{}", numbers.empty() ? "" : " ", id);
  return numbers;
}

std::string dots(const data::TokenFile& file, std::int64_t shown) { return file.size() > shown ? " ..." : ""; }

int inspect_file(const fs::path& path, const DataOptions& options) {
  const data::TokenFile file(path);
  if (options.verify) file.verify();
  std::unique_ptr<data::Tokenizer> tokenizer;
  const fs::path beside = path.parent_path() / data::kTokenizerFile;
  std::string about = fmt::format("none: there is no {} beside it", data::kTokenizerFile);
  std::error_code none;
  if (fs::exists(beside, none)) {
    try {
      tokenizer = data::load_tokenizer(beside);
      about = printable(beside.string());
      if (tokenizer->hash() != file.tokenizer_hash()) {
        about += ", which did not make these ids";
        tokenizer.reset();
      }
    } catch (const FormatError& error) {
      about = printable(error.what());
    }
  }
  std::string text = fmt::format(
      "{}: a token file of Etna\n"
      "tokens             {}\n"
      "bytes an id        {}\n"
      "vocabulary         {}\n"
      "hash of ids        {:016x}{}\n"
      "hash of tokenizer  {:016x}\n"
      "tokenizer          {}\n",
      printable(path.string()), with_commas(file.size()), file.width(), with_commas(file.vocabulary()),
      file.content_hash(), options.verify ? ", which the ids have" : "", file.tokenizer_hash(), about);
  if (options.tokens > 0 && file.size() > 0)
    text += fmt::format("begins             {}{}\n", beginning(file, tokenizer.get(), options.tokens),
                        dots(file, options.tokens));
  print_all(text);
  return 0;
}

int inspect_folder(const fs::path& folder, const DataOptions& options) {
  const data::PreparedCorpus corpus = data::open_prepared_corpus(folder);
  if (options.verify)
    for (int split = 0; split < 3; ++split) corpus.split(split).tokens.verify();
  std::string text = fmt::format("{}: a prepared corpus\n{}\n{}", printable(folder.string()),
                                 tokenizer_line(*corpus.tokenizer), split_table(corpus));
  if (options.verify) text += "all ids have the hashes that they were written with\n";
  constexpr std::size_t kMost = 20;
  text += fmt::format("\nmade from {} file{}", with_commas(static_cast<std::int64_t>(corpus.sources.size())),
                      corpus.sources.size() == 1 ? "" : "s");
  text += corpus.recipe.own_splits ? ", which are its splits\n"
                                   : fmt::format(", the last {:g} % for validation and testing\n",
                                                 (corpus.recipe.valid + corpus.recipe.test) * 100);
  for (std::size_t i = 0; i < std::min(kMost, corpus.sources.size()); ++i) {
    const data::PreparedSource& source = corpus.sources[i];
    text += fmt::format("  {}  {} bytes, {} lines, {} words, {} tokens, hash {}\n", printable(source.file),
                        with_commas(source.text.bytes), with_commas(source.text.lines), with_commas(source.text.words),
                        with_commas(source.text.tokens), printable(source.hash));
  }
  if (corpus.sources.size() > kMost)
    text += fmt::format("  and {} more; {} has all\n", corpus.sources.size() - kMost,
                        printable((folder / data::kManifestFile).string()));
  for (int split = 0; options.tokens > 0 && split < 3; ++split) {
    const data::TokenFile& file = corpus.split(split).tokens;
    if (file.size() > 0)
      text += fmt::format("\n{} begins: {}{}\n", data::kSplits[split],
                          beginning(file, corpus.tokenizer.get(), options.tokens), dots(file, options.tokens));
  }
  print_all(text);
  return 0;
}

}  // namespace

std::string tokenizer_line(const data::Tokenizer& tokenizer) {
  return fmt::format("tokenizer: {}, {} tokens, hash {:016x}", tokenizer.name(),
                     with_commas(static_cast<std::int64_t>(tokenizer.size())), tokenizer.hash());
}

std::string split_table(const data::PreparedCorpus& corpus) {
  const bool unknown = corpus.tokenizer->name() == "word";
  std::string text = fmt::format("{:<6} {:>15} {:>15} {:>13} {:>15}\n", "split", "tokens", "words", "lines",
                                 unknown ? "unknown" : "tokens a word");
  for (int number = 0; number < 3; ++number) {
    const data::TextStatistics& split = corpus.split(number).text;
    const double all = static_cast<double>(std::max<std::int64_t>(1, split.tokens));
    const std::string last =
        unknown ? fmt::format("{:.2f} %", 100 * static_cast<double>(split.unknown) / all) : per_word(split);
    text += fmt::format("{:<6} {:>15} {:>15} {:>13} {:>15}\n", data::kSplits[number], with_commas(split.tokens),
                        with_commas(split.words), with_commas(split.lines), last);
  }
  return text;
}

int inspect_data(const DataOptions& options) {
  std::error_code none;
  const fs::path path = options.what;
  if (!fs::exists(path, none)) throw FormatError(fmt::format("{}: there is no such file or folder", path.string()));
  return fs::is_directory(path, none) ? inspect_folder(path, options) : inspect_file(path, options);
}

}  // namespace etna::cli
