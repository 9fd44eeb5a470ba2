#include <algorithm>
#include <bit>
#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/internal/memory_settings.h>
#include <etna/models/internal/draft.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/latent_prompts.h>
#include <etna/models/internal/logits_check.h>
#include <etna/models/internal/mtp_draft.h>
#include <etna/models/internal/text_reading.h>
#include <etna/tensor/ops.h>

// Prompts: what may begin, and reading it in chunks.
namespace etna::models {
namespace {

using PromptClock = std::chrono::steady_clock;

double prompt_seconds_since(PromptClock::time_point begin) {
  return std::chrono::duration<double>(PromptClock::now() - begin).count();
}

void check_options(const GenerationOptions& options, std::int64_t vocabulary) {
  options.sampling.check(vocabulary);
  nn::checked_size("Generator", "max_tokens", options.max_tokens, 0);
  nn::checked_size("Generator", "sinks", options.sinks, 0);
  if (options.logprobs < -1 || options.logprobs > kMaxLogprobs) {
    throw Error(fmt::format("Generator: logprobs is {}; wanted -1 (none) or 0 to {} alternatives", options.logprobs,
                            kMaxLogprobs));
  }
  if (options.grammar && options.grammar->vocabulary() != vocabulary) {
    throw Error(fmt::format("Generator: the grammar is made for {} tokens; the model has {}",
                            options.grammar->vocabulary(), vocabulary));
  }
}

}  // namespace

std::int64_t captured_prompt_rows(std::int64_t tokens) {
  const auto below = static_cast<std::uint64_t>(std::max<std::int64_t>(tokens - 1, 1));
  // Long ones are bound by arithmetic, which what fills them up costs, too.
  const std::uint64_t steps = tokens > kFewCapturedTokens ? 4 : 2;
  const std::int64_t step = std::max<std::int64_t>(16, static_cast<std::int64_t>(std::bit_floor(below) / steps));
  return (tokens + step - 1) / step * step;
}

std::int64_t most_captured_prompt(const DecoderConfig& config, Device device) {
  std::int64_t most = 2048;
  while (most > kFewCapturedTokens && prompt_bytes(config, most) > memory_of(device) / 64) most /= 2;
  return most;
}

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary, const char* text) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary)
      throw IndexError(
          fmt::format("Generator: {} has token {}; the model's vocabulary is 0 to {}", text, token, vocabulary - 1));
  }
}

/// Checks a prompt and gives it a slot and cache blocks.
Generator::Slot& Generator::take_slot(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  if (prompt.empty()) throw Error("Generator: the prompt is empty; give it at least one token, such as BOS");
  check_tokens(prompt, model_.config.vocabulary, "the prompt");
  check_options(options, model_.config.vocabulary);
  check_adapter(options.adapter);
  const auto length = static_cast<std::int64_t>(prompt.size());
  if (options.images != nullptr) check_images(*options.images, length);
  if (options.images != nullptr && options.endless)
    throw Error("Generator: a text with images cannot go on without its middle; set endless to false");
  if (length > model_.config.context) {
    throw Error(
        fmt::format("Generator: the prompt has {} tokens; the model's context is {}", length, model_.config.context));
  }
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.taken(); });
  if (free == slots_.end())
    throw Error(fmt::format("Generator: all {} slots are in use; wait until a sequence has ended, or create more",
                            slots_.size()));
  const NoGrad no_grad;
  if (!busy()) width_ = 0;  // long sequences have ended
  const KvCache::Started started =
      cache_.start(prompt, cached_prompt(model_.config, options.adapter, options.images.get()));
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
  slot.prompt = length;
  slot.blocks = (length - 1) / kCacheBlock + 1;
  slot.reused = slot.position = started.reused;
  slot.reading = true;
  slot.turn = ++turn_;
  try {
    if (slot.blocks > width_)
      widen(slot.blocks);
    else
      write_row(static_cast<std::size_t>(&slot - slots_.data()));
    write_state_row(slot);
    write_sampling(slot);
  } catch (...) {
    finish(slot, StopReason::left);
    throw;
  }
  return slot;
}

