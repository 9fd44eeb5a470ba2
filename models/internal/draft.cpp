#include <etna/models/internal/draft.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <etna/models/internal/latent_prompts.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

constexpr std::int64_t kDraftFirstWidth = 8;

/// Cache size for every slot's text, limited by the draft's context and the target's cache.
KvCacheOptions cache_options(const DecoderConfig& config, const DraftOptions& options) {
  const std::int64_t whole = (config.context + kCacheBlock - 1) / kCacheBlock * kCacheBlock,
                     ends = options.slots * (options.guesses + kCacheBlock);
  // A draft model's cache is small enough without Q8_0, which needs rows of a multiple of 32.
  return {.tokens = std::min(options.slots * whole, options.room + ends),
          .dtype = options.dtype == u8 ? f16 : options.dtype};
}

}  // namespace

Draft::Draft(const Decoder& model, const Decoder& target, const DraftOptions& options, SamplingInputs sampling)
    : model_(model),
      options_(options),
      sampling_(std::move(sampling)),
      cache_(model.own_config, options.device, cache_options(model.config, options)),
      places_(static_cast<std::size_t>(options.slots)) {
  if (model.config.vocabulary != target.config.vocabulary) {
    throw Error(
        fmt::format("Generator: the draft has {} tokens in its vocabulary, the model {}; wanted the same vocabulary",
                    model.config.vocabulary, target.config.vocabulary));
  }
  if (model.config.has_state())
    throw Error("Generator: layers that keep a state cannot take a wrong guess back; use another draft");
  // If a text is longer than the context, half of the context is kept, and guesses need room after it.
  if (most() < 2 * options.guesses + 4) {
    throw Error(fmt::format("Generator: a draft with a context of {} has no room for {} guesses; ask for at most {}",
                            most(), options.guesses, std::max<std::int64_t>(0, most() / 2 - 2)));
  }
  inputs_.resize(static_cast<std::size_t>(options.slots * (2 + options.guesses)));
  inputs_there_ = zeros({std::ssize(inputs_)}, {i32, options.device});
  widen(kDraftFirstWidth);
}

std::int64_t Draft::most() const { return std::min(model_.config.context, cache_.capacity()); }

void Draft::widen(std::int64_t blocks) {
  if (blocks <= width_) return;
  width_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(blocks)));
  table_ = full({options_.slots, width_}, -1, {i32, options_.device});
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i].cached >= 0) write_row(i);
}

void Draft::write_row(std::size_t slot) {
  table_.select(0, static_cast<std::int64_t>(slot)).copy_(from_vector(cache_.row(places_[slot].cached, width_)));
}

void Draft::start(std::size_t slot, std::span<const std::int32_t> text) {
  const auto length = static_cast<std::int64_t>(text.size());
  const std::int64_t kept = length + options_.guesses > most() ? most() / 2 : length;
  const KvCache::Started started = cache_.start(text.last(static_cast<std::size_t>(kept)));
  places_[slot] = {.cached = started.id, .first = length - kept, .read = started.reused};
}

bool Draft::reserve(std::size_t slot, std::int64_t length) {
  Place& place = places_[slot];
  try {
    cache_.reserve(place.cached, length);
  } catch (const CacheFull&) {
    leave(slot, {});
    return false;
  }
  const std::int64_t blocks = (length - 1) / kCacheBlock + 1;
  if (blocks <= place.blocks) return true;
  place.blocks = blocks;
  if (blocks > width_)
    widen(blocks);
  else
    write_row(slot);
  return true;
}

