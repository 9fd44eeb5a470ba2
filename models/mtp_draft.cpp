#include <etna/models/internal/mtp_draft.h>

#include <fmt/format.h>

#include <etna/models/internal/mtp_head.h>
#include <etna/tensor/ops.h>

namespace etna::models {

MtpDraft::MtpDraft(const Decoder& model, Device device, std::int64_t slots, std::int64_t guesses,
                   SamplingInputs sampling)
    : model_(model),
      device_(device),
      slots_(slots),
      guesses_(guesses),
      sampling_(std::move(sampling)),
      last_(static_cast<std::size_t>(slots)) {
  hidden_ = zeros({slots, 1 + guesses, model.config.width}, {f32, device});
  tokens_ = zeros({slots, 1 + guesses}, {i32, device});
  last_there_ = zeros({slots}, {i32, device});
}

void MtpDraft::read(const Tensor& x, const Tensor& next, const DecoderCache& cache) const {
  model_.mtp->extend(model_.norm(x), model_.embedded(next), cache);
}

void MtpDraft::take(const Tensor& x, const Tensor& tokens, std::int64_t first) {
  const auto own = [&](const Tensor& all) { return all.slice(0, first, first + x.size(0)).slice(1, 0, x.size(1)); };
  own(hidden_).copy_(model_.norm(x));
  own(tokens_).copy_(tokens);
}

/// The first rows are those that the last step read, with what is known of them now; then the head reads its own
/// guesses, one after the other.
void MtpDraft::run(Tensor guesses, bool greedy, std::vector<PagedCache>& layers, const CachePlaces& places) {
  const MtpHead& head = *model_.mtp;
  const std::int64_t rows = 1 + guesses_;
  const Tensor begin = places.positions - last_there_ - 1.0;
  const Tensor x = head.extend(hidden_, model_.embedded(tokens_), {&layers, {places.table, begin}});
  const Tensor at = arange(0, slots_, 1, {i32, device_}) * static_cast<double>(rows) + last_there_;
  Tensor last = index_select(x.flatten(0, 1), 0, at);
  for (std::int64_t i = 0; i < guesses_; ++i) {
    if (i > 0) {
      const Tensor position = begin + last_there_ + static_cast<double>(i);
      const Tensor next = model_.embedded(guesses.slice(1, i - 1, i));
      last = head.extend(last.unsqueeze(1), next, {&layers, {places.table, position}}).select(1, 0);
    }
    const Tensor normed = head.norm(last);
    const Tensor logits = model_.logits_of(normed);
    if (head.reads_normed) last = normed;
    const Tensor drawn =
        greedy ? argmax(logits, -1).to(i32)
               : sample_tokens(logits, {sampling_.numbers, sampling_.seeds,
                                        sampling_.draws + full({slots_}, static_cast<double>(i), {i32, device_})});
    guesses.select(1, i).copy_(drawn);
  }
}

void MtpDraft::guess(const Tensor& guesses, bool greedy, std::vector<PagedCache>& layers, const CachePlaces& places) {
  last_there_.copy_(from_vector(last_));
  auto& step = steps_[{greedy, places.table.size(1)}];
  if (step == nullptr) {
    step = std::make_unique<Step>(capture(
        std::function<void()>([this, guesses, greedy, &layers, places] { run(guesses, greedy, layers, places); }),
        {.device = device_, .name = fmt::format("guess {} tokens", guesses_)}));
  }
  (*step)();
}

}  // namespace etna::models
