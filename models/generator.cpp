#include <algorithm>
#include <bit>
#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::models {
namespace {

constexpr std::int64_t kGeneratorFirstWidth = 8;
constexpr std::int64_t kMaxSlots = 1 << 16;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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

/// Keys and values are where their blocks are.
KvCacheOptions beside_layers(KvCacheOptions options, const Decoder& model) {
  options.host_layers = model.host_layers();
  return options;
}

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary, const char* text) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary)
      throw IndexError(
          fmt::format("Generator: {} has token {}; the model's vocabulary is 0 to {}", text, token, vocabulary - 1));
  }
}

void check_options(const GenerationOptions& options, std::int64_t vocabulary) {
  options.sampling.check(vocabulary);
  nn::checked_size("Generator", "max_tokens", options.max_tokens, 0);
  nn::checked_size("Generator", "sinks", options.sinks, 0);
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
      options_(with_defaults(options, model.config.context)),
      cache_(model.config, options.device, beside_layers(options.cache, model)),
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
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.running(); });
}

Generator::Slot* Generator::slot_of(Id sequence) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.running() && slot.sequence == sequence; });
  return found == slots_.end() ? nullptr : &*found;
}

StopReason Generator::stopped(Id sequence) const {
  if (sequence < 0 || sequence >= std::ssize(ended_))
    throw IndexError(fmt::format("Generator: no sequence has id {}; {} have joined", sequence, ended_.size()));
  return ended_[static_cast<std::size_t>(sequence)];
}

/// The block table grows by doubling, because each width needs another captured step.
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

/// Samples from logits [rows, vocabulary] of slots begin ... end - 1.
Tensor Generator::pick(const Tensor& logits, std::int64_t begin, std::int64_t end) {
  const auto rows = [&](const Tensor& x) { return x.defined() ? x.slice(0, begin, end) : Tensor(); };
  return sample_tokens(logits, {rows(numbers_), rows(seeds_), rows(draws_), rows(counts_), rows(bias_)});
}

Tensor Generator::decode() { return model_.head(extended(tokens_.unsqueeze(1)).select(1, 0)); }

/// Runs the blocks on the CPU before a captured step, which reads their result in a tensor that stays.
void Generator::extend_on_host(const Tensor& tokens) {
  if (model_.host_layers() == 0) return;
  const Tensor x = model_.extend_on_host(tokens, {&cache_.layers(), {table_, positions_}});
  Tensor& kept = steps_->from_host[tokens.size(1)];
  if (kept.defined())
    kept.copy_(x);
  else
    kept = x.clone();
}

/// Decoder::extend() within a captured step.
Tensor Generator::extended(const Tensor& tokens) {
  const DecoderCache cache{&cache_.layers(), {table_, positions_}};
  const auto from_host = steps_->from_host.find(tokens.size(1));
  return from_host == steps_->from_host.end() ? model_.extend(tokens, cache)
                                              : model_.extend_rest(from_host->second, cache);
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
  extend_on_host(tokens_.unsqueeze(1));
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

Generator::Id Generator::join(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  const auto begin = Clock::now();
  if (prompt.empty()) throw Error("Generator: the prompt is empty; give it at least one token, such as BOS");
  check_tokens(prompt, model_.config.vocabulary, "the prompt");
  check_options(options, model_.config.vocabulary);
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (length > model_.config.context) {
    throw Error(
        fmt::format("Generator: the prompt has {} tokens; the model's context is {}", length, model_.config.context));
  }
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.running(); });
  if (free == slots_.end())
    throw Error(fmt::format("Generator: all {} slots are in use; wait until a sequence has ended, or create more",
                            slots_.size()));
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
  slot.sequence = std::ssize(ended_);
  ended_.push_back(StopReason::none);
  slot.cached = started.id;
  slot.options = options;
  slot.tokens.assign(prompt.begin(), prompt.end());
  slot.prompt = length;
  slot.blocks = (length - 1) / kCacheBlock + 1;
  const Id sequence = slot.sequence;
  try {
    if (slot.blocks > width_)
      widen(slot.blocks);
    else
      write_row(static_cast<std::size_t>(index));
    write_sampling(slot);
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
  return sequence;
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

/// Reads tokens from `at` on and queues sampling the next one.
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
        model_.extend(from_vector(part, {1, count}, options_.device), {&cache_.layers(), {row, positions, at + count}});
    at += count;
    if (at == length) last = x.select(1, count - 1);
  }
  const Tensor logits = model_.head(last);
  tokens_.slice(0, index, index + 1).copy_(pick(logits, index, index + 1));
  draws_.select(0, index).add_(1);
  positions_.select(0, index).fill_(static_cast<double>(length));
  active_.select(0, index).fill_(1);
  slot.active = true;
  slot.position = length;
  slot.pending.push_back(read_later(tokens_.select(0, index)));
  check_logits(logits, "the prompt");
}

void Generator::finish(Slot& slot, StopReason reason) {
  const NoGrad no_grad;
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  positions_.select(0, index).fill_(-1);
  active_.select(0, index).fill_(0);
  table_.select(0, index).fill_(-1);
  // The model has not read the last token that the host has seen, or reads it in a queued step.
  std::vector<std::int32_t> cached(slot.tokens);
  if (slot.dropped > 0) cached.clear();
  const std::int64_t written = std::min<std::int64_t>(slot.position, static_cast<std::int64_t>(cached.size()));
  cache_.finish(slot.cached, std::span(cached).first(static_cast<std::size_t>(written)));
  if (draft_) draft_->leave(static_cast<std::size_t>(index), slot.tokens);
  ended_[static_cast<std::size_t>(slot.sequence)] = reason;
  slot = Slot();
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
  check_tokens(tokens, model_.config.vocabulary, "the text");
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
                                     {&cache_.layers(), {row, positions, at + count}});
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