Generator::Id Generator::begin(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  if (!ranks_) return take_slot(prompt, options).sequence;
  const GenerationOptions own = ranks_->own(options);
  return on_all_ranks(
      RankCall::begin,
      [&](CallWriter& call) {
        call.put_all(prompt);
        Ranks::write(call, own);
      },
      [&] { return take_slot(prompt, own).sequence; });
}

Generator::Id Generator::join(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  if (!ranks_) return read_whole(prompt, options);
  const GenerationOptions own = ranks_->own(options);
  return on_all_ranks(
      RankCall::join,
      [&](CallWriter& call) {
        call.put_all(prompt);
        Ranks::write(call, own);
      },
      [&] { return read_whole(prompt, own); });
}

Generator::Id Generator::read_whole(std::span<const std::int32_t> prompt, const GenerationOptions& options) {
  const auto begin = PromptClock::now();
  Slot& slot = take_slot(prompt, options);
  const Id sequence = slot.sequence;
  const NoGrad no_grad;
  try {
    while (slot.reading) read_chunk(slot);
    check_range(slot);
  } catch (const std::exception& error) {
    fail(slot, error);
    throw;
  }
  times_.prompt_seconds += prompt_seconds_since(begin);
  return sequence;
}

/// Tokens of a prompt's next chunk. One ends with the last block that others may reuse: where layers keep a state, it
/// is kept there, and the number of a chunk's rows may choose kernels, so that what is behind has the same bits whether
/// the blocks before it were read or found.
std::int64_t Generator::next_chunk(const Slot& slot) const {
  const PromptImages* images = slot.options.images.get();
  std::int64_t count = std::min(options_.chunk, slot.prompt - slot.position);
  const std::int64_t shared = shared_length(images, slot.prompt);
  if (options_.cache.reuse_prefixes && slot.position < shared) count = std::min(count, shared - slot.position);
  return images == nullptr ? count : whole_images(*images, slot.position, count);
}

/// Reads the next chunk of a prompt. Where it was the last one, the sequence takes part in the next step.
void Generator::read_chunk(Slot& slot) {
  const std::int64_t at = slot.position, count = next_chunk(slot);
  const auto end = static_cast<std::size_t>(at + count);
  const Tensor last = read_rows(slot, std::span(slot.tokens).first(end).last(static_cast<std::size_t>(count)), at,
                                slot.tokens[std::min(end, slot.tokens.size() - 1)]);
  slot.position += count;
  times_.prompt_tokens += count;
  if (slot.options.images == nullptr && slot.position == (slot.prompt - 1) / kCacheBlock * kCacheBlock)
    cache_.keep_state(slot.cached, slot.position);
  if (slot.position < slot.prompt) return;
  slot.reading = false;
  slot.generated = 1;
  // Steps of other sequences have counted tokens in its row.
  write_counts(slot);
  draw_first(slot, last);
  if (draft_) draft_->join(static_cast<std::size_t>(&slot - slots_.data()), slot.tokens);
}

/// Reads chunks of prompts, in turns, as many as one chunk has tokens, but at least one. A sequence's chunks are the
/// same whoever else is being read: a prompt waits for the next step rather than that its chunk is cut.
void Generator::read_prompts() {
  const auto begin = PromptClock::now();
  std::int64_t room = options_.chunk;
  bool any = false;
  while (true) {
    Slot* next = nullptr;
    for (Slot& slot : slots_)
      if (slot.reading && (next_chunk(slot) <= room || !any) && (next == nullptr || slot.turn < next->turn))
        next = &slot;
    if (next == nullptr) break;
    room -= next_chunk(*next);
    any = true;
    next->turn = ++turn_;
    try {
      read_chunk(*next);
    } catch (const DeviceLost&) {
      throw;
    } catch (const std::exception& error) {
      fail(*next, error);
    }
  }
  if (any) times_.prompt_seconds += prompt_seconds_since(begin);
}

