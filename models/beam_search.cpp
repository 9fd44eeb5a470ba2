#include <etna/models/sampling.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/decoder.h>
#include <etna/models/kv_cache.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/indexing/indexing.h>

namespace etna::models {
namespace {

/// A text that still grows; it lies in the cache's sequence of the same place.
struct Growing {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
};

struct Candidate {
  std::size_t parent;
  std::int32_t token;
  double log_probability;
};

class Search {
 public:
  Search(const Decoder& decoder, Device device, std::span<const std::int32_t> prompt, const BeamOptions& options)
      : decoder_(decoder),
        device_(device),
        prompt_(prompt),
        options_(options),
        width_(static_cast<std::int64_t>((checked_length(decoder, prompt, options) + kCacheBlock - 1) / kCacheBlock)),
        cache_(decoder.own_config, device,
               {.tokens = width_ * kCacheBlock * options.width,
                .dtype = options.cache,
                .host_layers = decoder.host_layers(),
                .reuse_prefixes = false,
                .states = options.width}) {}

  std::vector<Beam> run() {
    std::vector<Candidate> candidates = best_of(read_prompt(), {Growing{}});
    for (std::int64_t step = 0;; ++step) {
      keep(candidates);
      if (step + 1 == options_.max_tokens) {
        for (const Growing& text : growing_) end(text.tokens, text.log_probability, std::ssize(text.tokens));
        break;
      }
      if (growing_.empty() || settled()) break;
      candidates = best_of(advance(step), growing_);
    }
    std::sort(ended_.begin(), ended_.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (std::ssize(ended_) > options_.width) ended_.resize(static_cast<std::size_t>(options_.width));
    return ended_;
  }

 private:
  static std::int64_t checked_length(const Decoder& decoder, std::span<const std::int32_t> prompt,
                                     const BeamOptions& options) {
    if (prompt.empty()) throw Error("beam_search: the prompt is empty; give it at least one token");
    if (options.width < 1 || options.max_tokens < 1)
      throw Error(fmt::format("beam_search: a width of {} and {} tokens; both must be 1 or more", options.width,
                              options.max_tokens));
    for (const std::int32_t token : prompt) {
      if (token < 0 || token >= decoder.config.vocabulary)
        throw IndexError(fmt::format("beam_search: the prompt has token {}; the model knows 0 to {}", token,
                                     decoder.config.vocabulary - 1));
    }
    const std::int64_t length = std::ssize(prompt) + options.max_tokens;
    if (length > decoder.config.context) {
      throw Error(fmt::format("beam_search: a prompt of {} tokens and {} more do not fit the context of {}",
                              prompt.size(), options.max_tokens, decoder.config.context));
    }
    return length;
  }

  /// Logits of the next token, [1, vocabulary].
  Tensor read_prompt() {
    const std::int64_t length = std::ssize(prompt_);
    for (std::int64_t i = 0; i < options_.width; ++i) {
      ids_.push_back(cache_.start({}).id);
      cache_.reserve(ids_.back(), width_ * kCacheBlock);
    }
    const Tensor tokens = from_vector(std::vector<std::int32_t>(prompt_.begin(), prompt_.end()), {1, length}, device_);
    const Tensor positions = zeros({1}, {i32, device_});
    const Tensor x = decoder_.extend(tokens, cache_of(1, positions));
    return decoder_.head(x.select(1, length - 1));
  }

  Tensor table() const {
    std::vector<std::int32_t> rows;
    for (const KvCache::Id id : ids_) {
      const std::vector<std::int32_t> row = cache_.row(id, width_);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return from_vector(rows, {std::ssize(ids_), width_}, device_);
  }

  /// Of the first texts.
  DecoderCache cache_of(std::int64_t count, const Tensor& positions) {
    DecoderCache cache{&cache_.layers(), {table().slice(0, 0, count), positions}};
    if (!cache_.keeps_states()) return cache;
    std::vector<std::int32_t> rows;
    for (std::int64_t i = 0; i < count; ++i) rows.push_back(cache_.state_row(ids_[static_cast<std::size_t>(i)]));
    cache.states = cache_.states();
    cache.state_rows = from_vector(rows, device_);
    return cache;
  }

  /// Logits behind the last token of each text, [texts, vocabulary].
  Tensor advance(std::int64_t step) {
    std::vector<std::int32_t> last;
    for (const Growing& text : growing_) last.push_back(text.tokens.back());
    const std::int64_t count = std::ssize(last), position = std::ssize(prompt_) + step;
    const Tensor positions = full({count}, static_cast<double>(position), {i32, device_});
    const Tensor x = decoder_.extend(from_vector(last, {count, 1}, device_), cache_of(count, positions));
    return decoder_.head(x.select(1, 0));
  }

  /// The best tokens behind all texts together: twice the width, so that enough are left if half of them are stops.
  std::vector<Candidate> best_of(const Tensor& logits, const std::vector<Growing>& texts) const {
    const std::int64_t vocabulary = logits.size(-1);
    std::vector<float> before;
    for (const Growing& text : texts) before.push_back(static_cast<float>(text.log_probability));
    const Tensor scores = log_softmax(logits.to(f32), -1) + from_vector(before, {std::ssize(before), 1}, device_);
    const std::int64_t count = std::min(scores.numel(), 2 * options_.width);
    const ValuesIndices best = scores.reshape({scores.numel()}).topk(count);
    const std::vector<double> values = best.values.to_vector<double>();
    const std::vector<std::int64_t> places = best.indices.to_vector<std::int64_t>();
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < values.size(); ++i) {
      candidates.push_back({static_cast<std::size_t>(places[i] / vocabulary),
                            static_cast<std::int32_t>(places[i] % vocabulary), values[i]});
    }
    return candidates;
  }

  double score(double log_probability, std::int64_t length) const {
    return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
  }
  void end(const std::vector<std::int32_t>& tokens, double log_probability, std::int64_t length) {
    ended_.push_back({tokens, log_probability, score(log_probability, length)});
  }

  /// Takes the candidates over: ended texts aside, the best others as those that grow.
  void keep(const std::vector<Candidate>& candidates) {
    std::vector<Growing> next;
    std::vector<std::size_t> parents;
    for (const Candidate& c : candidates) {
      if (std::ssize(next) == options_.width) break;
      Growing text = growing_.empty() ? Growing{} : growing_[c.parent];
      text.log_probability = c.log_probability;
      const auto& stops = options_.stop_tokens;
      if (std::find(stops.begin(), stops.end(), c.token) != stops.end()) {
        end(text.tokens, text.log_probability, std::ssize(text.tokens) + 1);
        continue;
      }
      text.tokens.push_back(c.token);
      next.push_back(std::move(text));
      parents.push_back(c.parent);
    }
    growing_ = std::move(next);
    copy_caches(parents);
  }

  /// Gives each text the keys and values of the one that it goes on from.
  void copy_caches(const std::vector<std::size_t>& parents) {
    std::vector<std::int32_t> from, to;
    std::vector<KvCache::Id> sources_of_states, targets_of_states;
    for (std::size_t i = 0; i < parents.size(); ++i) {
      if (parents[i] == i) continue;
      sources_of_states.push_back(ids_[parents[i]]);
      targets_of_states.push_back(ids_[i]);
      const std::vector<std::int32_t> source = cache_.row(ids_[parents[i]], width_),
                                      target = cache_.row(ids_[i], width_);
      from.insert(from.end(), source.begin(), source.end());
      to.insert(to.end(), target.begin(), target.end());
    }
    if (from.empty()) return;
    cache_.copy_states(sources_of_states, targets_of_states);
    const Tensor sources = from_vector(from, device_), targets = from_vector(to, device_);
    for (PagedCache& layer : cache_.layers()) {
      for (Tensor* rows : {&layer.keys, &layer.values})
        if (rows->defined()) rows->index_put_({Index(targets)}, index_select(*rows, 0, sources));
    }
  }

  /// Whether enough texts have ended, and none that grows can become better: its log-probability only falls.
  bool settled() const {
    if (std::ssize(ended_) < options_.width) return false;
    std::vector<double> scores;
    for (const Beam& beam : ended_) scores.push_back(beam.score);
    std::nth_element(scores.begin(), scores.begin() + (options_.width - 1), scores.end(), std::greater<>());
    const double bar = scores[static_cast<std::size_t>(options_.width - 1)];
    const std::int64_t longest = options_.length_penalty > 0 ? options_.max_tokens : 1;
    return std::all_of(growing_.begin(), growing_.end(),
                       [&](const Growing& text) { return score(text.log_probability, longest) <= bar; });
  }

  const Decoder& decoder_;
  Device device_;
  std::span<const std::int32_t> prompt_;
  const BeamOptions& options_;
  const std::int64_t width_;  ///< blocks of a sequence
  KvCache cache_;
  std::vector<KvCache::Id> ids_;
  std::vector<Growing> growing_;
  std::vector<Beam> ended_;
};

}  // namespace

std::vector<Beam> beam_search(const Decoder& decoder, Device device, std::span<const std::int32_t> prompt,
                              const BeamOptions& options) {
  const NoGrad no_grad;
  return Search(decoder, device, prompt, options).run();
}

}  // namespace etna::models
