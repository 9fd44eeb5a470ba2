#include <algorithm>
#include <bit>
#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/draft.h>
#include <etna/models/generator_slots.h>
#include <etna/models/suspicious_weights.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/sampling.h>

namespace etna::models {
namespace {

/// Steps that are queued before the host has seen the token of the first of them.
constexpr std::int64_t kAhead = 2;
constexpr std::int64_t kGeneratorFirstWidth = 8;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

GeneratorOptions with_defaults(GeneratorOptions options) {
  nn::checked_size("Generator", "chunk", options.chunk, 0);
  nn::checked_size("Generator", "guesses", options.guesses, 0);
  if (options.draft != nullptr && options.guesses == 0)
    throw Error("Generator: a draft has nothing to do without guesses; ask for some, such as 4");
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
    case StopReason::left:
      break;
  }
  return "stopped";
}

Generator::Generator(const Decoder& model, const GeneratorOptions& options)
    : model_(model),
      options_(with_defaults(options)),
      cache_(model.config, options.device, options.cache),
      slots_(static_cast<std::size_t>(nn::checked_size("Generator", "slots", options.slots, 1))),
      steps_(std::make_unique<Steps>()) {
  const std::int64_t slots = options.slots;
  const Device device = options.device;
  tokens_ = zeros({slots}, {i32, device});
  positions_ = full({slots}, -1, {i32, device});
  for (std::int64_t i = 0; i < slots; ++i) steps_->token_of_slot.push_back(tokens_.select(0, i));
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
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.running(); });
}

Generator::Slot* Generator::slot_of(Id sequence) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.running() && slot.sequence == sequence; });
  return found == slots_.end() ? nullptr : &*found;
}

StopReason Generator::stopped(Id sequence) const {
  const auto found =
      std::find_if(ended_.begin(), ended_.end(), [&](const auto& ended) { return ended.first == sequence; });
  return found == ended_.end() ? StopReason::none : found->second;
}

/// The table of blocks grows by doubling: each width is another captured step.
void Generator::widen(std::int64_t blocks) {
  if (blocks <= width_) return;
  width_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(blocks, kGeneratorFirstWidth))));
  table_ = full({options_.slots, width_}, -1, {i32, options_.device});
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].running()) write_row(i);
}

void Generator::write_row(std::size_t i) {
  Slot& slot = slots_[i];
  table_.select(0, static_cast<std::int64_t>(i)).copy_(from_vector(cache_.row(slot.cached, width_)));
}

bool Generator::is_full(const Slot& slot) const {
  return slot.position >= std::min(model_.config.context, cache_.capacity());
}

/// Whether a full sequence has to wait until the host has seen its tokens, to end or to be read again.
bool Generator::waits(const Slot& slot) const {
  if (!slot.running() || !is_full(slot)) return false;
  const bool turns = model_.config.positions == PositionKind::rotary && options_.cache.dtype != u8 &&
                     cache_.droppable(slot.cached, slot.position, slot.options.sinks) > 0;
  return !slot.options.endless || !turns;
}

/// Gives a slot's sequence blocks up to the last position that the next step writes.
void Generator::make_room(Slot& slot, std::int64_t rows) {
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  if (slot.options.endless && is_full(slot)) {
    const std::int64_t most = std::min(model_.config.context, cache_.capacity());
    const std::int64_t dropped = cache_.drop_middle(slot.cached, slot.position, slot.options.sinks, most / 4);
    slot.position -= dropped;
    slot.dropped += dropped;
    positions_.select(0, index).add_(-static_cast<double>(dropped));
    slot.blocks = 0;
  }
  cache_.reserve(slot.cached, slot.position + rows);
  const std::int64_t blocks = (slot.position + rows - 1) / kCacheBlock + 1;
  if (blocks <= slot.blocks) return;
  slot.blocks = blocks;
  if (blocks > width_)
    widen(blocks);
  else
    write_row(static_cast<std::size_t>(index));
}

/// Draws from logits [rows, vocabulary] of slots begin ... end - 1.
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
    if (!slot.running()) continue;
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
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.running()) continue;
    ++slot.position;
    ++slot.generated;
    slot.pending.push_back(read_later(steps_->token_of_slot[i]));
  }
}