/// Reads tokens into a slot's part of the cache, the first of them at position `at`. @param next the token behind them
/// @return [1, width], the last block's output for the last token; the next call overwrites it
Tensor Generator::read_rows(const Slot& slot, std::span<const std::int32_t> tokens, std::int64_t at,
                            std::int32_t next) {
  const std::int64_t index = &slot - slots_.data(), count = std::ssize(tokens);
  const std::optional<ImageChunk> images = image_chunk(slot.options.images.get(), slot.prompt, at, count);
  if (!images && captures_prompt(count, at)) return read_captured(tokens, at, next, slot.options.adapter, slot.cached);
  const Tensor positions = from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(at)}, options_.device);
  DecoderCache cache =
      with_states({&cache_.layers(),
                   {table_to(model_.own_config, table_.slice(0, index, index + 1), at + count), positions},
                   adapter_row(slot.options.adapter)},
                  state_rows_.defined() ? state_rows_.slice(0, index, index + 1) : Tensor());
  cache.images = images ? &*images : nullptr;
  std::vector<std::int32_t> all(tokens.begin(), tokens.end());
  all.push_back(next);
  const Tensor there = from_vector(all, {1, count + 1}, options_.device);
  const Tensor x = model_.extend(there.slice(1, 0, count), cache);
  if (mtp_) mtp_->read(x, there.slice(1, 1, count + 1), cache);
  return x.select(1, count - 1);
}

/// Blocks that the longest sequence has.
std::int64_t Generator::most_blocks() const {
  return (std::min(model_.config.context, cache_.capacity()) - 1) / kCacheBlock + 1;
}

/// Whether a chunk of so many tokens is read by a captured step. On the CPU the tokens that fill up a step would cost
/// what they do not save. Where latent attention makes keys and values of all positions, a step does so for those that
/// its table has: only the first chunk of a prompt has as many whichever prompt it is.
bool Generator::captures_prompt(std::int64_t tokens, std::int64_t at) const {
  return !options_.device.is_cpu() && can_capture() && model_.host_layers() == 0 &&
         tokens <= most_captured_prompt(model_.own_config, options_.device) &&
         (at == 0 || expanded_rows(model_.own_config, captured_prompt_rows(tokens)) == 0);
}

/// The same, by a step of as many tokens or a few more. The others come behind, where no token of the text sees them,
/// and the next ones overwrite them; a state does not take them up. @param next as for read_rows()
/// @param cached the sequence in the cache
Tensor Generator::read_captured(std::span<const std::int32_t> tokens, std::int64_t at, std::int32_t next,
                                std::int64_t adapter, KvCache::Id cached) {
  const auto count = static_cast<std::int32_t>(tokens.size());
  const std::int64_t rows = captured_prompt_rows(count);
  const bool first = expanded_rows(model_.own_config, rows) > 0;
  const std::vector<std::int32_t> blocks = cache_.row(cached, first ? (rows - 1) / kCacheBlock + 1 : most_blocks());
  if (!steps_->prompt) {
    steps_->prompt = std::make_unique<Steps::PromptStep>(
        capture(std::function<Tensor(const Tensor&, const Tensor&)>([this](const Tensor& in, const Tensor& table) {
                  const std::int64_t most = in.size(0) - 5;
                  const auto number = [&](std::int64_t i) { return in.slice(0, most + 1 + i, most + 2 + i); };
                  const DecoderCache cache{
                      &cache_.layers(), {table.unsqueeze(0), number(0)}, adapters_.defined() ? number(2) : Tensor()};
                  const Tensor x =
                      model_.extend(in.slice(0, 0, most).unsqueeze(0), with_states(cache, number(3), number(1) + 1.0));
                  if (mtp_) mtp_->read(x, in.slice(0, 1, most + 1).unsqueeze(0), cache);
                  return index_select(x.select(0, 0), 0, number(1));
                }),
                {.device = options_.device, .name = "prompt", .varied_shapes = true}));
  }
  std::vector<std::int32_t> in(tokens.begin(), tokens.end());
  in.push_back(next);
  in.resize(static_cast<std::size_t>(rows + 1), 0);
  in.insert(in.end(),
            {static_cast<std::int32_t>(at), count - 1, static_cast<std::int32_t>(adapter), cache_.state_row(cached)});
  return (*steps_->prompt)(from_vector(in), from_vector(blocks));
}

