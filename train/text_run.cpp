#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <etna/data/batches.h>
#include <etna/data/data_loader.h>
#include <etna/device/error.h>
#include <etna/device/profile/profiler.h>
#include <etna/dist/dist.h>
#include <etna/nn/parallel/data_parallel.h>
#include <etna/optim/adam.h>
#include <etna/optim/grad_scaler.h>
#include <etna/optim/schedule.h>
#include <etna/tensor/ops.h>
#include <etna/tensor/ops/random/random.h>
#include <etna/train/text_training.h>
#include <etna/train/training_step.h>

namespace etna::training {
namespace {

/// Weight decay on matrices only: biases and norms are not pulled toward zero.
std::vector<optim::ParamGroup> decay_matrices_only(const nn::Module& model, double weight_decay) {
  optim::ParamGroup matrices, vectors;
  for (const Tensor& p : model.parameters()) (p.dim() > 1 ? matrices : vectors).parameters.push_back(p);
  matrices.weight_decay = weight_decay;
  vectors.weight_decay = 0;
  return {matrices, vectors};
}

data::StreamBatches streams_of(const TextSplit& split, const Recipe& recipe, std::int64_t seq) {
  data::StreamBatches streams = split.streams(recipe.batch, seq);
  if (streams.steps() < recipe.accumulation) {
    throw FormatError(fmt::format("the text has {} batches of {} sequences, a step accumulates {}; try fewer",
                                  streams.steps(), recipe.batch, recipe.accumulation));
  }
  return streams;
}

/// The sequences of a batch that this rank trains on.
std::int64_t own_sequences(const Recipe& recipe, const TextRunOptions& options) {
  if (!options.distributed) return recipe.batch;
  const int ranks = distributed::size();
  if (recipe.batch % ranks != 0) {
    throw SettingError(fmt::format("a batch has {} sequences, which {} processes cannot share equally; try --batch {}",
                                   recipe.batch, ranks, (recipe.batch + ranks - 1) / ranks * ranks));
  }
  return recipe.batch / ranks;
}

/// The streams of this rank alone.
data::StreamBatches own_streams(const data::StreamBatches& all, std::int64_t sequences, const TextRunOptions& options) {
  if (sequences == all.batch()) return all;
  if (!all.in_memory())
    throw SettingError("--resident does not go with a prepared corpus and several processes; leave it out");
  const auto count = static_cast<std::size_t>(sequences * all.stream());
  return {all.ids().subspan(count * static_cast<std::size_t>(distributed::rank()), count), sequences, options.seq};
}

/// The batches of an epoch, one after the other. An index is a span of the streams: begin · kMost + count.
struct SpanBatches : data::Dataset<data::Batch>, data::Sampler {
  static constexpr std::int64_t kMost = std::int64_t{1} << 20;  ///< above the tokens of any sequence

  /// @param own how many sequences of a batch belong to this rank
  SpanBatches(const data::StreamBatches& s, std::int64_t own, std::int64_t spread_by, std::uint64_t shuffled_by)
      : streams(s), sequences(own), spread(spread_by), seed(shuffled_by) {
    if (s.seq() + spread >= kMost)
      throw SettingError(fmt::format("sequences of {} tokens are longer than {}", s.seq() + spread, kMost - 1));
  }
  std::int64_t size() const override { return streams.steps(); }
  data::Batch get(std::int64_t index) const override {
    const data::Batch all = data::make_batch(streams, data::StreamSpan{index / kMost, index % kMost}, 0);
    if (sequences == streams.batch()) return all;
    const std::int64_t first = sequences * distributed::rank(), end = first + sequences;
    return {all.x.slice(0, first, end).contiguous(), all.y.slice(0, first, end).contiguous(), 0};
  }
  std::vector<std::int64_t> indices(std::uint64_t epoch) const override {
    std::vector<std::int64_t> all;
    if (spread == 0) {
      for (std::int64_t step = 0; step < size(); ++step) all.push_back(step * streams.seq() * kMost + streams.seq());
    } else {
      for (const data::StreamSpan& span : data::varied_spans(streams, spread, seed, static_cast<std::int64_t>(epoch)))
        all.push_back(span.begin * kMost + span.count);
    }
    return all;
  }

