#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/models/internal/generator_ranks.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/model_file.h>
#include <etna/tensor/ops.h>

// Scheduling: which sequences take part in the next step, and what happens to those without room for another position.
namespace etna::models {
namespace {

/// The number of steps queued before the host has seen the token of the first of them.
constexpr std::int64_t kAhead = 2;

bool allows_only(TokenGrammar& grammar, TokenGrammar::State state, const std::vector<std::int32_t>& tokens) {
  const std::span<const std::uint32_t> allowed = grammar.allowed(state);
  std::vector<std::uint32_t> rest(allowed.begin(), allowed.end());
  for (const std::int32_t token : tokens) {
    const auto word = static_cast<std::size_t>(token) / 32;
    if (token >= 0 && word < rest.size()) rest[word] &= ~(1u << (token % 32));
  }
  return std::all_of(rest.begin(), rest.end(), [](std::uint32_t word) { return word == 0; });
}

}  // namespace

/// Whether a sequence is full and must wait until the host has seen its tokens, so that it can end or be read again.
bool Generator::waits(const Slot& slot) const {
  if (!is_full(slot)) return false;
  const bool turns = model_.config.positions == PositionKind::rotary && options_.cache.dtype != u8 &&
                     !cache_.keeps_states() && cache_.droppable(slot.position, slot.options.sinks) > 0;
  return !slot.options.endless || !turns;
}

/// Allocates blocks for a slot's sequence up to the last position that the next step writes.
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

/// Reads the end of the text again from position 0, for caches whose keys cannot be rotated to other positions.
/// @throws CacheFull; another call tries again
void Generator::read_again(Slot& slot) {
  const std::int64_t most = std::min(model_.config.context, cache_.capacity());
  const auto known = static_cast<std::int64_t>(slot.tokens.size());
  const std::int64_t sinks = std::min(slot.options.sinks, most / 4), rest = std::max<std::int64_t>(1, most / 2 - sinks);
  std::vector<std::int32_t> tokens(slot.tokens.begin(), slot.tokens.begin() + sinks);
  tokens.insert(tokens.end(), slot.tokens.end() - std::min(rest, known - sinks), slot.tokens.end());
  cache_.finish(slot.cached, {});
  const KvCache::Started started = cache_.start(tokens, {.adapter = slot.options.adapter});
  slot.cached = started.id;
  write_state_row(slot);
  slot.dropped = known - static_cast<std::int64_t>(tokens.size());
  cache_.reserve(slot.cached, static_cast<std::int64_t>(tokens.size()));
  slot.blocks = (static_cast<std::int64_t>(tokens.size()) - 1) / kCacheBlock + 1;
  write_row(static_cast<std::size_t>(&slot - slots_.data()));
  if (!slot.active) write_counts(slot);
  Tensor last;
  for (std::int64_t at = started.reused; at < std::ssize(tokens); at += options_.chunk) {
    const std::int64_t count = std::min(options_.chunk, std::ssize(tokens) - at);
    const auto end = static_cast<std::size_t>(at + count);
    last = read_rows(slot, std::span(tokens).first(end).last(static_cast<std::size_t>(count)), at,
                     tokens[std::min(end, tokens.size() - 1)]);
  }
  slot.position = std::ssize(tokens);
  draw_first(slot, last);
  ++slot.generated;
}

/// Whether this sequence takes part in the next step; if so, makes room for it. @throws CacheFull
bool Generator::prepare(Slot& slot) {
  if (!slot.decoding() || slot.generated >= slot.options.max_tokens) return false;
  const bool seen = slot.pending.empty();
  if (slot.options.grammar && !seen) return false;  // the next mask needs the last token
  if (!slot.active && !seen) return false;          // steps without it have overwritten its last token on the device
  if (waits(slot)) {
    if (!seen) return false;
    if (!slot.options.endless) {
      finish(slot, StopReason::context_full);
      return false;
    }
    read_again(slot);
    if (is_full(slot)) return false;
  }
  make_room(slot);
  find_mask(slot);
  return true;
}

/// Removes a sequence from the steps on the device, or adds it again, when the host knows all its tokens.
void Generator::activate(Slot& slot, bool active) {
  if (slot.active == active) return;
  const auto index = static_cast<std::int64_t>(&slot - slots_.data());
  positions_.select(0, index).fill_(active ? static_cast<double>(slot.position) : kNowhere);
  active_.select(0, index).fill_(active ? 1 : 0);
  slot.active = active;
  if (!active) return;
  tokens_.select(0, index).fill_(slot.tokens.back());
  draws_.select(0, index).fill_(static_cast<double>(slot.generated));
  write_counts(slot);
}

/// Queues steps until each sequence that can continue has tokens for the host to wait for.
/// @return the error of the first sequence for which the cache has no block
std::optional<CacheFull> Generator::queue_steps() {
  // A sequence that joins has a token that others do not wait for. Unless it is taken first, it stays a token ahead of
  // the host, and no step can guess.
  if (options_.guesses > 0 &&
      std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.pending.empty(); }))
    return {};
  // A guess needs all tokens before it, and so does a grammar's mask.
  const bool known = options_.guesses > 0 || std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
                       return slot.decoding() && slot.options.grammar;
                     });
  const std::int64_t ahead = known ? 1 : kAhead;
  const auto wants = [ahead](const Slot& slot) {
    return slot.decoding() && std::ssize(slot.pending) < ahead && slot.generated < slot.options.max_tokens;
  };
  std::optional<CacheFull> full;
  while (std::any_of(slots_.begin(), slots_.end(), wants)) {
    full.reset();
    for (Slot& slot : slots_) {
      slot.drawing = false;
      try {
        slot.drawing = prepare(slot);
      } catch (const CacheFull& error) {
        if (!full) full = error;
      } catch (const DeviceLost&) {
        throw;
      } catch (const std::exception& error) {
        fail(slot, error);
      }
    }
    if (std::none_of(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.drawing && wants(slot); }))
      break;
    for (Slot& slot : slots_)
      if (slot.decoding()) activate(slot, slot.drawing);
    launch();
  }
  return full;
}

