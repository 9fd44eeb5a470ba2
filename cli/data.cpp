#include "data.h"

#include <cstdint>

#include <etna/device/error.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"

namespace etna::cli {

namespace {

/// `prepare` is parsed where it was named.
int run_data(const CLI::App& prepare, const DataOptions& options) try {
  return prepare.parsed() ? prepare_data(prepare, options) : inspect_data(options);
} catch (const FormatError& error) {
  print_error(training::printable(error.what()));  // it may quote names of files
  return 4;
}

}  // namespace

Command add_data(CLI::App& app) {
  const auto options = std::make_shared<DataOptions>();
  CLI::App* data = app.add_subcommand("data", "Prepare texts for training, and look at what was prepared");
  data->require_subcommand(1);
  CLI::App* prepare = data->add_subcommand("prepare", "Write texts as a corpus: a tokenizer and files of token ids");
  prepare->footer(
      "A folder in WikiText's layout (wiki.train.tokens or .raw or train.txt; likewise valid, test) keeps its splits.\n"
      "The text of other inputs is split by place: the last lines are for validation and testing.");
  prepare->add_option("inputs", options->inputs, "text files, and folders of them")->required();
  prepare->add_option("--out", options->out, "folder to write; one that holds something is refused")->required();
  prepare
      ->add_option("--tokenizer", options->tokenizer,
                   "bpe (byte pairs), word (words between white space), or a tokenizer.json to take as it is")
      ->capture_default_str();
  prepare->add_option("--vocab-size", options->vocab_size, "at most so many tokens (default: 8192 for bpe; words: all)")
      ->check(number_in(training::integers(3, INT32_MAX)));
  prepare
      ->add_option("--min-frequency", options->min_frequency,
                   "pairs that occur less often are not merged; words become <unk> (default: 2 for bpe, 1 for words)")
      ->check(number_in(training::integers(1)));
  prepare
      ->add_option("--glob", options->globs,
                   "names of text files in folders; repeatable (default: *.txt, *.md, *.tokens, *.raw)")
      ->take_all()
      ->allow_extra_args(false);
  prepare->add_option("--valid", options->valid, "share of the text for validation")
      ->check(number_in({.least = 0, .most = 0.5}))
      ->capture_default_str();
  prepare->add_option("--test", options->test, "share of the text for testing")
      ->check(number_in({.least = 0, .most = 0.49}))
      ->capture_default_str();
  prepare->add_flag("--force", options->force,
                    "replace a corpus in --out, write among other files, and replace the file of --json");
  add_output(*prepare, "--json", options->json, "also write the corpus' manifest to this file", options->force);
  CLI::App* inspect = data->add_subcommand("inspect", "Show what a prepared corpus or a token file holds");
  inspect->add_option("what", options->what, "a folder that prepare wrote, or a token file")->required();
  inspect->add_option("--tokens", options->tokens, "how many tokens of each file's beginning to show")
      ->check(number_in(training::integers(0, 100'000)))
      ->capture_default_str();
  inspect->add_flag("--verify", options->verify, "read all ids and compare them with their hash");
  return {data, [prepare, options] { return run_data(*prepare, *options); }};
}

}  // namespace etna::cli
