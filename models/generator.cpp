#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::models {
namespace {

constexpr std::int64_t kGeneratorFirstWidth = 8;
constexpr std::int64_t kMaxSlots = 1 << 16;
/// Records of ended sequences.
constexpr std::int64_t kMaxEnded = 1 << 16;

GeneratorOptions with_defaults(GeneratorOptions options, std::int64_t context) {
  nn::checked_size("Generator", "chunk", options.chunk, 0);
  nn::checked_size("Generator", "guesses", options.guesses, 0);
  nn::checked_size("Generator", "slots", options.slots, 1);
  if (options.slots > kMaxSlots)
    throw ShapeError(fmt::format("Generator: slots is {}; wanted at most {}", options.slots, kMaxSlots));
  if (options.guesses > 0 && options.guesses >= context) {
    throw ShapeError(
        fmt::format("Generator: guesses is {}, too many for the model's context of {}", options.guesses, context));
  }
  if (options.draft != nullptr && options.guesses == 0)
    throw Error("Generator: got a draft model, but guesses is 0; set it, for example to 4");
  if (options.chunk == 0) options.chunk = options.device.is_cpu() ? 512 : 2048;
  return options;
}

}  // namespace

const char* name(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "running";
    case StopReason::stop_token:
      return "stop token";
    case StopReason::max_tokens:
      return "length";
    case StopReason::context_full:
      return "context full";
    case StopReason::failed:
      return "error";
    case StopReason::left:
      break;
  }
  return "stopped";
}

Generator::Generator(const Decoder& model, const GeneratorOptions& options)
    : model_(model),
      options_(with_defaults(options, model.config.context)),
      cache_(model.config, options.device, options.cache),
      slots_(static_cast<std::size_t>(options.slots)),
      steps_(std::make_unique<Steps>()) {
  const std::int64_t slots = options.slots;
  const Device device = options.device;
  tokens_ = zeros({slots}, {i32, device});
  positions_ = full({slots}, -1, {i32, device});
  active_ = zeros({slots}, {i32, device});
  numbers_ = zeros({slots, kSamplingNumbers}, {f32, device});
  seeds_ = zeros({slots, 2}, {i32, device});
  draws_ = zeros({slots}, {i32, device});
  if (options_.guesses > 0) {
    guessed_ = zeros({2, slots, 1 + options_.guesses}, {i32, device});
  }
  if (options_.draft != nullptr) {
    draft_ = std::make_unique<Draft>(*options_.draft, model,
                                     DraftOptions{.device = device,
                                                  .slots = slots,
                                                  .guesses = options_.guesses,
                                                  .chunk = options_.chunk,
                                                  .room = cache_.capacity(),
                                                  .dtype = options_.cache.dtype},
                                     SamplingInputs{numbers_, seeds_, draws_});
  }
  widen(kGeneratorFirstWidth);
}

Generator::~Generator() = default;

KvCache* Generator::draft_cache() { return draft_ ? &draft_->cache() : nullptr; }

bool Generator::has_room() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken(); });
}

std::int64_t Generator::running() const {
  return std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.taken(); });
}

Generator::Slot* Generator::slot_of(Id sequence) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.taken() && slot.sequence == sequence; });
  return found == slots_.end() ? nullptr : &*found;
}

const Generator::Ended& Generator::ended(Id sequence) const {
  const auto found = ended_.find(sequence);
  if (found != ended_.end()) return found->second;
  if (sequence < 0 || sequence >= next_)
    throw IndexError(fmt::format("Generator: no sequence has id {}; {} have begun", sequence, next_));
  throw IndexError(fmt::format("Generator: sequence {} has ended and was forgotten", sequence));
}

StopReason Generator::stopped(Id sequence) const {
  return slot_of(sequence) != nullptr ? StopReason::none : ended(sequence).reason;
}

std::string Generator::error_of(Id sequence) const {
  return slot_of(sequence) != nullptr ? std::string() : ended(sequence).error;
}

std::int64_t Generator::reused(Id sequence) const {
  const Slot* slot = slot_of(sequence);
  return slot != nullptr ? slot->reused : ended(sequence).reused;
}

void Generator::forget(Id sequence) { ended_.erase(sequence); }

/// The block table grows by doubling, because each width needs another captured step.
void Generator::widen(std::int64_t blocks) {
  if (blocks <= width_) return;
  width_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(blocks, kGeneratorFirstWidth))));
  table_ = full({options_.slots, width_}, -1, {i32, options_.device});
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].taken()) write_row(i);
}

void Generator::write_row(std::size_t i) {
  Slot& slot = slots_[i];
  table_.select(0, static_cast<std::int64_t>(i)).copy_(from_vector(cache_.row(slot.cached, width_)));
}

bool Generator::is_full(const Slot& slot) const {
  return slot.position >= std::min(model_.config.context, cache_.capacity());
}

/// Samples from logits [rows, vocabulary] of slots begin ... end - 1.
Tensor Generator::pick(const Tensor& logits, std::int64_t begin, std::int64_t end) {
  const auto rows = [&](const Tensor& x) { return x.defined() ? x.slice(0, begin, end) : Tensor(); };
  return sample_tokens(logits, {rows(numbers_), rows(seeds_), rows(draws_), rows(counts_), rows(bias_)});
}

