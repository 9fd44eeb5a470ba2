#include <etna/train/internal/answer_loss.h>

#include <etna/autograd/autograd.h>
#include <etna/tensor/ops.h>

namespace etna::training {

AnswerLoss::AnswerLoss(const models::Decoder& model, const AnswerBatches& batches, const AnswerLossOptions& options)
    : model_(model), batches_(batches), options_(options) {}

/// Σ of cross-entropies, and of divergences from the teacher.
Tensor AnswerLoss::of_answers(const AnswerBatch& batch) const {
  if (options_.objective != AnswerObjective::teacher)
    return model_.loss(batch.tokens, batch.targets, batch.documents, Reduction::sum);
  const Tensor logits = model_.logits_of(model_.hidden(batch.tokens, {}, batch.documents)).flatten(0, 1);
  const Tensor own = cross_entropy(logits, batch.targets.flatten(), kNotLearned, 0, Reduction::sum);
  return own * (1 - options_.teacher_share) + divergence(batch, logits) * options_.teacher_share;
}

/// temperature² · Σ KL(teacher ‖ model) over the answers. @param logits [B · seq, vocabulary]
Tensor AnswerLoss::divergence(const AnswerBatch& batch, const Tensor& logits) const {
  const double sharpness = 1 / options_.temperature;
  Tensor theirs;
  {
    const NoGrad no_grad;
    const models::Decoder& teacher = *options_.teacher;
    theirs = log_softmax(
        teacher.logits_of(teacher.hidden(batch.tokens, {}, batch.documents)).flatten(0, 1).to(f32) * sharpness, -1);
  }
  const Tensor ours = log_softmax(logits.to(f32) * sharpness, -1);
  const Tensor each = (exp(theirs) * (theirs - ours)).sum(-1);
  const Tensor learned = ne(batch.targets.flatten(), kNotLearned).to(f32);
  return (each * learned).sum() * (options_.temperature * options_.temperature);
}

/// Σ over the answer of each row. @return [B] f32
Tensor AnswerLoss::row_logprobs(const AnswerBatch& batch) const {
  const Tensor losses = model_.loss(batch.tokens, batch.targets, batch.documents, Reduction::none);
  return -losses.to(f32).reshape({batch.tokens.size(0), batch.tokens.size(1)}).sum(1);
}

/// [pairs]
Tensor AnswerLoss::of_pairs(const AnswerBatch& batch) const {
  const Tensor rows = row_logprobs(batch).reshape({-1, 2});
  if (options_.objective == AnswerObjective::preferences) {
    const Tensor gained = rows - index_select(reference_, 0, batch.number.reshape({-1, 2}).select(1, 0).contiguous());
    return -logsigmoid((gained.select(1, 0) - gained.select(1, 1)) * options_.beta);
  }
  const Tensor counts = ne(batch.targets, kNotLearned).to(f32).sum(1).reshape({-1, 2});
  const Tensor mean = rows / counts;
  // log(p / (1 - p)) of the geometric mean p of an answer's probabilities, which rounding may make 1.
  const Tensor odds = mean - log(clamp(-expm1(mean), 1e-7, std::nullopt));
  return -mean.select(1, 0) - logsigmoid(odds.select(1, 0) - odds.select(1, 1)) * options_.beta;
}

void AnswerLoss::measure_reference(const AnswerBatches& in_order, Device device) {
  const NoGrad no_grad;
  std::vector<Tensor> all;
  for (std::int64_t step = 0; step < in_order.steps_per_epoch(); ++step) {
    const data::Batch batch = in_order.of_step(step);
    all.push_back(row_logprobs(in_order.parts(batch.x.to(device), batch.y.to(device))).reshape({-1, 2}));
  }
  // The last batch may have begun anew.
  reference_ = cat(all).slice(0, 0, in_order.pairs()).contiguous();
}

Tensor AnswerLoss::operator()(const Tensor& x, const Tensor& y) const {
  const AnswerBatch batch = batches_.parts(x, y);
  if (batches_.pairs() > 0) return of_pairs(batch).mean();
  const Tensor answers = batch.number.select(0, 0).to(f32);
  return of_answers(batch) * (static_cast<double>(options_.accumulation) / answers);
}

Tensor AnswerLoss::sum(const Tensor& x, const Tensor& y) const {
  const AnswerBatch batch = batches_.parts(x, y);
  if (batches_.pairs() > 0) return of_pairs(batch).sum();
  return model_.loss(batch.tokens, batch.targets, batch.documents, Reduction::sum);
}

}  // namespace etna::training