  const data::StreamBatches streams;
  const std::int64_t sequences, spread;
  const std::uint64_t seed;
};

/// The batches that a step accumulates, one below the other.
data::Batch batch_of_step(const std::vector<data::Batch>& batches) {
  if (batches.size() == 1) return batches[0];
  std::vector<Tensor> x, y;
  for (const data::Batch& batch : batches) {
    x.push_back(batch.x);
    y.push_back(batch.y);
  }
  return {cat(x, 0), cat(y, 0)};
}

/// What the ranks' parts of a model remember, as one state of all sequences: tensors [layers, sequences, ...].
class MemoryOfRanks {
 public:
  explicit MemoryOfRanks(CheckpointItem own) : own_(std::move(own)) {}
  const std::string& name() const { return own_.name(); }
  /// All ranks call it.
  std::map<std::string, Tensor> state_dict() const {
    const GradMode off(false);
    std::map<std::string, Tensor> whole;
    for (const auto& [name, x] : own_.state())
      whole[name] = distributed::all_gather(x.transpose(0, 1).contiguous()).transpose(0, 1).contiguous();
    return whole;
  }
  void load_state_dict(const std::map<std::string, Tensor>& whole) {
    std::map<std::string, Tensor> part;
    for (const auto& [name, x] : whole) {
      if (x.dim() < 2 || x.size(1) % distributed::size() != 0)
        throw FormatError(
            fmt::format("'{}' is {}, which {} processes cannot share", name, str(x.shape()), distributed::size()));
      const std::int64_t count = x.size(1) / distributed::size(), first = count * distributed::rank();
      part[name] = x.slice(1, first, first + count).contiguous();
    }
    own_.load(part);
  }

 private:
  CheckpointItem own_;
};

using Loader = data::DataLoader<data::Batch>;

Loader loader_of(const data::StreamBatches& streams, std::int64_t own, const Recipe& recipe, std::int64_t spread) {
  const auto spans = std::make_shared<const SpanBatches>(streams, own, spread, static_cast<std::uint64_t>(recipe.seed));
  return Loader(
      spans,
      {.batch_size = recipe.accumulation, .num_workers = 1, .drop_last = true, .prefetch_factor = 3, .sampler = spans},
      batch_of_step);
}

}  // namespace

struct TextRun::State {
  StreamModel model;
  const std::int64_t parameters;  ///< of the whole model
  const Recipe recipe;
  const Device device;
  const TextRunOptions options;
  data::StreamBatches streams;
  const std::int64_t steps_per_epoch, planned, total;
  std::int64_t step = 0;
  optim::AdamW optimizer;
  optim::Scheduler schedule;
  Tensor epoch_loss;  ///< sum over the epoch's steps
  std::optional<distributed::DataParallel> parallel = {};
  std::deque<MemoryOfRanks> memory = {};
  std::optional<data::ResidentBatches> resident = {};
  Loader loader;
  std::optional<Loader::Iterator> batch = {};
  TrainingStep train;

