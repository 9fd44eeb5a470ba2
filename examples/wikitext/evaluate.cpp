#include "evaluate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <etna/device/internal/atomic_file.h>
#include <etna/device/internal/output_file.h>
#include <etna/etna.h>

#include "commands.h"
#include "corpus.h"
#include "loss_meter.h"
#include "report.h"
#include "saved_model.h"

namespace wikitext {

using namespace etna;

namespace {

constexpr const char* kEvaluateCommand = "wikitext eval";

/// Of a split that may be too short for as many.
std::int64_t streams_for(const TokenIds& ids, const SplitOptions& options) {
  if (options.cache) return 1;
  return std::clamp<std::int64_t>(ids.size() / (options.seq + 1), 1, options.streams);
}

/// Both splits' perplexity, per token and per word.
struct Perplexity {
  double valid, test, valid_word, test_word;
  std::string text;
};

Perplexity perplexity(TextModel& model, const Corpus& corpus, SplitOptions options) {
  options.title = "validation";
  const double valid = Split(model, corpus.valid, options).loss();
  options.title = "test";
  const double test = Split(model, corpus.test, options).loss();
  if (!std::isfinite(valid + test))
    throw NonFiniteLoss(fmt::format("the loss is {} on validation and {} on test: weights are damaged", valid, test));
  return {std::exp(valid), std::exp(test), word_perplexity(valid, corpus.valid), word_perplexity(test, corpus.test),
          perplexity_text(corpus, valid, test)};
}

}  // namespace

std::int64_t streams_of_splits(const TextModel& model, const Settings& settings) {
  constexpr std::int64_t kFew = 8;
  return model.remembers() ? std::min(kFew, settings.batch) : settings.batch;
}

Split::Split(TextModel& model, const TokenIds& ids, SplitOptions options)
    : streams_(ids.streams(streams_for(ids, options), options.seq)),
      memory_(model.memory(streams_.batch(), options.device)),
      evaluator_(model.module(),
                 [this, &model](const Tensor& x, const Tensor& y) {
                   if (!cache_) return model.loss(x, y, *memory_);
                   const Tensor hidden = model.hidden(x, *memory_).squeeze(0);
                   return -mean(cache_->log_likelihood(hidden, model.head(hidden), y.squeeze(0)));
                 },
                 {.device = options.device, .precision = options.precision, .title = options.title}) {
  if (options.cache) cache_.emplace(model.dim(), *options.cache, options.device);
}

double Split::loss() {
  memory_->clear();
  if (cache_) cache_->clear();
  return evaluator_.mean(data::BatchLoader(streams_), streams_.steps());
}

int run_evaluate(const EvaluateOptions& options) {
  const Device device = device_of(options.device, options.strict);
  fmt::print("{}\n", device_line(options.device, device));
  io::require_output({"--json", options.json, json_marks(kEvaluateCommand)}, options.force, {options.run});
  SavedModel saved = load_model(options.run, device);
  const Corpus corpus = find_corpus(options.data);
  data::require_same_tokenizer(*corpus.tokenizer, *saved.tokenizer, options.run);
  const SplitOptions split{.title = "",
                           .streams = streams_of_splits(*saved.model, saved.settings),
                           .seq = saved.settings.seq,
                           .device = device,
                           .precision = dtype_named(options.precision)};
  const Perplexity plain = perplexity(*saved.model, corpus, split);
  fmt::print("perplexity: {}\n", plain.text);
  nlohmann::json result = {{kCommandKey, kEvaluateCommand},
                           {"device", device.str()},
                           {"device_name", device_name(device)},
                           {"preset", saved.preset},
                           {"parameters", saved.model->module().num_parameters()},
                           {"valid_perplexity", plain.valid},
                           {"test_perplexity", plain.test}};
  if (!corpus.of_words()) {
    result["valid_word_perplexity"] = plain.valid_word;
    result["test_word_perplexity"] = plain.test_word;
  }
  if (options.with_cache) {
    SplitOptions cached = split;
    cached.cache = options.cache;
    const Perplexity better = perplexity(*saved.model, corpus, cached);
    fmt::print("with a cache of {} tokens (theta {}, lambda {}): {}\n", options.cache.window, options.cache.theta,
               options.cache.lambda, better.text);
    result["cache"] = {{"window", options.cache.window},
                       {"theta", options.cache.theta},
                       {"lambda", options.cache.lambda},
                       {"valid_perplexity", better.valid},
                       {"test_perplexity", better.test}};
  }
  if (!options.json.empty()) io::write_file(options.json, result.dump(2) + "\n");
  return 0;
}

}  // namespace wikitext
