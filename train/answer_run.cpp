#include <etna/train/internal/answer_run.h>

#include <algorithm>

#include <fmt/format.h>

#include <etna/autograd/autograd.h>
#include <etna/device/error.h>
#include <etna/optim/grad_scaler.h>
#include <etna/tensor/autocast.h>
#include <etna/tensor/ops.h>
#include <etna/train/progress.h>

namespace etna::training {
namespace {

std::vector<std::string> words_between_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, end - at);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    if (!word.empty()) words.push_back(std::move(word));
    at = end + 1;
  }
  return words;
}

/// Layers that keep a state cannot tell several texts of a row apart.
AnswerBatchOptions batch_options(const FineTuneOptions& options, const models::Decoder& decoder) {
  return {.batch = options.batch,
          .accumulation = options.accumulation,
          .seq = options.seq,
          .packed = options.packing == "on" && !decoder.config.has_state(),
          .shuffled = options.order == "shuffled",
          .seed = static_cast<std::uint64_t>(options.seed)};
}

/// In the order of the file, without accumulation. Of pairs, batches of one size, so that none comes twice.
AnswerBatches batches_in_order(const AnswerRows& rows, const FineTuneOptions& options, const models::Decoder& decoder) {
  AnswerBatchOptions own = batch_options(options, decoder);
  own.accumulation = 1;
  own.shuffled = false;
  if (rows.kind == RowKind::preference) {
    const auto pairs = static_cast<std::int64_t>(rows.texts.size() / 2);
    own.batch = std::min(own.batch, pairs);
    while (pairs % own.batch != 0) --own.batch;
  }
  return {rows, own};
}

AnswerLossOptions loss_options(const FineTuneOptions& options, AnswerObjective objective,
                               const models::Decoder* teacher) {
  return {.objective = objective,
          .beta = options.beta,
          .teacher_share = options.teacher_share,
          .temperature = options.temperature,
          .teacher = teacher,
          .accumulation = options.accumulation};
}

/// Without dropout and without gradients.
void measure_reference(models::Decoder& decoder, AnswerLoss& loss, const AnswerRows& rows,
                       const FineTuneOptions& options, AnswerObjective objective) {
  if (objective != AnswerObjective::preferences) return;
  decoder.eval();
  const auto mixed = autocast(dtype_named(options.precision));
  loss.measure_reference(batches_in_order(rows, options, decoder), options.device);
  decoder.train();
}

/// One text that fills a row, for each row of so many batches.
AnswerRows full_rows(const AnswerBatches& like, std::int64_t units) {
  const auto tokens = static_cast<std::size_t>(like.seq()) + 1;
  AnswerRows rows;
  rows.kind = like.pairs() > 0 ? RowKind::preference : RowKind::text;
  const AnswerText text{std::vector<std::int32_t>(tokens), std::vector<std::uint8_t>(tokens, 1)};
  rows.texts.assign(static_cast<std::size_t>(units * (like.pairs() > 0 ? 2 : 1)), text);
  return rows;
}

std::int64_t total_steps(const FineTuneOptions& options, std::int64_t planned) {
  return options.steps > 0 ? std::min(options.steps, planned) : planned;
}

}  // namespace

std::vector<Tensor> TrainedWeights::parameters() const {
  std::vector<Tensor> list;
  for (const Tensor& p : decoder.parameters())
    if (p.requires_grad()) list.push_back(p);
  return list;
}

std::int64_t TrainedWeights::count() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

std::map<std::string, Tensor> TrainedWeights::state_dict() const {
  std::map<std::string, Tensor> state;
  for (const nn::NamedTensor& p : decoder.named_parameters())
    if (p.tensor.requires_grad()) state.emplace(p.name, p.tensor.detach());
  return state;
}

void TrainedWeights::load_state_dict(const std::map<std::string, Tensor>& state) {
  const std::map<std::string, Tensor> own = state_dict();
  const auto refuse = [](const std::string& name) {
    throw FormatError(
        fmt::format("'{}' is not trained in both, or is of other sizes; the run was made with another "
                    "model or other adapters",
                    name));
  };
  for (const auto& [name, tensor] : state) {
    const auto found = own.find(name);
    if (found == own.end() || found->second.shape() != tensor.shape()) refuse(name);
  }
  for (const auto& [name, tensor] : own)
    if (!state.contains(name)) refuse(name);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : own) Tensor(tensor).copy_(state.at(name));
}

models::Model open_causal_model(const std::string& file, const models::LoadOptions& options) {
  models::Model model = models::load_model(file, options);
  if (model.decoder->config.bidirectional)
    throw FormatError(
        fmt::format("{}: the model reads texts in both directions, and learns no answers", printable(file)));
  return model;
}