Generator::Id Generator::join(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  const auto begin = Clock::now();
  if (prompt.empty())
    throw Error("Generator: the prompt is empty; give it at least one token, such as the one for begin");
  for (const std::int32_t token : prompt) {
    if (token < 0 || token >= model_.config.vocabulary) {
      throw IndexError(fmt::format("Generator: the prompt has token {}; the model knows 0 to {}", token,
                                   model_.config.vocabulary - 1));
    }
  }
  options.sampling.check(model_.config.vocabulary);
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length > model_.config.context) {
    throw Error(
        fmt::format("Generator: the prompt has {} tokens; the model's context is {}", length, model_.config.context));
  }
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.running(); });
  if (free == slots_.end())
    throw Error(fmt::format("Generator: all {} slots are taken; wait until a sequence has ended", slots_.size()));
  const NoGrad no_grad;
  const auto index = static_cast<std::int64_t>(free - slots_.begin());
  const KvCache::Started started = cache_.start(prompt);
  try {
    cache_.reserve(started.id, length);
  } catch (...) {
    cache_.finish(started.id, {});
    throw;
  }
  Slot& slot = *free;
  slot = Slot();
  slot.sequence = next_++;
  slot.cached = started.id;
  slot.options = options;
  slot.tokens.assign(prompt.begin(), prompt.end());
  slot.blocks = (length - 1) / kCacheBlock + 1;
  if (slot.blocks > width_)
    widen(slot.blocks);
  else
    write_row(static_cast<std::size_t>(index));

  const SamplingOptions& s = options.sampling;
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
  if (counts_.defined()) {
    std::vector<std::int32_t> counts(static_cast<std::size_t>(vocabulary));
    for (const std::int32_t token : prompt) counts[static_cast<std::size_t>(token)] = kInPrompt;
    counts_.select(0, index).copy_(from_vector(counts));
  }
  if (bias_.defined()) {
    std::vector<float> bias(static_cast<std::size_t>(vocabulary));
    for (const auto& [token, value] : s.logit_bias) bias[static_cast<std::size_t>(token)] = value;
    bias_.select(0, index).copy_(from_vector(bias));
  }

  draws_.select(0, index).fill_(0);
  try {
    read_prompt(slot, prompt, started.reused);
    slot.generated = 1;
    slot.pending.back().get();
    if (draft_) draft_->join(static_cast<std::size_t>(index), slot.tokens);
  } catch (...) {
    finish(slot, StopReason::left);
    throw;
  }
  times_.prompt_tokens += length - started.reused;
  times_.prompt_seconds += seconds_since(begin);
  return slot.sequence;
}

/// Reads tokens from `at` on and queues the draw of the next one.
void Generator::read_prompt(Slot& slot, std::span<const std::int32_t> prompt, std::int64_t at) {
  const auto index = static_cast<std::int64_t>(&slot - slots_.data()),
             length = static_cast<std::int64_t>(prompt.size());
  Tensor last;
  const Tensor row = table_.slice(0, index, index + 1);
  while (at < length) {
    const std::int64_t count = std::min(options_.chunk, length - at);
    const std::vector<std::int32_t> part(prompt.begin() + at, prompt.begin() + at + count);
    const Tensor positions = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(at)}, options_.device);
    const Tensor x =
        model_.extend(from_vector(part, {1, count}, options_.device), {&cache_.layers(), {row, positions}, at + count});
    at += count;
    if (at == length) last = x.select(1, count - 1);
  }
  const Tensor logits = model_.head(last);
  tokens_.slice(0, index, index + 1).copy_(pick(logits, index, index + 1));
  draws_.select(0, index).add_(1);
  positions_.select(0, index).fill_(static_cast<double>(length));
  active_.select(0, index).fill_(1);
  slot.position = length;
  slot.pending.push_back(read_later(tokens_.select(0, index)));
  check_logits(logits, "the prompt");
}

/// Where keys cannot be turned to other places, the end of the text is read again from the first position on.
void Generator::read_again(Slot& slot) {
  const std::int64_t most = std::min(model_.config.context, cache_.capacity());
  const auto known = static_cast<std::int64_t>(slot.tokens.size());
  const std::int64_t sinks = std::min(slot.options.sinks, most / 4), rest = std::max<std::int64_t>(1, most / 2 - sinks);
  std::vector<std::int32_t> tokens(slot.tokens.begin(), slot.tokens.begin() + sinks);
  tokens.insert(tokens.end(), slot.tokens.end() - std::min(rest, known - sinks), slot.tokens.end());
  cache_.finish(slot.cached, {});
  const KvCache::Started started = cache_.start(tokens);
  slot.cached = started.id;
  slot.dropped += known - static_cast<std::int64_t>(tokens.size());
  cache_.reserve(slot.cached, static_cast<std::int64_t>(tokens.size()));
  slot.blocks = (static_cast<std::int64_t>(tokens.size()) - 1) / kCacheBlock + 1;
  write_row(static_cast<std::size_t>(&slot - slots_.data()));
  read_prompt(slot, tokens, started.reused);
  ++slot.generated;
}

