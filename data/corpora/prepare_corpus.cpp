#include <etna/data/corpora/prepared_corpus.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <etna/data/corpora/internal/corpus_folder.h>
#include <etna/data/corpora/internal/corpus_reader.h>
#include <etna/data/corpora/internal/tokenizer_learner.h>
#include <etna/data/internal/words.h>
#include <etna/device/error.h>
#include <etna/device/internal/atomic_file.h>

namespace etna::data {
namespace {

namespace fs = std::filesystem;

/// Statistics of every file and split.
struct Statistics {
  explicit Statistics(std::size_t files) : files(files) {}

  void add(std::size_t file, int split, const TextStatistics& more) {
    files[file] += more;
    splits[split] += more;
  }

  std::vector<TextStatistics> files;
  TextStatistics splits[3];
};

constexpr double kShare = 0.05;

void prepare_corpus_check(double valid, double test) {
  for (const double share : {valid, test, valid + test})
    if (!(share >= 0 && share < 1))
      throw FormatError(
          fmt::format("shares of {} for validation and {} for testing leave no text to train on, or are "
                      "negative; 0.05 is usual",
                      valid, test));
}

/// The tokenizer that is there already; null for one to be learned.
std::shared_ptr<const Tokenizer> given_tokenizer(const PrepareOptions& options) {
  if (options.tokenizer == "word" || options.tokenizer == "bpe") return nullptr;
  std::error_code none;
  if (!fs::exists(options.tokenizer, none))
    throw FormatError(
        fmt::format("tokenizer: '{}' is neither word nor bpe, and there is no such file", options.tokenizer));
  return load_tokenizer(options.tokenizer);
}

/// The id of a special token, if the tokenizer has it.
std::optional<std::int32_t> special_id(const Tokenizer& tokenizer, std::string_view text) {
  for (const std::int32_t id : tokenizer.special_tokens())
    if (tokenizer.token(id) == text) return id;
  return std::nullopt;
}

/// The first time through: learns the tokenizer, counts, and checks that all of it is text.
std::vector<std::uint64_t> learn(const CorpusInputs& inputs, const PrepareOptions& options, TokenizerLearner* learner,
                                 Statistics& statistics) {
  std::vector<std::uint64_t> hashes(inputs.files.size());
  std::int64_t done = 0;
  const auto text = [&](std::string_view part, std::size_t file, int split) {
    TextStatistics counted;
    counted.bytes = static_cast<std::int64_t>(part.size());
    for_each_token(part, [&](std::string_view, bool line_end) { ++(line_end ? counted.lines : counted.words); });
    statistics.add(file, split, counted);
    if (split == 0 && learner != nullptr) learner->add(part);
    done += counted.bytes;
    if (options.progress) options.progress("read", done, std::max(done, inputs.bytes()));
  };
  const auto end = [&](std::size_t file, int split, bool open_line, std::uint64_t hash) {
    hashes[file] = hash;
    if (!open_line) return;
    statistics.add(file, split, {0, 1, 0, 0, 0});
    if (split == 0 && learner != nullptr) learner->end_line();
  };
  read_corpus(inputs, {text, end});
  return hashes;
}

void require_text(const CorpusInputs& inputs, const Statistics& statistics) {
  for (int split = 0; split < 3; ++split) {
    if (statistics.splits[split].words > 0) continue;
    if (inputs.own_splits)
      throw FormatError(fmt::format("{}: holds no words", inputs.files[static_cast<std::size_t>(split)].file.string()));
    const double share = split == 1 ? inputs.valid : inputs.test;
    if (split > 0 && share == 0) continue;
    std::int64_t lines = 0;
    for (const TextStatistics& text : statistics.splits) lines += text.lines;
    throw FormatError(
        fmt::format("{}{}: no words for the split '{}': the text has {} line{}, and lines are not divided; "
                    "break long lines, give a longer text, or change --valid and --test",
                    inputs.files[0].file.string(),
                    inputs.files.size() > 1 ? fmt::format(" and {} more", inputs.files.size() - 1) : "", kSplits[split],
                    lines, lines == 1 ? "" : "s"));
  }
}

/// The second time through: writes the ids.
void encode(const CorpusInputs& inputs, const PrepareOptions& options, const Tokenizer& tokenizer,
            const std::vector<std::uint64_t>& hashes, std::deque<TokenFileWriter>& writers, Statistics& statistics) {
  const std::optional<std::int32_t> unknown = special_id(tokenizer, kUnknown),
                                    end_of_text = special_id(tokenizer, kEndOfText);
  const bool words = tokenizer.name() == "word";
  std::int32_t last[3] = {-1, -1, -1};
  std::int64_t done = 0;
  const auto append = [&](const std::vector<std::int32_t>& ids, std::size_t file, int split) {
    TextStatistics counted;
    counted.tokens = static_cast<std::int64_t>(ids.size());
    if (words && unknown) counted.unknown = std::count(ids.begin(), ids.end(), *unknown);
    statistics.add(file, split, counted);
    writers[static_cast<std::size_t>(split)].append(ids);
    if (!ids.empty()) last[split] = ids.back();
  };
  const auto text = [&](std::string_view part, std::size_t file, int split) {
    append(tokenizer.encode(part), file, split);
    done += static_cast<std::int64_t>(part.size());
    if (options.progress) options.progress("write", done, std::max(done, inputs.bytes()));
  };
  const auto end = [&](std::size_t file, int split, bool open_line, std::uint64_t hash) {
    if (hash != hashes[file])
      throw FormatError(
          fmt::format("{}: changed while it was read; prepare the corpus again", inputs.files[file].file.string()));
    if (words && open_line) append(tokenizer.encode("\n"), file, split);
    if (!words && end_of_text && last[split] != *end_of_text) append({*end_of_text}, file, split);
  };
  read_corpus(inputs, {text, end});
}

}  // namespace

PreparedCorpus prepare_corpus(std::span<const FilePath> inputs, const FilePath& folder, const PrepareOptions& options) {
  const double valid = options.valid.value_or(kShare), test = options.test.value_or(kShare);
  prepare_corpus_check(valid, test);
  CorpusManifest manifest;
  manifest.tokenizer = given_tokenizer(options);
  const bool learns = !manifest.tokenizer, bpe = options.tokenizer == "bpe";
  const std::int64_t vocab_size = options.vocab_size == 0 && bpe ? 8192 : options.vocab_size,
                     min_frequency = options.min_frequency == 0 ? (bpe ? 2 : 1) : options.min_frequency;
  std::unique_ptr<TokenizerLearner> learner;
  if (learns) learner = make_learner(options.tokenizer, vocab_size, min_frequency);
  const CorpusInputs found = find_corpus_inputs(inputs, options.globs, valid, test);
  if (found.own_splits && (options.valid || options.test))
    throw FormatError(
        fmt::format("{}: has splits of its own; leave out --valid and --test, or give --glob to read the "
                    "folder as one text",
                    inputs[0].string()));
  refuse_to_write_input(inputs, found, folder);
  CorpusFolder out(folder, options.overwrite);
  if (options.note)
    for (const std::string& sentence : found.left_out) options.note(sentence);

  Statistics statistics(found.files.size());
  const std::vector<std::uint64_t> hashes = learn(found, options, learner.get(), statistics);
  require_text(found, statistics);
  if (learner) {
    manifest.tokenizer = learner->finish();
    learner.reset();
  }
  const Tokenizer& tokenizer = *manifest.tokenizer;

  io::AtomicFile tokenizer_file(folder / kTokenizerFile), manifest_file(folder / kManifestFile);
  tokenizer_file.write(tokenizer.json());
  std::deque<TokenFileWriter> writers;
  for (const char* split : kSplits)
    writers.emplace_back(folder / token_file_name(split), static_cast<std::int64_t>(tokenizer.size()),
                         tokenizer.hash());
  encode(found, options, tokenizer, hashes, writers, statistics);

  for (std::size_t split = 0; split < 3; ++split) {
    manifest.splits[split] = statistics.splits[split];
    manifest.hashes[split] = writers[split].content_hash();
  }
  for (std::size_t file = 0; file < found.files.size(); ++file) {
    const CorpusInput& input = found.files[file];
    std::error_code none;
    TextStatistics text = statistics.files[file];
    text.bytes = input.bytes;
    manifest.sources.push_back({fs::absolute(input.file, none).lexically_normal().string(),
                                input.split < 0 ? "" : kSplits[input.split], fmt::format("{:016x}", hashes[file]),
                                text});
  }
  if (learns) {
    manifest.recipe.vocab_size = vocab_size;
    manifest.recipe.min_frequency = min_frequency;
  }
  manifest.recipe.valid = valid;
  manifest.recipe.test = test;
  manifest.recipe.own_splits = found.own_splits;
  manifest_file.write(manifest_json(manifest));

  out.begin_to_replace();
  tokenizer_file.finish();
  for (TokenFileWriter& writer : writers) writer.finish();
  manifest_file.finish();
  PreparedCorpus corpus = open_prepared_corpus(folder);
  out.keep();
  return corpus;
}

}  // namespace etna::data
