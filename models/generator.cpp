#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/model_hash.h>
#include <etna/models/internal/mtp_draft.h>
#include <etna/models/internal/mtp_head.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>

namespace etna::models {
namespace {

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
  if (options.mtp && options.guesses == 0)
    throw Error("Generator: mtp is set, but guesses is 0; set it, for example to 2");
  if (options.mtp && options.draft != nullptr)
    throw Error("Generator: got a draft model and mtp, of which one can guess; leave out the other");
  if (options.chunk == 0) options.chunk = options.device.is_cpu() ? 512 : 2048;
  return options;
}

/// A model of which each position depends on earlier ones only.
const Decoder& causal(const Decoder& model) {
  if (model.config.bidirectional)
    throw Error("Generator: the model reads texts in both directions, and writes none; give it to a TextEmbedder");
  return model;
}

/// Keys and values are where their blocks are.
KvCacheOptions beside_layers(const GeneratorOptions& generator, const Decoder& model) {
  KvCacheOptions options = generator.cache;
  options.host_layers = model.host_layers();
  // Of each slot and of a text that is only read, and as many of prefixes.
  if (options.states == 0) options.states = (generator.slots + 1) * (options.reuse_prefixes ? 2 : 1);
  return options;
}

/// The layers whose keys and values the cache has.
const DecoderConfig& cached_layers(const GeneratorOptions& options, const Decoder& model) {
  if (!options.mtp) return model.own_config;
  if (!model.mtp)
    throw Error(
        "Generator: the model has no head for further tokens (MTP); load one that does, with LoadOptions::mtp, or use "
        "a draft model");
  return model.mtp->config;
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
    : model_(causal(model)),
      options_(with_defaults(options, model.config.context)),
      cache_(cached_layers(options_, model), options.device, beside_layers(options_, model)),
      slots_(static_cast<std::size_t>(options.slots)),
      steps_(std::make_unique<Steps>()) {
  const std::int64_t slots = options.slots;
  const Device device = options.device;
  tokens_ = zeros({slots}, {i32, device});
  positions_ = full({slots}, kNowhere, {i32, device});
  active_ = zeros({slots}, {i32, device});
  if (model.stacked_adapters > 0) adapters_ = full({slots}, -1, {i32, device});
  if (cache_.keeps_states()) state_rows_ = full({slots}, -1, {i32, device});
  numbers_ = zeros({slots, kSamplingNumbers}, {f32, device});
  seeds_ = zeros({slots, 2}, {i32, device});
  draws_ = zeros({slots}, {i32, device});
  if (options_.guesses > 0) {
    guessed_ = zeros({2, slots, 1 + options_.guesses}, {i32, device});
    if (cache_.keeps_states())
      steps_->holding = holding_states(model.own_config, cache_.states(), slots, 1 + options_.guesses);
    steps_->right = zeros({slots}, {i32, device});
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
  if (options_.mtp)
    mtp_ = std::make_unique<MtpDraft>(model, device, slots, options_.guesses, SamplingInputs{numbers_, seeds_, draws_});
  widen(kGeneratorFirstWidth);
}

Generator::~Generator() {
  try {
    stop_leading();
  } catch (const std::exception&) {  // NOLINT: the group has ended, which the ranks know
  }
}

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
  const auto found = steps_->ended.find(sequence);
  if (found != steps_->ended.end()) return found->second;
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

bool Generator::ran_out_of_memory(Id sequence) const { return slot_of(sequence) == nullptr && ended(sequence).memory; }

std::int64_t Generator::reused(Id sequence) const {
  const Slot* slot = slot_of(sequence);
  return slot != nullptr ? slot->reused : ended(sequence).reused;
}

void Generator::forget(Id sequence) { steps_->ended.erase(sequence); }

/// The block table grows by doubling, because each width needs another captured step, which reads the table it was
/// captured with.
void Generator::widen(std::int64_t blocks) {
  if (blocks <= width_) return;
  set_width(
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(blocks, kGeneratorFirstWidth)))));
}