void Generator::finish(Slot& slot, StopReason reason) {
  const NoGrad no_grad;
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  positions_.select(0, index).fill_(-1);
  active_.select(0, index).fill_(0);
  table_.select(0, index).fill_(-1);
  // The last token that the host has seen has not been read by the model, or has been in a step that is queued.
  std::vector<std::int32_t> cached(slot.tokens);
  if (slot.dropped > 0) cached.clear();
  const std::int64_t written = std::min<std::int64_t>(slot.position, static_cast<std::int64_t>(cached.size()));
  cache_.finish(slot.cached, std::span(cached).first(static_cast<std::size_t>(written)));
  if (draft_) draft_->leave(static_cast<std::size_t>(index), slot.tokens);
  ended_.emplace_back(slot.sequence, reason);
  if (ended_.size() > 1024) ended_.erase(ended_.begin());
  slot = Slot();
}

/// Takes a token that was drawn for a sequence. @return false if the sequence has ended with it
bool Generator::give(Slot& slot, std::int32_t token, std::vector<GeneratedToken>& tokens) {
  const auto& stops = slot.options.stop_tokens;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
    finish(slot, StopReason::stop_token);
    return false;
  }
  slot.tokens.push_back(token);
  tokens.push_back({slot.sequence, token});
  ++times_.tokens;
  if (++slot.given < slot.options.max_tokens) return true;
  finish(slot, StopReason::max_tokens);
  return false;
}

std::vector<GeneratedToken> Generator::step() {
  const auto begin = Clock::now();
  const NoGrad no_grad;
  std::vector<GeneratedToken> tokens;
  if (can_guess()) guess(tokens);
  if (!tokens.empty()) {
    times_.decode_seconds += seconds_since(begin);
    return tokens;
  }
  // A guess needs all tokens before it.
  const std::int64_t ahead = options_.guesses > 0 ? 1 : kAhead;
  const auto wants = [ahead](const Slot& slot) {
    return slot.running() && std::ssize(slot.pending) < ahead && slot.generated < slot.options.max_tokens;
  };
  while (std::any_of(slots_.begin(), slots_.end(), wants)) {
    for (Slot& slot : slots_) {
      if (!slot.running()) continue;
      if (!waits(slot)) {
        make_room(slot);
      } else if (slot.pending.empty()) {
        slot.options.endless ? read_again(slot) : finish(slot, StopReason::context_full);
      }
    }
    if (std::any_of(slots_.begin(), slots_.end(), [this](const Slot& slot) { return waits(slot); })) break;
    if (!std::any_of(slots_.begin(), slots_.end(), wants)) break;
    launch();
  }
  for (Slot& slot : slots_) {
    if (!slot.running()) continue;
    if (slot.given >= slot.options.max_tokens || slot.pending.empty()) {
      finish(slot, slot.pending.empty() && slot.given < slot.options.max_tokens ? StopReason::context_full
                                                                                : StopReason::max_tokens);
      continue;
    }
    const auto token = static_cast<std::int32_t>(slot.pending.front().get());
    slot.pending.pop_front();
    give(slot, token, tokens);
  }
  times_.decode_seconds += seconds_since(begin);
  return tokens;
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

Tensor Generator::logits(std::span<const std::int32_t> tokens) {
  const NoGrad no_grad;
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (length == 0) return zeros({0, model_.config.vocabulary}, options_.device);
  const KvCache::Started started = cache_.start({});
  std::vector<Tensor> parts;
  try {
    cache_.reserve(started.id, length);
    const Tensor row = from_vector(cache_.row(started.id, (length - 1) / kCacheBlock + 1),
                                   {1, (length - 1) / kCacheBlock + 1}, options_.device);
    for (std::int64_t at = 0; at < length; at += options_.chunk) {
      const std::int64_t count = std::min(options_.chunk, length - at);
      const std::vector<std::int32_t> part(tokens.begin() + at, tokens.begin() + at + count);
      const Tensor positions = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(at)}, options_.device);
      const Tensor x = model_.extend(from_vector(part, {1, count}, options_.device),
                                     {&cache_.layers(), {row, positions}, at + count});
      parts.push_back(model_.head(x.select(0, 0)));
    }
  } catch (...) {
    cache_.finish(started.id, {});
    throw;
  }
  cache_.finish(started.id, {});
  return parts.size() == 1 ? parts[0] : cat(parts, 0);
}

}  // namespace etna::models
