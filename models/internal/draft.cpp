#include <etna/models/internal/draft.h>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <etna/models/internal/latent_prompts.h>
#include <etna/models/internal/state_cache.h>
#include <etna/tensor/ops.h>

namespace etna::models {
namespace {

constexpr std::int64_t kDraftFirstWidth = 8;

/// Cache size for every slot's text, limited by the draft's context and the target's cache.
KvCacheOptions cache_options(const DecoderConfig& config, const DraftOptions& options) {
  const std::int64_t whole = (config.context + kCacheBlock - 1) / kCacheBlock * kCacheBlock,
                     ends = options.slots * (options.guesses + kCacheBlock);
  // A draft model's cache is small enough without Q8_0, which needs rows of a multiple of 32. States are of texts, of
  // guesses and of prefixes.
  return {.tokens = std::min(options.slots * whole, options.room + ends),
          .dtype = options.dtype == u8 ? f16 : options.dtype,
          .states = 3 * options.slots};
}

}  // namespace

Draft::Draft(const Decoder& model, const Decoder& target, const DraftOptions& options, SamplingInputs sampling)
    : model_(model),
      options_(options),
      sampling_(std::move(sampling)),
      cache_(model.own_config, options.device, cache_options(model.config, options)),
      places_(static_cast<std::size_t>(options.slots)),
      // A state has all tokens before the last guesses. Of keys, only that of the last guess may be missing.
      first_rows_(model.config.has_state() ? 1 + options.guesses : 2) {
  if (model.config.vocabulary != target.config.vocabulary) {
    throw Error(
        fmt::format("Generator: the draft has {} tokens in its vocabulary, the model {}; wanted the same vocabulary",
                    model.config.vocabulary, target.config.vocabulary));
  }
  // If a text is longer than the context, half of the context is kept, and guesses need room after it.
  if (most() < 2 * options.guesses + 4) {
    throw Error(fmt::format("Generator: a draft with a context of {} has no room for {} guesses; ask for at most {}",
                            most(), options.guesses, std::max<std::int64_t>(0, most() / 2 - 2)));
  }
  inputs_.resize(static_cast<std::size_t>(options.slots * (first_rows_ + options.guesses + 1)));
  inputs_there_ = zeros({std::ssize(inputs_)}, {i32, options.device});
  if (cache_.keeps_states()) {
    std::vector<std::int32_t> rows;
    for (std::int64_t i = 0; i < options.slots; ++i) rows.push_back(cache_.state_row(cache_.start({}).id));
    ahead_rows_ = from_vector(rows, options.device);
    state_rows_ = ahead_rows_.clone();
  }
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
  if (!state_rows_.defined()) return;
  state_rows_.select(0, static_cast<std::int64_t>(slot)).fill_(static_cast<double>(cache_.state_row(started.id)));
}

/// The cache of slots from `slot` on, for tokens of their texts. @param counts as DecoderCache::counts
DecoderCache Draft::first_cache(const CachePlaces& places, std::int64_t slot, std::int64_t slots,
                                const Tensor& counts) {
  DecoderCache cache{.layers = &cache_.layers(), .places = places, .states = cache_.states()};
  if (state_rows_.defined()) cache.state_rows = state_rows_.slice(0, slot, slot + slots);
  if (state_rows_.defined()) cache.counts = counts;
  return cache;
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

/// Reads tokens of a text up to position `end`, exclusive, as far as this step has room for them. States behind the
/// last whole block are kept for texts that begin alike. @return whether all are read
bool Draft::read(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end) {
  const std::int64_t whole = end / kCacheBlock * kCacheBlock;
  if (cache_.keeps_states() && places_[slot].read < whole) {
    if (!read_chunk(slot, text, whole)) return false;
    cache_.keep_state(places_[slot].cached, whole);
  }
  return read_chunk(slot, text, end);
}

/// Reads a chunk of these tokens.
bool Draft::read_chunk(std::size_t slot, std::span<const std::int32_t> text, std::int64_t end) {
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
  const Tensor table = table_to(model_.own_config, table_.slice(0, index, index + 1), place.read + count);
  model_.extend(from_vector(std::vector<std::int32_t>(part.begin(), part.end()), {1, count}, options_.device),
                first_cache({table, positions}, index, 1));
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
  // Where a step failed after its guesses, a state has all tokens, and none is left to guess behind.
  const bool ahead = place.read >= all - place.first;
  if (ahead || all - place.first + options_.guesses > most()) {
    leave(slot, ahead ? std::span<const std::int32_t>() : text);
    start(slot, text);
  }
  const std::int64_t length = all - place.first;
  if (!reserve(slot, length + options_.guesses - (cache_.keeps_states() ? 0 : 1))) return false;
  if (!read(slot, text, length - first_rows_)) return false;
  place.length = length;
  const std::int64_t unread = cache_.keeps_states() ? length - place.read : first_rows_;
  std::copy_n(text.end() - unread, unread, inputs_.begin() + static_cast<std::int64_t>(slot) * first_rows_);
  return true;
}

/// Where each step begins in each slot. Of texts for which the draft does not guess, which it may just be reading, all
/// tokens are before the first position.
void Draft::write_inputs() {
  auto next = inputs_.begin() + first_rows_ * options_.slots;
  const auto put = [&](std::int64_t value) { *next++ = static_cast<std::int32_t>(value); };
  // Without a state the first step reads two tokens: if all guesses were right, the last of them was not yet read.
  const auto first = [&](const Place& place) {
    return cache_.keeps_states() ? place.read : place.length - first_rows_;
  };
  for (std::int64_t i = 0; i < options_.guesses; ++i)
    for (const Place& place : places_)
      put(place.length == 0 ? -first_rows_ : i == 0 ? first(place) : place.length + i - 1);
  for (const Place& place : places_) put(place.length == 0 ? first_rows_ : place.length - first(place));
  inputs_there_.copy_(from_vector(inputs_));
}

void Draft::run(Tensor guesses, bool greedy) {
  const std::int64_t slots = options_.slots;
  const auto inputs = [&](std::int64_t row, std::int64_t rows = 1) {
    return inputs_there_.slice(0, row * slots, (row + rows) * slots);
  };
  Tensor tokens = inputs(0, first_rows_).reshape({slots, first_rows_});
  const Tensor counts = inputs(first_rows_ + options_.guesses);
  for (std::int64_t i = 0; i < options_.guesses; ++i) {
    DecoderCache cache = first_cache({table_, inputs(first_rows_ + i)}, 0, slots, i == 0 ? counts : Tensor());
    if (i > 0) cache.state_rows = ahead_rows_;
    const Tensor x = model_.extend(tokens, cache);
    Tensor last = x.select(1, x.size(1) - 1);
    if (i == 0 && cache_.keeps_states()) {
      const Tensor begin = arange(0, slots, 1, {i32, options_.device}) * static_cast<double>(first_rows_);
      last = index_select(x.flatten(0, 1), 0, begin + counts - 1.0);
      if (options_.guesses > 1) copy_states({cache_.states(), cache_.layers().size()}, state_rows_, ahead_rows_);
    }
    const Tensor logits = model_.head(last);
    const Tensor drawn =
        greedy
            ? argmax(logits, -1).to(i32)
            : sample_tokens(logits, {sampling_.numbers, sampling_.seeds,
                                     sampling_.draws + full({slots}, static_cast<double>(i), {i32, options_.device})});
    guesses.select(1, i).copy_(drawn);
    tokens = drawn.unsqueeze(1);
  }
}

void Draft::guess(const Tensor& guesses, bool greedy) {
  write_inputs();
  auto& step = steps_[{greedy, width_}];
  if (step == nullptr) {
    step = std::make_unique<Step>(
        capture(std::function<void()>([this, guesses, greedy] { run(guesses, greedy); }),
                {.device = options_.device, .name = fmt::format("draft of {} tokens", options_.guesses)}));
  }
  try {
    (*step)();
  } catch (...) {
    // Nobody knows what states have taken up: these texts go on without guesses.
    for (std::size_t slot = 0; cache_.keeps_states() && slot < places_.size(); ++slot)
      if (places_[slot].length > 0) leave(slot, {});
    throw;
  }
  if (!cache_.keeps_states()) return;
  for (Place& place : places_)
    if (place.length > 0) place.read = place.length;
}

void Draft::accept(std::size_t slot, std::int64_t right) {
  Place& place = places_[slot];
  if (place.length > 0 && !cache_.keeps_states()) place.read = place.length + std::min(right, options_.guesses - 1);
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