void Generator::set_width(std::int64_t width) {
  std::vector<std::int32_t> rows;
  for (const Slot& slot : slots_) {
    const std::vector<std::int32_t> row =
        slot.taken() ? cache_.row(slot.cached, width) : std::vector<std::int32_t>(static_cast<std::size_t>(width), -1);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  // What may fail comes first.
  const Tensor filled = from_vector(rows, {options_.slots, width});
  Tensor& table = steps_->tables[width];
  if (!table.defined()) table = full({options_.slots, width}, -1, {i32, options_.device});
  table.copy_(filled);
  table_ = table;
  width_ = width;
}

void Generator::write_row(std::size_t i) {
  Slot& slot = slots_[i];
  table_.select(0, static_cast<std::int64_t>(i)).copy_(from_vector(cache_.row(slot.cached, width_)));
}

bool Generator::is_full(const Slot& slot) const {
  return slot.position >= std::min(model_.config.context, cache_.capacity());
}

/// @param rows of the states of sequences; used where layers keep one @param counts as DecoderCache::counts
DecoderCache Generator::with_states(DecoderCache cache, const Tensor& rows, const Tensor& counts) {
  if (!cache_.keeps_states()) return cache;
  cache.states = cache_.states();
  cache.state_rows = rows;
  cache.counts = counts;
  return cache;
}

void Generator::write_state_row(const Slot& slot) {
  if (!state_rows_.defined()) return;
  state_rows_.select(0, &slot - slots_.data()).fill_(static_cast<double>(cache_.state_row(slot.cached)));
}

/// The cache for the first slots. @param tokens that a step reads, [rows, T], all but the first of them guesses
DecoderCache Generator::slots_cache(const Tensor& tokens) {
  const std::int64_t rows = tokens.size(0);
  DecoderCache cache = with_states(
      {&cache_.layers(), {first_slots(table_, rows), first_slots(positions_, rows)}, first_slots(adapters_, rows)},
      first_slots(state_rows_, rows));
  if (cache.states != nullptr && tokens.size(1) > 1) cache.states = steps_->holding.data();
  return cache;
}

/// The adapter of one sequence, [1]; undefined where the model has none.
Tensor Generator::adapter_row(std::int64_t adapter) const {
  if (!adapters_.defined()) return {};
  return full({1}, static_cast<double>(adapter), {i32, options_.device});
}

void Generator::check_adapter(std::int64_t adapter) const {
  const std::int64_t known = adapters_.defined() ? model_.stacked_adapters : 0;
  if (adapter >= -1 && adapter < known) return;
  throw Error(known == 0 ? fmt::format("Generator: adapter is {}, and the model has none; call stack_adapters() before "
                                       "the generator is made",
                                       adapter)
                         : fmt::format("Generator: adapter is {}; wanted -1 (none) or 0 to {}", adapter, known - 1));
}

/// Runs the blocks on the CPU before a captured step, which reads their result in a tensor that stays.
void Generator::extend_on_host(const Tensor& tokens) {
  const Tensor x = model_.extend_on_host(tokens, slots_cache(tokens));
  Tensor& kept = steps_->from_host[{tokens.size(0), tokens.size(1)}];
  if (kept.defined())
    kept.copy_(x);
  else
    kept = x.clone();
}

/// Decoder::extend() within a captured step.
Tensor Generator::extended(const Tensor& tokens) {
  const DecoderCache cache = slots_cache(tokens);
  const auto from_host = steps_->from_host.find({tokens.size(0), tokens.size(1)});
  return from_host == steps_->from_host.end() ? model_.extend(tokens, cache)
                                              : model_.extend_rest(from_host->second, cache);
}

void Generator::finish(Slot& slot, StopReason reason, const std::string& error) {
  const NoGrad no_grad;
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  // First the host's part, so that a slot is free again even where the device fails.
  const Slot old = std::exchange(slot, Slot());
  steps_->ended[old.sequence] = {reason, old.reused, error, false};
  if (std::ssize(steps_->ended) > kMaxEnded) steps_->ended.erase(steps_->ended.begin());
  // The model has not read the last token that the host has seen, or reads it in a queued step.
  std::vector<std::int32_t> cached(old.tokens);
  if (old.dropped > 0 || reason == StopReason::failed) cached.clear();
  const std::int64_t written = std::min<std::int64_t>(old.position, static_cast<std::int64_t>(cached.size()));
  cache_.finish(old.cached, std::span(cached).first(static_cast<std::size_t>(written)));
  if (draft_) draft_->leave(static_cast<std::size_t>(index), old.tokens);
  positions_.select(0, index).fill_(kNowhere);
  active_.select(0, index).fill_(0);
  table_.select(0, index).fill_(-1);
}

/// Called where an error is handled. @throws that error where it may have come in this rank alone: others go on
void Generator::fail(Slot& slot, const std::exception& error) {
  if (model_.split.is_split() && is_of_one_rank(error)) throw;
  const Id sequence = slot.sequence;
  finish(slot, StopReason::failed, error.what());
  steps_->ended.at(sequence).memory = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
}

void Generator::save_cache(const FilePath& path) const {
  model_.require_whole("save_cache");
  cache_.save(path, model_hash(model_));
}

std::int64_t Generator::load_cache(const FilePath& path) {
  model_.require_whole("load_cache");
  return cache_.load(path, model_hash(model_));
}

void Generator::leave(Id sequence) {
  if (slot_of(sequence) == nullptr) return;
  on_all_ranks(
      RankCall::leave, [&](CallWriter& call) { call.put(sequence); },
      [&] { finish(*slot_of(sequence), StopReason::left); });
}

void Generator::forget_prefixes() {
  on_all_ranks(
      RankCall::forget_prefixes, [](CallWriter&) {}, [&] { cache_.forget(); });
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
