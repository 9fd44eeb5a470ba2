#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <etna/dist/dist.h>
#include <etna/models/grammar/grammar.h>
#include <etna/models/internal/decoder_parts.h>
#include <etna/models/internal/generator_slots.h>
#include <etna/models/internal/mtp_draft.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/tensor/ops/sorting/sorting.h>

// From logits to tokens: sampling inputs, grammars and log-probabilities, and the captured step.
namespace etna::models {
namespace {

/// Rows of the table of masks, besides one for each slot.
constexpr std::int64_t kMasks = 256;

}  // namespace

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
  if (adapters_.defined()) adapters_.select(0, index).fill_(static_cast<double>(slot.options.adapter));
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

/// What the captured step must do for the sequences that are decoded.
StepKind Generator::step_kind() const {
  StepKind kind{.greedy = true, .width = width_, .rows = step_rows()};
  for (const Slot& slot : slots_) {
    if (!slot.decoding()) continue;
    const SamplingOptions& sampling = slot.options.sampling;
    // Other rows count tokens and add zeros, too.
    kind.counts = kind.counts || sampling.penalizes();
    kind.bias = kind.bias || !sampling.logit_bias.empty();
    kind.greedy = kind.greedy && sampling.greedy();
    kind.grammar = kind.grammar || slot.options.grammar != nullptr;
    kind.logprobs = std::max(kind.logprobs, top_count(slot.options));
  }
  kind.greedy = kind.greedy && !kind.counts && !kind.bias;
  return kind;
}

/// How many slots a step computes: up to the last one in use, rounded up so that there are few kinds of steps.
std::int64_t Generator::step_rows() const {
  if (options_.all_slots) return options_.slots;
  const auto last =
      std::find_if(slots_.rbegin(), slots_.rend(), [](const Slot& slot) { return slot.decoding(); }).base();
  const auto used = static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(1, last - slots_.begin()));
  return std::min(options_.slots, static_cast<std::int64_t>(std::bit_ceil(used)));
}

/// What a step that computes so many slots has of a tensor of all slots.
Tensor Generator::first_slots(const Tensor& x, std::int64_t rows) const {
  return rows == options_.slots || !x.defined() ? x : x.slice(0, 0, rows);
}

/// The tokens that a step reads, [rows, 1].
Tensor Generator::read_by_steps(std::int64_t rows) const { return first_slots(tokens_, rows).unsqueeze(1); }

/// How many most probable tokens a step finds: none, or always the same, so that there are few kinds of steps.
std::int64_t Generator::top_count(const GenerationOptions& options) const {
  return options.logprobs <= 0 ? options.logprobs : std::min(kMaxLogprobs, model_.config.vocabulary);
}

/// Samples from logits of slots begin ... end - 1, and finds log-probabilities. @param logits [end - begin, vocabulary]
Generator::Drawn Generator::draw(const Tensor& logits, std::int64_t begin, std::int64_t end, const StepKind& kind) {
  const auto rows = [&](const Tensor& x) { return x.defined() ? x.slice(0, begin, end) : Tensor(); };
  const Tensor allowed = kind.grammar ? mask_tokens(logits, steps_->masks->masks(), rows(steps_->mask_rows)) : logits;
  Drawn drawn;
  drawn.tokens =
      kind.greedy
          ? argmax(allowed, -1).to(i32)
          : sample_tokens(allowed, {rows(numbers_), rows(seeds_), rows(draws_), kind.counts ? rows(counts_) : Tensor(),
                                    kind.bias ? rows(bias_) : Tensor()});
  drawn.tokens = same_on_all_ranks(drawn.tokens);
  if (kind.logprobs < 0) return drawn;
  const Tensor all = log_softmax(logits.to(f32), -1), own = gather(all, 1, drawn.tokens.to(i64).unsqueeze(1));
  if (kind.logprobs == 0) {
    drawn.logprobs = own;
    return drawn;
  }
  const ValuesIndices top = topk(all, kind.logprobs, 1);
  drawn.logprobs = cat({own, top.values, top.indices.to(f32)}, 1);
  return drawn;
}