/// Appends a sampled token to a sequence. @return false if it ended the sequence
bool Generator::give(Slot& slot, GeneratedToken token, std::vector<GeneratedToken>& tokens) {
  const std::vector<std::int32_t>& stops = slot.options.stop_tokens;
  const auto stops_text = [&](std::int32_t t) { return std::find(stops.begin(), stops.end(), t) != stops.end(); };
  TokenGrammar* grammar = slot.options.grammar.get();
  if (stops_text(token.token)) {
    const bool may = grammar == nullptr || grammar->may_end(slot.state);
    finish(slot, may ? StopReason::stop_token : StopReason::failed,
           may ? "" : "Generator: the grammar let the text end where it is not complete");
    return false;
  }
  if (grammar != nullptr) {
    const TokenGrammar::State state = grammar->next(slot.state, token.token);
    if (state == TokenGrammar::kRefused) {
      finish(
          slot, StopReason::failed,
          fmt::format("Generator: the grammar refuses token {}, which was sampled; logit biases may forbid all tokens "
                      "that it allows, or its stop tokens are not among the sequence's",
                      token.token));
      return false;
    }
    slot.state = state;
  }
  slot.tokens.push_back(token.token);
  tokens.push_back(std::move(token));
  ++times_.tokens;
  if (++slot.given < slot.options.max_tokens) return true;
  // A text that could only have ended is complete.
  const bool complete = grammar != nullptr && grammar->may_end(slot.state) && allows_only(*grammar, slot.state, stops);
  finish(slot, complete ? StopReason::stop_token : StopReason::max_tokens);
  return false;
}

/// Waits for the next token of each sequence that has one queued.
void Generator::take_tokens(std::vector<GeneratedToken>& tokens) {
  for (Slot& slot : slots_) {
    if (slot.pending.empty()) continue;
    if (slot.given >= slot.options.max_tokens) {
      finish(slot, StopReason::max_tokens);
      continue;
    }
    try {
      check_range(slot);
    } catch (const SuspiciousWeights& error) {
      fail(slot, error);
      continue;
    }
    const PendingToken next = std::move(slot.pending.front());
    slot.pending.pop_front();
    GeneratedToken token{slot.sequence, static_cast<std::int32_t>(next.token.get())};
    if (!next.logprobs.empty()) token.logprob = static_cast<float>(next.logprobs[0].get());
    for (std::size_t i = 1; i + 1 < next.logprobs.size(); i += 2)
      token.top.emplace_back(static_cast<std::int32_t>(next.logprobs[i + 1].get()),
                             static_cast<float>(next.logprobs[i].get()));
    try {
      give(slot, std::move(token), tokens);
    } catch (const DeviceError&) {
      throw;
    } catch (const std::exception& error) {  // of its grammar
      if (slot.taken()) fail(slot, error);
    }
  }
}

std::vector<GeneratedToken> Generator::step() {
  return on_all_ranks(
      RankCall::step, [](CallWriter&) {}, [&] { return next_tokens(); });
}

std::vector<GeneratedToken> Generator::next_tokens() {
  const NoGrad no_grad;
  read_prompts();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<GeneratedToken> tokens;
  const auto decoding = [this] {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.decoding(); });
  };
  while (tokens.empty() && decoding()) {
    std::optional<CacheFull> full;
    try {
      if (can_guess()) guess(tokens);
      if (!tokens.empty()) break;
      full = queue_steps();
    } catch (const OutOfMemory& error) {
      // The device may have done a part of the step. The next one begins with what the host knows; but a state that has
      // taken a token up does not give it back.
      for (Slot& slot : slots_) {
        if (!slot.decoding()) continue;
        if (cache_.keeps_states())
          fail(slot, error);
        else
          activate(slot, false);
      }
      throw;
    }
    if (full && std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.pending.empty(); })) {
      if (std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.reading; })) break;
      throw *full;
    }
    take_tokens(tokens);
  }
  times_.decode_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return tokens;
}

}  // namespace etna::models