/// Queues sampling the token after a text of slot.position tokens. @param last [1, width], of the text's last token
void Generator::draw_first(Slot& slot, const Tensor& last) {
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  find_mask(slot);
  write_mask_rows();
  const Tensor logits = model_.head(last);
  const StepKind kind{.counts = slot.options.sampling.penalizes(),
                      .bias = !slot.options.sampling.logit_bias.empty(),
                      .grammar = slot.options.grammar != nullptr,
                      .logprobs = top_count(slot.options)};
  const Drawn drawn = draw(logits, index, index + 1, kind);
  tokens_.slice(0, index, index + 1).copy_(drawn.tokens);
  if (mtp_) {
    mtp_->take(last.unsqueeze(1), drawn.tokens.unsqueeze(1), index);
    mtp_->accept(static_cast<std::size_t>(index), 0);
  }
  draws_.select(0, index).add_(1);
  positions_.select(0, index).fill_(static_cast<double>(slot.position));
  active_.select(0, index).fill_(1);
  slot.active = true;
  slot.pending.push_back(
      {read_later(tokens_.select(0, index)), drawn.logprobs.defined()
                                                 ? logprobs_of(slot, read_each_later(drawn.logprobs), 0, kind.logprobs)
                                                 : std::vector<PendingValue>()});
  slot.range = read_each_later(stack({logits.min(), logits.max()}));
}

/// Waits for the range of the logits after a prompt, once; then others may reuse the prompt. @throws SuspiciousWeights
void Generator::check_range(Slot& slot) {
  if (slot.range.empty()) return;
  const double least = slot.range[0].get(), most = slot.range[1].get();
  slot.range.clear();
  check_logits_range(least, most, model_.config.vocabulary > 1, "the prompt");
  if (slot.dropped == 0) cache_.share(slot.cached, std::span(slot.tokens).first(static_cast<std::size_t>(slot.prompt)));
}

Tensor Generator::logits(std::span<const std::int32_t> tokens, std::int64_t adapter, const PromptImages* images) {
  const auto write = [&](CallWriter& call) {
    if (images != nullptr) throw Error("Generator: a model that is divided over ranks reads no images");
    call.put_all(tokens);
    call.put(adapter);
  };
  return on_all_ranks(RankCall::logits, write, [&] {
    const NoGrad no_grad;
    check_tokens(tokens, model_.config.vocabulary, "the text");
    check_adapter(adapter);
    if (images != nullptr) check_images(*images, std::ssize(tokens));
    if (tokens.empty()) return zeros({0, model_.config.vocabulary}, options_.device);
    std::vector<Tensor> parts;
    for (TextReading reading(*this, tokens, adapter, images); !reading.done();)
      parts.push_back(model_.head(reading.next()));
    return parts.size() == 1 ? parts[0] : cat(parts, 0);
  });
}

Tensor Generator::hidden(std::span<const std::int32_t> tokens, std::int64_t adapter) {
  const auto write = [&](CallWriter& call) {
    call.put_all(tokens);
    call.put(adapter);
  };
  return on_all_ranks(RankCall::hidden, write, [&] {
    const NoGrad no_grad;
    check_tokens(tokens, model_.config.vocabulary, "the text");
    check_adapter(adapter);
    const std::int64_t length = std::ssize(tokens);
    if (length > model_.config.context) {
      throw Error(
          fmt::format("Generator: the text has {} tokens; the model's context is {}", length, model_.config.context));
    }
    if (length == 0) return zeros({0, model_.config.width}, options_.device);
    const Tensor ids =
        from_vector(std::vector<std::int32_t>(tokens.begin(), tokens.end()), {1, length}, options_.device);
    return model_.hidden(ids, adapter < 0 ? Tensor() : adapter_row(adapter)).select(0, 0);
  });
}

}  // namespace etna::models