  State(StreamModel m, const TextSplit& split, const Recipe& r, Device d, const TextRunOptions& o)
      : model(std::move(m)),
        parameters(model.module->num_parameters()),
        recipe(r),
        device(d),
        options(o),
        streams(streams_of(split, r, o.seq)),
        steps_per_epoch(streams.steps() / r.accumulation),
        planned(r.planned_steps(steps_per_epoch)),
        total(r.steps > 0 ? std::min(r.steps, planned) : planned),
        optimizer(decay_matrices_only(*model.module, r.weight_decay),
                  {.lr = r.lr, .betas = {r.beta1, r.beta2}, .eps = r.eps, .max_grad_norm = r.clip}),
        schedule(optimizer, r.course(planned)),
        epoch_loss(zeros({}, {f32, d})),
        loader(loader_of(streams, own_sequences(r, o), r, o.seq_spread)),
        train([this](const Tensor& x, const Tensor& y) { return loss(x, y); }, optimizer,
              {.device = d,
               .precision = dtype_named(r.precision),
               .captured = o.captured,
               .varied_shapes = o.seq_spread > 0,
               .accumulation = r.accumulation,
               .schedule = &schedule,
               .weight = [this](const Tensor& x) { return weight(x); },
               .after = [this](const Tensor& value) { epoch_loss.add_(value); },
               .parallel = o.distributed ? &parallel_of(o) : nullptr}) {
    if (o.resident && o.seq_spread > 0) throw SettingError("--resident does not go with seq_spread");
    for (const CheckpointItem& item : model.memory) memory.emplace_back(item);
    if (o.zero_stage == 3 && !model.memory.empty())
      throw SettingError("ZeRO stage 3 gathers the blocks of a transformer; use stage 2 for an lstm");
    if (o.resident) resident.emplace(own_streams(streams, own_sequences(r, o), o), d);
    if (o.distributed) {
      optimizer.shard(parallel->sharding());
      // Each rank drops out by itself.
      const RandomState now = random_state();
      set_random_state({distributed::seed_of_rank(now.seed), now.offset});
    }
    model.module->train();
  }

  distributed::DataParallel& parallel_of(const TextRunOptions& o) {
    return parallel.emplace(*model.module, distributed::DataParallelOptions{.zero_stage = o.zero_stage});
  }
  Tensor loss(const Tensor& x, const Tensor& y) {
    if (!resident) return model.loss(x, y);
    const data::Batch own = resident->next();
    return model.loss(own.x, own.y);
  }
  double weight(const Tensor& x) const {
    return resident ? 1 : static_cast<double>(x.size(1)) / static_cast<double>(options.seq);
  }

  const data::Batch& next_batch() try {
    if (batch) return *++*batch;
    loader.set_state({static_cast<std::uint64_t>(step / steps_per_epoch), step % steps_per_epoch});
    return **(batch = loader.begin());
  } catch (const data::SampleError& error) {
    std::rethrow_if_nested(error);  // a damaged file is more than a sample
    throw;
  }

  void seek() {
    batch.reset();
    if (resident) resident->seek(step % steps_per_epoch * recipe.accumulation);
  }

