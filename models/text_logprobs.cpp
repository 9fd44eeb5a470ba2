#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/latent_prompts.h>
#include <etna/models/internal/text_reading.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

/// The most logits that are there at once, for as many tokens: 32 MiB of f32.
constexpr std::int64_t kLogitsAtOnce = std::int64_t{8} << 20;

}  // namespace

TextReading::TextReading(Generator& generator, std::span<const std::int32_t> tokens, std::int64_t adapter,
                         const PromptImages* images)
    : generator_(generator),
      tokens_(tokens.begin(), tokens.end()),
      adapter_(adapter),
      images_(images),
      cached_(generator.cache_.start({}).id) {
  if (tokens_.empty()) return;
  KvCache& cache = generator_.cache_;
  try {
    const std::int64_t blocks = (std::ssize(tokens_) - 1) / kCacheBlock + 1;
    cache.reserve(cached_, std::ssize(tokens_));
    row_ = from_vector(cache.row(cached_, blocks), {1, blocks}, generator_.options_.device);
    states_ = full({1}, static_cast<double>(cache.state_row(cached_)), {i32, generator_.options_.device});
  } catch (...) {
    cache.finish(cached_, {});
    throw;
  }
}

TextReading::~TextReading() {
  try {
    const NoGrad no_grad;
    generator_.cache_.finish(cached_, {});
  } catch (const std::exception&) {
    // Of a device that is lost, about which the next step tells.
  }
}

Tensor TextReading::next() {
  const NoGrad no_grad;
  const Device device = generator_.options_.device;
  std::int64_t count = std::min(generator_.options_.chunk, std::ssize(tokens_) - at_);
  if (images_ != nullptr) count = whole_images(*images_, at_, count);
  const std::optional<ImageChunk> chunk = generator_.image_chunk(images_, std::ssize(tokens_), at_, count);
  const std::vector<std::int32_t> part(tokens_.begin() + at_, tokens_.begin() + at_ + count);
  const Tensor positions = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(at_)}, device);
  DecoderCache cache = generator_.with_states({&generator_.cache_.layers(),
                                               {table_to(generator_.model_.own_config, row_, at_ + count), positions},
                                               generator_.adapter_row(adapter_)},
                                              states_);
  cache.images = chunk ? &*chunk : nullptr;
  const Tensor x = generator_.model_.extend(from_vector(part, {1, count}, device), cache);
  at_ += count;
  return x.select(0, 0);
}

TextLogprobs::TextLogprobs(Generator& generator, std::span<const std::int32_t> tokens, std::int64_t top,
                           std::int64_t adapter)
    : generator_(generator),
      tokens_(tokens.begin(), tokens.end()),
      most_(std::min(top, generator.model_.config.vocabulary)) {
  const auto write = [&](CallWriter& call) {
    call.put_all(tokens);
    call.put(top);
    call.put(adapter);
  };
  generator.on_all_ranks(RankCall::begin_text, write, [&] {
    check_tokens(tokens, generator.model_.config.vocabulary, "the text");
    generator.check_adapter(adapter);
    if (top < 0 || top > kMaxLogprobs)
      throw Error(fmt::format("Generator: {} most probable tokens are wanted; at most {}", top, kMaxLogprobs));
    if (tokens.size() >= 2) {
      reading_ = std::make_unique<TextReading>(generator, tokens.first(tokens.size() - 1), adapter);
      result_.reserve(tokens.size() - 1);
    }
    if (generator.ranks_) number_ = generator.ranks_->texts++;
  });
}

TextLogprobs::~TextLogprobs() {
  try {
    // Where others still have it, they end theirs, too: the caches stay alike.
    generator_.on_all_ranks(
        RankCall::end_text, [&](CallWriter& call) { call.put(number_); }, [&] { reading_.reset(); });
  } catch (const std::exception&) {  // NOLINT: the group has ended, about which the next call tells
  }
}

bool TextLogprobs::read() {
  if (!reading_) return false;
  return generator_.on_all_ranks(
      RankCall::read_text, [&](CallWriter& call) { call.put(number_); },
      [&] {
        const NoGrad no_grad;
        add(reading_->next());
        if (!reading_->done()) return true;
        reading_.reset();
        return false;
      });
}

/// @param x the last block's outputs of the next tokens
void TextLogprobs::add(const Tensor& x) {
  const Decoder& model = generator_.model_;
  const std::int64_t rows = std::clamp<std::int64_t>(kLogitsAtOnce / model.config.vocabulary, 1, 256);
  for (std::int64_t at = 0; at < x.size(0); at += rows) {
    const Tensor logits = model.head(x.slice(0, at, std::min(x.size(0), at + rows)));
    check_logits(logits, "the text");
    const Tensor all = log_softmax(logits.to(f32), -1);
    const auto first = tokens_.begin() + 1 + std::ssize(result_);
    const std::vector<std::int32_t> targets(first, first + all.size(0));
    const std::vector<float> own =
        gather(all, 1, from_vector(targets, all.device()).to(i64).unsqueeze(1)).contiguous().to_vector<float>();
    for (std::size_t i = 0; i < targets.size(); ++i) result_.push_back({-1, targets[i], own[i]});
    if (most_ == 0) continue;
    const ValuesIndices found = topk(all, most_, 1);
    const std::vector<float> values = found.values.contiguous().to_vector<float>();
    const std::vector<std::int64_t> indices = found.indices.to(i64).contiguous().to_vector<std::int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = result_.size() - targets.size() + i / static_cast<std::size_t>(most_);
      result_[row].top.emplace_back(static_cast<std::int32_t>(indices[i]), values[i]);
    }
  }
}

std::vector<GeneratedToken> Generator::logprobs(std::span<const std::int32_t> tokens, std::int64_t top,
                                                std::int64_t adapter) {
  TextLogprobs text(*this, tokens, top, adapter);
  while (text.read()) {}
  return text.take();
}

}  // namespace etna::models
