#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/look_up.h>
#include <etna/models/internal/mtp_draft.h>
#include <etna/models/internal/state_mixers.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

// Speculative decoding: several tokens per step, all but the first of them guessed by prompt lookup, a draft model, or
// the model's own head.
namespace etna::models {

/// Whether the next step may read guessed tokens: the host knows all tokens, there is room for the guesses, and no
/// sequence has options that need one token per step.
bool Generator::can_guess() const {
  if (options_.guesses == 0) return false;
  const std::int64_t most = std::min(model_.config.context, cache_.capacity());
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return !slot.decoding() || (slot.pending.empty() && slot.position + 1 + options_.guesses <= most &&
                                !slot.options.grammar && slot.options.logprobs < 0 &&
                                !slot.options.sampling.penalizes() && slot.options.sampling.logit_bias.empty());
  });
}

/// Guesses for each sequence: a draft model writes them on the device when it runs, a lookup returns them at once.
/// @param read [slots, 1 + guesses], the tokens to read, as far as they are known @return how many were guessed
std::vector<std::int64_t> Generator::find_guesses(std::vector<std::int32_t>& read) {
  const std::int64_t rows = 1 + options_.guesses;
  std::vector<std::int64_t> found(slots_.size());
  if (draft_) draft_->begin_step();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.decoding()) continue;
    const auto row = read.begin() + static_cast<std::int64_t>(i) * rows;
    std::fill_n(row, rows, slot.tokens.back());
    if (draft_) {
      try {
        found[i] = draft_->catch_up(i, slot.tokens) ? options_.guesses : 0;
      } catch (const OutOfMemory&) {
        if (model_.split.is_split()) throw;  // others have guesses
        draft_->leave(i, {});                // it goes on without guesses
      } catch (const DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        fail(slot, error);
      }
    } else if (mtp_) {
      found[i] = options_.guesses;
    } else {
      const std::vector<std::int32_t> guessed = look_up(slot.tokens, options_.guesses);
      std::copy(guessed.begin(), guessed.end(), row + 1);
      found[i] = std::ssize(guessed);
    }
  }
  return found;
}

/// Reads the tokens of guessed_[0] and samples the token after each into guessed_[1].
void Generator::check_guesses(bool greedy) {
  const std::int64_t rows = 1 + options_.guesses;
  auto& step = steps_->captured[{.guesses = true, .greedy = greedy, .width = width_}];
  if (step == nullptr) {
    const std::function<void()> run = [this, greedy, rows] {
      const Tensor x = extended(guessed_.select(0, 0));
      const Tensor logits = model_.head(x.flatten(0, 1));
      const auto each = [&](const Tensor& of_slots) { return repeat_interleave(of_slots, rows, 0); };
      const Tensor places = arange(0, rows, 1, {i32, options_.device}).repeat({options_.slots});
      const Tensor drawn = greedy ? argmax(logits, -1).to(i32)
                                  : sample_tokens(logits, {each(numbers_), each(seeds_), each(draws_) + places});
      const Tensor sampled = same_on_all_ranks(drawn).reshape({options_.slots, rows});
      if (mtp_) mtp_->take(x, sampled);
      guessed_.select(0, 1).copy_(sampled);
    };
    step = Steps::step(run, {.device = options_.device, .name = fmt::format("decode {} tokens at once", rows)},
                       can_capture());
  }
  if (model_.host_layers() > 0) extend_on_host(guessed_.select(0, 0));
  (*step)();
}

/// Where layers keep a state, it takes up the tokens that were right: the step has left it as it was, and has held back
/// what it would have taken up. @param right [slots] i32, how many tokens of each slot
void Generator::take_up(const Tensor& right) {
  if (!cache_.keeps_states()) return;
  const auto hosted = static_cast<std::size_t>(model_.host_layers());
  const auto run = [this](std::size_t first, std::size_t last, const DecoderCache& cache) {
    for (std::size_t i = first; i < last; ++i) take_up_held(model_.blocks[i], cache);
  };
  const auto cache_on = [this](Device device, const Tensor& counts) {
    return DecoderCache{.layers = &cache_.layers(),
                        .places = {{}, positions_.to(device)},
                        .states = steps_->holding.data(),
                        .state_rows = state_rows_.to(device),
                        .counts = counts.to(device)};
  };
  if (hosted > 0) run(0, hosted, cache_on(kCPU, right));
  steps_->right.copy_(right);
  if (!steps_->take_up)
    steps_->take_up =
        Steps::step([=, this] { run(hosted, model_.blocks.size(), cache_on(options_.device, steps_->right)); },
                    {.device = options_.device, .name = "take up guesses"}, can_capture());
  (*steps_->take_up)();
}

/// Reads each sequence's last token and the guesses after it. A sampled token is accepted if all guesses before it
/// match the sampled ones.
void Generator::guess(std::vector<GeneratedToken>& tokens) {
  const std::int64_t rows = 1 + options_.guesses, slots = options_.slots;
  std::vector<std::int32_t> read(static_cast<std::size_t>(slots * rows)), next(slots_.size()), count(slots_.size());
  try {
    for (Slot& slot : slots_)
      if (slot.decoding()) make_room(slot, rows);
  } catch (const CacheFull&) {
    return;  // there may be room for one token, but not for several
  }
  const std::vector<std::int64_t> found = find_guesses(read);
  const std::int64_t all = std::accumulate(found.begin(), found.end(), std::int64_t{0});
  if (all == 0) return;
  for (Slot& slot : slots_)
    if (slot.decoding()) activate(slot, true);
  times_.guessed += all;
  const bool greedy = std::all_of(slots_.begin(), slots_.end(),
                                  [](const Slot& slot) { return !slot.decoding() || slot.options.sampling.greedy(); });
  guessed_.select(0, 0).copy_(from_vector(read, {slots, rows}));
  const Tensor guesses = guessed_.select(0, 0).slice(1, 1, rows);
  if (draft_) draft_->guess(guesses, greedy);
  if (mtp_) mtp_->guess(guesses, greedy, cache_.layers(), {table_, positions_});
  if (model_.split.is_split()) distributed::broadcast_(guessed_.select(0, 0));
  check_guesses(greedy);
  const std::vector<std::int32_t> both = guessed_.to_vector<std::int32_t>();
  const auto own_of = [&](std::size_t i) { return both.data() + (slots + static_cast<std::int64_t>(i)) * rows; };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].decoding()) continue;
    const std::int32_t *guesses = both.data() + static_cast<std::int64_t>(i) * rows + 1, *own = own_of(i);
    std::int32_t right = 0;
    while (right + 1 < rows && guesses[right] == own[right]) ++right;
    next[i] = own[right];
    count[i] = right + 1;
  }
  // What may fail comes before a sequence is given tokens.
  const Tensor counted = from_vector(count, options_.device);
  take_up(counted);
  tokens_.copy_(from_vector(next));
  positions_.add_(counted * active_);
  draws_.add_(counted);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].decoding()) continue;
    times_.guessed_right += std::min<std::int64_t>(count[i] - 1, found[i]);
    slots_[i].position += count[i];
    slots_[i].generated += count[i];
    if (draft_) draft_->accept(i, count[i] - 1);
    if (mtp_) mtp_->accept(i, count[i] - 1);
    const std::int32_t* own = own_of(i);
    for (std::int32_t j = 0; j < count[i] && give(slots_[i], {slots_[i].sequence, own[j]}, tokens); ++j) {}
  }
}

}  // namespace etna::models
