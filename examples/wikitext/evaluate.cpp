#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/device/output_file.h>
#include <etna/etna.h>

#include "wikitext.h"

namespace wikitext {

using namespace etna;

training::TextCorpus DataOptions::open() const {
  training::TextCorpus corpus = training::open_text_corpus(text, data);
  fmt::print("corpus: {}\n", corpus.str());
  return corpus;
}

int run_evaluate(const EvaluateOptions& options) {
  constexpr const char* kCommand = "wikitext eval";
  const Device device = options.select();
  fmt::print("{}\n", device_line(options.device, device));
  io::require_output({"--json", options.json, json_marks(kCommand)}, options.force, {options.run});
  const auto receipt = begin_receipt(options.receipt, options.command, options.force, {options.run});
  if (receipt) {
    receipt->device(options.device, device);
    receipt->file("checkpoint", training::best_checkpoint(options.run));
    add_text_files(*receipt, options);
  }
  SavedModel saved = load_model(options.run, device);
  const training::TextCorpus corpus = options.open();
  data::require_same_tokenizer(*corpus.tokenizer, *saved.tokenizer, options.run);
  saved.settings.precision = options.precision;
  const auto measured = [&](const CacheOptions& cache) {
    return training::measure_perplexities(saved.model.on_streams, corpus, saved.settings.evaluation(device, "", cache));
  };
  const training::RunSummary plain = measured({});
  fmt::print("perplexity: {}\n", plain.perplexities());
  nlohmann::json result = {{"command", kCommand},
                           {"device", device.str()},
                           {"device_name", device_name(device)},
                           {"preset", saved.preset},
                           {"parameters", saved.model.module->num_parameters()},
                           {"valid_perplexity", *plain.valid_perplexity},
                           {"test_perplexity", *plain.test_perplexity}};
  if (plain.valid_word_perplexity)
    result.update({{"valid_word_perplexity", *plain.valid_word_perplexity},
                   {"test_word_perplexity", *plain.test_word_perplexity}});
  if (options.with_cache) {
    const training::RunSummary cached = measured(options.cache);
    fmt::print("with a cache of {} tokens (theta {}, lambda {}): {}\n", options.cache.window, options.cache.theta,
               options.cache.lambda, cached.perplexities());
    result["cache"] = {{"window", options.cache.window},
                       {"theta", options.cache.theta},
                       {"lambda", options.cache.lambda},
                       {"valid_perplexity", *cached.valid_perplexity},
                       {"test_perplexity", *cached.test_perplexity}};
  }
  if (!options.json.empty()) io::write_file(options.json, result.dump(2) + "\n");
  if (receipt) {
    receipt->number("valid_perplexity", *plain.valid_perplexity);
    receipt->number("test_perplexity", *plain.test_perplexity);
    receipt->write(options.receipt);
  }
  return 0;
}

}  // namespace wikitext
