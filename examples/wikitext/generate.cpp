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

std::string generate(TextModel& model, std::int64_t seq, const data::Tokenizer& tokenizer, const std::string& prompt,
                     const Sampling& sampling, Device device) {
  NoGrad no_grad;
  model.module().eval();
  const std::unique_ptr<TextModel::Memory> memory = model.memory(1, device);
  const std::optional<std::int32_t> end = end_of_text(tokenizer);
  std::vector<std::int32_t> ids = tokenizer.encode(prompt);
  std::size_t start = 0;
  if (ids.empty()) {
    ids = end ? std::vector<std::int32_t>{*end} : tokenizer.encode("\n");
    start = ids.size();
  }
  std::uint64_t state = sampling.seed;
  const auto vocabulary = static_cast<std::int64_t>(tokenizer.size());
  std::size_t read = 0;  // by a model that remembers
  for (std::int64_t i = 0; i < sampling.words; ++i) {
    const std::size_t context = model.remembers() ? ids.size() - std::exchange(read, ids.size())
                                                  : std::min(ids.size(), static_cast<std::size_t>(seq));
    std::vector<std::int32_t> window(ids.end() - static_cast<std::ptrdiff_t>(context), ids.end());
    Tensor tokens = from_vector(window, {1, static_cast<std::int64_t>(context)}, device);
    Tensor logits = model.head(model.hidden(tokens, *memory).select(0, 0).select(0, -1)).slice(0, 0, vocabulary);
    const std::int32_t id = draw(logits.to_vector<float>(), sampling, state);
    if (end && id == *end) break;
    ids.push_back(id);
  }
  model.module().train();
  return tokenizer.decode(std::span(ids).subspan(start));
}

}  // namespace wikitext