/// Log-probabilities of the first rows, read later. @param from [rows, 1 + 2 · top] @param row of them
std::vector<PendingValue> Generator::logprobs_of(const Slot& slot, const std::vector<PendingValue>& from,
                                                 std::size_t row, std::int64_t top) const {
  if (slot.options.logprobs < 0) return {};
  const auto width = static_cast<std::size_t>(1 + 2 * top),
             wanted = static_cast<std::size_t>(std::min(slot.options.logprobs, model_.config.vocabulary));
  const auto at = from.begin() + static_cast<std::ptrdiff_t>(row * width);
  std::vector<PendingValue> values{*at};
  for (std::size_t i = 0; i < wanted; ++i) {
    values.push_back(at[static_cast<std::ptrdiff_t>(1 + i)]);
    values.push_back(at[static_cast<std::ptrdiff_t>(1 + static_cast<std::size_t>(top) + i)]);
  }
  return values;
}

/// Finds the mask of the next token, if the sequence has a grammar. The row is written to the device before the next
/// step. @throws what the grammar throws
void Generator::find_mask(const Slot& slot) {
  if (!slot.options.grammar && !steps_->masks) return;
  if (!steps_->masks) {
    steps_->masks = std::make_unique<MaskTable>(model_.config.vocabulary, kMasks + 2 * options_.slots, options_.device);
    steps_->mask_rows = full({options_.slots}, -1, {i32, options_.device});
    steps_->rows.assign(slots_.size(), -1);
  }
  std::int32_t& row = steps_->rows[static_cast<std::size_t>(&slot - slots_.data())];
  const std::int32_t found = slot.options.grammar ? steps_->masks->row(slot.options.grammar, slot.state) : -1;
  steps_->new_rows = steps_->new_rows || row != found;
  row = found;
}

void Generator::write_mask_rows() {
  if (!steps_->new_rows) return;
  steps_->mask_rows.copy_(from_vector(steps_->rows));
  steps_->new_rows = false;
}

void Generator::launch() {
  const StepKind kind = step_kind();
  write_mask_rows();
  if (model_.host_layers() > 0) extend_on_host(read_by_steps(kind.rows));
  run_step(kind);
  const std::vector<PendingValue> tokens = read_each_later(first_slots(tokens_, kind.rows));
  const std::vector<PendingValue> logprobs =
      kind.logprobs < 0 ? std::vector<PendingValue>()
                        : read_each_later(first_slots(steps_->logprobs.at(kind.logprobs), kind.rows));
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.drawing) continue;
    ++slot.position;
    ++slot.generated;
    if (mtp_) mtp_->accept(i, 0);
    slot.pending.push_back({tokens[i], logprobs_of(slot, logprobs, i, kind.logprobs)});
  }
}

/// Whether steps may be captured: those of a part of a model have collectives, and experts on the CPU wait for the GPU.
bool Generator::can_capture() const {
  if (has_host_experts(model_)) return false;
  return !model_.split.is_split() || distributed::can_capture(options_.device);
}

/// Sampled tokens, as rank 0 has them: other processors may round otherwise, and texts must not diverge.
Tensor Generator::same_on_all_ranks(const Tensor& tokens) const {
  return model_.split.is_split() ? distributed::broadcast(tokens) : tokens;
}

void Generator::run_step(const StepKind& kind) {
  auto& step = steps_->captured[kind];
  if (step != nullptr) return (*step)();
  if (kind.logprobs >= 0 && steps_->logprobs.count(kind.logprobs) == 0)
    steps_->logprobs[kind.logprobs] = zeros({options_.slots, 1 + 2 * kind.logprobs}, {f32, options_.device});
  const std::function<void()> run = [this, kind] {
    const auto first = [&](const Tensor& x) { return first_slots(x, kind.rows); };
    const Tensor x = extended(read_by_steps(kind.rows));
    const Drawn drawn = draw(model_.head(x.select(1, 0)), 0, kind.rows, kind);
    if (mtp_) mtp_->take(x, drawn.tokens.unsqueeze(1));
    first(tokens_).copy_(drawn.tokens);
    if (kind.logprobs >= 0) first(steps_->logprobs.at(kind.logprobs)).copy_(drawn.logprobs);
    first(positions_).add_(first(active_));
    first(draws_).add_(first(active_));
  };
  step = Steps::step(
      run, {.device = options_.device, .name = fmt::format("decode {}, {} positions", kind.rows, width_ * kCacheBlock)},
      can_capture());
  (*step)();
}

}  // namespace etna::models
