#include "evaluate.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <etna/device/atomic_file.h>
#include <etna/etna.h>

#include "commands.h"
#include "corpus.h"
#include "saved_model.h"

namespace wikitext {

using namespace etna;

namespace {

/// Of a split that may be too short for as many.
std::int64_t streams_for(std::span<const std::int32_t> ids, const SplitOptions& options) {
  if (options.cache) return 1;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(ids.size()) / (options.seq + 1), 1, options.streams);
}

/// Both splits' perplexity.
struct Perplexity {
  double valid, test;
};

Perplexity perplexity(TextModel& model, const data::Corpus& corpus, SplitOptions options) {
  options.title = "validation";
  const double valid = std::exp(Split(model, corpus.valid, options).loss());
  options.title = "test";
  return {valid, std::exp(Split(model, corpus.test, options).loss())};
}

}  // namespace

std::int64_t streams_of_splits(const TextModel& model, const Settings& settings) {
  constexpr std::int64_t kFew = 8;
  return model.remembers() ? std::min(kFew, settings.batch) : settings.batch;
}

Split::Split(TextModel& model, std::span<const std::int32_t> ids, SplitOptions options)
    : streams_(ids, streams_for(ids, options), options.seq),
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
  const Device device = select_device(options.device);
  fmt::print("{}\n", device_line(options.device, device));
  if (!options.json.empty()) io::require_writable(options.json);
  SavedModel saved = load_model(options.run, device);
  const data::Corpus corpus = find_corpus(options.data);
  if (corpus.vocab != saved.vocabulary) {
    throw FormatError(
        fmt::format("the corpus has other words ({}) than {} was trained on ({}); name the same --data or --text",
                    corpus.vocab.size(), options.run, saved.vocabulary.size()));
  }
  const SplitOptions split{.title = "",
                           .streams = streams_of_splits(*saved.model, saved.settings),
                           .seq = saved.settings.seq,
                           .device = device,
                           .precision = dtype_named(options.precision)};
  const Perplexity plain = perplexity(*saved.model, corpus, split);
  fmt::print("perplexity: validation {:.2f}, test {:.2f}\n", plain.valid, plain.test);
  nlohmann::json result = {{"device", device.str()},          {"device_name", device_name(device)},
                           {"preset", saved.preset},          {"parameters", saved.model->module().num_parameters()},
                           {"valid_perplexity", plain.valid}, {"test_perplexity", plain.test}};
  if (options.with_cache) {
    SplitOptions cached = split;
    cached.cache = options.cache;
    const Perplexity better = perplexity(*saved.model, corpus, cached);
    fmt::print("with a cache of {} words (theta {}, lambda {}): validation {:.2f}, test {:.2f}\n", options.cache.window,
               options.cache.theta, options.cache.lambda, better.valid, better.test);
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