/// Reads a chunk of the tokens of a text up to position `end`, exclusive, if this step has room for it.
/// @return whether all are read
bool Draft::read(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end) {
  Place& place = places_[slot];
  const auto index = static_cast<std::int64_t>(slot);
  const std::int64_t count = std::min(options_.chunk, end - place.read);
  if (count <= 0) return true;
  // What a few steps without guesses leave does not wait for long texts of others.
  if (count > kCacheBlock && count > room_) return false;
  room_ -= count;
  const auto part = text.subspan(static_cast<std::size_t>(place.first + place.read), static_cast<std::size_t>(count));
  const Tensor positions =
      from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(place.read)}, options_.device);
  model_.extend(from_vector(std::vector<std::int32_t>(part.begin(), part.end()), {1, count}, options_.device),
                {&cache_.layers(),
                 {table_to(model_.own_config, table_.slice(0, index, index + 1), place.read + count), positions}});
  place.read += count;
  return place.read == end;
}

void Draft::join(std::size_t slot, std::span<const std::int32_t> text) {
  start(slot, text);
  reserve(slot, static_cast<std::int64_t>(text.size()) - places_[slot].first);
}

bool Draft::catch_up(std::size_t slot, std::span<const std::int32_t> text) {
  Place& place = places_[slot];
  place.length = 0;
  if (place.cached < 0) return false;
  const auto all = static_cast<std::int64_t>(text.size());
  if (all - place.first + options_.guesses > most()) {
    leave(slot, text);
    start(slot, text);
  }
  const std::int64_t length = all - place.first;
  if (!reserve(slot, length + options_.guesses - 1)) return false;
  if (!read(slot, text, length - 2)) return false;
  place.length = length;
  std::copy_n(text.end() - 2, 2, inputs_.begin() + static_cast<std::ptrdiff_t>(2 * slot));
  return true;
}

void Draft::guess(const Tensor& guesses, bool greedy) {
  const std::int64_t slots = options_.slots;
  auto positions = inputs_.begin() + 2 * slots;
  for (std::int64_t i = 0; i < options_.guesses; ++i) {
    // The first step reads two tokens: if all guesses were right, the draft has not yet read the last of them.
    // Of texts for which it does not guess, which it may just be reading, both are before the first position.
    for (const Place& place : places_)
      *positions++ = place.length == 0 ? -2 : static_cast<std::int32_t>(place.length + i - (i == 0 ? 2 : 1));
  }
  inputs_there_.copy_(from_vector(inputs_));
  auto& step = steps_[{greedy, width_}];
  if (step == nullptr) {
    const std::function<void()> run = [this, greedy, guesses, slots] {
      Tensor tokens = inputs_there_.slice(0, 0, 2 * slots).reshape({slots, 2});
      for (std::int64_t i = 0; i < options_.guesses; ++i) {
        const Tensor positions = inputs_there_.slice(0, (2 + i) * slots, (3 + i) * slots);
        const Tensor x = model_.extend(tokens, {&cache_.layers(), {table_, positions}});
        const Tensor logits = model_.head(x.select(1, x.size(1) - 1));
        const Tensor drawn =
            greedy ? argmax(logits, -1).to(i32)
                   : sample_tokens(logits,
                                   {sampling_.numbers, sampling_.seeds,
                                    sampling_.draws + full({slots}, static_cast<double>(i), {i32, options_.device})});
        guesses.select(1, i).copy_(drawn);
        tokens = drawn.unsqueeze(1);
      }
    };
    step = std::make_unique<Step>(
        capture(run, {.device = options_.device, .name = fmt::format("draft of {} tokens", options_.guesses)}));
  }
  (*step)();
}

void Draft::accept(std::size_t slot, std::int64_t right) {
  Place& place = places_[slot];
  if (place.length > 0) place.read = place.length + std::min(right, options_.guesses - 1);
}

void Draft::leave(std::size_t slot, std::span<const std::int32_t> text) {
  Place& place = places_[slot];
  if (place.cached < 0) return;
  const auto rest = text.subspan(std::min(text.size(), static_cast<std::size_t>(place.first)));
  cache_.finish(place.cached, rest.first(std::min(rest.size(), static_cast<std::size_t>(place.read))));
  place = {};
  table_.select(0, static_cast<std::int64_t>(slot)).fill_(-1);
}

}  // namespace etna::models