Tensor Generator::decode() {
  const Tensor x = model_.extend(tokens_.unsqueeze(1), {&cache_.layers(), {table_, positions_}});
  return model_.head(x.select(1, 0));
}

void Generator::launch() {
  bool greedy = true;
  for (Slot& slot : slots_) {
    if (!slot.decoding()) continue;
    greedy = greedy && slot.options.sampling.greedy() && !slot.options.sampling.penalizes();
  }
  const StepKind kind{false, greedy && !bias_.defined(), counts_.defined(), bias_.defined(), width_};
  auto& step = steps_->captured[kind];
  if (step == nullptr) {
    const std::function<void()> run = [this, kind] {
      const Tensor logits = decode();
      const Tensor next = kind.greedy ? argmax(logits, -1).to(i32) : pick(logits, 0, options_.slots);
      tokens_.copy_(next);
      positions_.add_(active_);
      draws_.add_(active_);
    };
    step = std::make_unique<Steps::Step>(
        capture(run, {.device = options_.device, .name = fmt::format("decode, {} positions", width_ * kCacheBlock)}));
  }
  (*step)();
  const std::vector<PendingValue> tokens = read_each_later(tokens_);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.drawing) continue;
    ++slot.position;
    ++slot.generated;
    slot.pending.push_back(tokens[i]);
  }
}

/// Writes a sequence's sampling options to the device.
void Generator::write_sampling(const Slot& slot) {
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  const SamplingOptions& s = slot.options.sampling;
  numbers_.select(0, index).copy_(from_vector(std::vector<float>{
      static_cast<float>(s.temperature), static_cast<float>(s.top_k), static_cast<float>(s.top_p),
      static_cast<float>(s.min_p), static_cast<float>(s.typical_p), static_cast<float>(s.repetition_penalty),
      static_cast<float>(s.presence_penalty), static_cast<float>(s.frequency_penalty)}));
  seeds_.select(0, index).copy_(
      from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(static_cast<std::uint32_t>(s.seed)),
                                            static_cast<std::int32_t>(static_cast<std::uint32_t>(s.seed >> 32))}));
  const std::int64_t vocabulary = model_.config.vocabulary;
  if (s.penalizes() && !counts_.defined()) counts_ = zeros({options_.slots, vocabulary}, {i32, options_.device});
  if (!s.logit_bias.empty() && !bias_.defined()) bias_ = zeros({options_.slots, vocabulary}, {f32, options_.device});
  write_counts(slot);
  if (bias_.defined()) {
    std::vector<float> bias(static_cast<std::size_t>(vocabulary));
    for (const auto& [token, value] : s.logit_bias) bias[static_cast<std::size_t>(token)] = value;
    bias_.select(0, index).copy_(from_vector(bias));
  }
  draws_.select(0, index).fill_(0);
}

/// Writes the token counts of a sequence's text, as far as the host has seen it, to the device.
void Generator::write_counts(const Slot& slot) {
  if (!counts_.defined()) return;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(model_.config.vocabulary));
  for (std::size_t i = 0; i < slot.tokens.size(); ++i) {
    std::int32_t& count = counts[static_cast<std::size_t>(slot.tokens[i])];
    static_cast<std::int64_t>(i) < slot.prompt ? count = kInPrompt : ++count;
  }
  counts_.select(0, &slot - slots_.data()).copy_(from_vector(counts));
}

void Generator::finish(Slot& slot, StopReason reason, const std::string& error) {
  const NoGrad no_grad;
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  // First the host's part, so that a slot is free again even where the device fails.
  const Slot old = std::exchange(slot, Slot());
  ended_[old.sequence] = {reason, old.reused, error};
  if (std::ssize(ended_) > kMaxEnded) ended_.erase(ended_.begin());
  // The model has not read the last token that the host has seen, or reads it in a queued step.
  std::vector<std::int32_t> cached(old.tokens);
  if (old.dropped > 0 || reason == StopReason::failed) cached.clear();
  const std::int64_t written = std::min<std::int64_t>(old.position, static_cast<std::int64_t>(cached.size()));
  cache_.finish(old.cached, std::span(cached).first(static_cast<std::size_t>(written)));
  if (draft_) draft_->leave(static_cast<std::size_t>(index), old.tokens);
  positions_.select(0, index).fill_(-1);
  active_.select(0, index).fill_(0);
  table_.select(0, index).fill_(-1);
}

void Generator::leave(Id sequence) {
  if (Slot* slot = slot_of(sequence)) finish(*slot, StopReason::left);
}

StopReason Generator::generate(std::span<const std::int32_t> prompt, const GenerationOptions& options,
                               const std::function<bool(std::int32_t)>& seen) {
  const Id sequence = join(prompt, options);
  try {
    for (bool wanted = true; wanted && stopped(sequence) == StopReason::none;) {
      for (const GeneratedToken& generated : step())
        if (wanted && generated.sequence == sequence) wanted = seen(generated.token);
      if (!wanted) leave(sequence);
    }
  } catch (...) {
    leave(sequence);
    throw;
  }
  return stopped(sequence);
}

}  // namespace etna::models
