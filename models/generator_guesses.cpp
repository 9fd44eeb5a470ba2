#include <algorithm>

#include <fmt/format.h>

#include <etna/models/generator_slots.h>
#include <etna/models/look_up.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/sampling.h>

// Several tokens a step, of which all but the first are guessed (prompt look-up decoding).
namespace etna::models {

bool Generator::penalizes() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.running() && slot.options.sampling.penalizes(); });
}

/// Whether the next step may read guessed tokens: the host knows all tokens, and the guesses have places.
bool Generator::can_guess() const {
  if (options_.guesses == 0 || penalizes() || bias_.defined()) return false;
  const std::int64_t most = std::min(model_.config.context, cache_.capacity());
  return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return !slot.running() || (slot.pending.empty() && slot.position + 1 + options_.guesses <= most);
  });
}

/// Reads each sequence's last token and guessed ones behind it. A drawn token counts as long as the guesses in front of
/// it are what was drawn.
void Generator::guess(std::vector<GeneratedToken>& tokens) {
  const std::int64_t rows = 1 + options_.guesses, slots = options_.slots;
  std::vector<std::int32_t> read(static_cast<std::size_t>(slots * rows)), next(slots_.size()), count(slots_.size());
  bool greedy = true;
  std::int64_t found = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!slot.running()) continue;
    greedy = greedy && slot.options.sampling.greedy();
    std::vector<std::int32_t> guessed = look_up(slot.tokens, options_.guesses);
    found += std::ssize(guessed);
    guessed.insert(guessed.begin(), slot.tokens.back());
    guessed.resize(static_cast<std::size_t>(rows), slot.tokens.back());
    std::copy(guessed.begin(), guessed.end(), read.begin() + static_cast<std::int64_t>(i) * rows);
  }
  if (found == 0) return;
  try {
    for (Slot& slot : slots_)
      if (slot.running()) make_room(slot, rows);
  } catch (const CacheFull&) {
    return;  // one token may have room where several have not
  }
  times_.guessed += found;
  guessed_.copy_(from_vector(read, {slots, rows}));
  const StepKind kind{true, greedy, counts_.defined(), false, width_};
  auto& step = steps_->captured[kind];
  if (step == nullptr) {
    const std::function<void()> run = [this, greedy, rows] {
      const Tensor logits =
          model_.head(model_.extend(guessed_, {&cache_.layers(), {table_, positions_}}).flatten(0, 1));
      const auto each = [&](const Tensor& x) { return repeat_interleave(x, rows, 0); };
      const Tensor places = arange(0, rows, 1, {i32, options_.device}).repeat({options_.slots});
      const Tensor drawn = greedy ? argmax(logits, -1).to(i32)
                                  : sample_tokens(logits, {each(numbers_), each(seeds_), each(draws_) + places});
      drawn_.copy_(drawn.reshape(drawn_.shape()));
    };
    step = std::make_unique<Steps::Step>(
        capture(run, {.device = options_.device, .name = fmt::format("decode {} tokens at once", rows)}));
  }
  (*step)();
  const std::vector<std::int32_t> drawn = drawn_.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].running()) continue;
    const std::int32_t *guesses = read.data() + static_cast<std::int64_t>(i) * rows + 1,
                       *own = drawn.data() + static_cast<std::int64_t>(i) * rows;
    std::int64_t right = 0;
    while (right + 1 < rows && guesses[right] == own[right]) ++right;
    next[i] = own[right];
    count[i] = static_cast<std::int32_t>(right + 1);
    times_.guessed_right += right;
    slots_[i].position += right + 1;
    slots_[i].generated += right + 1;
    for (std::int64_t j = 0; j <= right && give(slots_[i], own[j], tokens); ++j) {}
  }
  const Tensor counted = from_vector(count, options_.device);
  tokens_.copy_(from_vector(next));
  positions_.add_(counted * active_);
  draws_.add_(counted);
}

}  // namespace etna::models
