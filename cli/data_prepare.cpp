#include "data.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/data/text_file.h>
#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/train/progress.h>

#include "data_table.h"
#include "output.h"

namespace etna::cli {
namespace {

namespace fs = std::filesystem;
using training::with_commas;

/// Thrown through prepare_corpus() after Ctrl-C.
struct DataPrepareStopped {};

/// A bar for each stage, in megabytes; lines where standard error is no terminal.
class Stages {
 public:
  void update(const char* stage, std::int64_t done, std::int64_t total) {
    constexpr std::int64_t kMegabyte = 1'000'000, kQuick = 32 * kMegabyte;
    if (total < kQuick) return;  // over before anybody reads it
    const std::int64_t megabytes = (total + kMegabyte - 1) / kMegabyte;
    if (stage != stage_) {
      progress_.reset();
      progress_.emplace(
          megabytes, training::ProgressOptions{
                         .title = stage, .items_per_step = 1, .unit = "MB", .lines = 4, .keep = false, .out = stderr});
      stage_ = stage;
    }
    progress_->update(done == total ? megabytes : std::min(done / kMegabyte, megabytes), {});
    if (done == total) progress_->finish();
  }

 private:
  std::optional<training::Progress> progress_;
  std::string stage_;
};

/// A wrong --json would replace what is read or just written.
void check_json(const DataOptions& options) {
  if (options.json.empty()) return;
  std::error_code none;
  const fs::path json = fs::weakly_canonical(fs::absolute(options.json, none), none);
  const fs::path out = fs::weakly_canonical(fs::absolute(fs::path(options.out) / "", none), none);
  if (json.parent_path() == out || json.parent_path() / "" == out)
    throw FormatError(
        fmt::format("--json {}: lies in --out, which has the manifest already; name a file elsewhere", options.json));
  for (const std::string& input : options.inputs) {
    const fs::path read = fs::weakly_canonical(fs::absolute(input, none), none);
    const bool below = fs::is_directory(read, none) &&
                       std::mismatch(read.begin(), read.end(), json.begin(), json.end()).first == read.end();
    if (read == json || below)
      throw FormatError(
          fmt::format("--json {}: is or lies in {}, which is read; name a file elsewhere", options.json, input));
  }
  // A manifest in its place belongs to another corpus.
  const bool manifest = json.filename() == data::kManifestFile;
  io::require_output(
      {"--json", options.json, manifest ? std::vector<std::string>() : std::vector<std::string>{"\"etna.corpus\""}},
      options.force);
}

}  // namespace

int prepare_data(const CLI::App& command, const DataOptions& options) {
  const auto given = [&](const char* option) { return command.get_option(option)->count() > 0; };
  const bool learns = options.tokenizer == "word" || options.tokenizer == "bpe";
  if (!learns && (given("--vocab-size") || given("--min-frequency"))) {
    print_error(
        fmt::format("--tokenizer {} is there already; --vocab-size and --min-frequency are for one that learns "
                    "(word, bpe)",
                    training::printable(options.tokenizer)));
    return 2;
  }
  if (options.tokenizer == "bpe" && given("--vocab-size") && options.vocab_size < 257) {
    print_error(fmt::format("--vocab-size {}: byte pairs take at least 257, for 256 bytes and the end of a text",
                            options.vocab_size));
    return 2;
  }
  check_json(options);
  data::PrepareOptions prepare;
  prepare.tokenizer = options.tokenizer;
  prepare.vocab_size = options.vocab_size;
  prepare.min_frequency = options.min_frequency;
  if (given("--valid")) prepare.valid = options.valid;
  if (given("--test")) prepare.test = options.test;
  prepare.globs = options.globs;
  prepare.overwrite = options.force;
  std::size_t left_out = 0;
  prepare.note = [&](const std::string& sentence) {
    constexpr std::size_t kMost = 10;
    if (++left_out <= kMost) fmt::print(stderr, "left out: {}\n", training::printable(sentence));
    if (left_out == kMost + 1) fmt::print(stderr, "left out: more\n");
  };
  training::Interrupt interrupt;
  Stages stages;
  prepare.progress = [&](const char* stage, std::int64_t done, std::int64_t total) {
    if (interrupt.requested()) throw DataPrepareStopped();
    stages.update(stage, done, total);
  };
  const auto begin = std::chrono::steady_clock::now();
  try {
    const std::vector<FilePath> inputs(options.inputs.begin(), options.inputs.end());
    const data::PreparedCorpus corpus = data::prepare_corpus(inputs, options.out, prepare);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (!options.json.empty()) io::write_file(options.json, data::read_text_file(corpus.folder / data::kManifestFile));
    std::int64_t bytes = 0;
    for (const data::PreparedSource& source : corpus.sources) bytes += source.text.bytes;
    print_all(fmt::format("{} file{}, {} bytes, in {:.1f} s\n{}\n{}next: wikitext train --data {}\n",
                          with_commas(static_cast<std::int64_t>(corpus.sources.size())),
                          corpus.sources.size() == 1 ? "" : "s", with_commas(bytes), seconds.count(),
                          tokenizer_line(*corpus.tokenizer), split_table(corpus), training::printable(options.out)));
    return 0;
  } catch (const DataPrepareStopped&) {
    print_error("stopped; nothing was written");
    return interrupt.exit_code();
  }
}

}  // namespace etna::cli