  void begin_epoch() {
    epoch_loss.zero_();
    if (model.forget) model.forget();
    seek();
  }
};

TextRun::TextRun(const OnStreams& model, const TextSplit& split, const Recipe& recipe, Device device,
                 TextRunOptions options)
    : state_(std::make_unique<State>(model(own_sequences(recipe, options), device), split, recipe, device, options)) {}

TextRun::~TextRun() = default;

Tensor TextRun::advance() {
  State& s = *state_;
  if (s.step % s.steps_per_epoch == 0) s.begin_epoch();
  Tensor loss;
  if (s.resident) {
    loss = s.train();
  } else {
    const data::Batch& batch = s.next_batch();
    loss = s.train(batch.x, batch.y);
  }
  ++s.step;
  return loss;
}

void TextRun::resume() { state_->seek(); }
const std::int64_t& TextRun::step() const { return state_->step; }

void TextRun::train(TrainingLoop& loop, profile::StepProfiler* profiler) {
  while (loop.go_on()) {
    constexpr const char* kNoSpan = nullptr;
    const profile::Scope scope = profiler != nullptr ? profiler->step() : profile::Scope(kNoSpan);
    const double lr = state_->optimizer.lr();
    const Tensor loss = advance();
    loop.after_step(lr, loss);
  }
  loop.finish();
}

std::int64_t TextRun::steps_of_all_kinds() const {
  const State& s = *state_;
  if (s.options.seq_spread == 0) return 2;
  std::map<std::int64_t, int> seen;
  std::int64_t step = 0, steps = 2;
  for (const data::StreamSpan& span :
       data::varied_spans(s.streams, s.options.seq_spread, static_cast<std::uint64_t>(s.recipe.seed), 0)) {
    ++step;
    if (++seen[span.count] == 2) steps = step;
  }
  return steps;
}

TrainingLoopOptions TextRun::loop_options() {
  State& s = *state_;
  TrainingLoopOptions loop = {
      .steps = s.total,
      .steps_per_epoch = s.steps_per_epoch,
      .tokens_per_step = s.recipe.accumulation * s.streams.tokens_per_step(),
      .device = s.device,
      .epoch_loss = [&s] { return s.epoch_loss.item<double>() / static_cast<double>(s.steps_per_epoch); },
      .validate_every = s.recipe.eval_every,
      .patience = s.recipe.patience,
      .items = {s.parallel ? CheckpointItem("model", *s.parallel) : CheckpointItem("model", *s.model.module),
                {"optimizer", s.optimizer},
                {"scaler", s.train.scaler()},
                {"schedule", s.schedule},
                {"epoch_loss", s.epoch_loss},
                {"step", s.step}},
      .keep = s.recipe.keep,
      .checkpoint_seconds = s.recipe.checkpoint_seconds,
      .columns = {"loss", "lr", "tokens_per_second", "valid_loss"},
      .distributed = s.options.distributed,
      .sharded = s.options.distributed && (s.optimizer.is_sharded() || !s.memory.empty()),
      .perplexity = true,
      .advice = "try a smaller --lr"};
  if (s.options.distributed) {
    for (MemoryOfRanks& memory : s.memory) loop.items.emplace_back(memory.name(), memory);
  } else {
    loop.items.insert(loop.items.end(), s.model.memory.begin(), s.model.memory.end());
  }
  return loop;
}

RunSummary TextRun::summary(const TrainingLoop& loop) const {
  RunSummary summary = loop.summary();
  summary.precision = state_->recipe.precision;
  summary.parameters = state_->parameters;
  if (const auto report = state_->train.report()) summary.program = report->str();
  summary.measure_memory();
  return summary;
}

TextEvaluator::TextEvaluator(const OnStreams& model, const TextSplit& split, const TextEvaluatorOptions& options)
    : streams_(split.streams(
          options.cache ? 1 : std::clamp<std::int64_t>(split.size() / (options.seq + 1), 1, options.streams),
          options.seq)),
      model_(model(streams_.batch(), options.evaluator.device)),
      evaluator_(
          *model_.module, [this](const Tensor& x, const Tensor& y) { return measure(x, y); }, options.evaluator) {
  if (options.cache) cache_ = std::make_unique<nn::NeuralCache>(model_.dim, *options.cache, options.evaluator.device);
}

Tensor TextEvaluator::measure(const Tensor& x, const Tensor& y) {
  if (!cache_) return model_.loss(x, y);
  const Tensor hidden = model_.hidden(x).squeeze(0);
  return -mean(cache_->log_likelihood(hidden, model_.head(hidden), y.squeeze(0)));
}

double TextEvaluator::loss() {
  if (model_.forget) model_.forget();
  if (cache_) cache_->clear();
  return evaluator_.mean(data::BatchLoader(streams_), streams_.steps());
}

RunSummary measure_perplexities(const OnStreams& model, const TextCorpus& corpus, TextEvaluatorOptions options) {
  options.evaluator.title = "validation";
  const double valid = TextEvaluator(model, corpus.valid, options).loss();
  options.evaluator.title = "test";
  const double test = TextEvaluator(model, corpus.test, options).loss();
  if (!std::isfinite(valid + test))
    throw NonFiniteLoss(fmt::format("the loss is {} on validation and {} on test: weights are damaged", valid, test));
  RunSummary summary;
  corpus.set_perplexities(valid, test, summary);
  return summary;
}

}  // namespace etna::training
