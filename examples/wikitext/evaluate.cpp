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

std::int64_t streams_for(std::span<const std::int32_t> ids, std::int64_t batch, std::int64_t seq) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(ids.size()) / (seq + 1), 1, batch);
}

}  // namespace

Split::Split(const char* title, nn::LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t batch,
             Device device, DType precision)
    : streams_(ids, streams_for(ids, batch, model.config.seq), model.config.seq),
      evaluator_(model, [&model](const Tensor& x, const Tensor& y) { return model.loss(x, y); },
                 {.device = device, .precision = precision, .title = title}) {}

double Split::loss() { return evaluator_.mean(data::BatchLoader(streams_), streams_.steps()); }

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
  const DType precision = dtype_named(options.precision);
  const std::int64_t batch = saved.settings.batch;
  const double valid = std::exp(Split("validation", *saved.model, corpus.valid, batch, device, precision).loss()),
               test = std::exp(Split("test", *saved.model, corpus.test, batch, device, precision).loss());
  fmt::print("perplexity: validation {:.2f}, test {:.2f}\n", valid, test);
  if (!options.json.empty()) {
    const nlohmann::json result = {{"device", device.str()},    {"device_name", device_name(device)},
                                   {"preset", saved.preset},    {"parameters", saved.model->num_parameters()},
                                   {"valid_perplexity", valid}, {"test_perplexity", test}};
    io::write_file(options.json, result.dump(2) + "\n");
  }
  return 0;
}

}  // namespace wikitext
