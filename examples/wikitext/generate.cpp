#include "generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <etna/data/corpora/prepared_corpus.h>
#include <etna/etna.h>
#include <etna/models/generator.h>
#include <etna/models/model_file.h>
#include <etna/models/suspicious_weights.h>

namespace wikitext {
namespace {

using namespace etna;

/// splitmix64 (Steele et al. 2014), scaled to [0, 1).
double next_uniform(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

std::int32_t draw(const std::vector<float>& logits, const Sampling& sampling, std::uint64_t& state) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto kept = sampling.top_k > 0 ? std::min(order.size(), static_cast<std::size_t>(sampling.top_k)) : order.size();
  auto likelier = [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), likelier);
  if (sampling.temperature <= 0) return order[0];
  std::vector<double> weights(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    float below_best = logits[static_cast<std::size_t>(order[i])] - logits[static_cast<std::size_t>(order[0])];
    weights[i] = std::exp(static_cast<double>(below_best) / sampling.temperature);
  }
  double at = next_uniform(state) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < kept; ++i) {
    if ((at -= weights[i]) < 0) return order[i];
  }
  return order[kept - 1];
}

/// The special token that ends a text, if there is one.
std::optional<std::int32_t> end_of_text(const data::Tokenizer& tokenizer) {
  for (const std::int32_t id : tokenizer.special_tokens())
    if (tokenizer.token(id) == data::kEndOfText) return id;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> unknown_words(const std::string& prompt, const data::Tokenizer& tokenizer) {
  std::vector<std::string> unknown;
  tokenizer.encode(prompt, data::SpecialTokens::recognize, &unknown);
  return unknown;
}

std::string printable_lines(const std::string& text) {
  std::string all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!all.empty()) all.push_back('\n');
    all.append(training::printable(line));
  }
  return all;
}

namespace {

/// With a cache of keys and values, and draws on the device.
void decode(const TextModel& model, const models::DecoderConfig& config, std::vector<std::int32_t>& ids,
            std::optional<std::int32_t> end, const Sampling& sampling, Device device) {
  const std::unique_ptr<models::Decoder> decoder =
      models::decoder_of(config, model.module().state_dict(), {.device = device});
  models::Generator generator(*decoder, {.device = device, .cache = {.dtype = f32}});
  models::GenerationOptions options{.max_tokens = sampling.words, .endless = true, .sinks = 0};
  options.sampling = {
      .temperature = sampling.temperature, .top_k = sampling.top_k, .top_p = 1, .min_p = 0, .seed = sampling.seed};
  if (end) options.stop_tokens.push_back(*end);
  const auto most = static_cast<std::ptrdiff_t>(config.context);
  const std::vector<std::int32_t> prompt(std::max(ids.begin(), ids.end() - std::min(most, std::ssize(ids))), ids.end());
  generator.generate(prompt, options, [&](std::int32_t token) {
    ids.push_back(token);
    return true;
  });
}

/// With an LSTM, which remembers by itself.
void unroll(TextModel& model, std::int64_t vocabulary, std::vector<std::int32_t>& ids, std::optional<std::int32_t> end,
            const Sampling& sampling, Device device) {
  const std::unique_ptr<TextModel::Memory> memory = model.memory(1, device);
  std::uint64_t state = sampling.seed;
  std::size_t read = 0;
  for (std::int64_t i = 0; i < sampling.words; ++i) {
    const std::size_t fresh = ids.size() - std::exchange(read, ids.size());
    const std::vector<std::int32_t> window(ids.end() - static_cast<std::ptrdiff_t>(fresh), ids.end());
    const Tensor tokens = from_vector(window, {1, static_cast<std::int64_t>(fresh)}, device);
    const Tensor logits = model.head(model.hidden(tokens, *memory).select(0, 0).select(0, -1)).slice(0, 0, vocabulary);
    if (i == 0) models::check_logits(logits, "the prompt");
    const std::int32_t id = draw(logits.to_vector<float>(), sampling, state);
    if (end && id == *end) break;
    ids.push_back(id);
  }
}

}  // namespace

std::string generate(TextModel& model, const data::Tokenizer& tokenizer, const std::string& prompt,
                     const Sampling& sampling, Device device) {
  NoGrad no_grad;
  model.module().eval();
  const std::optional<std::int32_t> end = end_of_text(tokenizer);
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  std::size_t start = 0;
  if (ids.empty()) {
    ids = end ? std::vector<std::int32_t>{*end} : tokenizer.encode("\n");
    start = ids.size();
  }
  if (const auto config = model.decoder_config())
    decode(model, *config, ids, end, sampling, device);
  else
    unroll(model, static_cast<std::int64_t>(tokenizer.size()), ids, end, sampling, device);
  model.module().train();
  return tokenizer.decode(std::span(ids).subspan(start));
}

}  // namespace wikitext