models::Model open_tuned_model(const FineTuneOptions& options) {
  const bool full = options.method == "full";
  models::Model model = open_causal_model(options.model, {.device = options.device, .trainable = full});
  models::Decoder& decoder = *model.decoder;
  decoder.recompute_blocks = options.recompute == "blocks";
  manual_seed(static_cast<std::uint64_t>(options.seed));
  if (!options.adapter.empty()) {
    models::load_adapters(options.adapter, decoder);
    for (nn::Module* part : decoder.modules())
      if (auto* layer = dynamic_cast<models::Projection*>(part)) layer->lora_dropout = options.dropout;
  } else if (!full) {
    try {
      decoder.add_adapters({.rank = options.rank,
                            .alpha = options.alpha,
                            .dropout = options.dropout,
                            .magnitudes = options.method == "dora",
                            .targets = words_between_commas(options.targets)});
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      throw SettingError(fmt::format("targets = '{}': {}", options.targets, error.what()));
    }
  }
  decoder.train();
  return model;
}

AnswerRun::AnswerRun(models::Decoder& decoder, const AnswerRows& rows, const FineTuneOptions& options,
                     AnswerObjective objective, const models::Decoder* teacher)
    : options_(options),
      decoder_(decoder),
      weights_{decoder},
      batches_(rows, batch_options(options, decoder)),
      loss_(decoder, batches_, loss_options(options, objective, teacher)),
      planned_(options.planned_steps(batches_.steps_per_epoch())),
      total_(total_steps(options, planned_)),
      optimizer_(weights_.parameters(), {.lr = options.lr,
                                         .betas = {options.beta1, options.beta2},
                                         .eps = options.eps,
                                         .weight_decay = options.weight_decay,
                                         .max_grad_norm = options.clip}),
      schedule_(optimizer_, options.course(planned_)),
      epoch_loss_(zeros({}, {f32, options.device})),
      train_([this](const Tensor& x, const Tensor& y) { return loss_(x, y); }, optimizer_,
             {.device = options.device,
              .precision = dtype_named(options.precision),
              .captured = options.captured,
              .accumulation = options.accumulation,
              .schedule = &schedule_,
              .after = [this](const Tensor& value) { epoch_loss_.add_(value); }}) {
  measure_reference(decoder, loss_, rows, options, objective);
}

Tensor AnswerRun::advance() {
  if (step_ % batches_.steps_per_epoch() == 0) epoch_loss_.zero_();
  const data::Batch batch = batches_.of_step(step_);
  const Tensor loss = train_(batch.x, batch.y);
  ++step_;
  return loss;
}

TrainingLoopOptions AnswerRun::loop_options() {
  const std::int64_t steps_per_epoch = batches_.steps_per_epoch();
  return {.steps = total_,
          .steps_per_epoch = steps_per_epoch,
          .tokens_per_step = batches_.tokens_per_step(),
          .device = options_.device,
          .epoch_loss = [this,
                         steps_per_epoch] { return epoch_loss_.item<double>() / static_cast<double>(steps_per_epoch); },
          .validate_every = options_.eval_every,
          .patience = options_.patience,
          .items = {options_.method == "full" ? CheckpointItem("model", decoder_) : CheckpointItem("model", weights_),
                    {"optimizer", optimizer_},
                    {"scaler", train_.scaler()},
                    {"schedule", schedule_},
                    {"epoch_loss", epoch_loss_},
                    {"step", step_}},
          .keep = options_.keep,
          .checkpoint_seconds = options_.checkpoint_seconds,
          .columns = {"loss", "lr", "tokens_per_second", "valid_loss"},
          .progress = options_.progress,
          .command = "etna finetune",
          .preset = options_.method,
          .advice = "try a smaller --lr"};
}

AnswerValidation::AnswerValidation(models::Decoder& decoder, const AnswerRows& rows, const FineTuneOptions& options,
                                   AnswerObjective objective)
    : batches_(batches_in_order(rows, options, decoder)),
      loss_(decoder, batches_, loss_options(options, objective, nullptr)),
      evaluator_(decoder, [this](const Tensor& x, const Tensor& y) { return loss_.sum(x, y); },
                 {.device = options.device,
                  .precision = dtype_named(options.precision),
                  .captured = options.captured,
                  .title = "validation"}) {
  measure_reference(decoder, loss_, rows, options, objective);
}

double AnswerValidation::loss() {
  std::vector<data::Batch> all;
  for (std::int64_t step = 0; step < batches_.steps_per_epoch(); ++step) all.push_back(batches_.of_step(step));
  const std::int64_t of = batches_.pairs() > 0 ? batches_.pairs() : batches_.answers();
  return evaluator_.mean(all) * static_cast<double>(all.size()) / static_cast<double>(of);
}

MemoryForecast forecast_tuning(const FineTuneOptions& options, AnswerObjective objective,
                               const AnswerBatches& batches) {
  return forecast_memory(options.device, batches.batch(), [&](std::int64_t batch) {
    FineTuneOptions own = options;
    own.batch = batch;
    own.seq = batches.seq();
    const models::Model model = open_tuned_model(own);
    std::optional<models::Model> teacher;
    if (objective == AnswerObjective::teacher) teacher = models::load_model(own.teacher, {.device = own.device});
    const AnswerRows rows = full_rows(batches, batch * own.accumulation);
    AnswerRun run(*model.decoder, rows, own, objective, teacher ? teacher->decoder.get() : nullptr);
    for (int i = 0; i < 2; ++i) run.advance();
  });
}

}  // namespace etna::training
